"""Real zones of the real command line, for a live run: each a process, each ended by its own pid."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

T = TypeVar("T")

BANYAN = Path(sys.executable).parent / "banyan"

# A change in a cloud is to be seen within seconds, so that the comparison need not wait.
SETTINGS = """
[scan]
interval = 3.0
probe_interval = 2.0
requests_per_second = 100.0
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class Zone:
    """One `banyan serve`. `arguments` are those after data, name and addresses."""

    folder: Path
    name: str
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    settings: str = SETTINGS
    process: subprocess.Popen[bytes] | None = None
    api: int = 0
    """The port of its API, once it was started."""

    @property
    def data(self) -> Path:
        return self.folder / self.name

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        settings = self.data / "banyan.toml"
        settings.touch(mode=0o600)
        settings.write_text(self.settings)
        words = [BANYAN, "serve", "--data", self.data, "--name", self.name]
        self.api = free_port()
        words += ["--listen-api", f"127.0.0.1:{self.api}", "--listen-link", f"127.0.0.1:{free_port()}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*words, *self.arguments],
                env={**_plain(), **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def stop(self) -> int:
        """Ends it as a service manager does; its exit status."""
        assert self.process is not None
        self.process.terminate()
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            raise

    def ask(self, *words: str) -> object:
        """What `banyan WORDS --data … --json` prints; None if it cannot be asked now."""
        done = subprocess.run(
            [BANYAN, *words, "--data", self.data, "--json"],
            env=_plain(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return json.loads(done.stdout) if done.returncode == 0 else None

    def until(self, what: str, look: Callable[[], T | None], seconds: float = 90.0) -> T:
        """The first answer that is not None. Fails with the zone's last log lines."""
        end = monotonic() + seconds
        while True:
            found = look()
            if found is not None:
                return found
            if monotonic() > end:
                raise AssertionError(f"{what} within {seconds:g} s; {self.name} says:\n{self.tail()}")
            sleep(0.3)

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:]) if self.log.exists() else ""


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "BANYAN_"))}
