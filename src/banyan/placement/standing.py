"""Where a member's capacity counts (protocols §3, §4): rules, and sums of members kept exact as they change.

A member is a rack or a child zone. Its digest is folded by its *standing*; the sums here change by
what changed in one member, never by adding all of them up again. Property-tested: the running sums
equal the merge from scratch (`core.digest.merge` of `placed`).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Generic, TypeVar

from banyan.core.digest import Counters, Digest, bounded, counter
from banyan.core.rack import Rack, RackHealth
from banyan.core.zone import Admin, Child, ChildState, Health

M = TypeVar("M", bound=Hashable)


class Standing(StrEnum):
    LIVE = "live"  # counts as it reported
    NOT_OFFERED = "not-offered"  # heard, but may not be used
    UNKNOWN = "unknown"  # its last value, apart
    DROPPED = "dropped"  # counts nowhere


def child_standing(child: Child) -> Standing:
    """Where a child's digest counts.

    Retired or gone: nowhere. Banned: unknown, since its stream is cut and its word is not taken. Lost:
    unknown, also when disabled or in maintenance, since nobody sees it. Disabled, in maintenance,
    quarantined, rolled back, or not yet ready: not offered. Else live, also when suspect (late, not
    lost: takes no new work, but a blip must not move totals) and when unavailable: then the child
    hears its own side, and has put apart itself what it does not know.
    """
    if child.state is ChildState.RETIRED or child.health is Health.GONE:
        return Standing.DROPPED
    if child.admin is Admin.BANNED or child.health is Health.LOST:
        return Standing.UNKNOWN
    if child.admin is not Admin.ENABLED or child.quarantined or child.rolled_back:
        return Standing.NOT_OFFERED
    return Standing.LIVE if child.state is ChildState.READY else Standing.NOT_OFFERED


def child_counts(child: Child) -> Counters:
    """What the child itself adds to the counts of zones; what lies below it is in its digest."""
    if child_standing(child) is Standing.DROPPED:
        return {}
    counts = {"z:total": 1, f"z:{child.health}": 1}
    if child_standing(child) is Standing.UNKNOWN:
        counts["uz"] = 1
    if child.state is ChildState.READY:
        counts["z:ready"] = 1
    if child.admin is not Admin.ENABLED:
        counts["z:disabled"] = 1
    return counts


def rack_standing(rack: Rack) -> Standing:
    """Live while its own side answers; before the first complete scan there is nothing to count."""
    if rack.scanned_at is None:
        return Standing.DROPPED
    return Standing.LIVE if rack.health is RackHealth.AVAILABLE else Standing.UNKNOWN


def placed(digest: Digest, standing: Standing) -> Digest:
    """The digest as it counts above."""
    match standing:
        case Standing.LIVE:
            return digest
        case Standing.NOT_OFFERED:
            return digest.as_not_offered()
        case Standing.UNKNOWN:
            return digest.as_unknown()
        case Standing.DROPPED:
            return Digest()


@lru_cache(maxsize=65_536)
def targets(key: str, standing: Standing) -> tuple[str, ...]:
    """The counters of a sum that this counter of a member adds to: `placed`, key by key. No instants."""
    c = counter(key)
    if c is None or c.kind in ("at", "uat") or standing is Standing.DROPPED:
        return ()
    if c.kind == "g":
        key = f"{c.part}g:{c.name}"
    if standing is Standing.LIVE:
        return (key,)
    unknown = standing is Standing.UNKNOWN
    if c.part:
        if c.kind in ("f", "k"):
            return ()
        into = "u" if unknown else {"l": "n"}.get(c.part, c.part)
        return (into + key[1:],)
    if not unknown or c.kind == "dr":
        return (key,)
    if c.kind == "uz":
        return ()
    if c.name in ("alive", "suspect", "lost"):
        return ("z:lost",)
    return (key, "uz") if c.name == "total" else (key,)


@dataclass(slots=True)
class _Part:
    standing: Standing
    counters: Counters
    alone: Counters  # beside its digest, as it stands: what the member itself counts


@dataclass(slots=True)
class _Oldest(Generic[M]):
    """The smallest instant of many that change; stale entries leave the heap when they come up."""

    held: dict[M, int] = field(default_factory=dict)
    heap: list[tuple[int, int, M]] = field(default_factory=list)
    pushed: int = 0

    def put(self, member: M, instant: int) -> None:
        """0 takes the member out."""
        if not instant:
            self.held.pop(member, None)
        elif self.held.get(member) != instant:
            self.held[member] = instant
            if len(self.heap) > 2 * len(self.held) + 64:
                self.heap = [(at, n, m) for n, (m, at) in enumerate(self.held.items())]
                self.pushed = len(self.heap)
                heapq.heapify(self.heap)
            else:
                self.pushed += 1
                heapq.heappush(self.heap, (instant, self.pushed, member))

    def get(self) -> int:
        while self.heap and self.held.get(self.heap[0][2]) != self.heap[0][0]:
            heapq.heappop(self.heap)
        return self.heap[0][0] if self.heap else 0


class Sum(Generic[M]):
    """The digests of many members, summed by standing. Each call costs as much as it changes.

    `M` names a member. Counters are Python integers: exact, saturated only in `counters`.
    """

    def __init__(self) -> None:
        self._members: dict[M, _Part] = {}
        self._totals: Counters = {}
        self._as_of: _Oldest[M] = _Oldest()
        self._unknown_as_of: _Oldest[M] = _Oldest()

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def __len__(self) -> int:
        return len(self._members)

    def held(self, member: M) -> Counters:
        """The member's counters as it reported them; {} if none. Not to be changed."""
        part = self._members.get(member)
        return part.counters if part is not None else {}

    def stand(self, member: M, standing: Standing, alone: Mapping[str, int] | None = None) -> None:
        """Places the member, new or known, and what it counts itself beside its digest (`child_counts`)."""
        part = self._members.get(member)
        if part is None:
            part = self._members[member] = _Part(standing, {}, {})
        elif part.standing is not standing:
            self._add(part.counters, part.standing, -1)
            self._add(part.counters, standing, 1)
            part.standing = standing
        self._stand_alone(part, dict(alone or {}))
        self._instants(member, part)

    def put(self, member: M, counters: Mapping[str, int]) -> None:
        """Replaces the member's counters. KeyError if it was never placed."""
        part = self._members[member]
        self._add(part.counters, part.standing, -1)
        part.counters = {key: value for key, value in counters.items() if value}
        self._add(part.counters, part.standing, 1)
        self._instants(member, part)

    def patch(self, member: M, changes: Mapping[str, int]) -> None:
        """Applies `core.digest.diff` to the member's counters. KeyError if it was never placed."""
        part = self._members[member]
        held = part.counters
        for key, value in changes.items():
            before = held.get(key, 0)
            if value == before:
                continue
            if value:
                held[key] = value
            else:
                del held[key]
            self._shift(key, part.standing, value - before)
        self._instants(member, part)

    def drop(self, member: M) -> None:
        part = self._members.pop(member, None)
        if part is not None:
            self._add(part.counters, part.standing, -1)
            self._stand_alone(part, {})
            self._as_of.put(member, 0)
            self._unknown_as_of.put(member, 0)

    def counters(self, first: Collection[str] = ()) -> Counters:
        """The sum as it may travel: bounded, shapes of the keys `first` before others (`core.digest.bounded`)."""
        flat = dict(self._totals)
        flat["at"], flat["uat"] = self._as_of.get(), self._unknown_as_of.get()
        return bounded(flat, first)

    def _stand_alone(self, part: _Part, alone: Counters) -> None:
        for key, value in part.alone.items():
            self._into(key, -value)
        for key, value in alone.items():
            self._into(key, value)
        part.alone = alone

    def _add(self, counters: Counters, standing: Standing, sign: int) -> None:
        for key, value in counters.items():
            self._shift(key, standing, sign * value)

    def _shift(self, key: str, standing: Standing, by: int) -> None:
        for target in targets(key, standing):
            self._into(target, by)

    def _into(self, key: str, by: int) -> None:
        value = self._totals.get(key, 0) + by
        if value:
            self._totals[key] = value
        else:
            self._totals.pop(key, None)

    def _instants(self, member: M, part: _Part) -> None:
        at, uat = part.counters.get("at", 0), part.counters.get("uat", 0)
        match part.standing:
            case Standing.UNKNOWN:
                at, uat = 0, min(at or uat, uat or at)
            case Standing.DROPPED:
                at = uat = 0
        self._as_of.put(member, at)
        self._unknown_as_of.put(member, uat)
