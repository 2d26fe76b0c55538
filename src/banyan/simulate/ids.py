"""Seeded chance: each zone draws from a stream of its own, named by the world's seed and the zone.

Adding a zone to a world, or one more draw in another zone, shifts nobody else's numbers. It implements
core.ports.Ids and must never be used outside a simulation: its tokens are guessable by design.
"""

from __future__ import annotations

import hashlib
from random import Random


def stream(seed: int, name: str) -> Random:
    """The generator of the stream `name` in the world of `seed`; equal arguments, equal numbers, on every machine."""
    digest = hashlib.sha256(f"{seed}\x00{name}".encode()).digest()
    return Random(int.from_bytes(digest[:16]))


class SeededIds:
    """core.ports.Ids from one named stream."""

    def __init__(self, seed: int, name: str) -> None:
        self._random = stream(seed, name)

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)
