"""What memory holds of one child, and of its session: whose word it is, and what it is told when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from banyan.core.errors import Refused
from banyan.core.ids import ZoneCode
from banyan.core.ports import ParentSession
from banyan.core.time import BUILD_DATE, Mono, Terms, Wall
from banyan.core.zone import Admin, Child, ChildState, Condition, Health
from banyan.zone.inbox import Inbox

# Of whom it is said that they were heard.
HEARD = (Health.ALIVE, Health.UNAVAILABLE)

# What a session is told when it ends: a code, a text, when to come back (seconds; below 0: never).
Farewell = tuple[str, str, float]

RETIRED: Farewell = (
    "retired",
    "this zone was retired by its parent; what joins in its stead needs a new data folder and a new code",
    -1.0,
)


@dataclass(slots=True)
class Live:
    """What memory holds of one child beside its row.

    `heard`: when its last word came; `late`: how late its reports come by habit (health/suspicion.py). `granted`
    and `terms`: when we last acknowledged it, and what was granted then. `entry`, `signature`: its lineage entry
    as it signed it, and its signature with our vouching. `unwritten`: its digest is newer than the one in the
    store. `again`: its lineage is to be sent anew. `said`: its own reason for its condition. `changed`: when its
    word last moved its row. `renewed`: when its certificate was last renewed in a session. `until`: when the
    certificate of its session is over. `told`: our path and ancestors as its session was told. `shapes`: the hash
    of the announced shapes that it holds, empty if it takes none. `below`: when the zones below it that it reports as
    alive were last heard, as in core.messages.Beat. `receiving` is held while a report of it is judged and stored.
    `keys`: fingerprints of the key with which its session began, and of those that it was renewed to.
    """

    child: Child
    inbox: Inbox
    granted: Mono
    terms: Terms
    heard: Mono | None = None
    late: float = 0.0
    session: ParentSession | None = None
    entry: bytes = b""
    signature: bytes = b""
    racks: int = 0
    condition: Condition = Condition.AVAILABLE
    unwritten: bool = False
    again: bool = False
    said: str = ""
    changed: Mono | None = None
    renewed: Mono | None = None
    until: Mono = Mono(0.0)
    told: tuple[str, tuple[ZoneCode, ...]] | None = None
    shapes: bytes = b""
    below: int = -1
    receiving: asyncio.Lock = field(default_factory=asyncio.Lock)
    keys: set[bytes] = field(default_factory=set)


async def part(live: Live, farewell: Farewell) -> None:
    """Ends a child's session, if it has one."""
    if live.session is not None:
        session, live.session = live.session, None
        await session.cut(*farewell)


def farewell_of(before: Child, row: Child) -> Farewell:
    """Why a session ends whose row was read again, and is another."""
    if row.admin is Admin.BANNED:
        return "banned", f"this zone was banned: {row.admin_reason or 'no reason was given'}", -1.0
    if row.fingerprint != before.fingerprint:
        return "replaced", "the zone enrolled anew", 0.0
    return "read-again", "this zone's row was read again after a fault of the store; it opens a new session", 0.0


def check_key(row: Child | None, keys: Collection[bytes]) -> None:
    """Raises Refused("replaced") for the word of a session whose key does not hold the place any more: another machine
    has it since, and memory is about to learn that."""
    if row is None or row.state is ChildState.RETIRED or row.fingerprint not in keys:
        raise Refused("replaced", "another machine took the place of this one", transient=True)


def heard_below(live: Live, now: Wall) -> int:
    """`live.below` where it can be so, else -1: through a child nothing was heard before it joined, nor after now."""
    joined = live.child.joined_at or BUILD_DATE
    return live.below if live.below <= 0 or joined <= live.below / 1000 <= now else -1


def oldest_heard(lives: Iterable[Live], carries: Callable[[ZoneCode], bool], wall: Wall, now: Mono) -> int:
    """The instant since which all that these children report as alive were heard, as in core.messages.Beat."""
    oldest = 0
    for live in lives:
        if live.child.health not in HEARD or not live.entry:
            continue
        at = live.child.heard_at or Wall(0.0) if live.heard is None else Wall(wall - (now - live.heard))
        known = [round(at * 1000)]
        if live.below < 0 and carries(live.child.code):
            return -1
        if (below := heard_below(live, wall)) > 0:
            known.append(below)
        oldest = min(known) if not oldest else min(oldest, *known)
    return oldest
