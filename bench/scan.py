"""What a scan costs a real cloud: requests, CPU seconds by service, and its users' latency with and without it.

Uses the lab's cloud `east` (docs/drivers/openstack.md), and starts it if it does not run. CPU is what the processes of
each service used, less what they use idle in the same time. Latency is of one user who lists servers and flavors
and shows the limits, in turns without a scan, with scans at the default pace, and with scans that never pause; the
turns alternate, so that whatever else the machine does falls on all. Run: python -m bench.scan [--seconds 20]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from time import monotonic, perf_counter, process_time, sleep

from banyan.core.rack import GuestBatch, HostBatch, Scan
from banyan.drivers.openstack import REGISTRATION
from banyan.drivers.registry import DriverContext
from banyan.serve.clock import SystemClock, SystemIds
from tests.live.clouds import Lab, LiveCloud

ROUNDS = 3
INTERVAL = 60.0  # serve/config.py: scan.interval
TICKS = os.sysconf("SC_CLK_TCK")


def cpu(lab: Lab, cloud: str) -> dict[str, float]:
    """CPU seconds that each service of the cloud has used so far; `mariadb` is shared with other clouds."""
    sessions: dict[int, float] = {}
    alone: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        used = (int(fields[11]) + int(fields[12])) / TICKS
        alone[int(stat.parent.name)] = used
        sessions[int(fields[3])] = sessions.get(int(fields[3]), 0.0) + used
    root = lab.folder / "clouds" / cloud
    found = {
        path.stem: sessions.get(_pid(path), 0.0)
        for folder in (root / "pids", lab.folder / "infra" / "pids")
        for path in folder.glob("*.pid")
    }
    found["computes"] = sum(alone.get(_pid(path), 0.0) for path in (root / "computes" / "pids").iterdir())
    return found


def _pid(path: Path) -> int:
    return int(path.read_text().split()[0])


def spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: after.get(name, 0.0) - value for name, value in before.items()}


class Scans:
    """Scans one after the other on a thread of their own, `pause` seconds from one's start to the next."""

    def __init__(self, cloud: LiveCloud, pace: float, pause: float) -> None:
        self.count = 0
        self.requests = 0
        self.hosts = 0
        self.guests = 0
        self.cpu = 0.0
        self._cloud = cloud
        self._pace = pace
        self._pause = pause
        self._end = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()), daemon=True)

    def __enter__(self) -> Scans:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(120)

    async def _work(self) -> None:
        driver = REGISTRATION.open(
            {"cloud": self._cloud.admin, "clouds_file": str(self._cloud.clouds_file)},
            DriverContext("bench", SystemClock(), SystemIds(), requests_per_second=self._pace),
        )
        while not self._end.is_set():
            began = monotonic()
            self.hosts = self.guests = 0
            async for item in driver.scan():
                match item:
                    case HostBatch():
                        self.hosts += len(item.hosts)
                    case GuestBatch():
                        self.guests += len(item.guests)
                    case Scan():
                        self.requests += item.requests
            self.count += 1
            await asyncio.to_thread(self._end.wait, max(0.0, began + self._pause - monotonic()))
        await driver.close()


class User:
    """One user of the cloud, with a token; `work` asks a few things and says how long each took (milliseconds)."""

    def __init__(self, port: int) -> None:
        password = {"user": {"name": "fleet", "domain": {"name": "Default"}, "password": "fleetlab"}}
        scope = {"project": {"name": "fleet", "domain": {"name": "Default"}}}
        body = {"auth": {"identity": {"methods": ["password"], "password": password}, "scope": scope}}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v3/auth/tokens", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            self._token = str(reply.headers["X-Subject-Token"])
        self._base = f"http://127.0.0.1:{port + 2}/v2.1"

    def work(self, seconds: float) -> list[float]:
        taken = []
        end = monotonic() + seconds
        while monotonic() < end:
            for path in ("/servers/detail", "/flavors/detail", "/limits"):
                request = urllib.request.Request(self._base + path, headers={"X-Auth-Token": self._token})
                began = perf_counter()
                with urllib.request.urlopen(request, timeout=60) as reply:
                    reply.read()
                taken.append((perf_counter() - began) * 1000)
            sleep(0.05)
        return taken


def costs(lab: Lab, cloud: LiveCloud, seconds: float) -> None:
    """CPU of `seconds` of scans without a pause, less as long a time of idleness."""
    before = cpu(lab, cloud.lab)
    sleep(seconds)
    idle = spent(before, cpu(lab, cloud.lab))
    with Scans(cloud, 1_000.0, 0.0) as warm:
        while warm.count < 2:
            sleep(0.1)
    before, own, began = cpu(lab, cloud.lab), process_time(), monotonic()
    with Scans(cloud, 1_000.0, 0.0) as scans:
        sleep(seconds)
    took = monotonic() - began
    busy, own = spent(before, cpu(lab, cloud.lab)), process_time() - own
    print(f"{scans.hosts} hosts, {scans.guests} servers; {scans.count} scans in {took:.1f} s")
    print(f"requests for each scan: {scans.requests / scans.count:.1f}")
    total = 0.0
    for name in sorted(busy):
        each = (busy[name] - idle[name] * took / seconds) / scans.count
        total += each
        print(f"  {name:16} {each * 1000:8.1f} ms of CPU for each scan (idle: {idle[name] / seconds * 1000:.1f} ms/s)")
    print(
        f"  {'in all':16} {total * 1000:8.1f} ms of CPU for each scan; ours beside it {own / scans.count * 1000:.1f} ms"
    )
    print(f"  at one scan in {INTERVAL:g} s: {total / INTERVAL * 100:.2f} % of one core")


def latency(cloud: LiveCloud, port: int, seconds: float) -> None:
    user = User(port)
    user.work(2.0)
    modes: dict[str, Callable[[], list[float]]] = {
        "without a scan": lambda: user.work(seconds),
        "scans at the default pace (10 requests/s, no pause between scans)": lambda: _beside(
            cloud, 10.0, user, seconds
        ),
        "scans as fast as they go": lambda: _beside(cloud, 1_000.0, user, seconds),
    }
    taken: dict[str, list[float]] = {mode: [] for mode in modes}
    for _ in range(ROUNDS):
        for mode, run in modes.items():
            taken[mode] += run()
    for mode, all_taken in taken.items():
        cuts = statistics.quantiles(all_taken, n=100)
        print(
            f"  {mode}: median {cuts[49]:.1f} ms, p95 {cuts[94]:.1f} ms, p99 {cuts[98]:.1f} ms ({len(all_taken)} calls)"
        )


def _beside(cloud: LiveCloud, pace: float, user: User, seconds: float) -> list[float]:
    with Scans(cloud, pace, 0.0):
        return user.work(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cloud", default="east", help="a cloud of the lab (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each turn (%(default)s)")
    arguments = parser.parse_args()
    lab = Lab()
    settings = lab.folder / "clouds" / arguments.cloud / "cloud.json"
    if not (lab.running() and settings.exists()):
        lab.up(sys.stderr)
    port = int(json.loads(settings.read_text())["port_base"])
    name = arguments.cloud
    cloud = LiveCloud(name, f"{name}-admin", name, lab.folder / "clouds.yaml", name)
    print("CPU of a scan")
    costs(lab, cloud, arguments.seconds)
    print("latency of a user")
    latency(cloud, port, arguments.seconds / 2)


if __name__ == "__main__":
    main()
