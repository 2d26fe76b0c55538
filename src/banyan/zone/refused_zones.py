"""Which zones were refused, and who had reported them: whoever did is asked again once such a zone leaves its place.

A hint, not the truth: what is forgotten here comes with its carrier's next whole lineage. So it is bounded, and each
carrier (the child that reported) has a share of its own: one that reports zones without end pushes out none of others.
"""

from __future__ import annotations

from collections.abc import Iterable

from banyan.core.ids import ZoneCode

# One is enough for a carrier to be asked again, and then it is told anew what is refused.
SHARE = 100
MOST = 100_000


# gap: of more refused zones than a carrier's share the oldest are asked for again only after a restart
class RefusedZones:
    """At most `share` zones of one carrier, the newest; `most` in all, but at least one of each carrier."""

    def __init__(self, share: int = SHARE, most: int = MOST) -> None:
        self._share = share
        self._most = most
        self._carriers: dict[ZoneCode, set[ZoneCode]] = {}
        # Dictionaries for their order.
        self._codes: dict[ZoneCode, dict[ZoneCode, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, carrier: ZoneCode, codes: Iterable[ZoneCode]) -> None:
        """This carrier reported them, and they may not be there."""
        for code in codes:
            held = self._codes.get(carrier, {})
            if code in held:
                continue
            if held and (len(held) >= self._share or self._count >= self._most):
                self._drop(carrier, next(iter(held)))
            elif self._count >= self._most:
                greedy = max(self._codes, key=lambda one: len(self._codes[one]))
                if len(self._codes[greedy]) > 1:
                    self._drop(greedy, next(iter(self._codes[greedy])))
            self._codes.setdefault(carrier, {})[code] = None
            self._carriers.setdefault(code, set()).add(carrier)
            self._count += 1

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
