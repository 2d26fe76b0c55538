"""Which hosts may take a guest at all, and why the others may not.

An *ask* is what an order wants of a host, whoever asks: equal asks share one index
(placement/index.py). What an order's hints name, and so differs from order to order, stands beside it
in `Around`. Traits and places are judged once per distinct combination, never per host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from banyan.core.order import GroupPolicy, GroupScope, Order, Policy, Reason, add_reasons
from banyan.core.resources import Shape
from banyan.placement.columns import TOTAL, Bools, Place

if TYPE_CHECKING:
    from banyan.placement.room import Room


@dataclass(frozen=True, slots=True)
class Ask:
    """What any host must have. Of each tuple of `aggregates` a host must be in at least one."""

    shape: Shape
    policy: Policy = Policy.SPREAD
    forbidden: tuple[str, ...] = ()
    availability_zone: str = ""
    aggregates: tuple[tuple[str, ...], ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        wanted = self.shape, self.policy, self.forbidden, self.availability_zone, self.aggregates
        object.__setattr__(self, "_hash", hash(wanted))

    def __hash__(self) -> int:
        # The key of the indexes: each order looks it up several times.
        return self._hash

    def admits(self, traits: frozenset[str], place: Place) -> bool:
        return not self.left_out(traits, place)

    def left_out(self, traits: frozenset[str], place: Place) -> str:
        """The first reason against a host of these traits in this place; "" if there is none."""
        if self.availability_zone not in ("", place.availability_zone):
            return Reason.AVAILABILITY_ZONE
        if any(place.aggregates.isdisjoint(some) for some in self.aggregates):
            return Reason.AGGREGATE
        for trait in self.shape.traits:
            if trait not in traits:
                return f"{Reason.TRAIT}:{trait}"
        for trait in self.forbidden:
            if trait in traits:
                return f"{Reason.FORBIDDEN_TRAIT}:{trait}"
        return ""


def ask(order: Order) -> Ask:
    """What the order asks of a host."""
    s = order.specification
    forbidden = tuple(sorted(set(s.forbidden))) if s.forbidden else ()
    aggregates = tuple(sorted({tuple(sorted(set(some))) for some in s.aggregates})) if s.aggregates else ()
    return _ask(s.shape, order.policy, forbidden, s.native_zone, aggregates)


# Orders of one kind get one ask, which their index is then found by without comparing it.
_ask = lru_cache(4_096)(Ask)


@dataclass(frozen=True, slots=True)
class Around:
    """Hosts that an order's hints name; all in this rack, by Host.id.

    `members`: guests of its group by host, as far as they are stored (pending ones are known to the
    claims). `same`: only these hosts, None for any. `different`: none of these.
    """

    group: str = ""
    policy: GroupPolicy | None = None
    per_host: int = 1
    members: Mapping[str, int] = field(default_factory=dict)
    same: frozenset[str] | None = None
    different: frozenset[str] = frozenset()

    @property
    def empty(self) -> bool:
        return self.policy is None and self.same is None and not self.different


NOBODY = Around()


def around(
    order: Order,
    members: Mapping[str, int],
    same: frozenset[str] | None = None,
    different: frozenset[str] = frozenset(),
) -> Around:
    """The order's hints with the hosts that they come to. `same` and `different`: hosts of the guests it names."""
    hints = order.specification.hints
    if hints.policy is None or hints.scope is not GroupScope.HOST:
        return Around(same=same, different=different)
    return Around(hints.group, hints.policy, hints.per_host, members, same, different)


def left_out(room: Room, ask: Ask, near: Around, members: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Hosts that do not take a guest, per reason, and how many do; together all hosts.

    The first reason counts, in the order below. `members`: of the group, pending ones as well.
    """
    columns = room.columns
    count = len(columns)
    found: dict[str, int] = {}
    left = np.ones(count, dtype=np.bool_)

    def leave(reason: str, bad: Bools) -> None:
        nonlocal left
        number = int(np.count_nonzero(left & bad))
        if number:
            found[reason] = found.get(reason, 0) + number
            left &= ~bad

    leave(Reason.NOT_OFFERED, ~columns.offered[:count])
    leave(Reason.DOWN, ~columns.up[:count])
    leave(Reason.DISABLED, columns.disabled[:count])
    kinds = room.kinds[:count]
    for kind in np.flatnonzero(np.bincount(kinds[left])).tolist():
        reason = ask.left_out(*room.kind(kind))
        if reason:
            leave(reason, kinds == kind)
    for cls, need in ask.shape.needs:
        index = columns.class_index(cls)
        if index is None:
            leave(f"{Reason.SMALL}:{cls}", left.copy())
        else:
            leave(f"{Reason.SMALL}:{cls}", columns.amounts[TOTAL, index, :count] < need)
    for cls, need in ask.shape.needs:
        index = columns.class_index(cls)
        if index is not None:
            leave(f"{Reason.FULL}:{cls}", room.free()[index, :count] < need)
    if near.same is not None:
        leave(Reason.NOT_NAMED, ~_rows(room, near.same, count))
    if near.different:
        leave(Reason.NAMED, _rows(room, near.different, count))
    if near.policy is GroupPolicy.ANTI_AFFINITY:
        leave(Reason.GROUP, _rows(room, {host for host, n in members.items() if n >= near.per_host}, count))
    elif near.policy is GroupPolicy.AFFINITY and members:
        leave(Reason.GROUP, ~_rows(room, members, count))
    return add_reasons(found, {}), int(np.count_nonzero(left))


def _rows(room: Room, hosts: Mapping[str, int] | set[str] | frozenset[str], count: int) -> Bools:
    mask = np.zeros(count, dtype=np.bool_)
    rows = [row for host in hosts if (row := room.columns.row(host)) is not None]
    mask[rows] = True
    return mask
