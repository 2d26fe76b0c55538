"""One scan on its way into the store and into columns.

Batches go to the store as they come, a unit each, so that other units run between them; the columns of
the scan are built beside those that count now, and take their place only when the scan was complete.
Nothing is deleted before all of the scan was read. Killed at any instant, the store tells that the scan
was cut: the rack's digest there belongs to an older scan than the rack's row.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

from banyan.core.guest import Guest, GuestState
from banyan.core.host import Host
from banyan.core.ids import RackCode
from banyan.core.lineage import UseRow
from banyan.core.ports import Clock, Store
from banyan.core.rack import GuestBatch, HostBatch, Scan, ScanItem
from banyan.core.records import DriverUnavailable, Unit
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU, ResourceClass, Shape, shape
from banyan.core.server import Power, Server, Task, VmState
from banyan.placement.columns import Columns
from banyan.placement.fold import Fold, GuestCounts
from banyan.zone.servers.held import Place

_POWERS: Mapping[GuestState, Power] = {
    GuestState.ACTIVE: Power.RUNNING,
    GuestState.STOPPED: Power.OFF,
    GuestState.PAUSED: Power.PAUSED,
    GuestState.SUSPENDED: Power.SUSPENDED,
}
# Rows read from the store at once: some milliseconds of the loop.
PAGE = 1_000
# Hosts that enter the columns between two turns of the loop, and shapes counted there: some milliseconds, the latter
# at 10,000 hosts.
HOSTS_AT_ONCE = 200
SHAPES_AT_ONCE = 25

Owned = Callable[[Unit], object]


class Recording:
    """`number`: of the scan, above all earlier ones of this rack. `owned` raises if the rack is not ours any more.

    `batch`: rows to a unit of work. Guests that Banyan made are servers (zone/servers), counted by their own rows: they
    are only looked at here. `seen` says how many of them each host has, `differs` which are not in the power state that
    their row says; `strays` are those that have no row: they are recorded as guests, and hold their place.

    `shared`: the rack's own side counts them in what its hosts use. What it counted for them comes off the columns, so
    that they count once, by what zone/servers says they hold.
    """

    def __init__(
        self, store: Store, rack: RackCode, number: int, owned: Owned, batch: int, *, shared: bool = False
    ) -> None:
        self.columns = Columns()
        self.names: dict[str, str] = {}
        self.seen: dict[str, int] = {}
        self.differs: dict[str, Power] = {}
        self.strays: list[Place] = []
        self.hosts = 0
        self.guests = 0
        self._store = store
        self._shared = shared
        self._theirs: dict[str, dict[ResourceClass, int]] = {}
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
                    self._take_off()
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
            self.names.update((host.id, host.name) for host in hosts)
            try:
                self.columns.extend(hosts)
            except ValueError as error:
                raise DriverUnavailable("rack-too-large", str(error)) from error
            self.hosts += len(hosts)
            self.guests += len(guests)

    async def _put(self, hosts: list[Host], guests: list[Guest]) -> None:
        ours = [guest for guest in guests if not guest.native]
        native = [guest for guest in guests if guest.native]

        def work(unit: Unit) -> tuple[Mapping[str, Server], list[Guest]]:
            self._owned(unit)
            if hosts:
                unit.hosts.put(self._rack, self._number, hosts)
            found = unit.servers.many([guest.id for guest in ours]) if ours else {}
            rows = {id: row for id, row in found.items() if row.state is not VmState.DELETED}
            strays = [guest for guest in ours if guest.id not in rows]
            if native or strays:
                unit.guests.put(self._rack, self._number, [*native, *strays])
            return rows, strays

        rows, strays = await self._store.write("rack.batch", work)
        self.strays += [stray(guest) for guest in strays]
        for guest in ours:
            row = rows.get(guest.id)
            if self._shared:
                self._counted(guest, row)
            if row is None:
                continue
            self.seen[guest.host] = self.seen.get(guest.host, 0) + 1
            power = _POWERS.get(guest.state)
            if power is not None and power is not row.power and row.task is Task.NONE:
                self.differs[guest.id] = power

    def _counted(self, guest: Guest, row: Server | None) -> None:
        """What the rack's own side counts for it: its needs there, and those of the copy that a move keeps."""
        needs = [(guest.host, dict(stray(guest).needs if row is None else row.spec.shape.needs))]
        if row is not None and row.resize is not None:
            needs.append((row.resize.host, dict(row.resize.spec.shape.needs)))
        for host, of_host in needs:
            total = self._theirs.setdefault(host, {})
            for cls, need in of_host.items():
                total[cls] = total.get(cls, 0) + need

    def _take_off(self) -> None:
        """A guest that came between the count and the list was not counted: no host uses less than nothing."""
        for host, needs in self._theirs.items():
            row = self.columns.row(host)
            for cls, need in needs.items():
                index = self.columns.class_index(cls)
                if row is not None and index is not None:
                    self.columns.use(row, index, -need)

    async def _sweep(self) -> None:
        def work(unit: Unit) -> None:
            self._owned(unit)
            unit.hosts.sweep(self._rack, self._number)
            unit.guests.sweep(self._rack, self._number)

        await self._store.write("rack.swept", work)


def stray(guest: Guest) -> Place:
    """What a guest that carries our mark, and that no server is known for, takes of its host."""
    needs = {VCPU: guest.vcpu, MEMORY_MIB: guest.memory_mib, DISK_GIB: guest.disk_gib}
    return Place(guest.host, shape(needs).needs, 1)


async def stored_columns(store: Store, rack: RackCode) -> tuple[Columns, dict[str, str]]:
    """Columns of a rack's hosts as the store has them, and their names by id."""
    columns = Columns()
    names: dict[str, str] = {}
    after: str | None = None
    while True:
        page = await store.read(lambda unit, after=after: unit.hosts.page(rack, after, PAGE))  # type: ignore[misc]  # mypy infers no type beside a default
        columns.extend(page)
        names.update((host.id, host.name) for host in page)
        if len(page) < PAGE:
            return columns, names
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
