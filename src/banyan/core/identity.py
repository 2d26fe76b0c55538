"""Who acts: roles, callers, and what a caller may touch."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum

from banyan.core.ids import ZoneCode


class Role(IntEnum):
    """Ordered: a higher role may do all that a lower one may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Caller:
    """One authenticated actor.

    `subject` is for the journal ("root@socket", "token:ops-berlin"); `token` the token's id or "";
    `address` where the request came from; `issuer` the zone that vouches. `under` limits it to that zone, at or
    below the issuer, and to what lies below it; None is all of the issuer's. A code, since names change: a subtree
    that was given stays the same zones, whatever they are called. `request` is the request id.
    """

    subject: str
    role: Role
    issuer: ZoneCode
    under: ZoneCode | None = None
    token: str = ""
    address: str = ""
    request: str = ""

    def may(self, needed: Role, lineage: Collection[ZoneCode]) -> bool:
        """True if this caller holds `needed` for a zone. `lineage`: its code, and those above it up to the issuer."""
        return self.role >= needed and (self.under is None or self.under in lineage)


SYSTEM = Caller("system", Role.ADMIN, ZoneCode(0))
