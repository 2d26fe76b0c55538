"""The duties of a driver, as tests that anybody can run on theirs: the numbers are those of docs/contracts/driver.md.

    # test_mine.py, run by pytest
    from banyan.drivers.contract import DriverContract

    class TestMine(DriverContract):
        def driver(self, share=OFFER_ALL): return MINE.open({...}, self.context(share))
        def failing(self): return MINE.open({... an address where nothing answers ...}, self.context())

Only the rack that `driver` leads to is read, several times, and nothing is ever written to it. It must hold at
least one host, and must not change while the suite runs. For drivers that take orders: orders_contract.py. This module
needs no test framework.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import ClassVar

from banyan.core.deed import Operation
from banyan.core.guest import Guest
from banyan.core.host import Host
from banyan.core.ids import RackCode
from banyan.core.ports import Driver, Finding
from banyan.core.rack import Capacity, GuestBatch, HostBatch, RackHealth, Scan, ScanItem
from banyan.core.records import DriverUnavailable
from banyan.core.share import OFFER_ALL, Share, matches
from banyan.core.time import BUILD_DATE, Mono
from banyan.drivers.registry import DriverContext

Duty = Callable[[Driver], Awaitable[None]]

MAX_BATCH = 1_000


class LoopClock:
    """A Clock that follows the event loop's own time, so that it also runs on a virtual loop."""

    def now(self) -> Mono:
        return Mono(asyncio.get_running_loop().time())

    def wall(self) -> float:
        return BUILD_DATE + 86_400 + self.now() % 86_400

    async def sleep_until(self, instant: Mono) -> None:
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        timer = loop.call_at(instant, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def boot_id(self) -> str:
        return "contract"


class SeededIds:
    """Ids from a seed: a suite must give the same verdict twice."""

    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)


@dataclass(frozen=True, slots=True)
class Seen:
    """One whole scan."""

    items: tuple[ScanItem, ...]
    hosts: tuple[Host, ...]
    guests: tuple[Guest, ...]
    scan: Scan


