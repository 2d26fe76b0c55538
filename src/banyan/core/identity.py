"""Who acts: roles, callers, and what a caller may touch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from banyan.core.ids import ZoneCode, under


class Role(IntEnum):
    """Ordered: a higher role may do all that a lower one may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Caller:
    """One authenticated actor.

    `subject` is for the journal ("root@socket", "token:ops-berlin"); `token` the token's id or "";
    `address` where the request came from; `issuer` the zone that vouches. `under` limits it to a
    subtree of the issuer, as a path *below* the issuer ("" is all). `request` is the request id.
    """

    subject: str
    role: Role
    issuer: ZoneCode
    under: str = ""
    token: str = ""
    address: str = ""
    request: str = ""

    def may(self, needed: Role, path: str) -> bool:
        """True if this caller holds `needed` for the zone at `path` (relative to the issuer)."""
        return self.role >= needed and under(path, self.under)


SYSTEM = Caller("system", Role.ADMIN, ZoneCode(0))
