"""Which zones were refused, and who had reported them: whoever did is asked again once such a zone leaves its place.

A hint, not the truth: what is forgotten here comes with its carrier's next whole lineage. So it is bounded: as many as
one child may report (inbox.MAX_LINEAGE), of all carriers (children that reported) together. Beyond that whoever has
most forgets its oldest, so that one that reports zones without end pushes out none of others.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from banyan.core.ids import ZoneCode

# Some 300 bytes each.
MOST = 100_000


class RefusedZones:
    """At most `most` zones in all, but at least one, the newest, of each carrier."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        # Carriers by how many they have, the most first; entries that are not so any more are passed over.
        self._sizes: list[tuple[int, ZoneCode]] = []
        self._carriers: dict[ZoneCode, set[ZoneCode]] = {}
        # Dictionaries for their order.
        self._codes: dict[ZoneCode, dict[ZoneCode, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, carrier: ZoneCode, codes: Iterable[ZoneCode]) -> None:
        """This carrier reported them, and they may not be there."""
        for code in codes:
            held = self._codes.setdefault(carrier, {})
            if code in held:
                continue
            held[code] = None
            self._carriers.setdefault(code, set()).add(carrier)
            self._count += 1
            heapq.heappush(self._sizes, (-len(held), carrier))
            if self._count > self._most:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Of whoever has most, if that is more than one."""
        if len(self._sizes) > 2 * self._count:
            self._sizes = [(-len(held), carrier) for carrier, held in self._codes.items()]
            heapq.heapify(self._sizes)
        while self._sizes:
            size, carrier = self._sizes[0]
            held = self._codes.get(carrier, {})
            if len(held) == -size:
                if len(held) > 1:
                    self._drop(carrier, next(iter(held)))
                    heapq.heapreplace(self._sizes, (-len(held), carrier))
                return
            if 0 < len(held) < -size:
                # It has fewer than when it was noted last.
                heapq.heapreplace(self._sizes, (-len(held), carrier))
            else:
                heapq.heappop(self._sizes)

    def forget(self, carrier: ZoneCode, codes: Iterable[ZoneCode]) -> None:
        """This carrier reports them no more, or they were taken."""
        for code in codes:
            if code in self._codes.get(carrier, ()):
                self._drop(carrier, code)

    def of(self, carrier: ZoneCode) -> set[ZoneCode]:
        """Zones of this carrier that are not there for now."""
        return set(self._codes.get(carrier, ()))

    def leave(self, carrier: ZoneCode) -> None:
        """The carrier is gone."""
        self.forget(carrier, list(self._codes.get(carrier, ())))

    def free(self, code: ZoneCode) -> list[ZoneCode]:
        """The zone left its place: those who had reported it, in order, to be asked again."""
        carriers = sorted(self._carriers.get(code, ()))
        for carrier in carriers:
            self._drop(carrier, code)
        return carriers

    def _drop(self, carrier: ZoneCode, code: ZoneCode) -> None:
        held, carriers = self._codes[carrier], self._carriers[code]
        del held[code]
        carriers.discard(carrier)
        self._count -= 1
        if not held:
            del self._codes[carrier]
        if not carriers:
            del self._carriers[code]
