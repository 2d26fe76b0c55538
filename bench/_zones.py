"""Real zones for measurements: processes of the console script, and questions on one connection that stays open.

Processes are tests/wire's own (`Cloud`, `Zone`), started as a service would start them: what one of them needs is its
own, and not shared with a process that it was forked from.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ANSWER = 60.0  # seconds


class _Socket(http.client.HTTPConnection):
    """HTTP over the socket of a data folder, however long its path is."""

    def __init__(self, data: Path) -> None:
        super().__init__("zone", timeout=ANSWER)
        self._data = data

    def connect(self) -> None:
        handle = os.open(self._data, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(self.timeout)
            self.sock.connect(f"/proc/self/fd/{handle}/control.sock")
        finally:
            os.close(handle)


class Asking:
    """Questions to one zone's API on its local socket, one at a time. A connection that ended is opened again."""

    def __init__(self, data: Path) -> None:
        self._connection = _Socket(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def get(self, path: str) -> Any:
        """The JSON of one answer. Raises SystemExit for another status than 200, OSError if nobody answers."""
        try:
            text = self._ask(path)
        except (http.client.HTTPException, BrokenPipeError, ConnectionResetError):
            self._connection.close()
            text = self._ask(path)
        return json.loads(text)

    def _ask(self, path: str) -> str:
        self._connection.request("GET", path)
        reply = self._connection.getresponse()
        text = reply.read().decode()
        if reply.status != 200:
            raise SystemExit(f"GET {path}: {reply.status} {text[:500]}")
        return text

    def usage(self) -> Any:
        return self.get("/v1/usage")

    def pages(self, path: str) -> Iterator[dict[str, Any]]:
        """The rows of a list, page after page."""
        marker = ""
        while True:
            page = self.get(f"{path}{'&' if '?' in path else '?'}limit=1000&marker={marker}")
            yield from page["items"]
            marker = page.get("marker") or ""
            if not marker:
                return


class Fills:
    """A rack of simulated hosts in which guests appear at known instants.

    `guests` at first; then at `at[k]` seconds after its driver was made there are `counts[k]`. If there are such
    instants, one guest is replaced after a second: its age tells when the driver was made, by the zone's own word.
    """

    MARK = 1.0
    MOST = 190  # a script has at most 200 steps

    def __init__(self, hosts: int, guests: int, at: Sequence[float], counts: Sequence[int]) -> None:
        if len(at) > self.MOST:
            raise SystemExit(f"at most {self.MOST} changes fit into one script, not {len(at)}")
        self.hosts = hosts
        self.guests = guests
        self.at = at
        self.counts = counts

    def settings(self, interval: float) -> str:
        """The zone's settings, TOML; a scan each `interval` seconds."""
        steps: list[tuple[float, str]] = []
        if self.at:
            steps = [(0.0, 'do = "churn"\nrate = 1'), (self.MARK, 'do = "churn"\nrate = 0')]
        steps += [(at, f'do = "fill"\nguests = {count}') for at, count in zip(self.at, self.counts, strict=True)]
        script = "".join(f"\n[[rack.options.script]]\nat = {at:.3f}\n{what}\n" for at, what in steps)
        return (
            f'[log]\nlevel = "warning"\n\n[scan]\ninterval = {interval:g}\n\n[[rack]]\nname = "sim"\ndriver = "sim"\n\n'
            f"[rack.options]\nhosts = {self.hosts}\nguests = {self.guests}\n{script}"
        )

    def made(self, asking: Asking, since: float) -> float:
        """When the driver was made, by the word of its zone, which was started after `since`. Seconds since 1970.

        Waits for a scan that saw the mark. All other guests are older than the driver.
        """
        for _ in range(240):
            newest = max((str(row["created"]) for row in asking.pages("/v1/servers")), default="1970-01-01T00:00:00Z")
            made = datetime.fromisoformat(newest).timestamp() - self.MARK
            if made > since:
                return made
            time.sleep(0.5)
        raise SystemExit("no scan saw that a guest was replaced")


def leave_nothing() -> None:
    """SIGTERM ends this process as Ctrl-C does: what it started is stopped, what it wrote is removed."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def guests_of(usage: Any) -> int:
    return sum(usage["guests"].values())
