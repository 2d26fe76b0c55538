"""From a change in a bottom to the totals above it, one, two and three levels up, over real processes.

A chain of four zones, each a process of its own: top, north, lab, and below them `bottom` with 100 simulated hosts. A
guest appears in the bottom at instants that its script knows; four threads ask the four zones for their usage
every 10 ms from then on, until it shows. (A zone at depth 1 is lab, as much as a top of its own would be.) Reported are
seconds from the change itself, which wait for the next scan most of the time, and from when the bottom's own total had
it, which is the link's and the zones' part. Arguments: how many changes (20 without), seconds between scans (1).

    python -m bench.delay 190 1
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

from bench._meters import cpu_of, quantiles, tell
from bench._zones import Asking, Fills, guests_of, leave_nothing
from tests.wire.zones.processes import Cloud, Zone

HOSTS = 100
GUESTS = 1_000
FIRST = 45.0  # seconds until the chain stands
LOOK = 0.01
NAMES = ("bottom", "lab", "north", "top")


class Watcher(threading.Thread):
    """Asks one zone. `seen[k]`: when its total had change k, seconds since 1970."""

    def __init__(self, zone: Zone, made: float, fills: Fills, patience: float) -> None:
        super().__init__(name=f"watch {zone.name}")
        self.seen: list[float] = []
        self._zone = zone
        self._made = made
        self._fills = fills
        self._patience = patience

    def run(self) -> None:
        with Asking(self._zone.data) as asking:
            for at, count in zip(self._fills.at, self._fills.counts, strict=True):
                change = self._made + at
                time.sleep(max(0.0, change - time.time()))
                while guests_of(asking.usage()) < count:
                    if time.time() > change + self._patience:
                        return
                    time.sleep(LOOK)
                self.seen.append(time.time())


def chain(cloud: Cloud, bottom: str) -> list[Zone]:
    """The zones, the bottom first."""
    zones = [cloud.zone("top", "--log-level", "warning").start()]
    for name in ("north", "lab"):
        zones.append(cloud.zone(name, "--log-level", "warning", code=zones[-1].code()).start())
    zones.append(cloud.zone("bottom", code=zones[-1].code(), settings=bottom).start())
    return zones[::-1]


def instants(count: int, interval: float) -> Sequence[float]:
    """Seconds after the start: far enough apart that a scan lies between, at no fixed phase to it."""
    random = Random(2)
    found, at = [], FIRST
    for _ in range(count):
        found.append(at)
        at += interval * random.uniform(1.6, 2.6) + 0.5
    return found


def main() -> None:
    leave_nothing()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    interval = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    fills = Fills(HOSTS, GUESTS, instants(count, interval), [GUESTS + n for n in range(1, count + 1)])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="banyan-bench-")))
        since = time.time()
        zones = chain(stack.enter_context(Cloud(folder, loaded=False)), fills.settings(interval))
        with Asking(zones[-1].data) as top, Asking(zones[0].data) as bottom:
            zones[-1].wait_until(lambda: guests_of(top.usage()) == GUESTS, "to count the bottom's guests")
            made = fills.made(bottom, since)
        if time.time() > made + FIRST:
            raise SystemExit(f"the chain was not ready after {FIRST:g} s; the machine is too busy to measure")
        cpu = [cpu_of(zone.process.pid) for zone in zones if zone.process is not None]
        began = time.monotonic()
        watchers = [Watcher(zone, made, fills, 3 * interval + 30) for zone in zones]
        for watcher in watchers:
            watcher.start()
        for watcher in watchers:
            watcher.join()
        seconds = time.monotonic() - began
        cpu = [cpu_of(zone.process.pid) - before for zone, before in zip(zones, cpu, strict=True) if zone.process]
    missing = [w.name for w in watchers if len(w.seen) < count]
    if missing:
        raise SystemExit(f"changes were never seen: {', '.join(missing)}")
    changed = [made + at for at in fills.at]
    found: dict[str, object] = {"changes": count, "scan_interval_s": interval, "asked_every_ms": LOOK * 1000}
    for depth, watcher in enumerate(watchers):
        took = [seen - at for seen, at in zip(watcher.seen, changed, strict=True)]
        found["in_bottoms_own_total_s" if depth == 0 else f"depth_{depth}_s"] = quantiles(took)
        if depth:
            hops = [seen - own for seen, own in zip(watcher.seen, watchers[0].seen, strict=True)]
            found[f"depth_{depth}_after_bottoms_own_total_s"] = quantiles(hops)
    found["core_share_while_asked"] = {n: round(c / seconds, 3) for n, c in zip(NAMES, cpu, strict=True)}
    tell(found)


if __name__ == "__main__":
    main()
