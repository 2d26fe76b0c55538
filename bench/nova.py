"""Servers by the Compute API of a real Nova and of a zone, in one run: time to 202 and to ACTIVE, rates, lists.

The same requests from the same client. Nova is the lab's cloud `east` with its fake hosts, at 1, 2 and 4 API workers
(each service in as many processes); the zone is one process with as many simulated hosts, which build at once, and once
more a root above two levels. Nova is asked over plain HTTP with a connection for each request, since its server hangs
up without saying so; the zone over TLS with connections that stay. Turns alternate, so that whatever else the machine
does falls on both. What stands for each side is its median of the rounds, for Nova the best of its numbers of workers.
Run: python -m bench.nova [--rounds 2] [--total 120] [--workers 1,2,4]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

from banyan.cli.load import Connection
from bench import _meters
from bench._compute import Side, zone_side
from bench._zones import leave_nothing
from tests.live.clouds import Lab
from tests.wire.zones.processes import Cloud

SEQUENTIAL, BULK, REPEATS = 15, 50, 15
PASSWORD = "fleetlab"
PLACE = 'mode = "place"'
# What each round finds, and whether more is better.
RATES = ("accepted_per_s", "active_per_s")
TIMES = ("to_202_ms", "to_202_of_8_ms", "to_active_ms", "bulk_50_to_202_ms", "bulk_50_active_s", "list_100_ms",
         "detail_100_ms")  # fmt: skip


async def sequence(side: Side) -> dict[str, float]:
    """One client, one server after the other."""
    accepted, active = [], []
    for n in range(SEQUENTIAL):
        began = perf_counter()
        id = (await side.ask("POST", "/servers", side.wish(f"seq-{n}")))["server"]["id"]
        accepted.append(perf_counter() - began)
        while (status := (await side.ask("GET", f"/servers/{id}"))["server"]["status"]) == "BUILD":
            await asyncio.sleep(0.01)
        if status != "ACTIVE":
            raise SystemExit(f"{side.name}: a server went to {status}")
        active.append(perf_counter() - began)
    return {"to_202_ms": 1000 * median(accepted), "to_active_ms": 1000 * median(active)}


async def together(side: Side, total: int) -> dict[str, float]:
    """Eight clients at a time."""
    left, taken = iter(range(total)), list[float]()

    async def client(line: int) -> None:
        for n in left:
            began = perf_counter()
            await side.ask("POST", "/servers", side.wish(f"par-{n}"), line)
            taken.append(perf_counter() - began)

    began = perf_counter()
    await asyncio.gather(*(client(line) for line in range(len(side.lines))))
    accepted = perf_counter() - began
    await side.settled()
    active = perf_counter() - began
    return {
        "to_202_of_8_ms": 1000 * median(taken),
        "accepted_per_s": total / accepted,
        "active_per_s": total / active,
    }


async def bulk(side: Side) -> dict[str, float]:
    """Fifty in one request."""
    began = perf_counter()
    await side.ask("POST", "/servers", side.wish("bulk", BULK))
    accepted = perf_counter() - began
    await side.settled()
    return {"bulk_50_to_202_ms": 1000 * accepted, "bulk_50_active_s": perf_counter() - began}


async def lists(side: Side) -> dict[str, float]:
    found = {}
    for name, path in (("list_100_ms", "/servers?limit=100"), ("detail_100_ms", "/servers/detail?limit=100")):
        taken = []
        for _ in range(REPEATS):
            began = perf_counter()
            page = await side.ask("GET", path)
            taken.append(perf_counter() - began)
            if len(page["servers"]) != 100:
                raise SystemExit(f"{side.name}: {len(page['servers'])} servers where 100 were to be listed")
        found[name] = 1000 * median(taken)
    return found


async def empty(side: Side) -> None:
    while ids := [row["id"] for row in (await side.ask("GET", "/servers?limit=1000"))["servers"]]:
        left = iter(ids)

        async def client(line: int, left: Iterator[str] = left) -> None:
            for id in left:
                await side.ask("DELETE", f"/servers/{id}", None, line)

        await asyncio.gather(*(client(line) for line in range(len(side.lines))))
        await asyncio.sleep(0.5)


async def turn(side: Side, total: int) -> dict[str, float]:
    side.connect()
    try:
        await empty(side)
        found = await sequence(side) | await together(side, total) | await bulk(side) | await lists(side)
        await empty(side)
    finally:
        side.close()
    return found


# --- the sides ------------------------------------------------------------------------------------


async def nova_side(port: int, workers: int) -> Side:
    root = f"http://127.0.0.1:{port}"
    user = {"name": "fleet", "domain": {"name": "Default"}, "password": PASSWORD}
    scope = {"project": {"name": "fleet", "domain": {"name": "Default"}}}
    auth = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
    line = Connection(root, headers={"Connection": "close"})
    token = (await line.ask("POST", "/v3/auth/tokens", json.dumps(auth).encode())).headers["x-subject-token"]
    line.close()
    head = {"X-Auth-Token": token, "Connection": "close"}
    images = json.loads((await Connection(f"http://127.0.0.1:{port + 3}", headers=head).ask("GET", "/v2/images")).body)
    nova = f"http://127.0.0.1:{port + 2}"
    flavors = json.loads((await Connection(nova, headers=head).ask("GET", "/v2.1/flavors")).body)["flavors"]
    flavor = next(row["id"] for row in flavors if row["name"] == "tiny")
    return Side(f"nova, {workers} workers", nova, "/v2.1", token, images["images"][0]["id"], flavor, kept=False)


@asynccontextmanager
async def zones(folder: Path, hosts: int) -> AsyncIterator[Sequence[Side]]:
    """A zone with hosts of its own, and a root whose hosts lie two levels down."""
    rack = ("--driver", "sim", "--hosts", str(hosts), "--option", "build_seconds=0")
    with Cloud(folder) as cloud:
        alone = cloud.zone("alone", *rack).start()
        root = cloud.zone("root").start()
        above = root
        for name, options in (("middle", ()), ("leaf", rack)):
            below = cloud.zone(name, *options, settings=f"[zone]\n{PLACE}\n", code=above.code()).start()
            above.wait_for_zone(f"{'root/middle' if name == 'leaf' else 'root'}/{name}", state="ready")
            above = below
        alone.wait_until(lambda: alone.usage()["hosts"]["total"] == hosts, "to count its hosts")
        root.wait_until(lambda: root.usage()["hosts"]["total"] == hosts, "to count the hosts below")
        yield [await zone_side("zone", alone.data), await zone_side("zone, two levels above its hosts", root.data)]


def with_workers(lab: Lab, cloud: str, workers: int) -> None:
    settings = json.loads((lab.folder / "clouds" / cloud / "cloud.json").read_text())
    lab.call(
        "up", "--name", cloud, "--port-base", str(settings["port_base"]), "--computes", str(settings["computes"]),
        "--workers", str(workers), timeout=600,
    )  # fmt: skip


async def measure(arguments: argparse.Namespace) -> dict[str, object]:
    lab = Lab()
    path = lab.folder / "clouds" / arguments.cloud / "cloud.json"
    if not (lab.running() and path.exists()):
        lab.up(sys.stderr)
    settings = json.loads(path.read_text())
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with zones(Path(folder), int(settings["computes"])) as ours:
            for workers in (int(one) for one in arguments.workers.split(",")):
                await asyncio.to_thread(with_workers, lab, arguments.cloud, workers)
                theirs = await nova_side(int(settings["port_base"]), workers)
                for n in range(arguments.rounds):
                    for side in (theirs, *ours) if n % 2 == 0 else (*ours, theirs):
                        found.setdefault(side.name, []).append(one := await turn(side, arguments.total))
                        said = ", ".join(f"{figure} {value:.1f}" for figure, value in one.items())
                        print(f"{side.name}, round {n + 1}: {said}", file=sys.stderr, flush=True)
    return {"hosts": settings["computes"], "total": arguments.total, "load_after": os.getloadavg()[0], **judged(found)}


def judged(found: dict[str, list[dict[str, float]]]) -> dict[str, object]:
    """Each side's median of its rounds, and how many times as good each of ours is as Nova at its best."""
    sides = {
        name: {figure: round(median(one[figure] for one in rounds), 2) for figure in (*RATES, *TIMES)}
        for name, rounds in found.items()
    }
    best = {
        figure: (max if figure in RATES else min)(one[figure] for name, one in sides.items() if name.startswith("nova"))
        for figure in (*RATES, *TIMES)
    }
    ratios = {
        name: {
            figure: round(one[figure] / best[figure] if figure in RATES else best[figure] / one[figure], 2)
            for figure in (*RATES, *TIMES)
        }
        for name, one in sides.items()
        if not name.startswith("nova")
    }
    return {"rounds": {name: len(rounds) for name, rounds in found.items()}, "sides": sides, "times_as_good": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cloud", default="east", help="a cloud of the lab (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="of each number of workers (%(default)s)")
    parser.add_argument("--total", type=int, default=120, help="servers by eight clients (%(default)s)")
    parser.add_argument("--workers", default="1,2,4", help="of Nova's services (%(default)s)")
    arguments = parser.parse_args()
    leave_nothing()
    _meters.tell(asyncio.run(measure(arguments)))


if __name__ == "__main__":
    main()
