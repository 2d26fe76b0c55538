"""Real zones as real processes, driven by the real command line: for tests only.

    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        lab = cloud.zone("lab", code=top.code(), hosts=10).start()
        top.wait_for_zone("lab", state="ready")

What is asserted is what `banyan` printed; only waiting asks the local socket directly, since a command that is
started ten times a second costs more than the zones that are watched. Processes come out of the nursery, unless a
Cloud is asked for others. The end of a Cloud kills what still runs.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.wire.zones.nursery import Forked

BANYAN = (sys.executable, str(Path(sys.executable).parent / "banyan"))
# Long enough for a loaded machine of two cores; a test that waits so long has failed anyway.
PATIENCE = 60.0
# A zone tells its children, its callers and its drivers, and closes its store; no more than this.
STOPPING = 20.0

# Below what Linux gives to connections that go out (ip_local_port_range begins at 32768), so that nobody takes a
# port between our look at it and its zone's start.
_PORTS = range(18_000, 32_000)
_CHANCE = random.SystemRandom()


def free_port() -> int:
    while True:
        port = _CHANCE.choice(_PORTS)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def surroundings(**more: str) -> dict[str, str]:
    """The environment of a command: ours, without what would name another zone, and with compiled files kept."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("BANYAN_", "XDG_", "OS_")) and key != "PYTHONDONTWRITEBYTECODE"
    }
    return {**kept, **more}


