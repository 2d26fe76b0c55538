"""Servers through 1, 2 and 3 levels by the Compute API: time and CPU of a create, rates, lists of 100,000 servers.

Real processes on this machine, one tree after the other: a zone with its own hosts; a root above it; a root above a
region above it. Hosts are simulated and build at once. Each tree takes creates one after the other, then from 8 and
from 64 clients; CPU is that of each zone's process, builds included, and of the client, which runs here as well. What
an fsync costs on this disk stands beside it: each zone on the way writes before it answers. Then the deepest tree is
filled in bulk, and lists and shows are timed at its root.

    python -m bench.tree [--single 300] [--count 4000] [--servers 100000] [--hosts 10000] [--levels 1,2,3]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from bench import _meters
from bench._compute import Side, zone_side
from bench._zones import leave_nothing
from tests.wire.zones.processes import Cloud, Zone

NAMES = ("root", "region", "leaf")
CLIENTS = (8, 64)
EACH = 1_000
REPEATS = 40
PLACE = '[zone]\nmode = "place"\n'


@contextmanager
def tree(folder: Path, levels: int, hosts: int) -> Iterator[Sequence[Zone]]:
    """The zones from the root down; the last one holds the hosts."""
    rack = ("--driver", "sim", "--hosts", str(hosts), "--option", "build_seconds=0")
    with Cloud(folder) as cloud:
        zones: list[Zone] = []
        path = ""
        for name in (*NAMES[: levels - 1], NAMES[-1]):
            options = rack if name == NAMES[-1] else ()
            path = f"{path}/{name}".removeprefix("/")
            if zones:
                zones.append(cloud.zone(name, *options, settings=PLACE, code=zones[-1].code()).start())
                zones[-2].wait_for_zone(path, state="ready")
            else:
                zones.append(cloud.zone(name, *options).start())
        zones[0].wait_until(lambda: zones[0].usage()["hosts"]["total"] == hosts, "to count the hosts")
        yield zones


def pid(zone: Zone) -> int:
    assert zone.process is not None
    return zone.process.pid


class Spent:
    """CPU since it was made: of each zone's process and of this one, in microseconds for each of `count`."""

    def __init__(self, zones: Sequence[Zone]) -> None:
        self._zones = zones
        self._before = [_meters.cpu_of(pid(zone)) for zone in zones]
        self._own = process_time()

    def for_each(self, count: int) -> dict[str, int]:
        found = {
            zone.name: round(1e6 * (_meters.cpu_of(pid(zone)) - before) / count)
            for zone, before in zip(self._zones, self._before, strict=True)
        }
        return {**found, "client": round(1e6 * (process_time() - self._own) / count)}


async def one_by_one(side: Side, zones: Sequence[Zone], count: int) -> Mapping[str, object]:
    side.connect(1)
    taken = []
    spent = Spent(zones)
    for n in range(count):
        began = perf_counter()
        await side.ask("POST", "/servers", side.wish(f"one-{n}"))
        taken.append(1_000 * (perf_counter() - began))
    await side.settled()
    return {"to_202_ms": _meters.quantiles(taken), "cpu_us": spent.for_each(count)}


async def together(side: Side, zones: Sequence[Zone], clients: int, count: int) -> Mapping[str, object]:
    side.connect(clients)
    left, taken = iter(range(count)), list[float]()

    async def client(line: int) -> None:
        for n in left:
            began = perf_counter()
            await side.ask("POST", "/servers", side.wish(f"many-{n}"), line)
            taken.append(1_000 * (perf_counter() - began))

    await asyncio.gather(*(side.ask("GET", "/servers?limit=1", line=line) for line in range(clients)))
    spent, began = Spent(zones), perf_counter()
    await asyncio.gather(*(client(line) for line in range(clients)))
    accepted = perf_counter() - began
    await side.settled()
    active = perf_counter() - began
    return {
        "accepted_per_s": round(count / accepted),
        "active_per_s": round(count / active),
        "to_202_ms": _meters.quantiles(taken),
        "cpu_us": spent.for_each(count),
    }


