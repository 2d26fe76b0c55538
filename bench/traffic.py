"""Bytes between a parent and a child of 1,000 hosts and 10,000 guests: when idle, and for each guest that changes.

Both are `banyan serve`, processes of their own; bytes are the kernel's own count of their one connection, both ways:
TCP payload, TLS included, and beside it with the headers of IPv4 and TCP.

Idle is at the default settings, where a scan each minute finds nothing new, and a heartbeat goes each 6 seconds or so.
Changes are looked for each second: first nothing changes for a while, then guests appear one by one (`scans_meanwhile`
says how many scans found them), then 1,000 at once; what each cost is what went beyond the same time without a change.
Arguments: seconds of idleness (120 without), changes one by one (20).

    python -m bench.traffic 600 150
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench._meters import Traffic, memory_of, tell, traffic_of
from bench._zones import Asking, Fills, guests_of, leave_nothing
from tests.wire.zones.processes import Cloud, Zone

HOSTS = 1_000
GUESTS = 10_000
BULK = 1_000
SCAN = 60.0  # serve/config.py, scan.interval
OFTEN = 1.0
APART = 2.5  # seconds between two changes: a scan of so many hosts, and the pause after it, on a busy machine
START = 30.0
QUIET = 60.0
TAIL = 15.0


def pair(stack: ExitStack, fills: Fills, interval: float) -> tuple[Zone, Zone]:
    """A parent, and the child when its guests are in the parent's totals."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="banyan-bench-")))
    cloud = stack.enter_context(Cloud(folder, loaded=False))
    top = cloud.zone("top", "--log-level", "warning").start()
    child = cloud.zone("child", code=top.code(), settings=fills.settings(interval)).start()
    with Asking(top.data) as asking:
        top.wait_until(lambda: guests_of(asking.usage()) >= GUESTS, "to count the child's guests")
    return top, child


def over(top: Zone, seconds: float) -> Traffic:
    """What goes in so many seconds from now on."""
    before = traffic_of(top.link)
    time.sleep(seconds)
    return whole(traffic_of(top.link).since(before))


def whole(went: Traffic) -> Traffic:
    """Raises SystemExit if the one session was opened anew meanwhile."""
    if len(went) != 1:
        raise SystemExit("the session was opened anew while its bytes were counted; measure again")
    return went


def idle(seconds: float) -> dict[str, object]:
    with ExitStack() as stack:
        top, child = pair(stack, Fills(HOSTS, GUESTS, (), ()), SCAN)
        time.sleep(START)
        went = over(top, seconds)
        memory = {z.name: round(memory_of(z.process.pid), 1) for z in (top, child) if z.process is not None}
    hour = 3600 / seconds / 1024
    return {
        "idle_s": seconds,
        "idle_payload_kib_per_hour": round(went.payload * hour, 1),
        "idle_on_wire_kib_per_hour": round(went.on_wire * hour, 1),
        "idle_mib": memory,
    }


def changes(count: int) -> dict[str, object]:
    begin = START + QUIET
    singles = [begin + n * APART for n in range(count)]
    bulk = begin + count * APART + TAIL
    counts = [*range(GUESTS + 1, GUESTS + 1 + count), GUESTS + count + BULK]
    fills = Fills(HOSTS, GUESTS, [*singles, bulk], counts)
    with ExitStack() as stack:
        since = time.time()
        top, child = pair(stack, fills, OFTEN)
        with Asking(child.data) as below, Asking(top.data) as above:
            made = fills.made(below, since)

            def until(at: float) -> None:
                left = made + at - time.time()
                if left < 0:
                    raise SystemExit(f"{-left:.1f} s late: the machine is too busy to measure")
                time.sleep(left)

            until(START)
            quiet = over(top, QUIET - 1)
            until(begin - 0.5)
            before, scans = traffic_of(top.link), _scans(child)
            until(bulk - 0.5)
            one_by_one, scans = whole(traffic_of(top.link).since(before)), _scans(child) - scans
            if guests_of(above.usage()) != GUESTS + count:
                raise SystemExit("the top has not counted them all")
            at_once = over(top, TAIL)
            if guests_of(above.usage()) != GUESTS + count + BULK:
                raise SystemExit("the top has not counted the bulk")
    payload, on_wire = quiet.payload / (QUIET - 1), quiet.on_wire / (QUIET - 1)
    took = count * APART + TAIL
    return {
        "changes_one_by_one": count,
        "scans_meanwhile": scans,
        "payload_bytes_per_second_without_a_change": round(payload, 1),
        "payload_bytes_per_changed_guest": round((one_by_one.payload - payload * took) / count, 1),
        "on_wire_bytes_per_changed_guest": round((one_by_one.on_wire - on_wire * took) / count, 1),
        "changed_at_once": BULK,
        "payload_bytes_for_all_at_once": round(at_once.payload - payload * TAIL),
        "payload_bytes_per_guest_at_once": round((at_once.payload - payload * TAIL) / BULK, 2),
    }


def _scans(zone: Zone) -> int:
    lines = [line for line in zone.metrics().splitlines() if line.startswith("banyan_scans_total{")]
    return round(sum(float(line.rpartition(" ")[2]) for line in lines))


def main() -> None:
    leave_nothing()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    tell({"hosts": HOSTS, "guests": GUESTS, **idle(seconds), **changes(count)})


if __name__ == "__main__":
    main()
