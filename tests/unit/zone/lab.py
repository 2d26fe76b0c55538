"""One rack on virtual time: a driver that does as it is told, a store in memory that can die, an inventory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from banyan.core.catalogue import Flavor
from banyan.core.digest import Digest
from banyan.core.guest import Guest, GuestState
from banyan.core.host import Host
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.journal import Line
from banyan.core.ports import Finding
from banyan.core.rack import Capacity, GuestBatch, HostBatch, Rack, RackHealth, Scan, ScanItem
from banyan.core.records import DriverUnavailable
from banyan.core.resources import MEMORY_MIB, VCPU, Amount
from banyan.core.time import Mono, Wall
from banyan.drivers.observing import Observing
from banyan.simulate.clock import VirtualClock
from banyan.simulate.ids import SeededIds
from banyan.simulate.loop import VirtualLoop
from banyan.store.inline import Image, InlineStore
from banyan.zone.members import Members
from banyan.zone.reconcile.inventory import Inventory, InventorySettings
from banyan.zone.streams import Streams

T = TypeVar("T")

RACK = RackCode(77)
SMALL = Flavor("f1", "small", {VCPU: 1, MEMORY_MIB: 1_024})
SETTINGS = InventorySettings(interval=60.0, probe_interval=15.0, deadline=300.0, batch=1)


def host(number: int, used: int = 0, cores: int = 8) -> Host:
    amounts = {VCPU: Amount(cores, cores, used), MEMORY_MIB: Amount(16_384, 16_384, used * 1_024)}
    return Host(f"h{number}", f"host-{number}", amounts)


def guest(number: int, on: int, project: str = "p1", state: GuestState = GuestState.ACTIVE) -> Guest:
    return Guest(f"g{number}", f"guest-{number}", project, state, f"h{on}", vcpu=1, memory_mib=1_024)


class Killed(Exception):
    """The process died here."""


class Rehearsed(Observing):
    """core.ports.Driver: `hosts` and `guests` are what is there; the rest is what goes wrong."""

    kind = "rehearsed"
    capacity = Capacity.SHARED

    def __init__(self) -> None:
        self.hosts: list[Host] = []
        self.guests: list[Guest] = []
        self.flavors: tuple[Flavor, ...] = (SMALL,)
        self.fails_after: int | None = None
        self.hangs = False
        self.cut = False
        self.error: Exception | None = None
        self.answers = True
        self.scans = 0
        self.probes = 0
        self.closed = 0

    async def scan(self) -> AsyncIterator[ScanItem]:
        self.scans += 1
        try:
            for number, one in enumerate(self.hosts):
                if self.fails_after == number:
                    raise DriverUnavailable("rehearsed", "GET /os-hypervisors answered 401; renew the credentials")
                yield HostBatch((one,))
            if self.fails_after is not None:
                raise DriverUnavailable("rehearsed", "GET /servers answered 503")
            if self.error is not None:
                raise self.error
            if self.hangs:
                await never()
            yield GuestBatch(tuple(self.guests))
            if not self.cut:
                yield Scan(Wall(1.0), Wall(2.0), flavors=self.flavors, requests=3)
        finally:
            self.closed += 1

    async def probe(self) -> tuple[RackHealth, str]:
        self.probes += 1
        if self.hangs:
            await never()
        return (RackHealth.AVAILABLE, "") if self.answers else (RackHealth.UNAVAILABLE, "no route to keystone")

    async def check(self) -> Sequence[Finding]:
        return ()

    async def close(self) -> None:
        return


async def never() -> None:
    await asyncio.get_running_loop().create_future()


class Lab:
    """`run` runs on virtual time. `pause` is called at each instant of each unit of the store."""

    def __init__(self, driver: Rehearsed | None = None, settings: InventorySettings = SETTINGS) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop, "lab")
        self.driver = driver or Rehearsed()
        self.settings = settings
        self.pause: Callable[[str], None] = lambda _: None
        self.store = self._open(None)
        self.write_rack(Rack(RACK, "lab", "rehearsed", {}))
        self.begin()

    def close(self) -> None:
        self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T], within: float = 10_000.0) -> T:
        return self.loop.run_task(coroutine, within)

    def begin(self) -> None:
        """The zone's process begins: memory is empty, the store is as it was left."""
        self.members = Members()
        self.streams = Streams(ZoneCode(1), 1_000)
        self.inventory = Inventory(
            self.store,
            self.clock,
            SeededIds(1, "lab"),
            lambda: Wall(self.clock.wall()),
            self.driver,
            RACK,
            self.members,
            self.streams,
            self.settings,
        )
        self.run(self.inventory.start())

    def restart(self) -> None:
        """After a death at any instant: a new process on what was committed."""
        self.pause = lambda _: None
        self.store = self._open(self.store.image())
        self.begin()

    def activate(self) -> Mono:
        """One activation now; when it wants to wake."""
        return self.run(self.inventory.activate(self.clock.now()))

    def go_on(self, seconds: float) -> None:
        """As the loop does: activations when they are due, for so long."""
        end = self.clock.now() + seconds
        while True:
            wake = self.activate()
            if wake > end:
                self.loop.run_until(self.loop.time() + max(0.0, end - self.clock.now()))
                return
            self.loop.run_until(self.loop.time() + max(0.001, wake - self.clock.now()))

    def fold(self) -> Digest:
        return self.members.fold()

    def rack(self) -> Rack:
        rack = self.run(self.store.read(lambda unit: unit.racks.get(RACK)))
        assert rack is not None
        return rack

    def write_rack(self, rack: Rack) -> None:
        self.run(self.store.write("test", lambda unit: unit.racks.put(rack)))

    def stored_hosts(self) -> list[str]:
        return [h.id for h in self.run(self.store.read(lambda unit: unit.hosts.page(RACK, None, 1_000)))]

    def journal(self) -> list[Line]:
        return list(self.run(self.store.read(lambda unit: unit.journal.page(0, 1_000, {}))))

    def takes_the_rack(self) -> None:
        """Another controller takes it over."""
        rack = self.rack()
        self.write_rack(replace(rack, epoch=rack.epoch + 1))

    def _open(self, image: Image | None) -> InlineStore:
        async def pause(instant: str) -> None:
            self.pause(instant)

        return InlineStore(SeededIds(1, "store"), pause, image=image)
