"""Which zone below owns which rack: how the id of a server finds its way (protocols §2).

One entry for each rack of the lineage, none for a server. Who named a rack first keeps it until it names it no more: a
zone that hands a rack over and the one that takes it may be heard in either order, and nobody takes another's servers
by naming its rack. Fed by the roster as lineage rows come and go. Who was first of several the lineage does not say:
that alone is stored (zone/rack_owners.py).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from banyan.core.ids import RackCode, ZoneCode


class RackRoutes:
    """Memory only; made anew from the lineage at each start, then `decide`. Small: a tree has many racks.

    `changed` is called when there is something `unkept`.
    """

    def __init__(self) -> None:
        self.changed: Callable[[], None] = lambda: None
        self._owners: dict[RackCode, ZoneCode] = {}
        # Racks that more than one zone names: all but the owner, in the order in which they came.
        # A child may report any number of zones that name one rack, and each may leave: neither end costs a walk.
        self._waiting: dict[RackCode, OrderedDict[ZoneCode, None]] = {}
        self._racks: dict[ZoneCode, array[int]] = {}
        # The owners of such racks as they are stored; and racks of which that may be no longer so.
        self._kept: dict[RackCode, ZoneCode] = {}
        self._touched: set[RackCode] = set()

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, rack: RackCode) -> ZoneCode | None:
        """The zone below that has it, None if none names it."""
        return self._owners.get(rack)

    def waiting(self, rack: RackCode) -> list[ZoneCode]:
        """The others that name it, in the order in which they came."""
        return list(self._waiting.get(rack, ()))

    def count(self, zone: ZoneCode) -> int:
        """How many racks the zone names."""
        return len(self._racks.get(zone, ()))

    def put(self, zone: ZoneCode, racks: Iterable[RackCode]) -> None:
        """All racks that the zone names now."""
        now, before = set(racks), {RackCode(rack) for rack in self._racks.get(zone, ())}
        touched = len(self._touched)
        for rack in before - now:
            self._leave(rack, zone)
        for rack in now - before:
            if self._owners.setdefault(rack, zone) != zone:
                self._waiting.setdefault(rack, OrderedDict())[zone] = None
                self._touched.add(rack)
        if not now:
            self._racks.pop(zone, None)
        elif now != before:
            self._racks[zone] = array("q", sorted(now))
        if len(self._touched) > touched:
            self.changed()

    def drop(self, zone: ZoneCode) -> None:
        self.put(zone, ())

    def _leave(self, rack: RackCode, zone: ZoneCode) -> None:
        waiting = self._waiting.get(rack)
        if waiting is None:
            del self._owners[rack]
            return
        if self._owners[rack] == zone:
            self._owners[rack], _ = waiting.popitem(last=False)
        else:
            del waiting[zone]
        if not waiting:
            del self._waiting[rack]
        self._touched.add(rack)

    # --- what is stored of it ---------------------------------------------------------------------

    def decide(self, stored: Mapping[RackCode, ZoneCode]) -> None:
        """Whose those racks were that several zones named, as it was stored; it is theirs still if they name it."""
        for rack, zone in stored.items():
            waiting = self._waiting.get(rack, OrderedDict())
            if zone in waiting:
                del waiting[zone]
                waiting[self._owners[rack]] = None
                waiting.move_to_end(self._owners[rack], last=False)
                self._owners[rack] = zone
        self._kept = dict(stored)
        self._touched = {*stored, *self._waiting}

    def unkept(self) -> dict[RackCode, ZoneCode | None]:
        """What is to be stored: the owner of a rack that several zones name, None where it is no longer so."""
        found: dict[RackCode, ZoneCode | None] = {}
        for rack in self._touched:
            owner = self._owners[rack] if rack in self._waiting else None
            if self._kept.get(rack) != owner:
                found[rack] = owner
        if not found:
            self._touched.clear()
        return found

    def keep(self, stored: Mapping[RackCode, ZoneCode | None]) -> None:
        """That was stored."""
        for rack, zone in stored.items():
            if zone is None:
                self._kept.pop(rack, None)
            else:
                self._kept[rack] = zone
