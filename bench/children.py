"""Many children under one parent over real sockets: joins per second, the parent's CPU and memory, bytes per child.

The parent is `banyan serve`, a process of its own on SQLite; the children (argument: how many, 200 without) are whole
zones with 10 simulated hosts each in this process, on memory stores, over real TLS and WebSocket. Reported beside: how
long `banyan usage` takes right after all children went silent.

    python -m bench.children 1000
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from banyan.core.ports import RackSpec
from banyan.core.time import Mono, Terms
from banyan.core.zone import Mode
from banyan.drivers.registry import Drivers, Registry
from banyan.link.websocket_wire import WebSocketDialer
from banyan.serve.assemble import Adapters, Assembled, assemble
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.inline import InlineStore, no_pause
from banyan.zone.settings import ZoneSettings

BANYAN = [sys.executable, "-m", "banyan.cli.main"]
HOSTS = 10
IDLE = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


def port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_of(pid: int) -> float:
    """Resident MiB of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def banyan(data: Path, *arguments: str) -> str:
    done = subprocess.run([*BANYAN, *arguments, "--data", str(data)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"banyan {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


async def child(number: int, code: str, clock: SystemClock, ids: SystemIds) -> tuple[Assembled, asyncio.Task[None]]:
    settings = ZoneSettings(
        name=f"child-{number:05}",
        racks=(RackSpec("sim", "sim", {"hosts": HOSTS}),),
        addresses=("127.0.0.1:1",),
        mode=Mode.OBSERVE,
        terms=Terms(),
    )
    adapters = Adapters(
        InlineStore(ids, no_pause, rehearse=False),
        clock,
        ids,
        Drivers(Registry.installed(), clock, ids),
        WebSocketDialer(clock),
    )
    built = await assemble(settings, adapters)
    await built.zone.accept_code(code)
    return built, asyncio.create_task(built.zone.run(), name=f"zone {number}")


async def run(data: Path, code: str, count: int, parent: int) -> dict[str, object]:
    clock, ids = SystemClock(), SystemIds()
    found: dict[str, object] = {"children": count, "hosts": count * HOSTS}
    before_cpu, before_memory = cpu_of(parent), memory_of(parent)
    began = time.perf_counter()
    zones = [await child(n, code, clock, ids) for n in range(count)]
    found["children_made_s"] = round(time.perf_counter() - began, 1)
    began = time.perf_counter()
    usage: dict[str, dict[str, int]] = {}
    while time.perf_counter() - began < 600:
        usage = json.loads(await asyncio.to_thread(banyan, data, "usage", "--json"))
        if usage["zones"]["ready"] == count and usage["hosts"]["total"] == count * HOSTS:
            break
        await clock.sleep_until(Mono(clock.now() + 1.0))
    took = time.perf_counter() - began
    found["ready"] = usage["zones"]["ready"]
    found["last_ready_after_s"] = round(took, 1)
    found["joins_per_s"] = round(count / (took + float(str(found["children_made_s"]))), 1)
    found["parent_cpu_ms_per_join"] = round((cpu_of(parent) - before_cpu) / count * 1000, 2)
    found["parent_kib_per_child"] = round((memory_of(parent) - before_memory) * 1024 / count, 1)
    found["parent_mib_before"] = round(before_memory, 1)
    cpu, began = cpu_of(parent), time.perf_counter()
    sent = [up.runner.traffic() for built, _ in zones for up in built.zone.ups.values()]
    await clock.sleep_until(Mono(clock.now() + IDLE))
    seconds = time.perf_counter() - began
    later = [up.runner.traffic() for built, _ in zones for up in built.zone.ups.values()]
    frames = sum(b[0] + b[1] - a[0] - a[1] for a, b in zip(sent, later, strict=True))
    found["parent_cpu_share_idle"] = round((cpu_of(parent) - cpu) / seconds, 3)
    found["frame_kib_per_child_and_hour"] = round(frames / count / seconds * 3600 / 1024, 1)
    for _, task in zones:
        task.cancel()
    await asyncio.gather(*(task for _, task in zones), return_exceptions=True)
    return found


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * count + 500)), hard))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "top"
        flags = [
            "--listen-api",
            f"127.0.0.1:{port()}",
            "--listen-link",
            f"127.0.0.1:{port()}",
            "--log-level",
            "warning",
        ]
        parent = subprocess.Popen([*BANYAN, "serve", "--data", str(data), "--name", "top", *flags])
        try:
            while not (data / "control.sock").exists():
                time.sleep(0.1)
            time.sleep(1.0)
            idle = memory_of(parent.pid)
            code = json.loads(banyan(data, "code", "create", "--uses", str(count), "--json"))["code"]
            found = asyncio.run(run(data, code, count, parent.pid))
            found["idle_zone_mib"] = round(idle, 1)
            began = time.perf_counter()
            usage = json.loads(banyan(data, "usage", "--json"))
            found["usage_ms_all_children_gone"] = round((time.perf_counter() - began) * 1000)
            found["usage_ready_then"] = usage["zones"]["ready"]
            print(json.dumps(found, indent=2))
        finally:
            parent.send_signal(signal.SIGTERM)
            parent.wait(30)


if __name__ == "__main__":
    main()
