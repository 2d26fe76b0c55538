"""Where blocking calls go: a bounded number of threads, so that the event loop never waits for a cloud.

A call that outlives its deadline is told so (`Overdue`), but keeps its thread and its place until the socket gives
up; when all places hang, further calls are refused at once. The threads are daemons: a cloud that hangs never keeps a
zone from ending. Nothing on a lane reads a clock: the loop's side measures.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")

# Asked by the work between two pieces of an answer: whether nobody waits for it any more.
Overdue = Callable[[], bool]


class LanesBusy(Exception):
    """All places are taken by calls that hang."""


class Lanes:
    """At most `places` blocking calls at once, each on a thread of its own."""

    def __init__(self, places: int, name: str) -> None:
        self.places = places
        self._name = name
        self._taken = 0
        self._lock = threading.Lock()

    async def run(self, work: Callable[[Overdue], T], seconds: float) -> T:
        """What `work` returns or raises. TimeoutError when it took longer; LanesBusy when no place is free."""
        with self._lock:
            if self._taken >= self.places:
                raise LanesBusy
            self._taken += 1
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        body = partial(self._body, partial(work, outcome.done), loop, outcome)
        try:
            threading.Thread(target=body, name=self._name, daemon=True).start()
        except RuntimeError:  # no further thread can be had
            self._leave()
            raise LanesBusy from None
        async with asyncio.timeout(seconds):
            return await outcome

    def _body(self, work: Callable[[], T], loop: asyncio.AbstractEventLoop, outcome: asyncio.Future[T]) -> None:
        error: BaseException | None = None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - carried to the one who waits
            error = raised
        self._leave()

        def deliver() -> None:
            if outcome.done():
                return
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)

        # A loop that has ended takes no more calls: nobody waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver)

    def _leave(self) -> None:
        with self._lock:
            self._taken -= 1
