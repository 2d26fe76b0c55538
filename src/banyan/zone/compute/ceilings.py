"""The ceiling of each project's use: taken before an order leaves, never below what the tree holds.

Decision 11. A *take* raises the stored ceiling by one conditional update, by some more than is needed: what is over is
*spare*, and the next orders are served from it without a commit. What was taken and has no answer yet is *unsettled*.
The ceiling is lowered by counting: when it stands in the way, the project's servers are counted in the tree, and what
neither was found nor may still come is taken off. Whatever is lost (a crash, an answer that never came) is lost on the
safe side, and found at the next count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from banyan.core.errors import Refused
from banyan.core.principal import Principal
from banyan.core.quota import COUNTED, NO_USE, UNLIMITED, Limits, Quota, Use, excess, over
from banyan.core.records import Unit
from banyan.core.time import Mono
from banyan.zone.compute.desk import Desk
from banyan.zone.compute.limits import effective
from banyan.zone.firm import firm

# Orders of one shape that a commit pays for.
AHEAD: Final = 16
# A count that found nothing to take off is not repeated sooner, seconds, unless something was deleted since.
RECOUNT: Final = 2.0
MAX_PROJECTS: Final = 20_000

# What a project's servers hold in the whole tree; None if some of it can not be asked.
Count = Callable[[Principal], Awaitable[Use | None]]


@dataclass(slots=True)
class _Ceiling:
    """Of one project. `taking`: one at a time changes the stored ceiling or looks at it, so that what is in memory and
    what is stored are of one moment."""

    spare: Use = NO_USE
    unsettled: Use = NO_USE
    taking: asyncio.Lock = field(default_factory=asyncio.Lock)
    counting: asyncio.Lock = field(default_factory=asyncio.Lock)
    counted_at: Mono | None = None
    counts: int = 0
    lowered: bool = True


@dataclass(slots=True)
class Reservation:
    """What was taken for one order. Exactly one of `settle` and `cancel` ends it."""

    _ceiling: _Ceiling
    use: Use
    _open: bool = True

    def settle(self, held: Use | None = None) -> None:
        """The order was answered, or its fate is not known. `held`: what it came to, if that is less."""
        self._end(NO_USE if held is None else (self.use - held).above_zero())

    def cancel(self) -> None:
        """It is certain that nothing was made."""
        self._end(self.use)

    def _end(self, back: Use) -> None:
        if self._open:
            self._open = False
            self._ceiling.unsettled -= self.use
            self._ceiling.spare += back


class Ceilings:
    def __init__(self, desk: Desk, count: Count) -> None:
        self._desk = desk
        self._count = count
        self._known: dict[str, _Ceiling] = {}

    async def reserve(self, who: Principal, wanted: Use) -> Reservation:
        """For the project of `who`. Raises Refused("quota-exceeded") that names each limit in the way."""
        ceiling = self._of(who.project)
        if ceiling.spare.covers(wanted):
            ceiling.spare -= wanted
            ceiling.unsettled += wanted
            return Reservation(ceiling, wanted)
        got: list[Reservation] = []

        async def run() -> None:
            got.append(await self._reserve(who, ceiling, wanted))

        try:
            await firm(run())
        except asyncio.CancelledError:
            for reservation in got:
                reservation.cancel()
            raise
        return got[0]

    async def reserve_some(self, who: Principal, one: Use, least: int, most: int) -> tuple[Reservation, int]:
        """For as many of `one` as there is room for, up to `most`, and how many that is. Raises
        Refused("quota-exceeded") if it is less than `least`."""
        many = most
        while True:
            try:
                return await self.reserve(who, one * many), many
            except Refused:
                if many <= least:
                    raise
                many = max(least, min(many - 1, await self._room(who, one)))

    async def _room(self, who: Principal, one: Use) -> int:
        """How many of `one` the limits leave room for, by the ceiling as it is now."""
        limits, used = await self._standing(who)
        used -= self._of(who.project).spare
        rooms = [
            (limits[quota] - used.of(quota)) // one.of(quota)
            for quota in COUNTED
            if limits[quota] != UNLIMITED and one.of(quota) > 0
        ]
        return min(rooms, default=0)

    def deleted(self, project: str) -> None:
        """Something of the project is going: a count may find less."""
        self._of(project).lowered = True

    async def drop_spare(self, project: str) -> None:
        """After the project's limits changed: nothing that was taken under the old ones is given out any more."""
        ceiling = self._known.get(project)
        if ceiling is None:
            return
        async with ceiling.taking:
            back, ceiling.spare = ceiling.spare, NO_USE
            if back != NO_USE:
                await self._desk.change("quota.given", lambda unit: unit.compute.quotas.give(project, back))

    def projects(self) -> tuple[str, ...]:
        """Those that hold spare."""
        return tuple(project for project, ceiling in self._known.items() if ceiling.spare != NO_USE)

    def _of(self, project: str) -> _Ceiling:
        ceiling = self._known.pop(project, None) or _Ceiling()
        self._known[project] = ceiling
        while len(self._known) > MAX_PROJECTS:
            # The longest unused one that nothing waits for; its spare is found at the next count.
            idle = next((p for p, c in self._known.items() if c.unsettled == NO_USE and p != project), None)
            if idle is None:
                break
            del self._known[idle]
        return ceiling

    async def _reserve(self, who: Principal, ceiling: _Ceiling, wanted: Use) -> Reservation:
        if await self._take(who, ceiling, wanted):
            return Reservation(ceiling, wanted)
        if await self._recount(who, ceiling) and await self._take(who, ceiling, wanted):
            return Reservation(ceiling, wanted)
        raise await self._refusal(who, wanted)

    async def _take(self, who: Principal, ceiling: _Ceiling, wanted: Use) -> bool:
        """Takes `wanted` and, where there is room, more for the next; what was spare is given back in the same unit.

        Runs to its end even if the caller is cancelled (`reserve`).
        """
        async with ceiling.taking:
            if ceiling.spare.covers(wanted):
                # Another one took more than it needed, while this one waited.
                ceiling.spare -= wanted
                ceiling.unsettled += wanted
                return True
            back, ceiling.spare = ceiling.spare, NO_USE
            taken = await self._commit(who, wanted, back)
            if taken is None:
                return False
            ceiling.unsettled += wanted
            ceiling.spare += taken
            return True

    async def _commit(self, who: Principal, wanted: Use, back: Use) -> Use | None:
        """What was taken beyond `wanted`; None if not even that could be."""
        ahead = wanted * (AHEAD - 1)

        def work(unit: Unit) -> Use | None:
            quotas = unit.compute.quotas
            limits = effective(quotas, self._desk.limits, who.project)
            if back != NO_USE:
                quotas.give(who.project, back)
            if quotas.take(who.project, wanted + ahead, limits):
                return ahead
            return NO_USE if quotas.take(who.project, wanted, limits) else None

        return await self._desk.change("quota.taken", work)

    async def _recount(self, who: Principal, ceiling: _Ceiling) -> bool:
        """True if the ceiling may stand lower now."""
        before = ceiling.counts
        async with ceiling.counting:
            if ceiling.counts != before:
                # Another one counted while this one waited to.
                return True
            async with ceiling.taking:
                row = await self._desk.read(lambda rows: rows.quotas.use(who.project))
                # After the row was read: what is settled after this line is found by the count.
                pending = ceiling.unsettled + ceiling.spare
            now = self._desk.mono()
            recent = ceiling.counted_at is not None and now < ceiling.counted_at + RECOUNT
            if row is not None and recent and not ceiling.lowered:
                return False
            ceiling.lowered = False
            held = await self._count(who)
            if held is None:
                ceiling.lowered = True
                return False
            project = who.project
            if row is None:
                # Without a row nothing could be taken yet.
                await self._desk.change("quota.begun", lambda unit: unit.compute.quotas.begin(project, held))
            else:
                less = excess(row.use, held, pending)
                revision = row.revision
                await self._desk.change(
                    "quota.counted", lambda unit: unit.compute.quotas.recount(project, revision, less)
                )
            ceiling.counted_at = self._desk.mono()
            ceiling.counts += 1
            return True

    async def _refusal(self, who: Principal, wanted: Use) -> Refused:
        return quota_exceeded(*await self._standing(who), wanted)

    async def _standing(self, who: Principal) -> tuple[Limits, Use]:
        """The project's limits, and what is taken of them."""

        def work(unit: Unit) -> tuple[Limits, Use]:
            quotas = unit.compute.quotas
            row = quotas.use(who.project)
            return effective(quotas, self._desk.limits, who.project), NO_USE if row is None else row.use

        return await self._desk.store.read(work)


_SHOWN = {Quota.SERVERS: "instances", Quota.VCPU: "cores", Quota.MEMORY_MIB: "ram"}


def quota_exceeded(limits: Limits, used: Use, wanted: Use) -> Refused:
    """In the words that clients of compute know."""
    passed = over(limits, used, wanted) or tuple(quota for quota in _SHOWN if limits[quota] != UNLIMITED)
    names = ", ".join(_SHOWN[quota] for quota in passed)
    asked = ", ".join(str(wanted.of(quota)) for quota in passed)
    held = ", ".join(str(used.of(quota)) for quota in passed)
    most = ", ".join(str(limits[quota]) for quota in passed)
    text = f"Quota exceeded for {names}: Requested {asked}, but already used {held} of {most} {names}"
    return Refused("quota-exceeded", text)
