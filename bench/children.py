"""Many children under one parent: joins per second, time to ready, the parent's CPU and memory, idle bytes, silence.

The parent is `banyan serve`, a process of its own with an SQLite store. The children (argument: how many, 100 without)
are whole zones with 10 simulated hosts each, as `serve` assembles them, each with a data folder and a TLS connection of
its own; but many live in one process (bench/_hosting.py), as a thousand processes of 100 MiB do not fit everywhere.
Three further children are processes of their own: they join first, one after the other, and tell how long a zone takes
from its start to *ready*, and what an idle one keeps in memory. Of the others at most 32 are joining at a time, or as
many as the second argument says: joins per second are what parent and children reach together on the one machine.

At last every child is stopped with SIGSTOP: how long `usage` takes from then on, and when it says that all are unknown.

    python -m bench.children 1000
    python -m bench.children 200 200
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from bench._meters import cpu_of, memory_of, more_files, quantiles, tell, traffic_of
from bench._zones import Asking, leave_nothing
from tests.wire.zones.processes import Cloud, Zone

HOSTS = 10
ALONE = 3
PROCESSES = 4
AT_ONCE = 32
IDLE = 120.0
PATIENCE = 900.0
# How often usage is asked for while nobody below answers, seconds.
LOOK = 0.25


class Hosting:
    """One process full of zones."""

    def __init__(self, folder: Path, code_file: Path, first: int, count: int, at_once: int) -> None:
        arguments = [str(folder), str(code_file), str(first), str(count), str(HOSTS), str(at_once)]
        self.count = count
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench._hosting", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def heard(self) -> dict[str, Any]:
        """Its next word."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a process of children ended with status {self.process.wait()}")
        return dict(json.loads(line))

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def wait_ready(top: Zone, asking: Asking, zones: int) -> None:
    end = time.monotonic() + PATIENCE
    while (seen := asking.usage())["zones"]["ready"] < zones or seen["hosts"]["total"] < zones * HOSTS:
        if time.monotonic() > end:
            raise SystemExit(f"after {PATIENCE:g} s {seen['zones']} of {zones}:\n{top.tail()}")
        time.sleep(0.5)


def ready_at(asking: Asking) -> dict[str, float]:
    """When each child became ready, as the parent's journal has it; seconds since 1970, both clocks being one."""
    lines = asking.pages("/v1/journal?kind=child-ready")
    return {str(line["target"]): datetime.fromisoformat(str(line["at"])).timestamp() for line in lines}


def again(asking: Asking) -> int:
    """How often a child asked to be let in that had been let in before, and had not heard of it in time."""
    return sum(1 for _ in asking.pages("/v1/journal?kind=child-admitted-again"))


def one_by_one(cloud: Cloud, top: Zone, asking: Asking) -> dict[str, object]:
    """Zones that are processes, each started when the one before is ready."""
    took, memory = [], []
    for number in range(ALONE):
        zone = cloud.zone(f"alone-{number}", code=top.code(), hosts=HOSTS)
        began = time.time()
        zone.spawn()
        wait_ready(top, asking, number + 1)
        took.append(ready_at(asking)[zone.name] - began)
    for zone in cloud.zones[1:]:
        assert zone.process is not None
        memory.append(memory_of(zone.process.pid))
    return {
        "alone_process_start_to_ready_s": quantiles(took),
        "alone_process_mib": quantiles(memory, 1),
    }


def herd(top: Zone, asking: Asking, hostings: Sequence[Hosting], before: int) -> dict[str, object]:
    """The zones of these processes join, and those above know them as ready."""
    assert top.process is not None
    pid, count = top.process.pid, sum(hosting.count for hosting in hostings)
    empty = sum(hosting.heard()["empty_mib"] for hosting in hostings)
    cpu, memory = cpu_of(pid), memory_of(pid)
    theirs = sum(cpu_of(hosting.pid) for hosting in hostings)
    for hosting in hostings:
        hosting.go()
    begun: dict[str, float] = {}
    for hosting in hostings:
        begun |= hosting.heard()["begun"]
    wait_ready(top, asking, before + count)
    spent, theirs = cpu_of(pid) - cpu, sum(cpu_of(hosting.pid) for hosting in hostings) - theirs
    ready = ready_at(asking)
    took = [ready[name] - at for name, at in begun.items()]
    last = max(ready[name] for name in begun) - min(begun.values())
    return {
        "children": count,
        "hosts": count * HOSTS,
        "joins_per_s": round(count / last, 1),
        "begun_to_ready_s": quantiles(took, 2),
        "openings_begun_again": again(asking),
        "parent_cpu_ms_per_join": round(spent / count * 1000, 1),
        "joins_per_parent_cpu_s": round(count / spent, 1),
        "children_cpu_ms_per_join": round(theirs / count * 1000, 1),
        "parent_mib_without_children": round(memory, 1),
        "parent_kib_per_child": round((memory_of(pid) - memory) * 1024 / count, 1),
        "hosted_zone_mib": round((sum(memory_of(h.pid) for h in hostings) - empty) / count, 2),
    }


