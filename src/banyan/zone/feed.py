"""Rows by key with a generation each: what changed since, in bounded pages, in a stable order.

Every change takes the next generation, so that a page ends at a generation from which the next one
goes on; nobody keeps a cursor. What was dropped stays as a tombstone for a while; a reader that is
older than the oldest forgotten tombstone, or that knows generations which are not ours, starts over.
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
MAX_WHOLES = 64


@dataclass(frozen=True, slots=True)
class Slice(Generic[V]):
    """Changes after `since` up to `until`, oldest first. `since` 0 begins a whole. `more`: go on from `until`."""

    since: int
    until: int
    values: tuple[V, ...]
    more: bool


@dataclass(slots=True)
class _Held(Generic[V]):
    generation: int
    value: V
    gone: bool


class Feed(Generic[K, V]):
    """`start`: our first generation, above all that an earlier life gave out. `size`: of a value, in bytes."""

    def __init__(self, start: int, size: Callable[[V], int]) -> None:
        self.position = start
        self._oldest = start
        self._size = size
        self._held: dict[K, _Held[V]] = {}
        self._log: list[tuple[int, K]] = []
        self._graves: deque[tuple[int, K]] = deque()
        self._alive = 0
        # Where unfinished wholes stand → our position when each began: a row may be older than the oldest
        # forgotten tombstone, so the last row's generation alone does not say whether its reader missed one.
        self._wholes: dict[int, int] = {}

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
        while len(self._graves) > MAX_TOMBSTONES:
            generation, old = self._graves.popleft()
            self._oldest = generation
            if self._held[old].generation == generation:
                del self._held[old]
        return True

    def since(self, known: int, rows: int, budget: int) -> Slice[V] | None:
        """At most `rows` values of about `budget` bytes (but at least one); None if nothing is new."""
        if known == self.position:
            return None
        begun = self._wholes.get(known, 0)
        fits = self._oldest <= known < self.position or begun >= self._oldest
        since = known if fits else 0
        if not since:
            begun = self.position
        values: list[V] = []
        until, spent = since, 0
        for at in range(bisect_right(self._log, since, key=lambda entry: entry[0]), len(self._log)):
            generation, key = self._log[at]
            held = self._held.get(key)
            if held is None or held.generation != generation or (held.gone and not since):
                continue
            spent += self._size(held.value)
            if values and (len(values) == rows or spent > budget):
                if begun:
                    self._open(until, begun)
                return Slice(since, until, tuple(values), True)
            values.append(held.value)
            until = generation
        return Slice(since, self.position, tuple(values), False)

    def _open(self, at: int, begun: int) -> None:
        self._wholes.pop(at, None)
        self._wholes[at] = begun
        if len(self._wholes) > MAX_WHOLES:
            del self._wholes[next(iter(self._wholes))]

    def _note(self, key: K, value: V, *, gone: bool) -> None:
        self.position += 1
        self._held[key] = _Held(self.position, value, gone)
        self._log.append((self.position, key))
        if len(self._log) > 2 * len(self._held) + 1024:
            self._log = [(g, k) for g, k in self._log if (h := self._held.get(k)) is not None and h.generation == g]
