"""Exact claims on the hosts of one rack (protocols §5).

A claim is *pending* beside the columns until its transaction is known to have committed: it holds
room at once, so that two claims never meet, and is in no total before it is durable. `commit` and
`cancel` end that. On exclusive capacity no claim ever takes a host above what it may promise; on shared
capacity a claim is the best guess after the last scan, and is a *debit* until a scan has seen its guests.
Hosts change under it through the columns. It stores nothing, and gives no ids.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec
import numpy as np

from banyan.core.errors import Conflict
from banyan.core.order import Claim, Ground, GroupPolicy, Policy, Reason, Refusal, add_reasons
from banyan.core.rack import Capacity
from banyan.core.resources import ResourceClass, Shape
from banyan.placement.columns import Columns, Ints
from banyan.placement.filters import NOBODY, Around, Ask, left_out
from banyan.placement.index import Index
from banyan.placement.room import Pairs, Room
from banyan.placement.score import END, MAX_COUNT, ROW_MASK, apart, in_turn, spread, spread_count, together

# Asks with an index; the one not used for longest goes. Each costs a pass over all hosts, and 50 KiB.
MAX_INDEXES: Final = 256
# Changes after which hosts are counted again for people who ask why: a pass over all hosts for so many claims.
SURVEY_EVERY: Final = 1_000

Needs = tuple[tuple[ResourceClass, int], ...]


class _Hold(msgspec.Struct, gc=False):
    claim: Claim
    needs: Needs
    group: str
    pairs: Pairs
    layout: int  # of the room, for which the pairs are


@dataclass(slots=True)
class _Asked:
    """An ask's index, and why hosts did not take it when they were last looked at, with what had changed by then."""

    index: Index
    stamp: tuple[int, int] = (0, 0)
    counts: dict[str, int] = field(default_factory=dict)
    able: int = 0


