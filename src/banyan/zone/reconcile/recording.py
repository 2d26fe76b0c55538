"""One scan on its way into the store and into columns.

Batches go to the store as they come, a unit each, so that other units run between them; the columns of
the scan are built beside those that count now, and take their place only when the scan was complete.
Nothing is deleted before all of the scan was read. Killed at any instant, the store tells that the scan
was cut: the rack's digest there belongs to an older scan than the rack's row.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from banyan.core.guest import Guest
from banyan.core.host import Host
from banyan.core.ids import RackCode
from banyan.core.lineage import UseRow
from banyan.core.ports import Clock, Store
from banyan.core.rack import GuestBatch, HostBatch, Scan, ScanItem
from banyan.core.records import DriverUnavailable, Unit
from banyan.core.resources import Shape
from banyan.placement.columns import Columns
from banyan.placement.fold import Fold, GuestCounts

# Rows read from the store at once: some milliseconds of the loop.
PAGE = 1_000
# Hosts that enter the columns between two turns of the loop, and shapes counted there: some milliseconds, the latter
# at 10,000 hosts.
HOSTS_AT_ONCE = 200
SHAPES_AT_ONCE = 25

Owned = Callable[[Unit], object]


class Recording:
    """`number`: of the scan, above all earlier ones of this rack. `owned` raises if the rack is not ours any more.

    `batch`: rows to a unit of work.
    """

    def __init__(self, store: Store, rack: RackCode, number: int, owned: Owned, batch: int) -> None:
        self.columns = Columns()
        self.hosts = 0
        self.guests = 0
        self._store = store
        self._batch = batch
        self._rack = rack
        self._number = number
        self._owned = owned
        self._new_hosts: list[Host] = []
        self._new_guests: list[Guest] = []

    async def read(self, items: AsyncIterator[ScanItem]) -> Scan:
        """Records all that a driver yields. Raises DriverUnavailable, also for a scan that does not end rightly."""
        async for item in items:
            match item:
                case HostBatch():
                    self._new_hosts.extend(item)
                case GuestBatch():
                    self._new_guests.extend(item)
                case Scan():
                    await self._flush()
                    await self._sweep()
                    return item
            if len(self._new_hosts) + len(self._new_guests) >= self._batch:
                await self._flush()
        raise DriverUnavailable(
            "scan-cut", "the driver ended a scan without its last word, so it may be half a picture; nothing was taken"
        )

    async def _flush(self) -> None:
        """Hosts before guests, as they came."""
        while self._new_hosts or self._new_guests:
            most = min(self._batch, HOSTS_AT_ONCE)
            hosts, self._new_hosts = self._new_hosts[:most], self._new_hosts[most:]
            guests: list[Guest] = []
            if not self._new_hosts:
                guests, self._new_guests = self._new_guests[: self._batch], self._new_guests[self._batch :]
            await self._put(hosts, guests)
            try:
                self.columns.extend(hosts)
            except ValueError as error:
                raise DriverUnavailable("rack-too-large", str(error)) from error
            self.hosts += len(hosts)
            self.guests += len(guests)

    async def _put(self, hosts: list[Host], guests: list[Guest]) -> None:
        def work(unit: Unit) -> None:
            self._owned(unit)
            if hosts:
                unit.hosts.put(self._rack, self._number, hosts)
            if guests:
                unit.guests.put(self._rack, self._number, guests)

        await self._store.write("rack.batch", work)

    async def _sweep(self) -> None:
        def work(unit: Unit) -> None:
            self._owned(unit)
            unit.hosts.sweep(self._rack, self._number)
            unit.guests.sweep(self._rack, self._number)

        await self._store.write("rack.swept", work)


async def stored_columns(store: Store, rack: RackCode) -> Columns:
    """Columns of a rack's hosts as the store has them."""
    columns = Columns()
    after: str | None = None
    while True:
        page = await store.read(lambda unit, after=after: unit.hosts.page(rack, after, PAGE))  # type: ignore[misc]
        columns.extend(page)
        if len(page) < PAGE:
            return columns
        after = f"{page[-1].name}\x00{page[-1].id}"


async def counted(store: Store, rack: RackCode) -> tuple[GuestCounts, tuple[UseRow, ...]]:
    """A rack's guests by state, and its use per project, in one snapshot."""

    def work(unit: Unit) -> tuple[GuestCounts, tuple[UseRow, ...]]:
        return dict(unit.guests.count_by_state(rack)), tuple(unit.guests.use_by_project(rack))

    return await store.read(work)


async def watched(fold: Fold, shapes: tuple[Shape, ...], clock: Clock) -> Fold:
    """The fold, counting these shapes, with turns of the loop between; what it counted already is not counted again."""
    counted = set(fold.shapes)
    known = [shape for shape in shapes if shape in counted]
    new = [shape for shape in shapes if shape not in counted]
    for end in range(SHAPES_AT_ONCE, len(new) + SHAPES_AT_ONCE, SHAPES_AT_ONCE):
        fold.watch([*known, *new[:end]])
        await clock.sleep_until(clock.now())
    return fold
