"""Which zone below owns which rack: how the id of a server finds its way (protocols §2).

One entry for each rack of the lineage, none for a server. Who named a rack first keeps it until it names it no more: a
zone that hands a rack over and the one that takes it may be heard in either order, and nobody takes another's servers
by naming its rack. Fed by the roster as lineage rows come and go.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable

from banyan.core.ids import RackCode, ZoneCode


# gap: of a rack that two zones name at once, the owner after a restart is the one under the child with the lower code
class RackRoutes:
    """Memory only; made anew from the lineage at each start. Small: a tree has many racks."""

    def __init__(self) -> None:
        self._owners: dict[RackCode, ZoneCode] = {}
        # Racks that more than one zone names: all but the owner, in the order in which they came.
        # A child may report any number of zones that name one rack, and each may leave: neither end costs a walk.
        self._waiting: dict[RackCode, OrderedDict[ZoneCode, None]] = {}
        self._racks: dict[ZoneCode, array[int]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, rack: RackCode) -> ZoneCode | None:
        """The zone below that has it, None if none names it."""
        return self._owners.get(rack)

    def count(self, zone: ZoneCode) -> int:
        """How many racks the zone names."""
        return len(self._racks.get(zone, ()))

    def put(self, zone: ZoneCode, racks: Iterable[RackCode]) -> None:
        """All racks that the zone names now."""
        now, before = set(racks), {RackCode(rack) for rack in self._racks.get(zone, ())}
        for rack in before - now:
            self._leave(rack, zone)
        for rack in now - before:
            if self._owners.setdefault(rack, zone) != zone:
                self._waiting.setdefault(rack, OrderedDict())[zone] = None
        if not now:
            self._racks.pop(zone, None)
        elif now != before:
            self._racks[zone] = array("q", sorted(now))

    def drop(self, zone: ZoneCode) -> None:
        self.put(zone, ())

    def _leave(self, rack: RackCode, zone: ZoneCode) -> None:
        waiting = self._waiting.get(rack, OrderedDict())
        if self._owners[rack] != zone:
            del waiting[zone]
        elif waiting:
            self._owners[rack], _ = waiting.popitem(last=False)
        else:
            del self._owners[rack]
        if not waiting:
            self._waiting.pop(rack, None)
