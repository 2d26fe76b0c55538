"""Real zones as real processes, driven by the real command line: for tests only.

    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        lab = cloud.zone("lab", code=top.code(), hosts=10).start()
        top.wait_for_zone("lab", state="ready")
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BANYAN = [sys.executable, "-m", "banyan.cli.main"]
# Long enough for a loaded machine of two cores; a test that waits so long has failed anyway.
PATIENCE = 60.0


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass(frozen=True)
class Said:
    """What one command printed, and its exit status."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.status == 0, f"status {self.status}: {self.out}{self.err}"
        return json.loads(self.out)


def banyan(*arguments: str, stdin: str | None = None, timeout: float = PATIENCE) -> Said:
    done = subprocess.run(
        [*BANYAN, *arguments], input=stdin, capture_output=True, text=True, timeout=timeout, check=False
    )
    return Said(done.returncode, done.stdout, done.stderr)


@dataclass
class Zone:
    """One zone's process and folder. `command` replaces `banyan` by another program with the same arguments."""

    name: str
    folder: Path
    arguments: Sequence[str] = ()
    code_file: Path | None = None
    command: Sequence[str] = tuple(BANYAN)
    environment: Mapping[str, str] = field(default_factory=dict)
    api: int = field(default_factory=free_port)
    link: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / self.name

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def serve_arguments(self) -> list[str]:
        found = ["serve", "--data", str(self.data), "--name", self.name]
        found += ["--listen-api", f"127.0.0.1:{self.api}", "--listen-link", f"127.0.0.1:{self.link}"]
        if self.code_file is not None:
            found += ["--join-code-file", str(self.code_file)]
        return [*found, *self.arguments]

    def spawn(self) -> Zone:
        """Starts the process and returns at once."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, *self.serve_arguments()],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        return self

    def start(self) -> Zone:
        """Starts the process and waits until it answers."""
        self.spawn()
        self.wait_until(lambda: self.cli("status").status == 0, "to answer")
        return self

    def wait_until(self, true: Any, what: str, patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"{self.name} ended ({self.process.returncode}) while waiting {what}:\n{self.tail()}")
            if true():
                return
            time.sleep(0.1)
        raise AssertionError(f"waited {patience:g} s for {self.name} {what}:\n{self.tail()}")

    def wait_end(self, patience: float = PATIENCE) -> int:
        assert self.process is not None
        return self.process.wait(patience)

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def cli(self, *arguments: str, stdin: str | None = None) -> Said:
        return banyan(*arguments, "--data", str(self.data), stdin=stdin)

    def code(self, *arguments: str) -> str:
        return str(self.cli("code", "create", "--json", *arguments).json()["code"])

    def zones(self) -> dict[str, dict[str, Any]]:
        return {row["path"]: row for row in self.cli("zone", "list", "--json").json()}

    def usage(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cli("usage", "--json").json()
        return found

    def wait_for_zone(self, path: str, patience: float = PATIENCE, **expected: str) -> dict[str, Any]:
        """The zone's row once all of `expected` hold; `path` whole, or a name below this zone."""
        wanted = path if "/" in path else f"{self.name}/{path}"
        seen: dict[str, Any] = {}

        def holds() -> bool:
            seen.clear()
            seen.update(self.zones().get(wanted, {}))
            return bool(seen) and all(seen.get(key) == value for key, value in expected.items())

        try:
            self.wait_until(holds, f"to show {wanted} {expected}", patience)
        except AssertionError as error:
            raise AssertionError(f"{error}\nlast seen: {seen}") from error
        return dict(seen)

    def journal(self, **filters: str) -> list[dict[str, Any]]:
        flags = [part for key, value in filters.items() for part in (f"--{key}", value)]
        found: list[dict[str, Any]] = self.cli("journal", "--json", *flags).json()
        return found

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, number)
            self.process.wait(PATIENCE)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE)


class Cloud:
    """All zones of one test; the end kills what still runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.zones: list[Zone] = []

    def __enter__(self) -> Cloud:
        return self

    def __exit__(self, *_: object) -> None:
        for zone in self.zones:
            zone.kill()

    def zone(self, name: str, *arguments: str, code: str | None = None, hosts: int | None = None) -> Zone:
        """A zone that is not started yet. `hosts`: a rack of simulated hosts."""
        more = [*arguments]
        if hosts is not None:
            more += ["--driver", "sim", "--hosts", str(hosts)]
        zone = Zone(name, self.folder, more)
        if code is not None:
            zone.code_file = self.folder / f"{name}.code"
            zone.code_file.write_text(code)
            zone.code_file.chmod(0o600)
        self.zones.append(zone)
        return zone
