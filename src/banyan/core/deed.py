"""What a zone has a driver do to one guest, and what the driver says of it (docs/contracts/driver.md).

A *deed* is named by (guest, move number, deed number) and may be said again: after a crash the zone does not know
whether it was done. Said again it changes nothing, and gives the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from banyan.core.errors import BanyanError
from banyan.core.secret import Secret
from banyan.core.server import Arguments, Power, Server


class Operation(StrEnum):
    """`MOVE`: the guest as `server` now says, on its host, made of the copy that `server.resize` describes; that one is
    stopped and kept. `CONFIRM` drops it. `REVERT` drops the new one and has the kept one run again, under the move
    number that the server has now. `SHELVE` takes the guest off its host and keeps its disk aside; `UNSHELVE` has it
    run on the server's host. `DELETE` removes every copy, whatever its number, also one put aside."""

    CREATE = "create"
    DELETE = "delete"
    START = "start"
    STOP = "stop"
    REBOOT = "reboot"
    REBOOT_HARD = "reboot_hard"
    REBUILD = "rebuild"
    MOVE = "move"
    CONFIRM = "confirm"
    REVERT = "revert"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    SUSPEND = "suspend"
    RESUME = "resume"
    RESCUE = "rescue"
    UNRESCUE = "unrescue"
    SHELVE = "shelve"
    UNSHELVE = "unshelve"
    SNAPSHOT = "snapshot"
    SET_PASSWORD = "set_password"
    ATTACH = "attach"
    DETACH = "detach"


@dataclass(frozen=True, slots=True)
class Deed:
    """`server` as it is stored, with the host and the move number that the deed is about. `number` rises with each
    deed of a server: one that was done is known by it. `password` is for SET_PASSWORD and kept nowhere."""

    operation: Operation
    server: Server
    number: int
    arguments: Arguments | None = None
    password: Secret | None = field(default=None, repr=False)

    @property
    def guest(self) -> str:
        return self.server.id

    @property
    def move(self) -> int:
        return self.server.move

    @property
    def host(self) -> str:
        return self.server.host


@dataclass(frozen=True, slots=True)
class Sighting:
    """One of our guests as the rack's own side has it now. `host` "": put aside."""

    guest: str
    move: int
    host: str
    power: Power


class DeedFailed(BanyanError):
    """A deed that is known not to have been done, and left nothing behind that was not there before.

    `elsewhere`: another host may do better. Anything whose outcome is not known is DriverUnavailable instead.
    """

    def __init__(self, code: str, text: str, *, elsewhere: bool = False, detail: str = "") -> None:
        super().__init__(code, text, detail=detail)
        self.elsewhere = elsewhere
