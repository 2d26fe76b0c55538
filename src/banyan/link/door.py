"""How many strangers may stand at the door at a time, in total and from one origin. Pure counting."""

from __future__ import annotations

from collections import Counter

from banyan.core.origin import origin


class Door:
    """Counts who is inside. `limit` in total, `per_origin` for one IPv4 address or one /64 of IPv6."""

    def __init__(self, limit: int, per_origin: int) -> None:
        self._limit = limit
        self._per_origin = per_origin
        self._inside: Counter[str] = Counter()
        self.count = 0

    def may_enter(self, address: str) -> bool:
        return self.count < self._limit and self._inside[origin(address)] < self._per_origin

    def enter(self, address: str) -> str:
        """The origin, to be given back to `leave`."""
        where = origin(address)
        self._inside[where] += 1
        self.count += 1
        return where

    def leave(self, where: str) -> None:
        self.count -= 1
        self._inside[where] -= 1
        if self._inside[where] <= 0:
            del self._inside[where]
