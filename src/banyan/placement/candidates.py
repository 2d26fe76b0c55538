"""The members of a zone as placement sees them: who may take an order at all, and how many would fit there.

One table for own racks and child zones, at any level: a zone never looks inside a member. Masks are
kept per *want* (what an order asks of a member), room per shape; both are repaired for the members that
changed, so that choosing among 20,000 costs a few passes over an array. What is not known of a member
does not speak against it: it answers for itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from banyan.core.ids import split_path
from banyan.core.order import Order, Reason
from banyan.core.rack import Rack, RackHealth
from banyan.core.resources import Shape
from banyan.core.zone import Admin, Child, ChildState, Health, Mode
from banyan.placement.columns import Bools, Ints
from banyan.placement.debits import Debits

Key = tuple[str, int]  # ("child" | "rack", code)

# Wants, and shapes, that are kept repaired; the one not used for longest goes. At 20,000 members 60 and 180 KB each.
MAX_KEPT: Final = 256
# More room than this is as good as this much, so that sums over members stay within int64.
MAX_ROOM: Final = 2**40


@dataclass(frozen=True, slots=True)
class Member:
    """`closed`: why it takes no order at all, "" if it does. Sets are of it and all below; None is not known.

    `labels`: per key every value there. `traits`: those that some host there has.
    """

    key: Key
    name: str
    closed: str = ""
    labels: Mapping[str, frozenset[str]] | None = None
    drivers: frozenset[str] | None = None
    availability_zones: frozenset[str] | None = None
    traits: frozenset[str] | None = None


def closed_child(child: Child) -> str:
    """Why that child takes no new order; "" if it does. A suspect one takes none, since nobody knows what it has."""
    if child.health is not Health.ALIVE:
        return Reason.UNAVAILABLE if child.health is Health.UNAVAILABLE else Reason.UNREACHABLE
    if child.admin is not Admin.ENABLED:
        return Reason.MAINTENANCE if child.admin is Admin.MAINTENANCE else Reason.DISABLED
    if child.state is not ChildState.READY:
        return Reason.NOT_READY
    if child.quarantined:
        return Reason.QUARANTINED
    return Reason.READ_ONLY if child.rolled_back or child.mode is Mode.OBSERVE else ""


def closed_rack(rack: Rack) -> str:
    """Why that rack takes no new order; "" if it does."""
    if rack.scanned_at is None:
        return Reason.NOT_READY
    return "" if rack.health is RackHealth.AVAILABLE else Reason.UNAVAILABLE


class Want(msgspec.Struct, frozen=True):
    """What an order asks of a member. `way`: names from here downwards, as far as the order says. `among`: members
    that have a host which it names, "" for own racks; None for any."""

    shape: Shape
    way: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    drivers: tuple[str, ...] = ()
    availability_zone: str = ""
    among: frozenset[str] | None = None

    def against(self, member: Member) -> str:
        """The first reason against that member; "" if there is none."""
        if member.closed:
            return member.closed
        if self.way and (member.name != self.way[0] or (len(self.way) > 1 and member.key[0] == "rack")):
            return Reason.PATH
        if self.among is not None and ("" if member.key[0] == "rack" else member.name) not in self.among:
            return Reason.NOT_NAMED
        for key, value in self.labels:
            if member.labels is not None and value not in member.labels.get(key, ()):
                return Reason.LABEL
        if self.drivers and member.drivers is not None and member.drivers.isdisjoint(self.drivers):
            return Reason.DRIVER
        if member.availability_zones is not None and self.availability_zone not in ("", *member.availability_zones):
            return Reason.AVAILABILITY_ZONE
        if member.traits is not None:
            for trait in self.shape.traits:
                if trait not in member.traits:
                    return f"{Reason.TRAIT}:{trait}"
        return ""


def want(order: Order) -> Want:
    """What the order asks of a member of the zone that has it now. Raises BadInput for a path that is none."""
    hints = order.specification.hints
    return Want(
        order.specification.shape,
        split_path(hints.path),
        tuple(sorted(hints.labels.items())),
        tuple(sorted(set(hints.drivers))),
        order.specification.native_zone,
        frozenset(host.path.partition("/")[0] for host in hints.hosts) if hints.hosts else None,
    )


@lru_cache(maxsize=4_096)
def _counters_of(shape: Shape) -> tuple[str, str]:
    """Under which keys a digest says how many fit, and on how many hosts that was counted."""
    return f"lf:{shape.key}", f"lk:{shape.id}"


def room_of(counters: Mapping[str, int], shape: Shape) -> tuple[int, bool]:
    """How many guests of the shape a member says it has room for; whether it counted that on all of its hosts.

    Where it did not (the shape is new, or older programs are below) the free totals of the other hosts
    are an upper bound: they say what can not be, and who has most.
    """
    fits_as, counted_as = _counters_of(shape)
    fits = counters.get(fits_as, 0)
    hosts = counters.get("lh", 0)
    others = hosts - counters.get(counted_as, 0)
    if others <= 0:
        return fits, True
    bound = MAX_ROOM
    for cls, need in shape.needs:
        free = counters.get(f"lr:{cls}:t", 0) - counters.get(f"lr:{cls}:u", 0)
        bound = min(bound, max(0, free) // need)
    return min(MAX_ROOM, fits + -(-bound * others // hosts)), False


class _Stale:
    """Rows that must be looked at again: a byte for each, however long nobody asks."""

    __slots__ = ("_any", "_rows")

    def __init__(self) -> None:
        self._rows = bytearray()
        self._any = False

    def add(self, row: int) -> None:
        if row < len(self._rows):
            self._rows[row] = 1
            self._any = True

    def take(self, count: int) -> list[int]:
        """Those among the first `count` rows, new ones too, and none of them from now on."""
        known = len(self._rows)
        rows = np.flatnonzero(np.frombuffer(self._rows, dtype=np.int8)).tolist() if self._any else []
        self._any = False
        self._rows = bytearray(count)
        return [*rows, *range(known, count)]

    def stale(self, count: int) -> bool:
        return self._any or len(self._rows) < count


@dataclass(slots=True)
class _Mask:
    """`codes`: 0 where the member may take it, and in gaps; else one more than the reason's place in `reasons`."""

    able: Bools
    codes: NDArray[np.int16]
    reasons: list[str]
    stale: _Stale