def idle(top: Zone, hostings: Sequence[Hosting], children: int) -> dict[str, object]:
    assert top.process is not None
    pid = top.process.pid
    time.sleep(30)  # what joining left to do is done
    cpu, theirs, began = cpu_of(pid), sum(cpu_of(h.pid) for h in hostings), time.monotonic()
    carried = traffic_of(top.link)
    time.sleep(IDLE)
    seconds = time.monotonic() - began
    went = traffic_of(top.link).since(carried)
    hours = seconds / 3600 * len(went)
    return {
        "idle_s": round(seconds),
        "sessions_opened_anew_meanwhile": children - len(went),
        "parent_core_share_idle": round((cpu_of(pid) - cpu) / seconds, 4),
        "hosted_zone_core_share_idle": round(
            (sum(cpu_of(h.pid) for h in hostings) - theirs) / seconds / sum(h.count for h in hostings), 5
        ),
        "payload_kib_per_child_and_hour": round(went.payload / hours / 1024, 1),
        "on_wire_kib_per_child_and_hour": round(went.on_wire / hours / 1024, 1),
        "parent_mib_idle": round(memory_of(pid), 1),
    }


def silence(cloud: Cloud, top: Zone, asking: Asking, hostings: Sequence[Hosting], children: int) -> dict[str, object]:
    """Every child is stopped: usage from then on, until all are lost, and after they go on."""
    alone = cloud.zones[1:]
    began = time.monotonic()
    for hosting in hostings:
        os.killpg(hosting.pid, signal.SIGSTOP)
    for zone in alone:
        zone.freeze()
    first = time.monotonic()
    asking.usage()
    answered = time.monotonic() - first
    command = time.monotonic()
    top.usage()
    command = time.monotonic() - command
    taken: list[float] = []
    suspect = lost = unknown = 0.0
    names = 0
    while time.monotonic() - began < 120 and not (lost and unknown):
        asked = time.monotonic()
        seen = asking.usage()
        now = time.monotonic()
        taken.append((now - asked) * 1000)
        if not suspect and seen["zones"]["suspect"] + seen["zones"]["lost"]:
            suspect = now - began
        if not lost and seen["zones"]["lost"] == children:
            lost = now - began
        if not unknown and seen["unknown"]["hosts"] == children * HOSTS and not seen["hosts"]["total"]:
            names = len(seen["unknown_names"])
            unknown = now - began
        time.sleep(LOOK)
    for hosting in hostings:
        os.killpg(hosting.pid, signal.SIGCONT)
    for zone in alone:
        zone.thaw()
    began = time.monotonic()
    while (seen := asking.usage())["zones"]["alive"] < children or seen["hosts"]["total"] < children * HOSTS:
        if time.monotonic() - began > PATIENCE:
            raise SystemExit(f"they did not all come back: {seen['zones']}")
        time.sleep(LOOK)
    return {
        "stopped_first_usage_ms": round(answered * 1000, 2),
        "stopped_first_usage_command_s": round(command, 2),
        "stopped_usage_ms": quantiles(taken, 2),
        "stopped_first_suspect_s": round(suspect, 1),
        "stopped_all_lost_s": round(lost, 1),
        "stopped_all_unknown_s": round(unknown, 1),
        "stopped_unknown_named": names,
        "all_alive_again_s": round(time.monotonic() - began, 1),
    }


def main() -> None:
    leave_nothing()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    at_once = int(sys.argv[2]) if len(sys.argv) > 2 else AT_ONCE
    more_files(2 * count + 1_000)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="banyan-bench-")))
        cloud = stack.enter_context(Cloud(folder, loaded=False))
        top = cloud.zone("top", "--log-level", "warning").start()
        code_file = folder / "herd.code"
        code_file.write_text(top.code("--uses", str(count)))
        asking = stack.enter_context(Asking(top.data))
        found = one_by_one(cloud, top, asking)
        hostings = []
        for number in range(PROCESSES):
            first, last = count * number // PROCESSES, count * (number + 1) // PROCESSES
            if last > first:
                hostings.append(Hosting(folder / "children", code_file, first, last - first, at_once // PROCESSES))
                stack.callback(hostings[-1].kill)
        found["joining_at_once"] = at_once
        found |= herd(top, asking, hostings, ALONE)
        children = ALONE + count
        found |= idle(top, hostings, children)
        found |= silence(cloud, top, asking, hostings, children)
        tell(found)


if __name__ == "__main__":
    main()
