"""What a zone holds in memory of its members: its racks' columns, its children's digests, and their sum.

Derived: racks from the store (zone/reconcile/inventory.py), children from what they reported
(zone/inbox.py). Where each counts is decided in placement/standing.py. Each change costs as much as it
changes, never a fold over 20,000 children. It knows no store and no link, and never judges health.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from banyan.core.digest import PARTS, Counters, Digest, flatten, unflatten
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.messages import ShapeSet
from banyan.core.rack import Rack, RackHealth
from banyan.core.resources import Shape
from banyan.core.zone import Child, Condition
from banyan.placement.candidates import Candidates, closed_child, closed_rack
from banyan.placement.candidates import Member as Candidate
from banyan.placement.fold import Fold, GuestCounts
from banyan.placement.shapes import Choice, choose, countable, set_hash
from banyan.placement.standing import Standing, Sum, child_counts, child_standing, placed, rack_standing

Member = tuple[str, int]


@dataclass(slots=True)
class RackMember:
    """One rack. `fold` is None until its columns are built; `shapes` are those of its own offered flavors."""

    rack: Rack
    fold: Fold | None = None
    guests: GuestCounts = field(default_factory=dict)
    shapes: tuple[Shape, ...] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """Of all that a zone reports, live or not. `used_share`: used vCPUs over all that may be promised, None of none."""

    hosts: int
    servers: int
    used_share: float | None

    @staticmethod
    def of(counters: Mapping[str, int]) -> Figures:
        """Of a digest in its flat form: lists ask this of thousands at a time."""
        hosts, total, used = (
            sum(counters.get(f"{part}{what}", 0) for part in PARTS) for what in ("h", "r:vcpu:t", "r:vcpu:u")
        )
        servers = sum(count for key, count in counters.items() if key[1:3] == "g:")
        return Figures(hosts, servers, round(used / total, 4) if total else None)


class Members:
    """`settled`: keys of shapes from the zone's own settings (malformed ones are a ValueError).

    `changed` is called after each change of the sum, never while it is half done; `reshaped` when a rack has shapes
    to count that it does not yet (`lagging`). Neither may call back. `version` rises with each change of the sum.
    """

    def __init__(
        self,
        settled: Iterable[str] = (),
        changed: Callable[[], None] = lambda: None,
        reshaped: Callable[[], None] = lambda: None,
    ) -> None:
        self.version = 0
        self.driver = ""
        self._settled = tuple(Shape.parse(key) for key in settled)
        self._announced: tuple[tuple[Shape, ...], ...] = ()
        self._changed = changed
        self._reshaped = reshaped
        self._sum: Sum[Member] = Sum()
        self.candidates = Candidates(self._believed)
        # Of members that refused an order: their digest as of then, until the next one comes.
        self._fresher: dict[Member, Mapping[str, int]] = {}
        self._racks: dict[RackCode, RackMember] = {}
        self._children: dict[ZoneCode, Child] = {}
        self._figures: dict[ZoneCode, Figures] = {}
        self._choice = Choice()
        self._keys: frozenset[str] = frozenset()
        self.announcement = ShapeSet(set_hash(()))
        self._reshape()

    # --- racks ----------------------------------------------------------------------------------

    @property
    def racks(self) -> Mapping[RackCode, RackMember]:
        return self._racks

    def put_rack(self, rack: Rack) -> None:
        """A rack's row, new or changed: its health decides where it counts."""
        member = self._racks.get(rack.code)
        if member is None:
            member = self._racks[rack.code] = RackMember(rack)
        member.rack = rack
        self.driver = self.driver or rack.driver
        self._sum.stand(("rack", rack.code), rack_standing(rack))
        self._show_rack(rack)
        self._touch()

    def put_picture(self, rack: Rack, fold: Fold, guests: GuestCounts, shapes: Iterable[Shape]) -> None:
        """The picture of a complete scan, whole; `fold` is from now on ours. Its row comes with it."""
        member = self._racks.get(rack.code)
        if member is None:
            member = self._racks[rack.code] = RackMember(rack)
        member.rack, member.fold, member.guests = rack, fold, dict(guests)
        member.shapes = countable(shapes)
        self._sum.stand(("rack", rack.code), rack_standing(rack))
        self._show_rack(rack)
        self._reshape()
        self._count(member, fold)
        self._touch()

    def refold(self, code: RackCode, guests: GuestCounts) -> None:
        """What is promised in a rack's columns changed, and how many guests there are. Nothing without a picture."""
        member = self._racks.get(code)
        if member is None or member.fold is None:
            return
        member.guests = dict(guests)
        self._sum.put(("rack", code), flatten(member.fold.digest(member.guests, member.rack.scanned_at)))
        self._counted(("rack", code))
        self._touch()

    def restore_rack(self, rack: Rack, counters: Mapping[str, int]) -> None:
        """The last complete picture of a rack whose columns can not be built (a scan was cut off half-way)."""
        self.put_rack(rack)
        self._sum.put(("rack", rack.code), counters)
        self._counted(("rack", rack.code))
        self._touch()

    def drop_rack(self, code: RackCode) -> None:
        if self._racks.pop(code, None) is not None:
            self._sum.drop(("rack", code))
            self.candidates.drop(("rack", code))
            self._reshape()
            self._touch()

    def rack_counters(self, code: RackCode) -> Counters:
        """As its last complete scan was folded; {} if there was none."""
        return dict(self._sum.held(("rack", code)))

    # --- shapes ---------------------------------------------------------------------------------

    @property
    def shapes(self) -> Choice:
        """Those that are counted here and announced to the children, and those that are left out."""
        return self._choice

    def announced(self, sets: Iterable[Iterable[Shape]]) -> None:
        """What the parents announce now, the home parent's first; what none of them does is no longer theirs."""
        told = tuple(tuple(one) for one in sets)
        if told != self._announced:
            self._announced = told
            self._reshape()

    def wanted(self, rack: RackCode, shapes: Iterable[Shape]) -> tuple[Shape, ...]:
        """What would be counted if these were the flavors of that rack: for who reads it anew."""
        return self._choose({rack: shapes}).counted

    def lagging(self) -> RackMember | None:
        """A rack that does not count what it should; `counted` takes its fold when it does."""
        for member in self._racks.values():
            if member.fold is not None and member.fold.shapes != self._choice.counted:
                return member
        return None

    def counted(self, rack: RackCode, fold: Fold) -> None:
        """The rack's fold counts other shapes than before; nothing happens if it is not the rack's any more."""
        member = self._racks.get(rack)
        if member is not None and member.fold is fold:
            self._count(member, fold)
            self._touch()

    def _count(self, member: RackMember, fold: Fold) -> None:
        """The rack's digest, of the wanted shapes as far as the fold counts them already: nothing is counted here."""
        known = set(fold.shapes)
        fold.watch([shape for shape in self._choice.counted if shape in known])
        self._sum.put(("rack", member.rack.code), flatten(fold.digest(member.guests, member.rack.scanned_at)))
        self._counted(("rack", member.rack.code))
        if fold.shapes != self._choice.counted:
            self._reshaped()

    def _choose(self, instead: Mapping[RackCode, Iterable[Shape]]) -> Choice:
        flavors = {code: member.shapes for code, member in self._racks.items()} | dict(instead)
        return choose([*self._announced, self._settled, chain.from_iterable(flavors.values())])

    def _reshape(self) -> None:
        """Chooses anew. Counting takes time, so the racks follow later: until then nobody counts what is new."""
        choice = self._choose({})
        if choice == self._choice:
            return
        before, self._choice = self._choice, choice
        if choice.counted != before.counted:
            keys = tuple(shape.key for shape in choice.counted)
            self._keys = frozenset(keys)
            self.announcement = ShapeSet(set_hash(keys), keys)
            self._touch()
        self._reshaped()

    # --- children -------------------------------------------------------------------------------

    @property
    def children(self) -> Mapping[ZoneCode, Child]:
        return self._children

    def put_child(self, child: Child) -> None:
        """A child's row, new or changed: state, administration and health decide where its digest counts."""
        before = self._children.get(child.code)
        self._children[child.code] = child
        if before is None or closed_child(before) != closed_child(child) or before.name != child.name:
            self.candidates.put(Candidate(("child", child.code), child.name, closed_child(child)))
        standing, counts = child_standing(child), child_counts(child)
        if before is not None and (child_standing(before), child_counts(before)) == (standing, counts):
            return
        self._sum.stand(("child", child.code), standing, counts)
        self._touch()

    def put_digest(self, code: ZoneCode, counters: Mapping[str, int]) -> None:
        """A child's whole digest, checked before (`core.digest.unflatten`). KeyError without `put_child`."""
        self._figures.pop(code, None)
        self._sum.put(("child", code), counters)
        self._counted(("child", code))
        self._touch()

    def patch_digest(self, code: ZoneCode, changes: Mapping[str, int]) -> None:
        """What changed in a child's digest, checked before. KeyError without `put_child`."""
        if changes:
            self._figures.pop(code, None)
            self._sum.patch(("child", code), changes)
            self._counted(("child", code), changes)
            self._touch()

    def drop_child(self, code: ZoneCode) -> None:
        if self._children.pop(code, None) is not None:
            self._sum.drop(("child", code))
            self.candidates.drop(("child", code))
            self._fresher.pop(("child", code), None)
            self._figures.pop(code, None)
            self._touch()

    def figures(self, code: ZoneCode) -> Figures | None:
        """The few numbers of a child's digest by which lists are sorted; None for a zone that is no child."""
        if code not in self._children:
            return None
        figures = self._figures.get(code)
        if figures is None:
            figures = self._figures[code] = Figures.of(self.child_counters(code))
        return figures

    def child_counters(self, code: ZoneCode) -> Mapping[str, int]:
        """As the child reported them; {} if it has not. Not to be changed."""
        return self._sum.held(("child", code))

    def child_digest(self, code: ZoneCode) -> Digest:
        """The child's digest as it counts here, itself not among the zones."""
        return self.as_here(code, unflatten(self.child_counters(code)))

    def as_here(self, code: ZoneCode, digest: Digest) -> Digest:
        """The digest of a zone below that child as it counts here."""
        return placed(digest, self.standing(code))

    def standing(self, code: ZoneCode) -> Standing:
        child = self._children.get(code)
        return Standing.DROPPED if child is None else child_standing(child)

    # --- what orders go by --------------------------------------------------------------------------

    def refused(self, code: ZoneCode, counters: Mapping[str, int]) -> None:
        """What a child said it has when it refused an order, checked before: newer than its digest, which is not
        touched, since the child's next changes count from that. KeyError without `put_child`."""
        if code not in self._children:
            raise KeyError(code)
        self._fresher[("child", code)] = dict(counters)
        self.candidates.counted(("child", code))

    def _believed(self, key: Member) -> Mapping[str, int]:
        return self._fresher.get(key) or self._sum.held(key)

    def _show_rack(self, rack: Rack) -> None:
        drivers = frozenset({rack.driver})
        self.candidates.put(Candidate(("rack", rack.code), rack.name, closed_rack(rack), drivers=drivers))

    def _counted(self, key: Member, changed: Iterable[str] | None = None) -> None:
        """A member's digest came: what it owed answers for and has answered is in it."""
        stale = self._fresher.pop(key, None) is not None
        self.candidates.counted(key, None if stale else changed)
        self.candidates.settled(key)

    # --- the sum --------------------------------------------------------------------------------

    def counters(self) -> Counters:
        """The zone's digest in its flat form, bounded: what goes up."""
        return self._sum.counters(self._keys)

    def fold(self) -> Digest:
        """The zone's digest."""
        return unflatten(self.counters())

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
