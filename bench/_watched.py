"""`banyan serve` with its event loop watched, for bench.holds: python -m bench._watched OUT serve ARGUMENTS.

What runs is banyan.serve.run.serve; only its clock is ours, which starts the watch on the loop. Every millisecond a
timer notes how late it is. A turn in which the loop was held counts with the smaller of two times: how late the timer
was, and the CPU that the whole process used meanwhile, since what other processes took of the machine is not ours. (The
whole process, as a thread that keeps the interpreter's lock holds the loop as well.) A thread beside it notes where
the loop was when it was late. OUT gets one JSON object per hold of more than FLOOR.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from banyan.cli.output import Screen
from banyan.cli.serve import Setup, join_code
from banyan.core.errors import BanyanError
from banyan.core.time import Mono
from banyan.serve.clock import SystemClock
from banyan.serve.run import serve

TICK = 0.001
FLOOR = 0.003
# After so much lateness the stack is looked at, and again after as much.
LOOK = 0.004
DEPTH = 5
OURS = "/banyan/"
WAITING = ("wait", "accept", "poll")


class Watch:
    """Begun by `start` on the loop. One `out` line per hold: when (seconds since 1970), wall and CPU ms, where."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = 0.0
        self._cpu = 0.0
        self._main = threading.get_ident()
        self._where: list[str] = []

    def start(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._arm()
            threading.Thread(target=self._look, name="watch", daemon=True).start()

    def _arm(self) -> None:
        assert self._loop is not None
        self._due, self._cpu = time.perf_counter() + TICK, time.process_time()
        self._loop.call_later(TICK, self._tick)

    def _tick(self) -> None:
        late, spent = time.perf_counter() - self._due, time.process_time() - self._cpu
        if min(late, spent) > FLOOR:
            line = {"at": time.time(), "wall_ms": late * 1000, "cpu_ms": spent * 1000, "where": self._where}
            self._out.write(json.dumps(line) + "\n")
            self._out.flush()
        self._where = []
        self._arm()

    def _look(self) -> None:
        while True:
            time.sleep(LOOK)
            if time.perf_counter() - self._due > LOOK:
                self._where.append(" | ".join(filter(None, map(self._stack, sys._current_frames().items()))))

    def _stack(self, thread: tuple[int, FrameType]) -> str:
        """A thread's innermost function, and the last of ours that led there; "" for a thread that only waits."""
        ident, at = thread
        if ident == threading.get_ident() or (ident != self._main and at.f_code.co_name in WAITING):
            return ""
        found = [_named(at)]
        outer: FrameType | None = at.f_back
        while outer is not None and len(found) < DEPTH:
            if OURS in outer.f_code.co_filename:
                found.append(_named(outer))
            outer = outer.f_back
        return ("loop: " if ident == self._main else "thread: ") + " < ".join(found)


def _named(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return f"{path.parent.name}/{path.name} {frame.f_code.co_name}"


class WatchedClock(SystemClock):
    """The machine's clocks; the first sleep on them begins the watch."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    async def sleep_until(self, instant: Mono) -> None:
        self._watch.start()
        await super().sleep_until(instant)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("out", type=Path)
    parser.add_argument("verb", choices=["serve"])
    for flag in ("data", "config", "name", "listen-api", "listen-link", "join-code-file"):
        parser.add_argument(f"--{flag}")
    given = parser.parse_args(arguments)
    setup = Setup(data=Path(given.data), config=Path(given.config) if given.config else None, name=given.name)
    code = join_code(Path(given.join_code_file)) if given.join_code_file else None
    try:
        settings = setup.settings({"api.listen": given.listen_api, "link.listen": given.listen_link})
        with given.out.open("w") as out:
            return serve(settings, code, clock=WatchedClock(Watch(out)))
    except BanyanError as error:
        Screen(False).error(error)
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