@dataclass(frozen=True)
class Said:
    """What one command printed, and its exit status."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.status == 0, f"status {self.status}: {self.out}{self.err}"
        return json.loads(self.out)

    def error(self) -> tuple[str, str]:
        """The code and the text of the error that `--json` printed, and nothing else was printed."""
        assert self.status != 0, f"it went well: {self.out}"
        found = json.loads(self.err.strip().splitlines()[-1])["error"]
        return found["code"], found["text"]


def banyan(
    *arguments: str,
    stdin: str | None = None,
    timeout: float = PATIENCE,
    environment: Mapping[str, str] | None = None,
    loaded: bool = True,
) -> Said:
    """One command. `loaded`: out of the nursery; one that reads standard input is not."""
    around = surroundings(**(environment or {}))
    if not loaded or stdin is not None:
        done = subprocess.run(
            [*BANYAN, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=around,
        )
        return Said(done.returncode, done.stdout, done.stderr)
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = Forked("banyan", arguments, around, out, err)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            os.kill(process.pid, signal.SIGKILL)
            raise AssertionError(f"banyan {' '.join(arguments)} did not end:\n{err.read_text()}") from error
        return Said(status, out.read_text(), err.read_text())


def together(*calls: Callable[[], Any], workers: int = 4) -> list[Any]:
    """The results of calls that are made at once, in their order."""
    with ThreadPoolExecutor(workers) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


class _Local(http.client.HTTPConnection):
    """HTTP over the socket of a data folder, however long its path is."""

    def __init__(self, folder: Path, timeout: float) -> None:
        super().__init__("zone", timeout=timeout)
        self._folder = folder

    def connect(self) -> None:
        handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(self.timeout)
            self.sock.connect(f"/proc/self/fd/{handle}/control.sock")
        finally:
            os.close(handle)


@dataclass
class Zone:
    """One zone's process and folder. `program`: of the nursery's; `loaded`: out of the nursery at all."""

    name: str
    folder: Path
    arguments: Sequence[str] = ()
    code_file: Path | None = None
    program: str = "banyan"
    loaded: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
    api: int = field(default_factory=free_port)
    link: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | Forked | None = None
    data: Path = field(init=False)

    def __post_init__(self) -> None:
        self.data = self.folder / self.name

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    # --- the process ------------------------------------------------------------------------------

    def identity_arguments(self) -> list[str]:
        """The arguments that `serve` and `join` have in common."""
        found = ["--data", str(self.data), "--name", self.name]
        if self.settings:
            file = self.folder / f"{self.name}.toml"
            file.write_text(self.settings)
            found += ["--config", str(file)]
        return [*found, *self.arguments]

    def serve_arguments(self) -> list[str]:
        found = ["serve", *self.identity_arguments()]
        found += ["--listen-api", f"127.0.0.1:{self.api}", "--listen-link", f"127.0.0.1:{self.link}"]
        if self.code_file is not None:
            found += ["--join-code-file", str(self.code_file)]
        return found

    def spawn(self) -> Zone:
        """Starts the process and returns at once."""
        around = surroundings(**self.environment)
        if self.loaded:
            self.process = Forked(self.program, self.serve_arguments(), around, self.log, self.log)
            return self
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*BANYAN, *self.serve_arguments()],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=around,
                start_new_session=True,
            )
        return self

    def start(self) -> Zone:
        """Starts the process and waits until it answers."""
        self.spawn()
        self.wait_until(self.answers, "to answer")
        return self

    def run_to_end(self, timeout: float = PATIENCE) -> Said:
        """Starts the process, which is to end by itself; what it said of its end."""
        return self._banyan(*self.serve_arguments(), timeout=timeout)

    def join(self, *arguments: str, timeout: float = PATIENCE) -> Said:
        """`banyan join` with this zone's code file."""
        assert self.code_file is not None
        more = ["--code-file", str(self.code_file), *arguments]
        return self._banyan("join", *self.identity_arguments(), *more, timeout=timeout)

    def give(self, code: str) -> Zone:
        """Puts a join code into the zone's code file."""
        self.code_file = self.folder / f"{self.name}.code"
        self.code_file.write_text(code)
        self.code_file.chmod(0o600)
        return self

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None and self.process.poll() is None:
            self._signal(number)
            self.process.wait(PATIENCE)

    def _signal(self, number: int) -> None:
        """To all of the zone's session; to the process alone when that has hardly begun."""
        assert self.process is not None
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            os.kill(self.process.pid, number)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(STOPPING)

    def wait_end(self, patience: float = PATIENCE) -> int:
        assert self.process is not None
        return self.process.wait(patience)

    def running(self) -> list[int]:
        """Processes of the zone's session: its own, and any that it left behind."""
        assert self.process is not None
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(stat[3]) == self.process.pid and stat[0] != "Z":
                    found.append(int(entry.name))
        return found

    # --- what it says -----------------------------------------------------------------------------

    def cli(self, *arguments: str, stdin: str | None = None, timeout: float = PATIENCE) -> Said:
        return self._banyan(*arguments, "--data", str(self.data), stdin=stdin, timeout=timeout)

    def _banyan(self, *arguments: str, stdin: str | None = None, timeout: float = PATIENCE) -> Said:
        return banyan(*arguments, stdin=stdin, timeout=timeout, environment=self.environment, loaded=self.loaded)

    def code(self, *arguments: str) -> str:
        return str(self.cli("code", "create", "--json", *arguments).json()["code"])

    def zones(self) -> dict[str, dict[str, Any]]:
        return {row["path"]: row for row in self.cli("zone", "list", "--json").json()}

    def usage(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cli("usage", "--json").json()
        return found

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cli("status", "--json").json()
        return found

    def journal(self, **filters: str) -> list[dict[str, Any]]:
        flags = [part for key, value in filters.items() for part in (f"--{key}", value)]
        found: list[dict[str, Any]] = self.cli("journal", "--json", *flags).json()
        return found

    def kinds(self) -> list[str]:
        return [line["kind"] for line in self.journal()]

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    # --- waiting ----------------------------------------------------------------------------------

    def ask(self, path: str, body: object = None, timeout: float = 30.0) -> tuple[int, Any]:
        """One request on the local socket: HTTP status, and the answer's JSON. Raises OSError if nobody answers."""
        connection = _Local(self.data, timeout)
        try:
            headers = {} if body is None else {"Content-Type": "application/json"}
            content = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, content, headers)
            reply = connection.getresponse()
            content = reply.read().decode()
            return reply.status, json.loads(content) if content else None
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def metrics(self, timeout: float = 30.0) -> str:
        """What Prometheus is told, on the local socket."""
        connection = _Local(self.data, timeout)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def answers(self) -> bool:
        try:
            return self.ask("/v1/status")[0] == 200
        except OSError:
            return False

    def seen(self) -> dict[str, dict[str, Any]]:
        """As `zones`, without a command; empty while nobody answers."""
        try:
            status, page = self.ask("/v1/zones?limit=1000")
        except OSError:
            return {}
        return {row["path"]: row for row in page["items"]} if status == 200 else {}

    def uplink(self) -> dict[str, Any]:
        """The one uplink of `status`, without a command; empty while nobody answers or there is none."""
        try:
            status, found = self.ask("/v1/status")
        except OSError:
            return {}
        uplinks = found["uplinks"] if status == 200 else []
        return dict(uplinks[0]) if uplinks else {}

    def wait_until(self, true: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
        end, pause = time.monotonic() + patience, 0.03
        while time.monotonic() < end:
            if true():
                return
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(
                    f"{self.name} ended ({self.process.returncode}) while waiting {what}:\n{self.tail()}"
                )
            # Many wait at a time, and each look costs the zone that is looked at.
            time.sleep(pause)
            pause = min(pause * 1.25, 0.25)
        raise AssertionError(f"waited {patience:g} s for {self.name} {what}:\n{self.tail()}")

    def wait_for_zone(self, path: str, patience: float = PATIENCE, **expected: object) -> dict[str, Any]:
        """The zone's row once all of `expected` hold; `path` whole, or a name below this zone."""
        wanted = path if "/" in path else f"{self.name}/{path}"
        row: dict[str, Any] = {}

        def holds() -> bool:
            row.clear()
            row.update(self.seen().get(wanted, {}))
            return bool(row) and all(row.get(key) == value for key, value in expected.items())

        try:
            self.wait_until(holds, f"to show {wanted} {expected}", patience)
        except AssertionError as error:
            raise AssertionError(f"{error}\nlast seen: {row}") from error
        return dict(row)

    def wait_for_uplink(self, state: str, patience: float = PATIENCE) -> dict[str, Any]:
        """The uplink once it is in that state: joining, connected, cut, read-only."""
        self.wait_until(lambda: self.uplink().get("state") == state, f"to be {state} at its parent", patience)
        return self.uplink()


class Cloud:
    """All zones of one test; the end kills what still runs. `loaded`: its processes come out of the nursery."""

    def __init__(self, folder: Path, *, loaded: bool = True) -> None:
        self.folder = folder
        self.loaded = loaded
        self.zones: list[Zone] = []

    def __enter__(self) -> Cloud:
        return self

    def __exit__(self, *_: object) -> None:
        for zone in self.zones:
            zone.kill()

    def zone(
        self, name: str, *arguments: str, code: str | None = None, hosts: int | None = None, settings: str = ""
    ) -> Zone:
        """A zone that is not started yet. `hosts`: a rack of simulated hosts. `settings`: TOML."""
        more = [*arguments]
        if hosts is not None:
            more += ["--driver", "sim", "--hosts", str(hosts)]
        zone = Zone(name, self.folder, more, settings=settings, loaded=self.loaded)
        if code is not None:
            zone.give(code)
        self.zones.append(zone)
        return zone

    def copy(self, zone: Zone, folder: str) -> Zone:
        """Another zone object of the same name, with data, ports and log of its own; the data folder is not made."""
        (self.folder / folder).mkdir()
        other = Zone(zone.name, self.folder / folder, zone.arguments, settings=zone.settings, loaded=self.loaded)
        self.zones.append(other)
        return other


def start(*zones: Zone) -> None:
    """Starts zones at once."""
    for zone in zones:
        zone.spawn()
    for zone in zones:
        zone.wait_until(zone.answers, "to answer")
