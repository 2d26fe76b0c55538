"""What orders ask of the store again and again, kept in memory for a moment: an image, a flavor, a project's limits.

Whoever changes such rows forgets all of them when its change is over and before its caller is told, so that nobody who
was told of a change meets what was before it. What was read while a change came to its end is not kept. The moment
bounds what is left: a commit that was given up as unknown, and may still come.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from banyan.core.ports import Clock
from banyan.core.time import Mono

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Seconds.
REMEMBERED: Final = 5.0
MAX_REMEMBERED: Final = 4_096


class Remembered(Generic[K, V]):
    """At most MAX_REMEMBERED, those that were put first go first.

    as_of = remembered.as_of         # before the read
    value = await store.read(...)
    remembered.put(key, value, as_of)
    """

    def __init__(self, clock: Clock) -> None:
        self.as_of = 0
        self._clock = clock
        self._known: dict[K, tuple[Mono, V]] = {}

    def get(self, key: K) -> V | None:
        known = self._known.get(key)
        return known[1] if known is not None and self._clock.now() < known[0] else None

    def put(self, key: K, value: V, as_of: int) -> None:
        """Keeps what was read after `as_of` was, unless something was forgotten since."""
        if as_of != self.as_of:
            return
        self._known.pop(key, None)
        while len(self._known) >= MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = Mono(self._clock.now() + REMEMBERED), value

    def forget(self) -> None:
        self.as_of += 1
        self._known.clear()
