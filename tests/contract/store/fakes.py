"""Clocks and chance for the store's tests: seeded, and never the machine's."""

from __future__ import annotations

import random
import threading

from banyan.core.time import Mono


class SeededIds:
    """core.ports.Ids; used from several threads at once, as the real one is."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def token(self, size: int) -> bytes:
        with self._lock:
            return self._random.randbytes(size)

    def below(self, bound: int) -> int:
        with self._lock:
            return self._random.randrange(bound)

    def uniform(self, low: float, high: float) -> float:
        with self._lock:
            return self._random.uniform(low, high)


class StillClock:
    """core.ports.Clock that never moves: batches end by their size alone."""

    def now(self) -> Mono:
        return Mono(1_000.0)

    def wall(self) -> float:
        return 1_800_000_000.0

    async def sleep_until(self, instant: Mono) -> None:
        raise AssertionError("the store never sleeps")

    def boot_id(self) -> str:
        return "boot"
