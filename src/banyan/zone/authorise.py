"""Who may do what to which zone. One question, asked by every view and command; the answer is an exception or nothing.

A caller's subtree is a zone, by its code, below the zone that vouches for the caller. It is looked for in the lineage
of the zone that is meant: its own code and the codes above it. Names take no part in this, so renaming a zone gives
and takes nothing. What a caller may not see does not exist for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from banyan.core.errors import NotFound, Refused
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode

# Words that the named zone carries out itself. What all others say is decided about it by its parent.
CARRIED_OUT_THERE = frozenset({"zone.rescan"})
# `check`, or `check_parent`.
Judge = Callable[[Caller, Role, "Lineage", str], None]


@dataclass(frozen=True, slots=True)
class Lineage:
    """A zone and all above it, the nearest first, in two parts: `below` this one, and this one with those `above`."""

    below: Sequence[ZoneCode]
    above: Sequence[ZoneCode]

    def up_to(self, issuer: ZoneCode) -> Sequence[ZoneCode]:
        """What lies above its issuer is not the issuer's to give. Raises Refused("unknown-issuer")."""
        if issuer not in self.above:
            raise Refused(
                "unknown-issuer", "the caller was vouched for by a zone that is neither this one nor above it"
            )
        return (*self.below, *self.above[: self.above.index(issuer) + 1])


def check(caller: Caller, needed: Role, lineage: Lineage, shown: str) -> None:
    """Raises NotFound("no-zone") outside the caller's subtree, Refused("forbidden") for too low a role, and
    Refused("unknown-issuer"). `lineage`: of the zone that is meant."""
    codes = lineage.up_to(caller.issuer)
    if not caller.may(Role.VIEWER, codes):
        raise unseen(shown)
    if not caller.may(needed, codes):
        raise Refused(
            "forbidden",
            f"this needs the role {needed.name.lower()} for {shown!r}; {caller.subject} is {caller.role.name.lower()}",
        )


def check_parent(caller: Caller, needed: Role, lineage: Lineage, shown: str) -> None:
    """As `check`, for what a zone's parent decides about it: the caller must hold that zone's parent as well.

    Whoever has been given a subtree runs what is in it; that it is there, and under which name, is not theirs to say.
    """
    check(caller, needed, lineage, shown)
    if not caller.may(needed, lineage.up_to(caller.issuer)[1:]):
        raise Refused(
            "forbidden",
            f"this is decided at the parent of {shown!r}, and {caller.subject} is good for that zone and below only; "
            "ask an operator or admin of its parent",
        )


def within(caller: Caller, role: Role, lineage: Lineage) -> None:
    """Raises Refused unless `caller` has at least that role for the zone of that lineage, and so for all below it."""
    if not caller.may(role, lineage.up_to(caller.issuer)):
        raise Refused(
            "forbidden",
            f"you may give at most your own role ({caller.role.name.lower()}) and "
            "subtree; ask an admin of the whole zone",
        )


def unseen(shown: str) -> NotFound:
    """One text for what is not there and for what the caller may not see: it tells neither from the other."""
    return NotFound("no-zone", f"there is no zone {shown[:200]!r} that you may see; `banyan zone list` shows yours")
