"""Rows by key with a generation each: what changed since, in bounded pages, in a stable order.

Every change takes the next generation, so that a page ends at a generation from which the next one
goes on. What was dropped stays as a tombstone for a while; a reader that is older than the oldest
forgotten tombstone, or that knows generations which are not ours, starts over with a whole. The pages
of a whole end at *bookmarks*, numbers above all generations: rows may be older than forgotten
tombstones, so that a row's generation alone does not say what its reader has missed.
Memory only; the rows' truth is elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_TOMBSTONES = 10_000
MAX_BOOKMARKS = 64
FIRST_BOOKMARK = 1 << 62


@dataclass(frozen=True, slots=True)
class Slice(Generic[V]):
    """Changes after `since` up to `until`, oldest first. `since` 0 begins a whole. `more`: go on from `until`."""

    since: int
    until: int
    values: tuple[V, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class _Bookmark:
    """A whole that began at position `begun`, sent up to the row of `generation`."""

    generation: int
    begun: int


@dataclass(slots=True)
class _Held(Generic[V]):
    generation: int
    value: V
    gone: bool


class Feed(Generic[K, V]):
    """`start`: our first generation, above all that an earlier life gave out. `size`: of a value, in bytes."""

    def __init__(self, start: int, size: Callable[[V], int], tombstones: int = MAX_TOMBSTONES) -> None:
        self.position = start
        self._tombstones = tombstones
        self._oldest = start
        self._size = size
        self._held: dict[K, _Held[V]] = {}
        self._log: list[tuple[int, K]] = []
        self._graves: deque[tuple[int, K]] = deque()
        self._alive = 0
        self._bookmarks: dict[int, _Bookmark] = {}
        self._last_bookmark = FIRST_BOOKMARK + start

    def __len__(self) -> int:
        return self._alive

    def get(self, key: K) -> V | None:
        held = self._held.get(key)
        return held.value if held is not None and not held.gone else None

    def values(self) -> Iterator[V]:
        """In no order."""
        return (held.value for held in self._held.values() if not held.gone)

    def put(self, key: K, value: V) -> bool:
        """False if that value is held already."""
        held = self._held.get(key)
        if held is not None and not held.gone and held.value == value:
            return False
        if held is None or held.gone:
            self._alive += 1
        self._note(key, value, gone=False)
        return True

    def drop(self, key: K, tombstone: V) -> bool:
        """False if nothing is held under the key. Readers are told `tombstone`."""
        held = self._held.get(key)
        if held is None or held.gone:
            return False
        self._alive -= 1
        self._note(key, tombstone, gone=True)
        self._graves.append((self.position, key))
        while len(self._graves) > self._tombstones:
            generation, old = self._graves.popleft()
            self._oldest = generation
            if self._held[old].generation == generation:
                del self._held[old]
        return True

    def since(self, known: int, rows: int, budget: int) -> Slice[V] | None:
        """At most `rows` values of about `budget` bytes (but at least one); None if nothing is new."""
        if known == self.position:
            return None
        mark = self._bookmarks.get(known)
        if mark is not None and mark.begun >= self._oldest:
            since, start = known, mark
        elif self._oldest <= known < self.position:
            since, start = known, _Bookmark(known, 0)
        else:
            since, start = 0, _Bookmark(0, self.position)
        values: list[V] = []
        reached, spent = start.generation, 0
        for at in range(bisect_right(self._log, reached, key=lambda entry: entry[0]), len(self._log)):
            generation, key = self._log[at]
            held = self._held.get(key)
            if held is None or held.generation != generation or (held.gone and generation <= start.begun):
                continue
            spent += self._size(held.value)
            if values and (len(values) == rows or spent > budget):
                until = self._bookmark(reached, start.begun) if start.begun else reached
                return Slice(since, until, tuple(values), True)
            values.append(held.value)
            reached = generation
        return Slice(since, self.position, tuple(values), False)

    def _bookmark(self, generation: int, begun: int) -> int:
        self._last_bookmark += 1
        self._bookmarks[self._last_bookmark] = _Bookmark(generation, begun)
        if len(self._bookmarks) > MAX_BOOKMARKS:
            del self._bookmarks[next(iter(self._bookmarks))]
        return self._last_bookmark

    def _note(self, key: K, value: V, *, gone: bool) -> None:
        self.position += 1
        self._held[key] = _Held(self.position, value, gone)
        self._log.append((self.position, key))
        if len(self._log) > 2 * len(self._held) + 1024:
            self._log = [(g, k) for g, k in self._log if (h := self._held.get(k)) is not None and h.generation == g]
