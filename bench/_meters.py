"""What measurements read of the machine: CPU and memory of processes, bytes of connections, and who else works here."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import shlex
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
# IPv4 and TCP with its timestamp option (RFC 791, RFC 9293, RFC 7323): what each segment costs beside its payload.
HEADERS = 20 + 20 + 12

_COUNTER = re.compile(r"\b(bytes_acked|bytes_received|segs_out|segs_in):(\d+)")


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and all its threads so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_of(pid: int) -> float:
    """Resident MiB of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def more_files(count: int) -> None:
    """Lets this process and those that it starts have so many files open. Raises SystemExit where that may not be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count:
        raise SystemExit(f"this needs {count} open files, and at most {hard} are allowed (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))


@dataclass(frozen=True, slots=True)
class Traffic:
    """What went over some connections, both ways. `payload`: bytes over TCP, TLS included; `segments`: IP packets."""

    connections: frozenset[str] = frozenset()
    payload: int = 0
    segments: int = 0

    def since(self, before: Traffic) -> Traffic:
        """Raises SystemExit if a connection came or went meanwhile: its bytes would be missing."""
        if self.connections != before.connections:
            raise SystemExit("a session was opened anew while bytes were counted; measure again")
        return Traffic(self.connections, self.payload - before.payload, self.segments - before.segments)

    @property
    def on_wire(self) -> int:
        """Bytes with the headers of IPv4 and TCP."""
        return self.payload + HEADERS * self.segments


def traffic_of(port: int) -> Traffic:
    """What the connections that stand at a listening port here have carried, as the kernel counts it (ss)."""
    shown = subprocess.run(
        ["ss", "-tinHO", "state", "established", f"( sport = :{port} )"], capture_output=True, text=True, check=True
    ).stdout
    connections = set()
    payload = segments = 0
    for line in shown.splitlines():
        connections.add(line.split()[3])
        for name, value in _COUNTER.findall(line):
            if name.startswith("bytes"):
                payload += int(value)
            else:
                segments += int(value)
    return Traffic(frozenset(connections), payload, segments)


def quantiles(values: Sequence[float], digits: int = 3) -> dict[str, float]:
    """Minimum, median, p90, p99 and maximum; what a few values cannot tell is left out."""
    ordered = sorted(values)
    if not ordered:
        return {}
    found = {"min": ordered[0], "p50": statistics.median(ordered), "max": ordered[-1]}
    for name, share, least in (("p90", 0.9, 10), ("p99", 0.99, 100)):
        if len(ordered) >= least:
            found[name] = ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
    return {name: round(found[name], digits) for name in ("min", "p50", "p90", "p99", "max") if name in found}


def others(busy: float) -> str:
    """Whether the machine is shared: its load before the measurement began."""
    return "shared with other work" if busy > 1.0 else "idle before"


LOAD = os.getloadavg()[0]


def tell(found: Mapping[str, object]) -> None:
    """Prints what was found as JSON, with the command and the machine that it was found on."""
    command = ["python", "-m", f"bench.{Path(sys.argv[0]).stem}", *sys.argv[1:]]
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release().partition("-")[0],
        "load_before": round(LOAD, 1),
        "machine": others(LOAD),
    }
    print(json.dumps({"command": shlex.join(command), **machine, **found}, indent=2))
