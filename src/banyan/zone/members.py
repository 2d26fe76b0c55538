"""What a zone holds in memory of its members: its racks' columns, its children's digests, and their sum.

Derived: racks from the store (zone/reconcile/inventory.py), children from what they reported
(zone/inbox.py). Where each counts is decided in placement/standing.py. Each change costs as much as it
changes, never a fold over 20,000 children. It knows no store and no link, and never judges health.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from banyan.core.digest import Counters, Digest, flatten, unflatten
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.rack import Rack, RackHealth
from banyan.core.resources import Shape
from banyan.core.zone import Child, Condition
from banyan.placement.fold import Fold, GuestCounts, watchable
from banyan.placement.standing import Standing, Sum, child_counts, child_standing, placed, rack_standing

Member = tuple[str, int]


@dataclass(slots=True)
class RackMember:
    """One rack. `fold` is None until its columns are built; `shapes` are those of its own offered flavors."""

    rack: Rack
    fold: Fold | None = None
    guests: GuestCounts = field(default_factory=dict)
    shapes: tuple[Shape, ...] = ()


class Members:
    """`announced`: keys of shapes to count beside those of the racks' flavors (malformed ones are a ValueError).

    `changed` is called after each change of the sum, never while it is half done; it must not call back.
    `version` rises with each change.
    """

    def __init__(self, announced: Iterable[str] = (), changed: Callable[[], None] = lambda: None) -> None:
        self.version = 0
        self.driver = ""
        self._announced = tuple(Shape.parse(key) for key in announced)
        self._changed = changed
        self._sum: Sum[Member] = Sum()
        self._racks: dict[RackCode, RackMember] = {}
        self._children: dict[ZoneCode, Child] = {}
        self._shapes: list[Shape] = watchable(self._announced)

    # --- racks ----------------------------------------------------------------------------------

    @property
    def racks(self) -> Mapping[RackCode, RackMember]:
        return self._racks

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """All that are counted here, by key."""
        return tuple(self._shapes)

    def put_rack(self, rack: Rack) -> None:
        """A rack's row, new or changed: its health decides where it counts."""
        member = self._racks.get(rack.code)
        if member is None:
            member = self._racks[rack.code] = RackMember(rack)
        member.rack = rack
        self.driver = self.driver or rack.driver
        self._sum.stand(("rack", rack.code), rack_standing(rack))
        self._touch()

    def put_picture(self, rack: Rack, fold: Fold, guests: GuestCounts, shapes: Iterable[Shape]) -> None:
        """The picture of a complete scan, whole; `fold` is from now on ours. Its row comes with it."""
        member = self._racks.get(rack.code)
        if member is None:
            member = self._racks[rack.code] = RackMember(rack)
        member.rack, member.fold, member.guests = rack, fold, dict(guests)
        member.shapes = tuple(watchable(shapes))
        self._sum.stand(("rack", rack.code), rack_standing(rack))
        self._reshape()
        fold.watch(self._shapes)
        self._sum.put(("rack", rack.code), flatten(fold.digest(member.guests, rack.scanned_at)))
        self._touch()

    def restore_rack(self, rack: Rack, counters: Mapping[str, int]) -> None:
        """The last complete picture of a rack whose columns can not be built (a scan was cut off half-way)."""
        self.put_rack(rack)
        self._sum.put(("rack", rack.code), counters)
        self._touch()

    def drop_rack(self, code: RackCode) -> None:
        if self._racks.pop(code, None) is not None:
            self._sum.drop(("rack", code))
            self._reshape()
            self._touch()

    def rack_counters(self, code: RackCode) -> Counters:
        """As its last complete scan was folded; {} if there was none."""
        return dict(self._sum.held(("rack", code)))

    def _reshape(self) -> None:
        """Counts the union of all racks' shapes everywhere; other racks are folded again only if that changed."""
        wanted = watchable([*self._announced, *(s for member in self._racks.values() for s in member.shapes)])
        if wanted == self._shapes:
            return
        self._shapes = wanted
        for code, member in self._racks.items():
            if member.fold is not None:
                member.fold.watch(wanted)
                self._sum.put(("rack", code), flatten(member.fold.digest(member.guests, member.rack.scanned_at)))

    # --- children -------------------------------------------------------------------------------

    @property
    def children(self) -> Mapping[ZoneCode, Child]:
        return self._children

    def put_child(self, child: Child) -> None:
        """A child's row, new or changed: state, administration and health decide where its digest counts."""
        before = self._children.get(child.code)
        self._children[child.code] = child
        standing, counts = child_standing(child), child_counts(child)
        if before is not None and (child_standing(before), child_counts(before)) == (standing, counts):
            return
        self._sum.stand(("child", child.code), standing, counts)
        self._touch()

    def put_digest(self, code: ZoneCode, counters: Mapping[str, int]) -> None:
        """A child's whole digest, checked before (`core.digest.unflatten`). KeyError without `put_child`."""
        self._sum.put(("child", code), counters)
        self._touch()

    def patch_digest(self, code: ZoneCode, changes: Mapping[str, int]) -> None:
        """What changed in a child's digest, checked before. KeyError without `put_child`."""
        if changes:
            self._sum.patch(("child", code), changes)
            self._touch()

    def drop_child(self, code: ZoneCode) -> None:
        if self._children.pop(code, None) is not None:
            self._sum.drop(("child", code))
            self._touch()

    def child_counters(self, code: ZoneCode) -> Mapping[str, int]:
        """As the child reported them; {} if it has not. Not to be changed."""
        return self._sum.held(("child", code))

    def child_digest(self, code: ZoneCode) -> Digest:
        """The child's digest as it counts here, itself not among the zones."""
        child = self._children.get(code)
        standing = child_standing(child) if child is not None else Standing.DROPPED
        return placed(unflatten(self.child_counters(code)), standing)

    # --- the sum --------------------------------------------------------------------------------

    def counters(self) -> Counters:
        """The zone's digest in its flat form, bounded: what goes up."""
        return self._sum.counters()

    def fold(self) -> Digest:
        """The zone's digest."""
        return unflatten(self._sum.counters())

    # --- what the zone says of itself -------------------------------------------------------------

    @property
    def scanning(self) -> bool:
        """A first scan is still to end."""
        return any(member.rack.scanned_at is None for member in self._racks.values())

    @property
    def scanned(self) -> bool:
        """Every rack was read at least once; true without racks."""
        return not self.scanning

    @property
    def condition(self) -> Condition:
        """UNAVAILABLE when there are racks and none of them answers."""
        down = [m.rack.health is RackHealth.UNAVAILABLE for m in self._racks.values()]
        return Condition.UNAVAILABLE if down and all(down) else Condition.AVAILABLE

    @property
    def reason(self) -> str:
        """Of the racks that do not answer, at most three and 1,000 characters; "" when all do."""
        down = [m.rack for m in self._racks.values() if m.rack.health is RackHealth.UNAVAILABLE]
        said = "; ".join(f"rack {rack.name}: {rack.reason}" for rack in down[:3])
        return said[:980] + (f"; and {len(down) - 3} more" if len(down) > 3 else "")

    def _touch(self) -> None:
        self.version += 1
        self._changed()


def same_but_time(a: Mapping[str, int], b: Mapping[str, int]) -> bool:
    """True if two digests differ in nothing but when they were taken: no news that should not wait."""
    return all(a.get(key, 0) == b.get(key, 0) for key in {*a, *b} if key not in ("at", "uat"))
