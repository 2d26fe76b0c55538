"""How long a zone's event loop is held: while 100 children join, and while racks of 10,000 and 1,000 hosts are read.

Each is `banyan serve` in a process of its own, watched from inside (bench/_watched.py): a hold is a time in which no
other task of the loop ran, less what other processes took of the machine meanwhile. A heartbeat is late by so much.
Three cases: a parent that 100 children join at once (bench/_hosting.py); a zone that scans 10,000 simulated hosts,
first into an empty store, then again; a zone that scans an OpenStack cloud of 1,000 hypervisors and 10,000 servers, as
the tests' stand-in answers for it, twice. `where` names the code in which the loop was when it was held too long.
Arguments: guests on the simulated hosts (60,000 without), cases (all).

    python -m bench.holds 600000 joins sim openstack
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from bench._meters import cpu_of, more_files, tell
from bench._zones import Asking, leave_nothing
from bench.children import PROCESSES, Hosting, wait_ready
from tests.unit.drivers.openstack.standin import StandIn
from tests.wire.zones.processes import PATIENCE, Cloud, Zone, surroundings

JOINING = 100
SIM_HOSTS = 10_000
HYPERVISORS = 1_000
SERVERS = 10_000
WANTED = 10.0  # ms


@dataclass
class Watched(Zone):
    """A zone whose loop is watched."""

    @property
    def out(self) -> Path:
        return self.folder / f"{self.name}.holds"

    def spawn(self) -> Watched:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bench._watched", str(self.out), *self.serve_arguments()],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=surroundings(),
                start_new_session=True,
            )
        return self

    def holds(self, begun: float) -> dict[str, object]:
        """Of the time from `begun` on: how many were longer than wanted, the longest, and where those were."""
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        found = [line for line in lines if line["at"] >= begun]
        held = sorted((min(line["wall_ms"], line["cpu_ms"]), line["where"]) for line in found)
        where: Counter[str] = Counter()
        for ms, stacks in held:
            if ms > WANTED:
                where.update({(stacks or ["not seen"])[0]: 1})
        return {
            "longest_ms": round(held[-1][0], 1) if held else 0.0,
            "over_10_ms": sum(ms > WANTED for ms, _ in held),
            "longest_late_ms": round(max((line["wall_ms"] for line in found), default=0.0), 1),
            "where": dict(where.most_common(6)),
        }


def watched(stack: ExitStack, name: str, settings: str) -> Watched:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="banyan-bench-")))
    cloud = stack.enter_context(Cloud(folder, loaded=False))
    zone = Watched(name, folder, settings=settings, loaded=False)
    cloud.zones.append(zone)
    zone.start()
    return zone


def joins() -> dict[str, object]:
    with ExitStack() as stack:
        top = watched(stack, "top", '[log]\nlevel = "warning"\n')
        code_file = top.folder / "herd.code"
        code_file.write_text(top.code("--uses", str(JOINING)))
        asking = stack.enter_context(Asking(top.data))
        each = JOINING // PROCESSES
        hostings = [Hosting(top.folder / "children", code_file, n * each, each, each) for n in range(PROCESSES)]
        for hosting in hostings:
            stack.callback(hosting.kill)
        for hosting in hostings:
            hosting.heard()
        begun = time.time()
        for hosting in hostings:
            hosting.go()
        wait_ready(top, asking, JOINING)
        time.sleep(2.0)
        return {"children": JOINING, "joining": top.holds(begun)}


def scanned(zone: Zone, times: int, patience: float) -> None:
    """Returns when the rack was read so often."""
    text = f'banyan_scans_total{{rack="rack"}} {times}'
    zone.wait_until(lambda: text in zone.metrics().splitlines(), f"to scan {times} times", patience)


def twice(zone: Watched, patience: float) -> dict[str, object]:
    """A first scan, and a second one that finds the same."""
    assert zone.process is not None
    scanned(zone, 1, patience)
    first, begun, cpu = zone.holds(0.0), time.time(), cpu_of(zone.process.pid)
    time.sleep(1.0)
    scanned(zone, 2, patience)
    time.sleep(0.5)
    return {"first_scan": first, "next_scan": zone.holds(begun), "next_scan_cpu_s": cpu_of(zone.process.pid) - cpu}


def sim(guests: int) -> dict[str, object]:
    with ExitStack() as stack:
        rack = f'[[rack]]\nname = "rack"\ndriver = "sim"\n\n[rack.options]\nhosts = {SIM_HOSTS}\nguests = {guests}\n'
        zone = watched(stack, "bottom", f'[log]\nlevel = "warning"\n\n[scan]\ninterval = 5\n\n{rack}')
        return {"hosts": SIM_HOSTS, "guests": guests, **twice(zone, 600.0)}


def stand_in(pipe: Connection, folder: str) -> None:
    """In a process of its own: a cloud, until the pipe ends."""
    cloud = StandIn()
    cloud.add_rest()
    for number in range(HYPERVISORS):
        cloud.add_host(number).used = {"VCPU": number % 64, "MEMORY_MB": number % 64 * 2_048}
    for number in range(SERVERS):
        cloud.add_server(number, f"c{number % HYPERVISORS:04d}")
    pipe.send(str(cloud.clouds_yaml(Path(folder))))
    pipe.recv()


def openstack() -> dict[str, object]:
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="banyan-bench-"))
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=stand_in, args=(theirs, folder), daemon=True)
        process.start()
        stack.callback(process.kill)
        if not ours.poll(PATIENCE):
            raise SystemExit("the stand-in cloud did not come up")
        options = f'[rack.options]\ncloud = "standin"\nclouds_file = "{ours.recv()}"\n'
        rack = f'[[rack]]\nname = "rack"\ndriver = "openstack"\n\n{options}'
        zone = watched(stack, "bottom", f'[log]\nlevel = "warning"\n\n[scan]\ninterval = 5\n\n{rack}')
        return {"hypervisors": HYPERVISORS, "servers": SERVERS, **twice(zone, 120.0)}


def main(arguments: Sequence[str]) -> None:
    leave_nothing()
    guests = int(arguments[0]) if arguments else 60_000
    wanted = arguments[1:] or ("joins", "sim", "openstack")
    more_files(4_000)
    found: dict[str, object] = {}
    for case in wanted:
        match case:
            case "joins":
                found["joins"] = joins()
            case "sim":
                found["sim"] = sim(guests)
            case "openstack":
                found["openstack"] = openstack()
            case _:
                raise SystemExit(f"cases are joins, sim and openstack, not {case}")
    tell(found)


if __name__ == "__main__":
    main(sys.argv[1:])
