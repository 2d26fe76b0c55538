"""A zone that ends itself by SIGKILL at one instant of its store's life: for tests only, run by the nursery.

    DOOM=before:child.certified  where it dies; its arguments are those of `banyan serve`
    RECORD=FILE                  to which it appends the name of each unit that was committed, a line each
    SHIFT=-86400                 by so many seconds its machine's clock was set wrong

It runs what `banyan serve` runs, `banyan.serve.run.serve`; nothing of it is replaced. The kill comes from the writing
thread around COMMIT, so that nobody in the process has heard of the commit before it dies.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from banyan.cli.output import Screen
from banyan.cli.serve import Setup
from banyan.cli.target import read_secret
from banyan.core.errors import BanyanError
from banyan.serve.clock import SystemClock
from banyan.serve.run import serve
from banyan.store.store import Observer, Phase


class ShiftedClock(SystemClock):
    """The machine's clocks, with a wall clock that was set wrong. Durations stay what they are."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def wall(self) -> float:
        return super().wall() + self._seconds


def observer(doom: str, record: str) -> Observer:
    """Kills the process at `doom` (phase:unit), and appends committed names to `record`; "" for neither."""
    file = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if record else -1
    instant, _, unit = doom.partition(":")

    def observe(phase: Phase, names: tuple[str, ...]) -> None:
        if record and phase == "after":
            os.write(file, "".join(f"{name}\n" for name in names).encode())
        if doom and phase == instant and unit in names:
            os.kill(os.getpid(), signal.SIGKILL)

    return observe


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("verb", choices=["serve"])
    for flag in ("data", "config", "name", "driver", "hosts", "listen-api", "listen-link", "join-code-file"):
        parser.add_argument(f"--{flag}")
    parser.add_argument("--option", action="append", default=[])
    given = parser.parse_args(arguments)
    setup = Setup(
        data=Path(given.data),
        config=Path(given.config) if given.config else None,
        name=given.name,
        driver=given.driver,
        hosts=int(given.hosts) if given.hosts else None,
        option=tuple(given.option),
    )
    code = given.join_code_file and read_secret(Path(given.join_code_file), "join code", wrapped=True)
    watch = observer(os.environ.get("DOOM", ""), os.environ.get("RECORD", ""))
    clock = ShiftedClock(float(os.environ.get("SHIFT", "0")))
    try:
        settings = setup.settings({"api.listen": given.listen_api, "link.listen": given.listen_link})
        return serve(settings, code, watch, clock)
    except BanyanError as error:
        Screen(False).error(error)
        return error.exit_status
