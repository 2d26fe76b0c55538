"""One scan of a simulated rack of 10,000 hosts and 600,000 guests: CPU, memory, and how long the loop is held.

`longest_turn_ms` is the longest time in which no other task of the loop ran, less what other processes took of the
machine: what a heartbeat would be late. (bench.holds measures the same in a whole zone, with its store.) Run:
python -m bench.simscan
"""

from __future__ import annotations

import asyncio
import json
import resource
from time import perf_counter, process_time

from banyan.core.rack import GuestBatch, HostBatch
from banyan.drivers.contract import LoopClock, SeededIds
from banyan.drivers.registry import DriverContext
from banyan.drivers.sim import REGISTRATION

HOSTS = 10_000
GUESTS = 600_000


async def measure() -> dict[str, float]:
    driver = REGISTRATION.open(
        {"hosts": HOSTS, "guests": GUESTS, "churn": 10.0}, DriverContext("bench", LoopClock(), SeededIds())
    )
    turns: list[float] = []
    done = False

    async def heartbeat() -> None:
        clock, before, used = LoopClock(), perf_counter(), process_time()
        while not done:
            await clock.sleep_until(clock.now())
            now, spent = perf_counter(), process_time()
            turns.append(min(now - before, spent - used))
            before, used = now, spent

    beating = asyncio.ensure_future(heartbeat())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    hosts = guests = batches = 0
    began = process_time()
    async for item in driver.scan():
        batches += 1
        if isinstance(item, HostBatch):
            hosts += len(item.hosts)
        elif isinstance(item, GuestBatch):
            guests += len(item.guests)
    taken = process_time() - began
    done = True
    await beating
    turns.sort()
    return {
        "hosts": hosts,
        "guests": guests,
        "batches": batches,
        "cpu_s": round(taken, 2),
        "memory_growth_mib": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024, 1),
        "longest_turn_ms": round(turns[-1] * 1000, 2),
        "p99_turn_ms": round(turns[int(len(turns) * 0.99)] * 1000, 2),
    }


def main() -> None:
    print(json.dumps(asyncio.run(measure()), indent=2))


if __name__ == "__main__":
    main()
