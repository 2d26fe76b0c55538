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
    """What went over some connections, both ways: (bytes over TCP with TLS, IP packets) by the peer's address."""

    counts: Mapping[str, tuple[int, int]]

    def since(self, before: Traffic) -> Traffic:
        """Over the connections that stood at both instants; whoever came or went meanwhile is left out."""
        return Traffic(
            {
                peer: (payload - before.counts[peer][0], segments - before.counts[peer][1])
                for peer, (payload, segments) in self.counts.items()
                if peer in before.counts
            }
        )

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def payload(self) -> int:
        return sum(payload for payload, _ in self.counts.values())

    @property
    def segments(self) -> int:
        return sum(segments for _, segments in self.counts.values())

    @property
    def on_wire(self) -> int:
        """Bytes with the headers of IPv4 and TCP."""
        return self.payload + HEADERS * self.segments


def traffic_of(port: int) -> Traffic:
    """What the connections that stand at a listening port here have carried, as the kernel counts it (ss)."""
    shown = subprocess.run(
        ["ss", "-tinHO", "state", "established", f"( sport = :{port} )"], capture_output=True, text=True, check=True
    ).stdout
    counts = {}
    for line in shown.splitlines():
        found = [(name, int(value)) for name, value in _COUNTER.findall(line)]
        payload = sum(value for name, value in found if name.startswith("bytes"))
        counts[line.split()[3]] = (payload, sum(value for _, value in found) - payload)
    return Traffic(counts)


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
