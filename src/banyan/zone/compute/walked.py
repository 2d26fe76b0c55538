"""What only a walk over all hosts of the tree tells: one walk at a time, whoever asks, and then believed for a while.

Ten thousand hosts are seconds of work, in every zone on the way: so a walk is made only when somebody asks, and what it
found is believed the longer the longer it took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, Protocol, TypeVar

from banyan.core.time import Mono

T = TypeVar("T")

# Seconds for which it is believed at least, and the most of all time that walks may take.
LIFE: Final = 30.0
SHARE: Final = 0.05


class Timed(Protocol):
    """The part of zone.compute.desk.Desk that is needed here."""

    def mono(self) -> Mono: ...


class Walked(Generic[T]):
    def __init__(self, desk: Timed) -> None:
        self._desk = desk
        self._found: tuple[Mono, T] | None = None
        self._walk: asyncio.Task[T] | None = None

    def forget(self) -> None:
        """Something changed here: what is known, and what a walk under way may have passed already, does not count."""
        self._found = self._walk = None

    async def get(self, walk: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What is known, or comes of the walk that is under way, or of this one. Raises what the walk does."""
        if self._found is not None and self._desk.mono() < self._found[0]:
            return self._found[1]
        if self._walk is None:
            self._walk = asyncio.ensure_future(self._make(walk()))
            self._walk.add_done_callback(self._ended)
        # Who asked first may be gone before the others have their answer.
        return await asyncio.shield(self._walk)

    async def _make(self, walk: Coroutine[Any, Any, T]) -> T:
        began = self._desk.mono()
        found = await walk
        if self._walk is asyncio.current_task():
            now = self._desk.mono()
            self._found = Mono(now + max(LIFE, (now - began) / SHARE)), found
        return found

    def _ended(self, task: asyncio.Task[T]) -> None:
        if self._walk is task:
            self._walk = None
        if not task.cancelled():
            task.exception()
