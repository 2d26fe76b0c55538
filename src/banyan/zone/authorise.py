"""Who may do what to which zone. One question, asked by every view and command; the answer is an exception or nothing.

A caller's subtree is a path below its issuer. A zone that serves a caller from above knows its own whole path and
its ancestors, so it can tell where the issuer stands. What a caller may not see does not exist for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from banyan.core.errors import NotFound, Refused
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode


def below_issuer(path: str, own_path: str, own: ZoneCode, ancestors: Sequence[ZoneCode], issuer: ZoneCode) -> str:
    """`path` (whole) as a path below the issuer, "" for the issuer itself. Raises Refused("unknown-issuer").

    `ancestors`: codes above this zone, the parent first.
    """
    parts = path.split("/")
    own_parts = own_path.split("/")
    if issuer == own:
        above = len(own_parts)
    elif issuer in ancestors:
        above = len(own_parts) - 1 - list(ancestors).index(issuer)
    else:
        raise Refused("unknown-issuer", "the caller was vouched for by a zone that is neither this one nor above it")
    return "/".join(parts[max(above, 0) :])


def check(caller: Caller, needed: Role, relative: str, shown: str) -> None:
    """Raises NotFound("no-zone") outside the caller's subtree, Refused("forbidden") for too low a role."""
    if not caller.may(Role.VIEWER, relative):
        raise unseen(shown)
    if not caller.may(needed, relative):
        raise Refused(
            "forbidden",
            f"this needs the role {needed.name.lower()} for {shown!r}; {caller.subject} is {caller.role.name.lower()}",
        )


def unseen(shown: str) -> NotFound:
    """One text for what is not there and for what the caller may not see: it tells neither from the other."""
    return NotFound("no-zone", f"there is no zone {shown[:200]!r} that you may see; `banyan zone list` shows yours")