class Claims:
    """`seed` decides ties. `ceiling`: the most that may be promised per class, whatever the hosts have (core.share).

    The columns stay the caller's to change; only `commit` and `release` change them here.
    """

    def __init__(
        self,
        columns: Columns,
        capacity: Capacity = Capacity.EXCLUSIVE,
        seed: int = 0,
        ceiling: Mapping[ResourceClass, int] | None = None,
    ) -> None:
        self.capacity = capacity
        self.ceiling = dict(ceiling or {})
        self._room = Room(columns, seed)
        self._holds: dict[str, _Hold] = {}
        self._debits: dict[str, _Hold] = {}
        self._asked: OrderedDict[Ask, _Asked] = OrderedDict()
        self._groups: dict[str, dict[str, int]] = {}

    @property
    def columns(self) -> Columns:
        return self._room.columns

    @property
    def pending(self) -> Mapping[str, Claim]:
        """Claims that are neither committed nor cancelled, by order."""
        return {order: hold.claim for order, hold in self._holds.items()}

    @property
    def debits(self) -> Collection[str]:
        """Orders committed on shared capacity since the picture before this one."""
        return self._debits.keys()

    def fits(self, ask: Ask) -> int:
        """How many more guests would find a place now, one by one, less what is pending; at most MAX_COUNT."""
        return min(int(self._index(ask).index.counts().sum()), self._under_ceiling(ask.shape))

    def survey(self, ask: Ask) -> tuple[Mapping[str, int], int]:
        """Hosts that do not take a guest, per reason, and how many do: for people, as of at most 1,000 changes ago."""
        return self._survey(self._index(ask), SURVEY_EVERY)

    # --- claiming -------------------------------------------------------------------------------

    def claim(self, order: str, ask: Ask, least: int = 1, most: int = 1, near: Around = NOBODY) -> Claim | Refusal:
        """Holds places for `most` guests, or as many as there are, but for no fewer than `least`; else for none.

        The same order gets the same claim; one that asks for something else under its id is refused: what one of the
        two gave back the other would hold no more. `near.members` are the stored guests of the group: orders of
        one group come here one at a time. A refusal counts every host. Raises Conflict("other-order").
        """
        held = self._holds.get(order)
        if held is not None:
            if (held.needs, held.group) != (ask.shape.needs, near.group) or not least <= held.claim.count <= most:
                raise Conflict("other-order", f"{order} is pending here, and was claimed for something else")
            return held.claim
        asked = self._index(ask)
        left = self._under_ceiling(ask.shape) if self.ceiling else MAX_COUNT
        members = self._members(near) if near.policy is not None else {}
        if left >= most == 1:
            claim = self._one(order, asked.index, near, members)
        else:
            claim = self._many(order, asked.index, near, members, least, min(most, left))
        if isinstance(claim, int):
            return self._refusal(asked, near, members, left < least, claim)
        self._holds[order] = _Hold(claim, ask.shape.needs, near.group, asked.index.pairs or (), self._room.layout)
        if near.group:
            pending = self._groups.setdefault(near.group, {})
            for host, count in zip(claim.hosts, claim.counts, strict=True):
                pending[host] = pending.get(host, 0) + count
        return claim

    def _one(self, order: str, index: Index, near: Around, members: Mapping[str, int]) -> Claim | int:
        """A claim for one guest; how many places there are (none) if it is refused."""
        ground = Ground.MOST_ROOM if index.ask.policy is Policy.SPREAD else Ground.LEAST_ROOM
        if near.empty:
            best = index.best()
        else:
            best, ground = self._one_near(index, near, members, ground)
        if best == END:
            return 0
        row = best & ROW_MASK
        assert index.pairs is not None
        fits = spread_count(best) if index.ask.policy is Policy.SPREAD else index.count(row)
        self._room.hold(row, index.pairs, 1)
        index.took(best)
        return Claim(order, (self.columns.id(row),), (1,), (fits,), ground)

    def _one_near(self, index: Index, near: Around, members: Mapping[str, int], ground: Ground) -> tuple[int, Ground]:
        """The best host's key, as a group and the named hosts allow it."""
        index.follow()
        without = set(self._rows(near.different))
        inside = list(members)
        if near.same is not None:
            able = [host for host in near.same if not self._against(near, members, host)]
            if near.policy in (GroupPolicy.SOFT_AFFINITY, GroupPolicy.SOFT_ANTI_AFFINITY):
                sign = -1 if near.policy is GroupPolicy.SOFT_AFFINITY else 1
                best = self._best_of(index, able, without, members, sign)
            else:
                best = self._best_of(index, able, without)
            return best, Ground.NAMED
        match near.policy:
            case GroupPolicy.AFFINITY if members:
                return self._best_of(index, inside, without), Ground.WITH_GROUP
            case GroupPolicy.ANTI_AFFINITY:
                full = [host for host in inside if self._against(near, members, host)]
                return index.best(without.union(self._rows(full))), Ground.AWAY_FROM_GROUP
            case GroupPolicy.SOFT_AFFINITY:
                best = self._best_of(index, inside, without, members, -1)
                return (best, Ground.WITH_GROUP) if best != END else (index.best(without), ground)
            case GroupPolicy.SOFT_ANTI_AFFINITY:
                best = index.best(without.union(self._rows(inside)))
                if best == END:
                    best = self._best_of(index, inside, without, members, 1)
                return best, Ground.AWAY_FROM_GROUP
        return index.best(without), ground

    def _best_of(
        self,
        index: Index,
        hosts: Iterable[str],
        without: Collection[int],
        members: Mapping[str, int] | None = None,
        sign: int = 0,
    ) -> int:
        """The smallest key of these hosts, those with fewest (sign 1) or most (-1) members before others."""
        best, best_rank = END, 0
        for host in hosts:
            row = self.columns.row(host)
            if row is None or row in without:
                continue
            key = index.key(row)
            rank = sign * members.get(host, 0) if members else 0
            if key != END and (best == END or (rank, key) < (best_rank, best)):
                best, best_rank = key, rank
        return best

    def _many(
        self, order: str, index: Index, near: Around, members: Mapping[str, int], least: int, most: int
    ) -> Claim | int:
        """A claim for several guests; how many places there are, fewer than `least`, if it is refused."""
        counts = index.counts()
        taken, ground = self._fill(index, counts, near, members, most)
        placed = int(taken.sum())
        if placed < max(1, least):
            return placed
        assert index.pairs is not None
        rows = np.flatnonzero(taken)
        here = taken[rows]
        self._room.hold_many(rows, index.pairs, here)
        ids = self.columns.ids
        return Claim(
            order,
            tuple([ids[row] for row in rows.tolist()]),
            tuple(here.tolist()),
            tuple(counts[rows].tolist()),
            ground if near.same is None else Ground.NAMED,
        )

    def _fill(
        self, index: Index, counts: Ints, near: Around, members: Mapping[str, int], n: int
    ) -> tuple[Ints, Ground]:
        policy = index.ask.policy
        ground = Ground.MOST_ROOM if policy is Policy.SPREAD else Ground.LEAST_ROOM
        caps = counts
        if not near.empty:
            counts = caps = self._among(counts, near)
            group = self._by_row(members, counts.shape[0])
            match near.policy:
                case GroupPolicy.SOFT_AFFINITY:
                    return together(counts, group, index.keys(counts), n), Ground.WITH_GROUP
                case GroupPolicy.SOFT_ANTI_AFFINITY:
                    return apart(counts, group, partial(index.keys, counts), n), Ground.AWAY_FROM_GROUP
                case GroupPolicy.AFFINITY if members:
                    counts = caps = np.where(group > 0, counts, 0)
                    ground = Ground.WITH_GROUP
                case GroupPolicy.AFFINITY:
                    # The host must take them all, so what is best among hosts that can do that.
                    enough = min(n, int(counts.max(initial=0)))
                    able = index.keys(np.where(counts >= enough, counts, 0))
                    return in_turn(able, counts, enough), Ground.WITH_GROUP
                case GroupPolicy.ANTI_AFFINITY:
                    caps = np.clip(near.per_host - group, 0, counts)
                    ground = Ground.AWAY_FROM_GROUP
        if policy is Policy.SPREAD:
            return spread(counts, caps, self._room.ties[: counts.shape[0]], n), ground
        return in_turn(index.keys(np.where(caps > 0, counts, 0)), caps, n), ground

    def _among(self, counts: Ints, near: Around) -> Ints:
        """The counts on hosts that the hints allow."""
        if near.same is not None:
            only = np.zeros_like(counts)
            rows = self._rows(near.same)
            only[rows] = counts[rows]
            counts = only
        elif near.different:
            counts = counts.copy()
        counts[self._rows(near.different)] = 0
        return counts

    @staticmethod
    def _against(near: Around, members: Mapping[str, int], host: str) -> bool:
        """True if a hard rule of the group keeps a guest from that host."""
        if near.policy is GroupPolicy.ANTI_AFFINITY:
            return members.get(host, 0) >= near.per_host
        return near.policy is GroupPolicy.AFFINITY and bool(members) and host not in members

    def _members(self, near: Around) -> Mapping[str, int]:
        pending = self._groups.get(near.group)
        known = {host: n for host, n in near.members.items() if n > 0}
        if pending:
            for host, count in pending.items():
                known[host] = known.get(host, 0) + count
        return known

    def _rows(self, hosts: Iterable[str]) -> list[int]:
        columns = self.columns
        return [row for host in hosts if (row := columns.row(host)) is not None]

    def _by_row(self, members: Mapping[str, int], number: int) -> Ints:
        group = np.zeros(number, dtype=np.int64)
        for host, count in members.items():
            row = self.columns.row(host)
            if row is not None:
                group[row] = count
        return group

    # --- what becomes of a claim ----------------------------------------------------------------

    def commit(self, order: str) -> None:
        """The claim is durable: from now on it is in the columns. Raises KeyError if it is not pending."""
        self._refresh()
        hold = self._holds.pop(order)
        self._leave_group(hold)
        if self.capacity is Capacity.SHARED:
            self._debits[order] = hold
        pairs, claim = self._pairs_of(hold), hold.claim
        if len(claim.hosts) == 1:
            row = self.columns.row(claim.hosts[0])
            if row is not None:
                self._room.use(row, pairs, claim.counts[0])
            return
        rows, counts = self._places(claim)
        self._room.use_many(np.array(rows, dtype=np.int64), pairs, np.array(counts, dtype=np.int64))

    def cancel(self, order: str) -> bool:
        """The claim was never committed: its room is free again. False if it is not pending."""
        self._refresh()
        hold = self._holds.pop(order, None)
        if hold is None:
            return False
        self._leave_group(hold)
        pairs = self._pairs_of(hold)
        for row, count in zip(*self._places(hold.claim), strict=True):
            self._room.let_go(row, pairs, count)
        return True

    def release(self, host: str, needs: Mapping[ResourceClass, int], count: int = 1) -> None:
        """Guests that were committed are gone. Raises KeyError for an unknown host or class."""
        columns = self.columns
        row = columns.row(host)
        if row is None:
            raise KeyError(host)
        for cls, need in needs.items():
            index = columns.class_index(cls)
            if index is None:
                raise KeyError(cls)
            columns.use(row, index, -need * count)

    def adopt(self, columns: Columns, unseen: Collection[str] = ()) -> None:
        """Columns of a newer picture take the place of the present ones; what is pending stays.

        They must hold every claim that was committed before, but the debits of these orders, whose guests
        the scan could not see yet: those are added to them, and stay debits.
        """
        self._debits = {order: hold for order, hold in self._debits.items() if order in unseen}
        for hold in self._debits.values():
            for host, count in zip(hold.claim.hosts, hold.claim.counts, strict=True):
                row = columns.row(host)
                if row is not None:
                    for index, need in self._pairs(hold.needs, columns):
                        columns.use(row, index, need * count)
        self._room.lay_out(self._held(columns), columns)

    def _leave_group(self, hold: _Hold) -> None:
        pending = self._groups.get(hold.group)
        if pending is None:
            return
        for host, count in zip(hold.claim.hosts, hold.claim.counts, strict=True):
            pending[host] -= count
            if not pending[host]:
                del pending[host]
        if not pending:
            del self._groups[hold.group]

    def _places(self, claim: Claim) -> tuple[list[int], list[int]]:
        """Rows and counts of the claim's hosts that are still there."""
        columns = self.columns
        rows, counts = [], []
        for host, count in zip(claim.hosts, claim.counts, strict=True):
            row = columns.row(host)
            if row is not None:
                rows.append(row)
                counts.append(count)
        return rows, counts

    # --- following ------------------------------------------------------------------------------

    def _index(self, ask: Ask) -> _Asked:
        self._refresh()
        asked = self._asked.get(ask)
        if asked is None:
            asked = self._asked[ask] = _Asked(Index(self._room, ask))
            if len(self._asked) > MAX_INDEXES:
                self._asked.popitem(last=False)
        else:
            self._asked.move_to_end(ask)
        return asked

    def _refresh(self) -> None:
        if self._room.stale():
            self._room.lay_out(self._held(self.columns))

    def _held(self, columns: Columns) -> Iterator[tuple[str, Pairs, int]]:
        for hold in self._holds.values():
            pairs = self._pairs(hold.needs, columns)
            for host, count in zip(hold.claim.hosts, hold.claim.counts, strict=True):
                yield host, pairs, count

    def _pairs_of(self, hold: _Hold) -> Pairs:
        if hold.layout != self._room.layout:
            hold.pairs, hold.layout = self._pairs(hold.needs, self.columns), self._room.layout
        return hold.pairs

    @staticmethod
    def _pairs(needs: Needs, columns: Columns) -> Pairs:
        found = [(columns.class_index(cls), need) for cls, need in needs]
        return tuple((index, need) for index, need in found if index is not None)

    def _under_ceiling(self, shape: Shape) -> int:
        """How many of the shape the rack's ceiling lets in, at most MAX_COUNT."""
        left = MAX_COUNT
        for cls, need in shape.needs:
            if cls in self.ceiling:
                amount = self.columns.offered_amount(cls)
                index = self.columns.class_index(cls)
                held = self._room.held(index) if index is not None else 0
                left = min(left, (min(self.ceiling[cls], amount.total) - amount.used - held) // need)
        return max(left, 0)

    def _refusal(
        self, asked: _Asked, near: Around, members: Mapping[str, int], over_ceiling: bool, fits: int
    ) -> Refusal:
        if near.empty:
            counts, able = self._survey(asked, 0)
        else:
            counts, able = left_out(self._room, asked.index.ask, near, members)
        if able:
            reason = Reason.CEILING if over_ceiling else Reason.TOO_FEW
            counts = add_reasons(counts, {reason: able})
        return Refusal(len(self.columns), dict(counts), fits)

    def _survey(self, asked: _Asked, changes: int) -> tuple[dict[str, int], int]:
        room = self._room
        layout, position = asked.stamp
        if layout != room.layout or room.changed.position - position > changes:
            asked.stamp = (room.layout, room.changed.position)
            asked.counts, asked.able = left_out(room, asked.index.ask, NOBODY, {})
        return asked.counts, asked.able
