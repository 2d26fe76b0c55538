"""How a client is had on this machine, and how its scenario is run: what all of them share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dev.clients.steps import FAILED, Step, heard

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
INSTALLED_WITHIN, RAN_WITHIN = 1_800, 3_000  # seconds
# How a complaint begins of what did not end in time.
LATE = "not within"


class NotToBeHad(Exception):
    """Why a client can not be had on this machine, in a sentence."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run needs: a clouds.yaml, the entry in it, and a folder of its own."""

    clouds: Path
    cloud: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Client:
    """`prepare` makes the environment and tells the version, or raises NotToBeHad; `run` tells the steps."""

    prepare: Callable[[], str]
    run: Callable[[Ran], list[Step]]


def home() -> Path:
    given = os.environ.get("BANYAN_CLIENTS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else cache / "banyan-clients"


def venv(name: str, *packages: str) -> Path:
    """A virtual environment with just these packages; its folder of programs. Raises NotToBeHad."""
    folder = home() / name
    stamp, wanted = folder / "stamp", "\n".join(packages)
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        print(f"clients: installing {', '.join(packages)} into {folder} ...", file=sys.stderr, flush=True)
        must(f"a virtual environment for {name}", [sys.executable, "-m", "venv", "--clear", str(folder)])
        must(name, [str(folder / "bin" / "pip"), "install", "--quiet", *packages])
        stamp.write_text(wanted, encoding="utf-8")
    return folder / "bin"


def must(what: str, command: list[str], **settings: str) -> str:
    """What a command prints. Raises NotToBeHad with its last words."""
    environment = {**os.environ, **settings}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=INSTALLED_WITHIN,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotToBeHad(f"{what}: {error}") from error
    if done.returncode:
        told = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise NotToBeHad(f"{what}: {' '.join(told[-300:].split())}")
    return done.stdout.decode(errors="replace")


def stated(command: list[str], folder: Path, settings: Mapping[str, str] | None = None) -> tuple[str, str]:
    """What a command printed, and what it complained of: "" if it ended well.

    Whatever ends the wait, nothing that the command started goes on: it has a session of its own, which is killed.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    # A signal that ended this between the start of the process and our knowing of it would leave it behind.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, "PYTHONWARNINGS": "ignore", **(settings or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509 - one thread
        )
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    late = ""
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        out, err = process.communicate(timeout=RAN_WITHIN)
    except subprocess.TimeoutExpired:
        late = f"{LATE} {RAN_WITHIN:g} s"
        kill(process)
        out, err = process.communicate()
    except BaseException:
        kill(process)
        process.communicate()
        raise
    printed, complaint = out.decode(errors="replace"), err.decode(errors="replace").strip()
    return printed, late or ((complaint[-600:] or f"status {process.returncode}") if process.returncode else "")


def kill(process: subprocess.Popen[bytes]) -> None:
    """The process, and what it started."""
    os.killpg(process.pid, signal.SIGKILL)


def said(name: str, command: list[str], folder: Path, settings: Mapping[str, str] | None = None) -> list[Step]:
    """The steps that a scenario said on standard output; one more if it ended badly."""
    printed, complaint = stated(command, folder, settings)
    return [*heard(printed), *([Step(f"{name} to its end", FAILED, complaint)] if complaint else [])]
