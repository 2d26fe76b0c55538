"""The clouds that live tests use: one's own, or two of the lab's that are installed, started and stopped here.

`BANYAN_LIVE_CLOUDS=a,b` names entries of one's own clouds.yaml; nothing is started or stopped then. Else the lab in
`$BANYAN_PEERS/openstack` (beside the checkout: ../shared/peers) is brought up from whatever state it is in, from
nothing on a clean Debian machine. `python -m tests.live.clouds up|down|status` does the same by hand.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[2]

# name, first port, hosts
LAB = (("east", 15_000, 6), ("west", 16_000, 4))

# From nothing: packages 20 s, the lab's own venv 90 to 150 s, databases 12 s, then 45 s for each cloud.
UP_TIMEOUT = 1_200


@dataclass(frozen=True, slots=True)
class LiveCloud:
    """One cloud. `admin` and `user` are clouds.yaml entries; `lab` is its name there, "" for somebody's own cloud."""

    name: str
    admin: str
    user: str
    clouds_file: Path
    lab: str = ""


class Lab:
    """The lab's commands, as they must be called from anywhere."""

    def __init__(self) -> None:
        peers = Path(os.environ.get("BANYAN_PEERS") or ROOT.parent / "shared" / "peers")
        self.program = peers / "openstack" / "lab"
        self.folder = Path(os.environ.get("FLEETLAB_DIR") or "/tmp/fleetlab-openstack")
        if not self.program.exists():
            sys.exit(
                f"live: there is no lab at {self.program} (set BANYAN_PEERS), and BANYAN_LIVE_CLOUDS names no clouds; "
                "set it to two entries of your clouds.yaml, as in BANYAN_LIVE_CLOUDS=a,b"
            )

    def call(self, *arguments: str, timeout: float = 180.0) -> str:
        """One command of the lab; its output. Raises RuntimeError with the output's end."""
        done = subprocess.run(
            [self.program, *arguments],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"lab {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-4000:]}")
        return done.stdout

    def up(self, told: TextIO | None = None) -> None:
        """Brings up all of LAB; progress goes to `told`, by default to standard output."""
        for name, port, hosts in LAB:
            print(f"live: bringing up cloud {name} with {hosts} hosts", flush=True, file=told)
            arguments = ("up", "--name", name, "--port-base", str(port), "--computes", str(hosts))
            print(self.call(*arguments, timeout=UP_TIMEOUT), end="", flush=True, file=told)

    def running(self) -> bool:
        """Whether any cloud has processes."""
        return any(_alive(pid) for pid in self.folder.glob("clouds/*/pids/nova-api.pid"))

    def down(self) -> None:
        self.call("down", timeout=120)

    def fault(self, cloud: str, action: str, target: str) -> None:
        self.call("fault", "--name", cloud, action, target)

    def clouds(self) -> tuple[LiveCloud, ...]:
        path = self.folder / "clouds.yaml"
        return tuple(LiveCloud(name, f"{name}-admin", name, path, name) for name, _, _ in LAB)

    def _environment(self) -> dict[str, str]:
        """The lab leaves out where Keystone keeps the keys of its receipts, and Keystone then refuses to start.

        Keystone also reads ~/.keystone/keystone.conf.d, so the lab gets a home of its own with that setting.
        """
        home = self.folder / "home"
        keys = home / ".keystone" / "receipts"
        if not (keys / "1").exists():
            keys.mkdir(parents=True, exist_ok=True)
            keys.chmod(0o700)
            for number in "01":
                path = keys / number
                path.touch(mode=0o600)
                path.write_bytes(base64.urlsafe_b64encode(os.urandom(32)))
        settings = home / ".keystone" / "keystone.conf.d" / "receipts.conf"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(f"[fernet_receipts]\nkey_repository = {keys}\n")
        pyenv = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
        return {**os.environ, "HOME": str(home), "PYENV_ROOT": pyenv}


def _alive(pid_file: Path) -> bool:
    words = pid_file.read_text().split() if pid_file.exists() else []
    return bool(words) and Path(f"/proc/{words[0]}").exists()


def own() -> tuple[LiveCloud, ...]:
    """The clouds that BANYAN_LIVE_CLOUDS names; none if it is not set."""
    names = [name.strip() for name in os.environ.get("BANYAN_LIVE_CLOUDS", "").split(",") if name.strip()]
    if not names:
        return ()
    if len(names) != 2:
        sys.exit(f"live: BANYAN_LIVE_CLOUDS names two clouds, as in BANYAN_LIVE_CLOUDS=a,b; got {len(names)}")
    from openstack.config.loader import OpenStackConfig

    found = OpenStackConfig().config_filename
    if found is None:
        sys.exit("live: no clouds.yaml was found; set OS_CLIENT_CONFIG_FILE to yours")
    return tuple(LiveCloud(f"live-{number}", name, name, Path(found)) for number, name in enumerate(names, 1))


@contextmanager
def two_clouds() -> Iterator[tuple[tuple[LiveCloud, ...], Lab | None]]:
    """Two clouds that answer. The lab's are stopped at the end unless they ran before, or BANYAN_LIVE_KEEP is 1."""
    mine = own()
    if mine:
        yield mine, None
        return
    lab = Lab()
    ran = lab.running()
    lab.up()
    try:
        yield lab.clouds(), lab
    finally:
        if not ran and os.environ.get("BANYAN_LIVE_KEEP") != "1":
            print("\nlive: stopping the clouds (BANYAN_LIVE_KEEP=1 keeps them)", flush=True)
            lab.down()


def client(cloud: LiveCloud, entry: str) -> tuple[list[str], dict[str, str]]:
    """OpenStack's own command line for `entry` of this cloud: its first words, and its environment."""
    found = shutil.which("openstack")
    if cloud.lab:
        found = str(Lab().folder / "venv" / "bin" / "openstack")
    if not found:
        sys.exit("live: OpenStack's client is not on PATH (pip install python-openstackclient)")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    return [found, "--os-cloud", entry], {**clean, "OS_CLIENT_CONFIG_FILE": str(cloud.clouds_file)}


def main(arguments: Sequence[str]) -> int:
    lab = Lab()
    match list(arguments):
        case ["up"]:
            lab.up()
        case ["down"]:
            lab.down()
        case ["status"]:
            print(lab.call("status"), end="")
        case _:
            print("usage: python -m tests.live.clouds up|down|status", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
