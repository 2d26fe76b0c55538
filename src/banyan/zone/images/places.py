"""Places that all projects share, for data on its way: no project can keep another from having one."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from banyan.core.image_ports import Pieces
from banyan.core.ports import Clock
from banyan.zone.images.refusals import SlowData

# Data that comes slower than this keeps a place for nothing: bytes, in so many seconds of waiting for it.
LEAST: Final = 1 << 20
WINDOW: Final = 60.0


class Shares:
    """`count` places. A project is given a further one while it holds fewer than are free: alone it has half of them,
    the next half of what is left, and so on. So many a project would have to be that only together they fill them."""

    def __init__(self, count: int) -> None:
        self._held: Counter[str] = Counter()
        self.free = count

    def may(self, project: str) -> bool:
        return self._held[project] < self.free

    def take(self, project: str) -> None:
        self._held[project] += 1
        self.free -= 1

    def give(self, project: str) -> None:
        self.free += 1
        self._held[project] -= 1
        if not self._held[project]:
            del self._held[project]

    @contextmanager
    def held(self, project: str) -> Iterator[bool]:
        """Whether there is a place for it; if so, it has that meanwhile."""
        there = self.may(project)
        if there:
            self.take(project)
        try:
            yield there
        finally:
            if there:
                self.give(project)


class Turns:
    """Places that are waited for: who is next is a project's turn, and of a project the first that came."""

    def __init__(self, count: int) -> None:
        self._shares = Shares(count)
        # By project, in the order of their turns.
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def place(self, project: str) -> AsyncIterator[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(project, deque()).append(turn)
        self._admit()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._shares.give(project)
                self._admit()
            else:
                self._leave(project, turn)

    def _admit(self) -> None:
        for project in list(self._queues):
            if not self._shares.may(project):
                continue
            queue = self._queues.pop(project)
            turn = queue.popleft()
            if queue:
                self._queues[project] = queue
            if not turn.done():
                self._shares.take(project)
                turn.set_result(None)

    def _leave(self, project: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(project)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[project]


async def steady(pieces: Pieces, clock: Clock) -> AsyncIterator[bytes]:
    """`pieces`, as long as they come at LEAST bytes in each WINDOW of waiting for them; what their reader does with
    them counts for nothing. Raises SlowData("slow-data")."""
    source = aiter(pieces)
    waited, came = 0.0, 0
    while True:
        began = clock.now()
        try:
            piece = await anext(source)
        except StopAsyncIteration:
            return
        waited += clock.now() - began
        came += len(piece)
        if waited >= WINDOW:
            if came < LEAST:
                raise SlowData(
                    "slow-data",
                    f"{came} bytes came in {waited:.0f} seconds of waiting; data of an image comes at {LEAST} bytes in "
                    f"{WINDOW:g} seconds at least, since it keeps a place that others wait for",
                )
            waited, came = 0.0, 0
        yield piece
