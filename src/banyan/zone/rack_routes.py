"""Which zone below owns which rack: how the id of a server finds its way (protocols §2).

One entry for each rack of the lineage, none for a server. Who named a rack first keeps it until it names it no more: a
zone that hands a rack over and the one that takes it may be heard in either order, and nobody takes another's servers
by naming its rack. Fed by the roster as lineage rows come and go.
"""

from __future__ import annotations

from collections.abc import Iterable

from banyan.core.ids import RackCode, ZoneCode


class RackRoutes:
    """Memory only; made anew from the lineage at each start."""

    def __init__(self) -> None:
        # The owner first; then those that named it as well, in the order in which they came.
        # A dictionary for its order: a child may report any number of zones that name one rack, and each may leave.
        self._owners: dict[RackCode, dict[ZoneCode, None]] = {}
        self._racks: dict[ZoneCode, frozenset[RackCode]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, rack: RackCode) -> ZoneCode | None:
        """The zone below that has it, None if none names it."""
        return next(iter(self._owners.get(rack, ())), None)

    def put(self, zone: ZoneCode, racks: Iterable[RackCode]) -> None:
        """All racks that the zone names now."""
        now, before = frozenset(racks), self._racks.get(zone, frozenset())
        for rack in before - now:
            self._leave(rack, zone)
        for rack in now - before:
            self._owners.setdefault(rack, {})[zone] = None
        if now:
            self._racks[zone] = now
        else:
            self._racks.pop(zone, None)

    def drop(self, zone: ZoneCode) -> None:
        self.put(zone, ())

    def _leave(self, rack: RackCode, zone: ZoneCode) -> None:
        owners = self._owners[rack]
        del owners[zone]
        if not owners:
            del self._owners[rack]
