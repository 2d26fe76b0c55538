"""What one create costs, and where: CPU in each process, of its loop and of its other threads; times on the clock.

A chain of zones, each a process of its own; the lowest has simulated hosts that build at once. Servers are ordered at
the top with `banyan bench create`, by 1, 8 and 64 clients, and stay. What a zone does by itself meanwhile is in it: on
a machine that is busy with other work, where creates take longer, there is more of that. Run:

    python -m bench.creates [--levels 1] [--count 2000] [--rounds 3] [--hosts 5000]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench._meters import TICKS, cpu_of, tell
from bench._zones import leave_nothing
from tests.wire.zones.processes import Cloud, Zone

NAMES = ("top", "middle", "leaf")
CLIENTS = (1, 8, 64)
PATIENCE = 120.0  # seconds until the chain stands
BANYAN = str(Path(sys.executable).parent / "banyan")


def settings(hosts: int) -> str:
    return (
        f'[[rack]]\nname = "sim"\ndriver = "sim"\n\n[rack.options]\nhosts = {hosts}\nbuild_seconds = 0.0\n\n'
        '[[rack.options.classes]]\nname = "large"\nvcpu = 1024\nmemory_mib = 4194304\ndisk_gib = 100000\n'
    )


def chain(cloud: Cloud, levels: int, hosts: int) -> list[Zone]:
    """The zones, the top first."""
    zones: list[Zone] = []
    for depth in range(levels):
        code = zones[-1].code() if zones else None
        rack = settings(hosts) if depth == levels - 1 else ""
        zone = cloud.zone(NAMES[depth], "--log-level", "error", code=code, settings=f'[zone]\nmode = "place"\n\n{rack}')
        zones.append(zone.start())
    return zones


def spent(zone: Zone) -> tuple[float, float]:
    """CPU seconds of a zone's process, and of its first thread, which runs its loop."""
    assert zone.process is not None
    pid = zone.process.pid
    fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    return cpu_of(pid), (int(fields[11]) + int(fields[12])) / TICKS


def order(data: Path, clients: int, count: int) -> Any:
    """What `banyan bench create` found."""
    sizes = ["--clients", str(clients), "--count", str(count), "--keep", "--json"]
    command = [BANYAN, "bench", "create", "--data", str(data), *sizes]
    return json.loads(subprocess.run(command, check=False, capture_output=True, text=True).stdout or "{}")


def measure(zones: Sequence[Zone], clients: int, count: int) -> dict[str, float]:
    before = [spent(zone) for zone in zones]
    found = order(zones[0].data, clients, count)
    if found.get("accepted") != count:
        raise SystemExit(f"not all were accepted: {found}")
    after = [spent(zone) for zone in zones]
    row: dict[str, float] = {}
    for zone, (cpu, loop), (cpu_then, loop_then) in zip(zones, before, after, strict=True):
        row[f"{zone.name}_loop_us"] = (loop_then - loop) / count * 1e6
        row[f"{zone.name}_threads_us"] = (cpu_then - cpu - loop_then + loop) / count * 1e6
    row["client_us"] = found["client_cpu"] / count * 1e6
    row["per_second"] = found["accepted_per_second"]
    row |= {f"{name}_ms": found["latency_ms"][name] for name in ("p50", "p99")}
    return row


def main() -> None:
    leave_nothing()
    parser = argparse.ArgumentParser(prog="python -m bench.creates")
    parser.add_argument("--levels", type=int, choices=(1, 2, 3), default=1)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hosts", type=int, default=5_000)
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="banyan-bench-")))
        zones = chain(stack.enter_context(Cloud(folder, loaded=False)), given.levels, given.hosts)
        until = time.monotonic() + PATIENCE
        while (first := order(zones[0].data, 8, 100)).get("accepted") != 100:
            # Not joined yet, or not scanned.
            if time.monotonic() > until:
                raise SystemExit(f"the zones took no orders in {PATIENCE:g} s: {first}")
            time.sleep(0.5)
        found = {}
        for clients in CLIENTS:
            count = given.count if clients > 1 else given.count // 4
            rows = [measure(zones, clients, count) for _ in range(given.rounds)]
            medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
            found[f"{clients} clients"] = {name: round(value, 1) for name, value in medians.items()}
        tell({"levels": given.levels, "found": found})


if __name__ == "__main__":
    main()
