"""Receivers: where alarms go that leave the house. What one is told, what is remembered of it, and the port to it.

A receiver is told lines of the journal, in their order, each at least once: the journal is the queue, and a receiver is
a place in it (decision 0037). What is told is a `Notice`: one line, or a storm of lines of one kind folded into one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from banyan.core.errors import Unreachable
from banyan.core.severity import Severity
from banyan.core.time import Wall


class ReceiverKind(StrEnum):
    WEBHOOK = "webhook"
    SYSLOG = "syslog"


@dataclass(frozen=True, slots=True)
class ReceiverSpec:
    """One receiver as the settings have it. Durations in seconds.

    `where`: scheme, host and port, which may be shown anywhere; `address`: the whole, which may not. `severity`: the
    least that it is told; `include`, `exclude`: shell patterns over kinds. `deadline`: of one attempt; `dead_after`:
    how long it fails before that is an event. `backlog`, `backlog_age`: lines of the journal, and their age, that are
    kept for it while it fails.
    """

    name: str
    kind: ReceiverKind
    address: str
    where: str
    severity: Severity = Severity.NOTICE
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    secret_file: str = ""
    ca_file: str = ""
    facility: int = 3
    deadline: float = 15.0
    dead_after: float = 300.0
    backlog: int = 100_000
    backlog_age: float = 604_800.0


@dataclass(frozen=True, slots=True)
class ReceiverRow:
    """What is durable of a receiver. `number`: the last line of the journal that needs telling no more.

    `upto`: the end of the lines that are being told, 0 if none are, and `storms` the kinds that are folded among them:
    after a crash the same lines make the same notices, with the same ids. `address`: a digest of the whole address.
    `gone`: it said that it wants nothing any more. `dead`: that it fails has been journalled.
    """

    name: str
    number: int
    address: str
    upto: int = 0
    storms: tuple[str, ...] = ()
    failing_since: Wall | None = None
    dead: bool = False
    gone: bool = False
    last_error: str = ""
    last_sent: Wall | None = None


class ReceiverRows(Protocol):
    """By name; there are few."""

    def all(self) -> Sequence[ReceiverRow]: ...
    def get(self, name: str) -> ReceiverRow | None: ...
    def put(self, row: ReceiverRow) -> None: ...
    def delete(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that a receiver is told. `id` is the same at each attempt, and of no other notice.

    `zone`: its path; `code`: its code as text. Of a storm `count` is above 1, `subjects` are the first of its lines,
    `first` and `last` the numbers of its lines in the journal, and `command` lists them all. `since`: of the first.
    `means`, `done`, `held`, `next`: the kind's page (core/pages.py), filled in.
    """

    id: str
    zone: str
    code: str
    kind: str
    severity: Severity
    outcome: str
    target: str
    text: str
    at: Wall
    since: Wall
    actor: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    count: int = 1
    subjects: tuple[str, ...] = ()
    first: int = 0
    last: int = 0
    command: str = ""
    means: str = ""
    done: str = ""
    held: str = ""
    next: str = ""


class SendFailed(Unreachable):
    """A receiver was not reached, or did not take a notice. The text names no more than where it is.

    `gone`: it wants nothing any more, for good. `refused`: it was reached, and takes this very notice from nobody.
    """

    def __init__(self, text: str, *, gone: bool = False, refused: bool = False, after: float | None = None) -> None:
        super().__init__("receiver-failed", text, transient=True, retry_after=after)
        self.gone = gone
        self.refused = refused


class Sender(Protocol):
    """One receiver's other side. `send` returns once the receiver has taken the notice. Raises SendFailed.

    The caller bounds how long it waits, and cancels.
    """

    async def send(self, notice: Notice, now: Wall) -> None: ...

    async def close(self) -> None: ...


class Senders(Protocol):
    def make(self, spec: ReceiverSpec) -> Sender: ...


MAX_RECEIVERS: Final = 32