async def fill(side: Side, zones: Sequence[Zone], count: int) -> Mapping[str, object]:
    side.connect(1)
    spent, began = Spent(zones), perf_counter()
    for n in range(count // EACH):
        await side.ask("POST", "/servers", side.wish(f"bulk-{n}", EACH))
    accepted = perf_counter() - began
    await side.settled()
    return {
        "accepted_per_s": round(count / accepted),
        "active_per_s": round(count / (perf_counter() - began)),
        "cpu_us": spent.for_each(count),
        "mib": {zone.name: round(_meters.memory_of(pid(zone))) for zone in zones},
        "database_mib": {zone.name: round(database(zone) / 2**20, 1) for zone in zones},
    }


def database(zone: Zone) -> int:
    return sum(path.stat().st_size for path in zone.data.rglob("*") if path.is_file())


async def lists(side: Side, zones: Sequence[Zone], prefix: str) -> Mapping[str, object]:
    """Pages and shows at the root, the last row of the first page as the one that is shown."""
    page = (await side.ask("GET", "/servers?limit=1000"))["servers"]
    id = page[-1]["id"]
    asked = {
        "show": f"/servers/{id}",
        "list of 100": "/servers?limit=100",
        "list of 1,000": "/servers?limit=1000",
        "list of 1,000, from the middle": f"/servers?limit=1000&marker={id}",
        "details of 100": "/servers/detail?limit=100",
        "details of 1,000": "/servers/detail?limit=1000",
        "by a name": f"/servers?name=^{prefix}-7-1$",
        "by status": "/servers?status=ERROR&limit=100",
    }
    found: dict[str, Any] = {}
    for name, path in asked.items():
        taken = []
        spent = Spent(zones)
        for _ in range(REPEATS):
            began = perf_counter()
            await side.ask("GET", path)
            taken.append(1_000 * (perf_counter() - began))
        found[name] = {"ms": _meters.quantiles(taken), "cpu_us": spent.for_each(REPEATS)}
    return found


def fsync(folder: Path, count: int = 200) -> Mapping[str, float]:
    """Milliseconds of one small write that is on the disk."""
    taken = []
    with (folder / "fsync").open("wb") as file:
        for _ in range(count):
            began = perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fdatasync(file.fileno())
            taken.append(1_000 * (perf_counter() - began))
    return _meters.quantiles(taken)


async def measure(arguments: argparse.Namespace) -> Mapping[str, object]:
    found: dict[str, Any] = {}
    levels = [int(one) for one in arguments.levels.split(",")]
    for depth in levels:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            found.setdefault("fsync_ms", fsync(folder))
            with tree(folder, depth, arguments.hosts) as zones:
                side = await zone_side("root", zones[0].data)
                row: dict[str, Any] = {"one by one": await one_by_one(side, zones, arguments.single)}
                for clients in CLIENTS:
                    row[f"{clients} clients"] = await together(side, zones, clients, arguments.count)
                if depth == max(levels) and arguments.servers:
                    row["in bulk"] = await fill(side, zones, arguments.servers)
                    row["lists"] = await lists(side, zones, "bulk")
                side.close()
                found[f"{depth} levels"] = row
    return {**found, "load_after": round(os.getloadavg()[0], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--single", type=int, default=300, help="creates one after the other (%(default)s)")
    parser.add_argument("--count", type=int, default=4_000, help="creates of each number of clients (%(default)s)")
    parser.add_argument("--servers", type=int, default=100_000, help="made in bulk before the lists (%(default)s)")
    parser.add_argument("--hosts", type=int, default=10_000, help="simulated hosts (%(default)s)")
    parser.add_argument("--levels", default="1,2,3", help="trees of so many levels (%(default)s)")
    arguments = parser.parse_args()
    leave_nothing()
    _meters.tell(asyncio.run(measure(arguments)))


if __name__ == "__main__":
    main()
