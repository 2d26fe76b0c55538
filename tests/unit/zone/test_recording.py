"""A scan on its way into the store and the columns: how much of it the loop does between two turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace

import pytest

from banyan.core.host import Host
from banyan.core.ids import ZoneCode
from banyan.core.order import Specification
from banyan.core.rack import GuestBatch, HostBatch, Scan, ScanItem
from banyan.core.resources import MEMORY_MIB, VCPU, Shape, shape
from banyan.core.server import Server
from banyan.core.time import Mono, Wall
from banyan.placement.columns import Columns
from banyan.placement.fold import Fold
from banyan.zone.reconcile.recording import HOSTS_AT_ONCE, SHAPES_AT_ONCE, Recording, watched
from tests.unit.zone.lab import RACK, Lab, guest, host


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    lab.close()


class CountedColumns(Columns):
    """How many hosts entered with each call; after each the store is awaited."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    def extend(self, hosts: Iterable[Host]) -> None:
        some = list(hosts)
        self.calls.append(len(some))
        super().extend(some)


class CountedFold(Fold):
    def __init__(self) -> None:
        self.calls: list[int] = []
        super().__init__(Columns.build([[host(0)]]))

    def watch(self, shapes: Iterable[Shape]) -> None:
        some = list(shapes)
        self.calls.append(len(some) - len(self.shapes))
        super().watch(some)


def test_few_hosts_enter_the_columns_between_two_turns_of_the_loop(lab: Lab) -> None:
    recording = Recording(lab.store, RACK, 1, lambda unit: None, 500)
    columns = recording.columns = CountedColumns()

    async def items() -> AsyncIterator[ScanItem]:
        yield HostBatch(tuple(host(number) for number in range(1_100)))
        yield GuestBatch(tuple(guest(number, number) for number in range(700)))
        yield Scan(Wall(1.0), Wall(2.0))

    lab.run(recording.read(items()))
    assert (recording.hosts, recording.guests, len(columns)) == (1_100, 700, 1_100)
    assert max(columns.calls) == HOSTS_AT_ONCE
    stored = lab.run(lab.store.read(lambda unit: len(unit.hosts.page(RACK, None, 2_000))))
    assert stored == 1_100


def test_few_shapes_are_counted_between_two_turns_of_the_loop(lab: Lab) -> None:
    fold = CountedFold()
    turns: list[int] = []

    class Clock:
        def now(self) -> Mono:
            return Mono(0.0)

        async def sleep_until(self, instant: Mono) -> None:
            turns.append(len(fold.shapes))

    shapes = tuple(shape({VCPU: 1, MEMORY_MIB: number + 1}) for number in range(60))
    lab.run(watched(fold, shapes, Clock()))
    assert len(fold.shapes) == 60 and max(fold.calls) <= SHAPES_AT_ONCE
    assert turns == [25, 50, 60]


def test_on_a_shared_rack_a_server_counts_once(lab: Lab) -> None:
    """Its own side counts it in what its host uses; here it counts by what it holds (zone/servers/places.py)."""
    at, spec = Wall(1.0), Specification("web", {"vcpu": 1, "memory_mib": 1_024})
    known = Server("g1", ZoneCode(1), "p1", "u1", "web", RACK, "h0", spec, at, at)
    ours = [replace(guest(number, 0), native=False) for number in (1, 2)]

    async def items() -> AsyncIterator[ScanItem]:
        yield HostBatch((host(0, used=3),))
        yield GuestBatch((*ours, guest(3, 0)))
        yield Scan(Wall(1.0), Wall(2.0))

    lab.run(lab.store.write("test", lambda unit: unit.servers.insert([known])))
    for shared, used in ((True, 1), (False, 3)):
        recording = Recording(lab.store, RACK, 1, lambda unit: None, 500, shared=shared)
        lab.run(recording.read(items()))
        assert recording.columns.offered_amount(VCPU).used == used
        assert recording.columns.offered_amount(MEMORY_MIB).used == used * 1_024
        assert [(place.host, place.count) for place in recording.strays] == [("h0", 1)]