class DriverContract:
    """Subclass it, and say how a driver is made. Each test is one numbered duty."""

    # Seconds that any one call may take, and that a whole scan may take.
    call_deadline: ClassVar[float] = 60.0
    scan_deadline: ClassVar[float] = 600.0
    # Texts that must appear nowhere: passwords, tokens.
    secrets: ClassVar[tuple[str, ...]] = ()
    # Where the driver may keep files of its own; a subclass sets it if its driver does.
    folder: Path | None = None

    def driver(self, share: Share = OFFER_ALL) -> Driver:
        """A driver for a rack that answers. Called once or more in each test."""
        raise AssertionError("a subclass of DriverContract says how its driver is made")

    def failing(self) -> Driver:
        """A driver for a rack whose own side refuses or does not answer."""
        raise AssertionError("a subclass of DriverContract says how its driver fails")

    def context(self, share: Share = OFFER_ALL, requests_per_second: float = 1_000.0) -> DriverContext:
        return DriverContext(
            "contract",
            LoopClock(),
            SeededIds(),
            code=RackCode(0xC0),
            share=share,
            requests_per_second=requests_per_second,
            folder=self.folder,
        )

    # --- duties -----------------------------------------------------------------------------------

    def test_01_names_its_kind_and_how_capacity_is_claimed(self) -> None:
        async def duty(driver: Driver) -> None:
            hold(driver.kind.islower() and driver.kind.isascii(), f"kind is lower-case ASCII, got {driver.kind!r}")
            hold(isinstance(driver.capacity, Capacity), f"capacity is a Capacity, got {driver.capacity!r}")

        self._run(duty)

    def test_02_a_scan_is_batches_and_then_one_scan(self) -> None:
        async def duty(driver: Driver) -> None:
            seen = await self._scan(driver)
            strange = {type(item).__name__ for item in seen.items} - {"HostBatch", "GuestBatch", "Scan"}
            hold(not strange, f"a scan yields HostBatch, GuestBatch and Scan, got {strange}")
            hold(sum(isinstance(item, Scan) for item in seen.items) == 1, "one Scan, at the end")

        self._run(duty)

    def test_03_batches_are_bounded(self) -> None:
        async def duty(driver: Driver) -> None:
            for item in (await self._scan(driver)).items:
                size = 1 if isinstance(item, Scan) else len(tuple(item))
                hold(1 <= size <= MAX_BATCH, f"a batch holds 1 to {MAX_BATCH}, one {type(item).__name__} has {size}")

        self._run(duty)

    def test_04_each_host_comes_before_its_guests(self) -> None:
        async def duty(driver: Driver) -> None:
            known: set[str] = {""}
            for item in (await self._scan(driver)).items:
                if isinstance(item, HostBatch):
                    known.update(host.id for host in item)
                elif isinstance(item, GuestBatch):
                    for guest in item:
                        hold(guest.host in known, f"guest {guest.id} came before its host {guest.host}")

        self._run(duty)

    def test_05_nothing_is_told_twice(self) -> None:
        async def duty(driver: Driver) -> None:
            seen = await self._scan(driver)
            scan = seen.scan
            for what, ids in (
                ("host", [host.id for host in seen.hosts]),
                ("guest", [guest.id for guest in seen.guests]),
                ("flavor", [flavor.id for flavor in scan.flavors]),
                ("image", [image.id for image in scan.images]),
                ("network", [network.id for network in scan.networks]),
                ("project", [project.id for project in scan.projects]),
            ):
                hold(all(ids), f"a {what} has an id")
                hold(len(ids) == len(set(ids)), f"a {what} was told twice in one scan")

        self._run(duty)

    def test_06_amounts_are_whole_and_never_negative(self) -> None:
        async def duty(driver: Driver) -> None:
            seen = await self._scan(driver)
            hold(bool(seen.hosts), "the suite needs a rack with at least one host")
            for host in seen.hosts:
                for resource, amount in host.amounts.items():
                    where = f"{resource} of host {host.name}"
                    hold(resource == resource.lower(), f"{where}: resource classes are lower case")
                    for value in (amount.physical, amount.total, amount.used):
                        hold(type(value) is int and value >= 0, f"{where}: whole and 0 or more, got {value!r}")
                    if driver.capacity is Capacity.EXCLUSIVE:
                        hold(amount.used <= amount.total, f"{where}: more is used than an exclusive rack has")
            for guest in seen.guests:
                sizes = (guest.vcpu, guest.memory_mib, guest.disk_gib, guest.move)
                hold(min(sizes) >= 0, f"guest {guest.id}: sizes are 0 or more, got {sizes}")

        self._run(duty)

    def test_07_ids_are_the_same_in_the_next_scan_and_the_next_process(self) -> None:
        async def duty(driver: Driver) -> None:
            first = await self._scan(driver)
            again = await self._scan(driver)
            other = self.driver()
            try:
                anew = await self._scan(other)
            finally:
                await other.close()
            for later in (again, anew):
                hold({h.id for h in first.hosts} == {h.id for h in later.hosts}, "ids of hosts stay")
                hold({g.id for g in first.guests} == {g.id for g in later.guests}, "ids of guests stay")

        self._run(duty)

    def test_08_the_share_is_marked_never_hidden(self) -> None:
        async def duty(driver: Driver) -> None:
            whole = await self._scan(driver)
            some = Share(hosts=(whole.hosts[0].name,), flavors=(), projects=("*",))
            for share in (Share(hosts=()), some, Share(projects=())):
                other = self.driver(share)
                try:
                    seen = await self._scan(other)
                finally:
                    await other.close()
                hold(len(seen.hosts) == len(whole.hosts), "what is not shared is still told")
                offered = {host.id: host.offered for host in seen.hosts}
                for host in seen.hosts:
                    hold(host.offered == share.offers(host), f"host {host.name} is marked as the share says")
                for guest in seen.guests:
                    inside = offered.get(guest.host, True) and bool(share.projects)
                    hold(guest.offered == inside, f"guest {guest.id} is marked as its host and project are")
                for flavor in seen.scan.flavors:
                    hold(
                        flavor.offered == matches(share.flavors, flavor.name),
                        f"flavor {flavor.name} is marked as the share says",
                    )

        self._run(duty)

    def test_09_a_scan_can_be_broken_off_at_any_batch(self) -> None:
        async def duty(driver: Driver) -> None:
            async with aclosing(_generator(driver)) as scan:
                await anext(scan)
            task = asyncio.ensure_future(self._scan(driver))
            await turn()
            task.cancel()
            await asyncio.wait({task}, timeout=self.call_deadline)
            hold(task.done(), "a cancelled scan ends at once")
            hold(task.cancelled() or task.exception() is None, f"a cancelled scan raises nothing else: {task!r}")
            await self._scan(driver)

        self._run(duty)

    def test_10_a_probe_answers_and_never_raises(self) -> None:
        async def duty(driver: Driver) -> None:
            health, reason = await asyncio.wait_for(driver.probe(), self.call_deadline)
            hold(health is RackHealth.AVAILABLE, f"the rack answers, but the probe says {health}: {reason}")
            hold(reason == "", f"an available rack needs no reason, got {reason!r}")

        self._run(duty)

    def test_11_a_rack_that_fails_is_unavailable_with_a_reason(self) -> None:
        async def duty(driver: Driver) -> None:
            health, reason = await asyncio.wait_for(driver.probe(), self.call_deadline)
            hold(health is RackHealth.UNAVAILABLE, f"a failing rack is unavailable, the probe says {health}")
            hold(bool(reason.strip()), "the probe says why")
            findings = await asyncio.wait_for(driver.check(), self.call_deadline)
            hold(any(not finding.ok for finding in findings), "the check finds what is wrong")
            hold(all(f.remedy for f in findings if not f.ok), "each finding that is not well says what to do")
            try:
                await self._scan(driver)
            except DriverUnavailable as error:
                hold(bool(error.code) and error.code == error.code.lower(), "a stable, kebab-case code")
                hold(len(error.text) > 10, f"the text says which call, what came, what to do; got {error.text!r}")
                self._keep_secret(error.text, error.detail, reason, *map(str, findings))
            else:
                hold(False, "the scan of a failing rack raises DriverUnavailable")

        self._run(duty, failing=True)

    def test_12_a_check_never_raises_and_is_well(self) -> None:
        async def duty(driver: Driver) -> None:
            findings = await asyncio.wait_for(driver.check(), self.call_deadline)
            hold(bool(findings) and all(isinstance(f, Finding) for f in findings), "a check looks at something")
            hold(all(f.ok for f in findings), f"the rack is well, but: {[f for f in findings if not f.ok]}")

        self._run(duty)

    def test_13_close_may_be_said_twice_and_ends_everything(self) -> None:
        async def duty(driver: Driver) -> None:
            await driver.close()
            await driver.close()
            health, reason = await driver.probe()
            hold(health is not RackHealth.AVAILABLE and bool(reason), "a closed driver is not available")
            try:
                await self._scan(driver)
            except DriverUnavailable:
                return
            hold(False, "a scan after close raises DriverUnavailable")

        self._run(duty)

    def test_14_the_loop_has_a_turn_between_batches(self) -> None:
        async def duty(driver: Driver) -> None:
            turns = 0
            done = False

            async def heartbeat() -> None:
                nonlocal turns
                while not done:
                    turns += 1
                    await turn()

            beating = asyncio.ensure_future(heartbeat())
            batches = len((await self._scan(driver)).items)
            done = True
            await beating
            hold(turns >= batches, f"{batches} batches left the event loop {turns} turns")

        self._run(duty)

    def test_15_the_scan_says_when_and_how_much_it_asked(self) -> None:
        async def duty(driver: Driver) -> None:
            scan = (await self._scan(driver)).scan
            hold(scan.started_at <= scan.finished_at, "a scan ends after it began")
            hold(scan.requests >= 0, "requests are counted")
            for key, value in scan.facts.items():
                hold(key.islower() and len(value) <= 255, f"facts are short texts, {key!r} is not")

        self._run(duty)

    def test_16_no_secret_is_told(self) -> None:
        async def duty(driver: Driver) -> None:
            seen = await self._scan(driver)
            self._keep_secret(repr(driver), str(driver), repr(seen.scan), *map(repr, seen.hosts[:10]))

        self._run(duty)

    def test_17_says_what_it_can_do_to_guests(self) -> None:
        async def duty(driver: Driver) -> None:
            strange = [operation for operation in driver.operations if not isinstance(operation, Operation)]
            hold(isinstance(driver.operations, frozenset) and not strange, f"operations are Operations, got {strange}")
            if driver.operations:
                hold(Operation.DELETE in driver.operations, "whoever makes guests can remove them")
                hold(driver.at_once >= 1, f"at least one deed at a time, got {driver.at_once}")

        self._run(duty)

    # --- how a duty is run ------------------------------------------------------------------------

    def _run(self, duty: Duty, *, failing: bool = False) -> None:
        async def whole() -> None:
            driver = self.failing() if failing else self.driver()
            try:
                await duty(driver)
            finally:
                await driver.close()

        asyncio.run(whole())

    async def _scan(self, driver: Driver) -> Seen:
        items: list[ScanItem] = []
        async with asyncio.timeout(self.scan_deadline):
            async for item in driver.scan():
                items.append(item)
        last = items[-1] if items else None
        if not isinstance(last, Scan):
            raise AssertionError(f"the last item of a scan is its Scan, got {type(last).__name__}")
        return Seen(
            tuple(items),
            tuple(host for item in items if isinstance(item, HostBatch) for host in item),
            tuple(guest for item in items if isinstance(item, GuestBatch) for guest in item),
            last,
        )

    def _keep_secret(self, *texts: str) -> None:
        for secret in self.secrets:
            hold(not any(secret in text for text in texts), "a secret shows in what the driver tells")


def hold(condition: bool, duty: str) -> None:
    """Raises AssertionError(duty) unless `condition` holds."""
    if not condition:
        raise AssertionError(duty)


async def turn() -> None:
    """One turn of the event loop."""
    clock = LoopClock()
    await clock.sleep_until(clock.now())


def _generator(driver: Driver) -> AsyncGenerator[ScanItem, None]:
    scan = driver.scan()
    if not isinstance(scan, AsyncGenerator):
        raise AssertionError("scan is an async generator, so that it can be closed where it stands")
    return scan