@dataclass(slots=True)
class _Room:
    values: Ints
    estimated: set[int]
    stale: _Stale


class Candidates:
    """`counters`: a member's digest as it reported it, flat (core.digest); {} if there is none yet.

    Rows are members in no order, with gaps where one went. Arrays that are given out are not to be changed.
    """

    def __init__(self, counters: Callable[[Key], Mapping[str, int]]) -> None:
        self.debits: Debits[Key] = Debits()
        self._counters = counters
        self._rows: dict[Key, int] = {}
        self._members: list[Member | None] = []
        self._gaps: list[int] = []
        self._masks: OrderedDict[Want, _Mask] = OrderedDict()
        self._rooms: OrderedDict[Shape, _Room] = OrderedDict()
        self._shapes: dict[str, Shape] = {}
        self._hosts = _Room(np.zeros(0, dtype=np.int64), set(), _Stale())

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> int:
        """The length of the arrays here; some rows may be gaps."""
        return len(self._members)

    def row(self, key: Key) -> int | None:
        return self._rows.get(key)

    def member(self, row: int) -> Member:
        """Raises KeyError for a gap."""
        member = self._members[row]
        if member is None:
            raise KeyError(row)
        return member

    # --- changes --------------------------------------------------------------------------------

    def put(self, member: Member) -> None:
        """A member, new or changed."""
        row = self._rows.get(member.key)
        if row is None:
            row = self._gaps.pop() if self._gaps else len(self._members)
            if row == len(self._members):
                self._members.append(None)
            self._rows[member.key] = row
            self._stale_room(row)
        self._members[row] = member
        self._stale_masks(row)

    def drop(self, key: Key) -> None:
        row = self._rows.pop(key, None)
        if row is None:
            return
        self._members[row] = None
        self._gaps.append(row)
        self.debits.drop(key)
        self._stale_masks(row)
        self._stale_room(row)

    def counted(self, key: Key, changed: Iterable[str] | None = None) -> None:
        """The member's counters changed: those of these keys (core.digest.diff), or any of them."""
        row = self._rows.get(key)
        if row is None:
            return
        if changed is None:
            self._stale_room(row)
            return
        free = False
        for name in changed:
            if name.startswith("lf:"):
                shape = self._shapes.get(name[3:])
                if shape is not None:
                    self._rooms[shape].stale.add(row)
            elif name.startswith("lk:") or name == "lh":
                self._stale_room(row)
                return
            else:
                free = free or name.startswith("lr:")
        if free:
            for room in self._rooms.values():
                if row in room.estimated:
                    room.stale.add(row)

    def sent(self, key: Key, order: str, shape: Shape, count: int) -> int:
        """So many guests of an order go to the member: its number on that link."""
        self._owes(key)
        return self.debits.add(key, order, shape, count)

    def answered(self, key: Key, order: str, count: int) -> None:
        self._owes(key)
        self.debits.answered(key, order, count)

    def included(self, key: Key, below: int) -> None:
        """The member's digest holds all orders with lower numbers."""
        self._owes(key)
        self.debits.included(key, below)

    def settled(self, key: Key) -> None:
        """A new digest of the member: it holds what the member had answered for before it came."""
        self._owes(key)
        self.debits.settle(key)

    def relinked(self, key: Key) -> None:
        """The member's link is a new one: what was sent before is in its next digest, or was lost."""
        self._owes(key)
        self.debits.forget(key)

    def _owes(self, key: Key) -> None:
        row = self._rows.get(key)
        if row is not None:
            self._stale_room(row)

    def _stale_room(self, row: int) -> None:
        self._hosts.stale.add(row)
        for room in self._rooms.values():
            room.stale.add(row)

    def _stale_masks(self, row: int) -> None:
        for mask in self._masks.values():
            mask.stale.add(row)

    # --- asking ---------------------------------------------------------------------------------

    def able(self, want: Want) -> Bools:
        """Members that may take it, by row."""
        return self._mask(want).able

    def reasons(self, want: Want) -> tuple[NDArray[np.int16], list[str]]:
        """Why the others may not: by row a code, which is one more than the reason's place in the list; else 0."""
        mask = self._mask(want)
        return mask.codes, mask.reasons

    def present(self) -> Bools:
        """Rows that are no gaps."""
        present = np.ones(len(self._members), dtype=np.bool_)
        present[self._gaps] = False
        return present

    def hosts(self) -> Ints:
        """How many hosts each member says it has, by row."""
        count = len(self._members)
        hosts = self._hosts
        if hosts.stale.stale(count):
            hosts.values = _longer(hosts.values, count)
            for row in hosts.stale.take(count):
                member = self._members[row]
                hosts.values[row] = self._counters(member.key).get("lh", 0) if member is not None else 0
        return hosts.values

    def room(self, shape: Shape) -> Ints:
        """How many guests of the shape each member has room for, less its debits; by row."""
        room = self._rooms.get(shape)
        if room is None:
            room = self._rooms[shape] = _Room(np.zeros(0, dtype=np.int64), set(), _Stale())
            self._shapes[shape.key] = shape
            if len(self._rooms) > MAX_KEPT:
                old, _ = self._rooms.popitem(last=False)
                del self._shapes[old.key]
        else:
            self._rooms.move_to_end(shape)
        count = len(self._members)
        if room.stale.stale(count):
            room.values = _longer(room.values, count)
            for row in room.stale.take(count):
                member = self._members[row]
                fits, exact = room_of(self._counters(member.key), shape) if member is not None else (0, True)
                if member is not None:
                    fits = max(0, fits - self.debits.against(member.key, shape))
                room.values[row] = fits
                (room.estimated.discard if exact else room.estimated.add)(row)
        return room.values

    def room_of_one(self, want: Want, *, debits: bool) -> int:
        """Of row 0, where that is all there is: what `able` and `room` say of it (`said` without `debits`), and no
        arrays. A leaf with one rack comes here for each of its orders."""
        member = self._members[0]
        if member is None or want.against(member):
            return 0
        fits, _ = room_of(self._counters(member.key), want.shape)
        return max(0, fits - self.debits.against(member.key, want.shape)) if debits else fits

    def said(self, shape: Shape) -> Ints:
        """As `room`, by the members' own word alone: some of what they owe may be in it already."""
        values = self.room(shape).copy()
        for key in self.debits.owing():
            row = self._rows.get(key)
            if row is not None:
                values[row] = room_of(self._counters(key), shape)[0]
        return values

    def _mask(self, want: Want) -> _Mask:
        mask = self._masks.get(want)
        if mask is None:
            mask = self._masks[want] = _Mask(np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int16), [], _Stale())
            if len(self._masks) > MAX_KEPT:
                self._masks.popitem(last=False)
        else:
            self._masks.move_to_end(want)
        count = len(self._members)
        if mask.stale.stale(count):
            mask.able, mask.codes = _longer(mask.able, count), _longer(mask.codes, count)
            for row in mask.stale.take(count):
                member = self._members[row]
                reason = want.against(member) if member is not None else ""
                if reason and reason not in mask.reasons:
                    mask.reasons.append(reason)
                mask.codes[row] = mask.reasons.index(reason) + 1 if reason else 0
                mask.able[row] = member is not None and not reason
        return mask


A = TypeVar("A", bound=np.generic)


def _longer(array: NDArray[A], count: int) -> NDArray[A]:
    return np.pad(array, (0, count - array.shape[0])) if array.shape[0] < count else array
