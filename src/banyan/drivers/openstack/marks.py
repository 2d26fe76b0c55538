"""How a server in the cloud says that Banyan made it, which one it is, and what was done to it last. Pure.

The mark is metadata: Nova has it in the same transaction as the server, and keeps it. A tag of the server's id stands
beside it because Nova finds servers by a tag through an index, for any user, also those that no cell has yet. Whoever
may write into the project could write a mark, so one is believed in our own projects only (`reading`, `grounds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from banyan.core.ids import RackCode, code_text

ID, MOVE, DEED, RACK = "banyan:id", "banyan:move", "banyan:deed", "banyan:rack"

# Names of what is made in a cloud beside servers begin so.
PREFIX = "banyan-"


@dataclass(frozen=True, slots=True)
class Mark:
    """`guest`, `move`: which copy of which server. `deed`: the number of the last one that was done. `rack`: its code
    as text, by which two Banyans in one cloud are told apart."""

    guest: str
    move: int
    deed: int
    rack: str

    def metadata(self) -> dict[str, str]:
        return {ID: self.guest, MOVE: str(self.move), DEED: str(self.deed), RACK: self.rack}


def read(metadata: Mapping[str, str], rack: RackCode) -> Mark | None:
    """The mark of this rack in a server's metadata; None if there is none that can be understood."""
    guest, move, deed = metadata.get(ID, ""), metadata.get(MOVE, ""), metadata.get(DEED, "")
    if not guest or metadata.get(RACK) != code_text(rack) or not move.isdecimal() or not deed.isdecimal():
        return None
    return Mark(guest, int(move), int(deed), code_text(rack))


def tag(guest: str) -> str:
    return f"banyan:{guest}"
