"""What a rack's servers need now and then: totals that follow them, memory made anew after a doubtful commit, sweeping.

One activation per rack, woken by every change. Totals follow within a tenth of a second, however many changes come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from banyan.core.ids import code_text
from banyan.core.ports import Store
from banyan.core.records import Unit
from banyan.core.server import DELETED_LIFE
from banyan.core.time import Mono, Wall
from banyan.zone.own import Own
from banyan.zone.servers.places import Places
from banyan.zone.servers.work import Work

# Seconds.
GATHER: Final = 0.1
SWEEP: Final = 600.0
ORDER_LIFE: Final = 86_400.0
# Rows swept by one unit of work, some milliseconds of the writer.
BATCH: Final = 500


class Upkeep:
    """`restore`: as Places.reload wants it."""

    def __init__(
        self,
        own: Own,
        store: Store,
        places: Places,
        work: Work,
        restore: Callable[[], Awaitable[None]],
    ) -> None:
        self._own = own
        self._store = store
        self._places = places
        self._work = work
        self._restore = restore
        self._show_at = Mono(0.0)
        self._sweep_at = Mono(0.0)
        self.changed = False

    def heed(self, signal: Callable[[], None]) -> Callable[[], None]:
        """What is called after each change of what is held: wakes this activation, and never does the work itself."""

        def changed() -> None:
            # One that was not heeded yet has woken it already: it comes back by itself.
            if not self.changed:
                self.changed = True
                signal()

        return changed

    @property
    def name(self) -> str:
        return f"servers {code_text(self._places.code)}"

    async def activate(self, now: Mono) -> Mono:
        if self._places.in_doubt:
            await self._places.reload(self._restore)
            self._work.refill()
        if self.changed and now >= self._show_at:
            self.changed = False
            self._places.show()
            self._show_at = Mono(now + GATHER)
        if now >= self._sweep_at:
            more = await self._sweep()
            self._sweep_at = Mono(now + (GATHER if more else SWEEP))
        return min(self._show_at, self._sweep_at) if self.changed else self._sweep_at

    async def _sweep(self) -> bool:
        """Rows whose time is over; True if there may be more."""
        now = self._own.wall()

        def due(unit: Unit) -> bool:
            return unit.servers.is_gone(Wall(now - DELETED_LIFE)) or unit.orders.is_old(Wall(now - ORDER_LIFE))

        if self._own.row.restored_at is not None or not await self._store.read(due):
            return False

        def sweep(unit: Unit) -> int:
            servers = unit.servers.sweep(Wall(now - DELETED_LIFE), BATCH)
            return max(servers, unit.orders.sweep(Wall(now - ORDER_LIFE), BATCH))

        return await self._store.write("server.swept", sweep) == BATCH
