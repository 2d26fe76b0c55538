"""Servers at one leaf: orders by one, by 64 at a time and in bulk, until all are active; CPU for each; a page, a show.

A whole zone without its API, on a database on this disk and simulated hosts that build at once. What commits cost is
measured beside it, on a database of the same kind: it bounds what one client can have. Run:
python -m bench.leaf [--hosts 10000] [--count 8000] [--bulk 20000] [--database URL]
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time

import uvloop

from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.core.order import MAX_GUESTS, FlavorSnapshot, ImageSource, Order, Specification
from banyan.core.ports import RackSpec
from banyan.core.server import ServerQuery
from banyan.drivers.registry import Drivers, Registry
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.open import open_store
from banyan.zone.reconcile.uplinks import UplinkSide
from banyan.zone.settings import ZoneSettings
from banyan.zone.zone import UplinkRunner, Zone, open_zone

SPEC = Specification(
    "web",
    {"vcpu": 1, "memory_mib": 512, "disk_gib": 5},
    flavor=FlavorSnapshot("f1", "tiny", 1, 512, 5),
    image=ImageSource("i1", "debian", "sha512:" + "a" * 128),
    metadata={"role": "web"},
)
PROJECT = "p1"
TOP = ZoneCode(1)


class NoLinks:
    """zone.zone.Links of a zone that has no parent."""

    def uplink(self, side: UplinkSide) -> UplinkRunner:
        raise AssertionError("a zone without a parent makes no uplink")


class Leaf:
    """The zone under measurement, with what orders need."""

    def __init__(self, zone: Zone) -> None:
        self.zone = zone
        self.ids = SystemIds()
        (rack,) = zone.servers.racks.values()
        self.work = rack.work

    def caller(self) -> Caller:
        return Caller("bench", Role.ADMIN, TOP, request=self.ids.token(8).hex())

    async def order(self, count: int = 1) -> float:
        """Seconds until it was acknowledged."""
        order = Order(self.ids.token(16).hex(), TOP, PROJECT, "u1", SPEC, count, count)
        began = perf_counter()
        await self.zone.servers.order(self.caller(), order)
        return perf_counter() - began

    async def client(self, count: int) -> list[float]:
        return [await self.order() for _ in range(count)]

    async def until_active(self, done: int) -> None:
        while self.work.done < done:
            await asyncio.sleep(0.01)


async def singles(leaf: Leaf, count: int, clients: int) -> None:
    before, began, cpu = leaf.work.done, perf_counter(), process_time()
    found = await asyncio.gather(*(leaf.client(count // clients) for _ in range(clients)))
    took = perf_counter() - began
    times = sorted(time for one in found for time in one)
    await leaf.until_active(before + len(times))
    whole, spent = perf_counter() - began, (process_time() - cpu) / len(times)
    print(
        f"{clients:3} clients: {len(times) / took:8,.0f} creates/s, median {median(times) * 1000:.2f} ms, "
        f"p99 {quantiles(times, n=100)[-1] * 1000:.2f} ms; {len(times) / whole:,.0f} active/s; "
        f"{spent * 1e6:.0f} us CPU for each, built"
    )


async def bulk(leaf: Leaf, count: int) -> None:
    """The largest orders there are, one after the other."""
    before, began, cpu = leaf.work.done, perf_counter(), process_time()
    orders = max(1, count // MAX_GUESTS)
    for _ in range(orders):
        await leaf.order(MAX_GUESTS)
    made = orders * MAX_GUESTS
    took, spent, built = perf_counter() - began, process_time() - cpu, leaf.work.done - before
    await leaf.until_active(before + made)
    print(
        f"in orders of {MAX_GUESTS:,}: {made / took:,.0f} servers/s acknowledged, {spent / made * 1e6:.0f} us CPU each "
        f"({built} were built meanwhile); {made / (perf_counter() - began):,.0f} active/s"
    )


async def lists(leaf: Leaf) -> None:
    began = perf_counter()
    page = await leaf.zone.servers.page(leaf.caller(), ServerQuery(TOP, PROJECT))
    listed = perf_counter() - began
    began = perf_counter()
    await leaf.zone.servers.show(leaf.caller(), page.servers[-1].id)
    shown = perf_counter() - began
    print(f"a page of {len(page.servers):,}: {listed * 1000:.1f} ms; one server: {shown * 1000:.2f} ms")


async def commits(folder: Path, url: str | None) -> None:
    store = open_store(folder, url, ids=SystemIds(), clock=SystemClock())
    began = perf_counter()
    for number in range(200):
        await store.write("bench", lambda unit, number=number: unit.tokens.sweep(number, 1))  # type: ignore[misc]  # mypy infers no type beside a default
    print(f"an empty commit of the same store: {(perf_counter() - began) / 200 * 1000:.2f} ms")
    await store.close()


async def measure(folder: Path, hosts: int, count: int, many: int, url: str | None) -> None:
    await commits(folder / "empty", None)
    clock, ids = SystemClock(), SystemIds()
    store = open_store(folder / "leaf", url, ids=ids, clock=clock)
    large = {"name": "large", "vcpu": 1_024, "memory_mib": 4_194_304, "disk_gib": 100_000}
    rack = RackSpec("r", "sim", {"hosts": hosts, "build_seconds": 0.0, "act_seconds": 0.0, "classes": [large]})
    drivers = Drivers(Registry.installed(), clock, ids, folder / "racks")
    zone = await open_zone(ZoneSettings("leaf", racks=(rack,)), store, clock, ids, drivers, NoLinks())
    running = asyncio.ensure_future(zone.run())
    while not any(member.fold for member in zone.members.racks.values()):
        await asyncio.sleep(0.1)
    leaf = Leaf(zone)
    await leaf.client(20)
    await leaf.until_active(20)
    for clients in (1, 8, 64):
        await singles(leaf, count if clients > 1 else max(200, count // 8), clients)
    await bulk(leaf, many)
    await lists(leaf)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await zone.close()
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--count", type=int, default=8_000)
    parser.add_argument("--bulk", type=int, default=20_000)
    parser.add_argument("--database", default=None, help="a PostgreSQL database, empty; else SQLite in --folder")
    parser.add_argument("--folder", type=Path, default=None, help="on which disk (default: a temporary folder)")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=given.folder) as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(measure(Path(folder), given.hosts, given.count, given.bulk, given.database))


if __name__ == "__main__":
    main()
