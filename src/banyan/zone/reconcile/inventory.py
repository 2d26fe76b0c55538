"""One rack's inventory: scans and probes it through its driver, and says how it is (mission A5).

An activation (zone/loop.py). A scan that fails or is cut changes nothing that counts: what the last
complete one said stays in the totals while the rack answers, and stands apart as unknown when it does
not. One failure is a blip; the second in a row makes the rack unavailable, with the driver's reason. An
unavailable rack is probed, and read again as soon as a probe succeeds. Recording: recording.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from banyan.core.catalogue import Flavor
from banyan.core.digest import flatten
from banyan.core.errors import Conflict
from banyan.core.identity import SYSTEM
from banyan.core.ids import RackCode, ZoneCode, code_text
from banyan.core.journal import Event
from banyan.core.lineage import UseRow
from banyan.core.ports import Clock, Driver, Ids, Store
from banyan.core.rack import Capacity, Rack, RackHealth, Scan
from banyan.core.records import DriverUnavailable, StoreFull, StoreUnknown, Unit
from banyan.core.resources import ResourceClass, Shape
from banyan.core.time import Mono, Wall
from banyan.placement.columns import Columns
from banyan.placement.fold import Fold, GuestCounts
from banyan.zone.members import Members
from banyan.zone.reconcile.recording import Recording, counted, stored_columns, stray, watched
from banyan.zone.servers.places import Places
from banyan.zone.servers.watch import Watch
from banyan.zone.streams import Streams

T = TypeVar("T")
log = structlog.get_logger("banyan.rack")

JITTER = 0.1
PROBE_DEADLINE = 30.0
# After a first failure the bottom is looked at again within so many seconds, so that a verdict is not slow.
CONFIRM = 5.0
LONGEST_BACKOFF = 900.0
MAX_REASON = 300


@dataclass(frozen=True, slots=True)
class InventorySettings:
    """Seconds. `interval` between scans, `probe_interval` between looks, `deadline` of a whole scan.

    `failures`: how many in a row make a rack unavailable. `ceiling`: core.share, per class. `batch`: rows
    to a unit of work, some milliseconds of the writer and of the loop.
    """

    interval: float = 60.0
    probe_interval: float = 15.0
    deadline: float = 900.0
    failures: int = 2
    ceiling: Mapping[ResourceClass, int] | None = None
    batch: int = 500


class Inventory:
    """`rack`: its code; the row exists. `wall`: corrected time now. The driver stays the caller's to close. `places`
    and `watch`: of the servers that Banyan makes there, where it does.

    `scans`, `failed`, `requests` (of the bottom), `seconds` (of the last scan) and `interval` are for metrics.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        wall: Callable[[], Wall],
        driver: Driver,
        rack: RackCode,
        members: Members,
        streams: Streams,
        settings: InventorySettings,
        places: Places | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.scans = 0
        self.failed = 0
        self.requests = 0
        self.seconds = 0.0
        self.interval = settings.interval
        self._store = store
        self._clock = clock
        self._ids = ids
        self._wall = wall
        self._driver = driver
        self._code = rack
        self._members = members
        self._streams = streams
        self._settings = settings
        self._places = places
        self._watch = watch
        self._epoch = 0
        self._health = RackHealth.UNKNOWN
        self._ever = False
        self._scan_at = Mono(0.0)
        self._probe_at = Mono(0.0)
        self._bad_scans = 0
        self._bad_probes = 0
        # Scans begun and ended neither well nor by the driver's word: its own error, which the loop logs.
        self._broken = 0

    @property
    def name(self) -> str:
        return f"inventory {code_text(self._code)}"

    def rescan(self) -> None:
        """The next activation scans, whatever is due."""
        self._scan_at = Mono(0.0)

    async def start(self) -> None:
        """Puts the rack into the members as the store knows it, before anything is reported.

        A complete picture comes back as columns; after a scan that was cut, the last complete digest
        counts until the next scan. Raises Conflict("rack-moved") if there is no such rack.
        """

        if self._places is not None:
            await self._places.load()
        await self.restore()

    async def restore(self) -> None:
        """The picture from the stored rows, as at the start. Servers' places are what they hold in memory now."""

        def work(unit: Unit) -> tuple[Rack, tuple[int, Mapping[str, int]] | None, tuple[Flavor, ...]]:
            rack = unit.racks.get(self._code)
            if rack is None:
                raise _moved(self._code)
            return rack, unit.streams.digest(ZoneCode(self._code)), tuple(unit.catalogue.flavors(self._code))

        rack, digest, flavors = await self._store.read(work)
        self._epoch, self._health, self._ever = rack.epoch, rack.health, rack.scanned_at is not None
        self._members.put_rack(rack)
        if digest is None or not self._ever:
            return
        generation, counters = digest
        guests, uses = await counted(self._store, self._code)
        columns, names = await stored_columns(self._store, self._code)
        if self._places is not None:
            # gap: after a restart what servers hold of a shared rack counts twice until the next scan: never too little
            strays = await self._store.read(lambda unit: unit.guests.strays(self._code))
            self._places.put_on(columns, [stray(guest) for guest in strays])
        fold = await watched(
            Fold(columns, (), self._settings.ceiling),
            self._members.wanted(self._code, offered_shapes(flavors)),
            self._clock,
        )
        everybody = self._adopt(columns, names, guests, uses, announce=True)
        if generation == rack.generation:
            self._members.put_picture(rack, fold, everybody, offered_shapes(flavors))
        else:
            # Totals wait for a whole picture; room for servers need not.
            self._members.restore_rack(rack, counters)

    async def activate(self, now: Mono) -> Mono:
        """Scans or probes if due; when to wake next. Errors of the store are the loop's."""
        if self._broken >= self._settings.failures:
            self._broken = 0
            await self._down("its driver fails with an error of its own; the log has it")
        answers = True
        if now >= self._probe_at or (now >= self._scan_at and self._health is RackHealth.UNAVAILABLE):
            answers = await self._probe()
        if answers and now >= self._scan_at:
            await self._scan()
        # While it does not answer, a scan that is due waits for a probe that succeeds.
        return self._probe_at if self._bad_probes else min(self._scan_at, self._probe_at)

    # --- looking --------------------------------------------------------------------------------

    async def _probe(self) -> bool:
        """Whether the bottom answers. When it does so again, it is read at once."""
        try:
            health, reason = await self._within(self._driver.probe(), PROBE_DEADLINE)
        except TimeoutError:
            health, reason = RackHealth.UNAVAILABLE, f"no answer to a probe in {PROBE_DEADLINE:g} s"
        self._probe_at = self._later(self._settings.probe_interval)
        if health is not RackHealth.UNAVAILABLE:
            if self._bad_probes:
                self._bad_probes = 0
                self.rescan()
            return True
        self._bad_probes += 1
        if self._bad_probes >= self._settings.failures or not self._ever:
            await self._down(reason)
        elif self._health is not RackHealth.UNAVAILABLE:
            self._probe_at = self._later(min(CONFIRM, self._settings.probe_interval))
        return False

    async def _scan(self) -> None:
        began, started_at = self._clock.now(), self._wall()
        number = await self._begin()
        # Without servers (`places`) nothing is held either: what the rack's own side counts is all there is.
        shared = self._places is not None and self._driver.capacity is Capacity.SHARED
        recording = Recording(self._store, self._code, number, self._owned, self._settings.batch, shared=shared)
        self._broken += 1
        try:
            scan = await self._within(self._read(recording), self._settings.deadline)
        except (DriverUnavailable, TimeoutError) as error:
            self._broken = 0
            late = f"a scan did not end in {self._settings.deadline:g} s; raise `scan.deadline` or look at the cloud"
            await self._scan_failed(str(error) if isinstance(error, DriverUnavailable) else late)
            return
        except (StoreFull, StoreUnknown):
            self._broken = 0
            raise
        self._broken = 0
        await self._complete(recording, scan, number, started_at)
        self._bad_scans = self._bad_probes = 0
        self.scans += 1
        self.requests += scan.requests
        self.seconds = self._clock.now() - began
        self._scan_at = self._later(self._settings.interval)
        self._probe_at = self._later(self._settings.probe_interval)

    async def _read(self, recording: Recording) -> Scan:
        items = self._driver.scan()
        try:
            return await recording.read(items)
        finally:
            if isinstance(items, AsyncGenerator):
                await items.aclose()

    async def _scan_failed(self, reason: str) -> None:
        self.failed += 1
        self._bad_scans += 1
        backoff = self._settings.interval * 2 ** min(self._bad_scans - 1, 8)
        self._scan_at = self._later(min(backoff, max(LONGEST_BACKOFF, self._settings.interval)))
        self._probe_at = self._later(min(CONFIRM, self._settings.probe_interval))
        if self._bad_scans >= self._settings.failures or not self._ever:
            await self._down(reason)

    # --- the rack's row -------------------------------------------------------------------------

    def _owned(self, unit: Unit) -> Rack:
        rack = unit.racks.get(self._code)
        if rack is None or rack.epoch != self._epoch:
            raise _moved(self._code)
        return rack

    async def _begin(self) -> int:
        """The scan's number: durable before its first row, so that a cut scan is known as such."""

        def work(unit: Unit) -> Rack:
            rack = self._owned(unit)
            rack = replace(rack, generation=rack.generation + 1)
            unit.racks.put(rack)
            return rack

        rack = await self._store.write("rack.scan-begun", work)
        self._members.put_rack(rack)
        return rack.generation

    async def _complete(self, recording: Recording, scan: Scan, number: int, started_at: Wall) -> None:
        """The new picture replaces the old one: in the store by one unit, then in memory."""
        guests, uses = await counted(self._store, self._code)
        mine = offered_shapes(scan.flavors)
        shapes = self._members.wanted(self._code, mine)
        if self._places is not None:
            self._places.put_on(recording.columns, recording.strays)
        fold = await watched(Fold(recording.columns, (), self._settings.ceiling), shapes, self._clock)
        everybody = guests if self._places is None else self._places.guests(guests)
        counters = flatten(fold.digest(everybody, started_at))
        servers = sum(everybody.values())

        def work(unit: Unit) -> Rack:
            before = self._owned(unit)
            rack = replace(
                before,
                generation=number,
                scanned_at=started_at,
                health=RackHealth.AVAILABLE,
                reason="",
                capacity=self._driver.capacity,
                basis=scan.basis,
                facts=dict(scan.facts),
            )
            unit.racks.put(rack)
            unit.catalogue.replace(self._code, scan.flavors, scan.images, scan.networks, scan.projects)
            unit.streams.put_digest(ZoneCode(self._code), number, counters)
            if before.scanned_at is None or before.health is RackHealth.UNAVAILABLE:
                first = before.scanned_at is None
                self._journal(
                    unit,
                    "rack-scanned" if first else "rack-available",
                    rack.name,
                    f"{'read for the first time' if first else 'answers again and was read'}: "
                    f"{len(recording.columns)} hosts, {servers} servers",
                    hosts=str(len(recording.columns)),
                    servers=str(servers),
                    requests=str(scan.requests),
                )
            return rack

        rack = await self._store.write("rack.scanned", work)
        self._health, self._ever = rack.health, True
        await watched(fold, self._members.wanted(self._code, mine), self._clock)
        everybody = self._adopt(recording.columns, recording.names, guests, uses, announce=False)
        self._members.put_picture(rack, fold, everybody, mine)
        if self._watch is not None:
            await self._watch.look(recording.seen, recording.differs, started_at)

    def _adopt(
        self,
        columns: Columns,
        names: Mapping[str, str],
        guests: GuestCounts,
        uses: Sequence[UseRow],
        *,
        announce: bool,
    ) -> GuestCounts:
        """The new columns are those that servers are placed on from now on. `guests` and `uses` are of what Banyan did
        not make. All guests, servers among them."""
        if self._places is None:
            self._streams.replace_uses(self._code, uses, announce=announce)
            return guests
        self._places.adopt(columns, names, guests, uses)
        self._streams.replace_uses(self._code, self._places.uses(), announce=announce)
        return self._places.guests()

    async def _down(self, reason: str) -> None:
        """Unavailable, and why; in the journal only when it was not so before, in the log whenever that is news."""
        known = ""

        def work(unit: Unit) -> Rack:
            nonlocal known
            before = self._owned(unit)
            known = before.reason
            rack = replace(before, health=RackHealth.UNAVAILABLE, reason=reason[:MAX_REASON])
            if rack != before:
                unit.racks.put(rack)
            if before.health is not RackHealth.UNAVAILABLE:
                self._journal(unit, "rack-unavailable", rack.name, rack.reason, outcome="failed")
            return rack

        rack = await self._store.write("rack.unavailable", work)
        if rack.reason != known:
            log.warning("a rack is unavailable", rack=rack.name, reason=rack.reason)
        self._health = rack.health
        self._members.put_rack(rack)

    def _journal(self, unit: Unit, kind: str, rack: str, text: str, outcome: str = "done", **facts: str) -> None:
        unit.journal.append(self._wall(), Event(kind, rack, SYSTEM, text, facts, outcome))

    # --- time -----------------------------------------------------------------------------------

    def _later(self, seconds: float) -> Mono:
        return Mono(self._clock.now() + seconds * self._ids.uniform(1 - JITTER, 1 + JITTER))

    async def _within(self, work: Awaitable[T], seconds: float) -> T:
        """Raises TimeoutError, and cancels the work, after so many seconds of the Clock."""
        task = asyncio.ensure_future(work)
        timer = asyncio.ensure_future(self._clock.sleep_until(Mono(self._clock.now() + seconds)))
        try:
            await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise TimeoutError
        finally:
            task.cancel()
            timer.cancel()
            await asyncio.gather(task, timer, return_exceptions=True)


def offered_shapes(flavors: tuple[Flavor, ...]) -> tuple[Shape, ...]:
    """The distinct shapes of offered flavors, by key."""
    return tuple(sorted({f.shape for f in flavors if f.offered}, key=lambda shape: shape.key))


def _moved(code: RackCode) -> Conflict:
    return Conflict("rack-moved", f"rack {code_text(code)} is not this controller's any more; its owner reads it")
