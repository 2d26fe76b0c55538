"""Processes that are forked from one in which the program is loaded already, instead of loading it a hundred times.

What runs is what the console script `banyan` runs, in a process of its own, with a session, an environment and
streams of its own; only the second of CPU time that Python takes to load it is saved. Tests that look at command
lines start the console script itself (processes.Cloud, `loaded=False`).
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["__main__", "tests.wire.zones.loaded"])
# multiprocessing looks after all of its processes at each start, and two looks at one of them spoil its exit status.
_LOCK = threading.Lock()
# prctl(2)
PR_SET_PDEATHSIG = 1


class Forked:
    """As much of subprocess.Popen as zones need. `out`, `err`: files that are appended to; they may be one."""

    def __init__(
        self, program: str, arguments: Sequence[str], environment: Mapping[str, str], out: Path, err: Path
    ) -> None:
        plain = (program, list(arguments), dict(environment), str(out), str(err))
        self._process = _FORKED.Process(target=run, args=plain)
        self.returncode: int | None = None
        with _LOCK:
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        if self.returncode is None:
            with _LOCK:
                self.returncode = self._process.exitcode
        return self.returncode

    def wait(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() >= end:
                raise subprocess.TimeoutExpired("a forked zone", timeout)
            time.sleep(0.02)
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        # Whose number this is once the process has ended, nobody knows.
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


def run(program: str, arguments: list[str], environment: dict[str, str], out: str, err: str) -> None:
    """In the new process, which does not outlive the nursery: a test run that is killed leaves no zone behind."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    for number, path in ((1, out), (2, err)):
        file = os.open(path, flags, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [program, *arguments]
    from tests.wire.zones.loaded import PROGRAMS

    try:
        status = PROGRAMS[program](arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    sys.exit(status)
