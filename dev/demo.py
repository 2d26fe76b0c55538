"""The main job on one machine: `python dev/demo.py [--once]`.

A top; two zones below it, `east` with a rack of simulated hosts and `north` with none; `lab` below north, with a
rack of its own. Every zone is a process of its own, on a data folder of its own, and joins over the real link. One
rule and one join code admit both children of the top. Then OpenStack's own SDK asks the top for servers, which lie on
the deepest zone's hosts. The tree and its usage are shown live until Ctrl-C; with `--once` they are shown when the
servers run, and the demo ends. Nothing outlives it: neither a process nor a file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import openstack
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

BANYAN = Path(sys.executable).with_name("banyan")
READY_WITHIN = 60.0
END_WITHIN = 20.0
REFRESH = 2.0

Row = dict[str, Any]  # what `--json` prints

HOSTS_EAST, HOSTS_LAB = 100, 40
HOSTS_IN_ALL = HOSTS_EAST + HOSTS_LAB
CLOUD, SERVERS, BUILT_WITHIN = "top", 3, 60

# Servers come and go, and a scan sees it soon: a demo is watched for minutes, not for days. A zone whose settings say
# nothing of it lets its parent only look.
SETTINGS = """\
[zone]
mode = "place"

[scan]
interval = 5

[terms]
report = 2
"""


class DemoFailed(Exception):
    """What went wrong, in a sentence, with the last words of the zone concerned."""


@dataclass(slots=True)
class Zone:
    """One zone and its process. `api` and `link` are ports."""

    name: str
    folder: Path
    api: int
    link: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(mode=0o700)
        (self.folder / "banyan.toml").write_text(SETTINGS)
        self.log = self.folder.with_suffix(".log")

    def start(self, code_file: Path | None = None) -> None:
        command = [str(BANYAN), "serve", "--data", str(self.folder), "--name", self.name]
        command += ["--listen-api", f"127.0.0.1:{self.api}", "--listen-link", f"127.0.0.1:{self.link}"]
        command += ["--join-code-file", str(code_file)] if code_file else []
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raises DemoFailed if the process ended by itself."""
        if self.process is not None and self.process.poll() is not None:
            raise DemoFailed(f"zone {self.name} ended with status {self.process.returncode}:\n{self.last_words()}")

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2_000:] if self.log.exists() else ""

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait(self, until: float) -> bool:
        """True if it ended by itself before the instant `until`; else it is killed."""
        if self.process is None:
            return True
        try:
            self.process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return False
        return True


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on. All are held until the last is chosen, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def ask(zone: Zone, *words: str) -> bytes | None:
    """What a command prints about `zone`; None if it could not be answered."""
    done = subprocess.run(
        [str(BANYAN), *words, "--data", str(zone.folder)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=30,
    )
    return done.stdout if done.returncode in (0, 6) else None


def must(zone: Zone, *words: str) -> bytes:
    """Like `ask`, repeated until the zone answers. Raises DemoFailed."""
    until = time.monotonic() + READY_WITHIN
    while True:
        answer = ask(zone, *words)
        if answer is not None:
            return answer
        zone.check()
        if time.monotonic() > until:
            raise DemoFailed(f"`banyan {' '.join(words)}` got no answer from {zone.name}:\n{zone.last_words()}")
        time.sleep(0.2)


def zones_below(top: Zone) -> list[Row]:
    answer = ask(top, "zone", "list", "--json")
    return list(json.loads(answer)) if answer else []


def usage(top: Zone) -> Row:
    answer = ask(top, "usage", "--json")
    return dict(json.loads(answer)) if answer else {}


def build(base: Path) -> list[Zone]:
    """Starts the tree; the top first. Zones join by themselves."""
    ports = iter(free_ports(8))

    def zone(name: str, *options: str) -> Zone:
        return Zone(name, base / name, next(ports), next(ports), options)

    top, north = zone("top"), zone("north")
    east = zone("east", *simulated(HOSTS_EAST, guests=2_000, churn=2))
    # Users say where by the availability zone that hosts bring.
    lab = zone("lab", *simulated(HOSTS_LAB, guests=500, churn=0.5), "--option", 'availability_zones=["lab"]')
    return [top, east, north, lab]


def simulated(hosts: int, **options: float) -> tuple[str, ...]:
    """The flags for a rack of simulated hosts."""
    more = [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
    return ("--driver", "sim", "--hosts", str(hosts), *more)


def start(zones: Sequence[Zone], base: Path, say: Console) -> None:
    top, east, north, lab = zones
    say.print("[bold]top[/] starts; one rule and one join code will admit its children")
    top.start()
    code = base / "top.code"
    must(top, "rule", "add", "demo", "--verifier", "join-code", "--name", "*", "--set-label", "demo=yes")
    must(top, "code", "create", "--uses", "2", "--out", str(code))
    say.print("[bold]east[/] (100 simulated hosts) and [bold]north[/] join it")
    east.start(code)
    north.start(code)
    code = base / "north.code"
    must(north, "code", "create", "--out", str(code))
    say.print("[bold]lab[/] (40 simulated hosts) joins north")
    lab.start(code)


def wait_ready(zones: Sequence[Zone]) -> None:
    """Until every zone below the top is ready, and every host is counted there."""
    until = time.monotonic() + READY_WITHIN
    while True:
        rows = zones_below(zones[0])
        ready = [row for row in rows if row.get("state") == "ready" and row.get("health") == "alive"]
        if len(ready) == len(zones) - 1 and part(usage(zones[0]), "hosts").get("total") == HOSTS_IN_ALL:
            return
        for zone in zones:
            zone.check()
        if time.monotonic() > until:
            words = "\n".join(f"--- {zone.name}\n{zone.last_words()}" for zone in zones)
            raise DemoFailed(f"the tree was not whole after {READY_WITHIN:g} s; the top sees {rows}\n{words}")
        time.sleep(0.5)


def make_servers(top: Zone, base: Path, say: Console) -> Path:
    """A few servers on the deepest zone, by OpenStack's SDK; where the clouds.yaml for it lies. Raises DemoFailed."""
    clouds = base / "clouds.yaml"
    must(top, "credentials", "--cloud-name", CLOUD, "--out", str(clouds))
    os.environ["OS_CLIENT_CONFIG_FILE"] = str(clouds)
    say.print(f"openstacksdk asks top for {SERVERS} servers in the availability zone [bold]lab[/]")
    try:
        with openstack.connect(cloud=CLOUD) as cloud:
            image = cloud.image.create_image(
                name="demo", disk_format="raw", container_format="bare", data=b"a disk would be here"
            )
            flavor = min(cloud.compute.flavors(), key=lambda flavor: (flavor.vcpus, flavor.ram))
            wanted = {"flavor_id": flavor.id, "image_id": image.id, "networks": "none", "availability_zone": "lab"}
            made = [cloud.compute.create_server(name=f"demo-{n}", **wanted) for n in range(1, SERVERS + 1)]
            for server in made:
                cloud.compute.wait_for_server(server, wait=BUILT_WITHIN)
    except (openstack.exceptions.SDKException, OSError) as error:
        raise DemoFailed(f"OpenStack's SDK got no servers from top: {error}\n{top.last_words()}") from error
    placed = json.loads(must(top, "server", "placed", "--json"))
    for row in sorted(placed, key=lambda row: str(row["name"])):
        say.print(f"  [bold]{row['name']}[/] is {row['state']} in {row['zone']}, on {row['host']}  {row['id']}")
    if len(placed) != SERVERS or any(row["zone"] != "top/north/lab" for row in placed):
        raise DemoFailed(f"{SERVERS} servers of top/north/lab were to be there, there are: {placed}")
    return clouds


def picture(top: Zone) -> Group:
    """The tree, and its usage, as the top tells them now."""
    tree = Tree("[bold]top")
    branches: dict[str, Tree] = {"top": tree}
    for row in sorted(zones_below(top), key=lambda row: str(row["path"])):
        path = str(row["path"])
        colour = "green" if row["health"] == "alive" else "yellow"
        # What a grandchild holds, only its own parent knows by itself; here it is inside its parent's figures.
        held = f"{row['hosts']} hosts, {row['servers']} servers with all below" if row["hosts"] is not None else ""
        above = branches.get(path.rpartition("/")[0], tree)
        branches[path] = above.add(f"[bold]{row['name']}[/] [{colour}]{row['health']}[/] {row['state']}  {held}")
    told = usage(top)
    table = Table(title=f"the whole tree, as of {told.get('as_of')}", title_justify="left")
    for heading in ("", "physical", "may be promised", "used", ""):
        table.add_column(heading, justify="right" if heading else "left")
    for name, amount in sorted(part(told, "resources").items()):
        used = amount["used"] / amount["total"] if amount["total"] else 0.0
        table.add_row(name, *(f"{amount[key]:,}" for key in ("physical", "total", "used")), f"{used:.1%}")
    zones, hosts, unknown = part(told, "zones"), part(told, "hosts"), part(told, "unknown")
    servers = ", ".join(f"{count:,} {state}" for state, count in part(told, "guests").items())
    lines = [
        f"zones below: {zones.get('ready', 0)} of {zones.get('total', 0)} ready, {zones.get('alive', 0)} alive",
        f"hosts: {hosts.get('total', 0):,}, {hosts.get('up', 0):,} up",
        f"servers: {servers or 'none'}",
        f"unknown, and in no total: {unknown.get('zones', 0)} zones, {unknown.get('hosts', 0)} hosts",
    ]
    return Group(tree, table, Text("\n".join(lines)))


def part(told: Row, key: str) -> dict[str, Any]:
    """A table inside what a command told, {} if it told nothing."""
    value = told.get(key)
    return value if isinstance(value, dict) else {}


def show(zones: Sequence[Zone], clouds: Path, say: Console, once: bool) -> None:
    if once:
        say.print(picture(zones[0]))
        return
    say.print(f"as a user: OS_CLIENT_CONFIG_FILE={clouds} openstack --os-cloud {CLOUD} server list")
    say.print(f"Ctrl-C ends it. Meanwhile, elsewhere: {BANYAN} journal --follow --data {zones[0].folder}")
    with Live(picture(zones[0]), console=say, auto_refresh=False) as live:
        while True:
            time.sleep(REFRESH)
            live.update(picture(zones[0]), refresh=True)
            for zone in zones:
                zone.check()


def end(zones: Sequence[Zone], say: Console) -> list[str]:
    """Stops all, children first; the names of those that had to be killed."""
    until = time.monotonic() + END_WITHIN
    for zone in reversed(zones):
        zone.stop()
    stubborn = [zone.name for zone in zones if not zone.wait(until)]
    say.print("every process is gone" if not stubborn else f"[red]had to be killed: {', '.join(stubborn)}")
    return stubborn


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--once"]):
        print("usage: python dev/demo.py [--once]", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, interrupt)
    say = Console()
    # The folder's path is short: a unix socket in it may have 107 bytes.
    base = Path(tempfile.mkdtemp(prefix="banyan-"))
    zones: list[Zone] = []
    status = 0
    try:
        zones = build(base)
        start(zones, base, say)
        wait_ready(zones)
        clouds = make_servers(zones[0], base, say)
        show(zones, clouds, say, bool(arguments))
    except KeyboardInterrupt:
        say.print("\nending ...")
    except DemoFailed as failed:
        say.print(Text(f"demo: {failed}", style="red"))
        status = 1
    finally:
        # A second Ctrl-C must not leave processes behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if end(zones, say):
            status = status or 1
        shutil.rmtree(base, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
