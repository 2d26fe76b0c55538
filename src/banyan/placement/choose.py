"""Choosing members for an order, at any level: shares, and sharing again what was not placed (protocols §5).

Spreading, each member gets guests in proportion to what fits there, by chance where a proportion is no
whole number: for one guest that is a weighted random choice. Packing, the smallest member that suffices
gets all. Who placed less than it was asked for is not asked again for this order. Pure: the zone sends,
stores what must be stored before that, and tells here what came back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from banyan.core.order import (
    Ground,
    GroupPolicy,
    GroupScope,
    NamedHost,
    Order,
    Policy,
    Reason,
    Refusal,
    add_reasons,
    share_id,
)
from banyan.placement.candidates import MAX_ROOM, Candidates, Key, want
from banyan.placement.columns import Bools, Ints
from banyan.placement.explain import Chosen, few
from banyan.placement.score import MAX_COUNT, apart, spread_keys

# Members asked for one order beyond one for each guest. Digests are seconds old, not wrong: who has no luck with so
# many finds the tree full, and a full tree must not be asked by every order again and again.
MAX_TRIES: Final = 32
# A member is asked for one order so often: its ids can be told from the order's (core.order.share_id).
MAX_ASKED: Final = 4


class Chance(Protocol):
    """core.ports.Ids, or a seeded one."""

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound)."""


class Share(msgspec.Struct, frozen=True):
    """So many guests go to that member, counted from `first` for their names (core.order.Order).

    `order`: under which id; a member that is asked for more than once gets another each time
    (core.order.share_id). `number`: of that order on the member's link (placement/debits.py).
    """

    member: Key
    order: str
    count: int
    first: int
    number: int


def spread_shares(room: Ints, n: int, chance: Chance) -> Ints:
    """n guests in proportion to `room`, never more than that; shape as `room`. All of it, if that is less than n.

    Systematic sampling: n marks at equal distances, from a random start, on a line where each member is
    as long as its room. So each share is its proportion, rounded down or up, and right on average.
    """
    total = int(room.sum())
    if n >= total:
        return room.copy()
    alone = np.flatnonzero(room)
    if alone.size == 1:
        # A leaf with one rack, for each of its orders.
        shares = np.zeros_like(room)
        shares[alone] = n
        return shares
    # Marks are computed in whole numbers; where these would leave int64, rooms are so large that halves do as well.
    scaled = room
    while total * n >= 2**62:
        scaled = (scaled + 1) // 2
        total = int(scaled.sum())
    reached = (np.cumsum(scaled) * n + chance.below(total)) // total
    return np.diff(reached, prepend=0)


def pack_shares(room: Ints, n: int) -> Ints:
    """The smallest member that suffices gets all; while none does, the largest gets what it can."""
    shares = np.zeros_like(room)
    left = room.copy()
    while n > 0 and left.any():
        enough = np.flatnonzero(left >= n)
        row = int(enough[np.argmin(left[enough])]) if enough.size else int(np.argmax(left))
        shares[row] = min(n, int(left[row]))
        n -= int(shares[row])
        left[row] = 0
    return shares


class Sharing:
    """One order at one zone, from the first shares to the last answer.

    `members`: guests of the order's group in each member. `only`: members that its hints name, None
    for any. `whole`: one member takes all of it, or as many as are needed at least, until `split`. Call `next` and send
    what it gives; tell `placed`, `refused` or `undecided` of each share, and call it again; when it gives
    nothing and nothing is `waiting`, the order is decided here.
    """

    def __init__(
        self,
        candidates: Candidates,
        order: Order,
        chance: Chance,
        members: Mapping[Key, int] | None = None,
        only: frozenset[Key] | None = None,
        whole: bool = False,
    ) -> None:
        self.placements: dict[Key, int] = {}
        self.waiting: dict[Key, Share] = {}
        self._candidates = candidates
        self._order = order
        self._chance = chance
        self._members = {key: n for key, n in (members or {}).items() if n > 0}
        self._only = only
        self.whole = whole and order.specification.hints.policy is None
        self._debits = True
        self._want = want(order)
        self._out: dict[Key, Refusal | None] = {}
        self._asked: dict[Key, int] = {}
        self._tries = 0
        self._named = order.first

    @property
    def count(self) -> int:
        """Guests that have a place."""
        return sum(self.placements.values())

    @property
    def left(self) -> int:
        """Guests for whom a place is still to be found, and nobody is asked now."""
        return self._order.most - self.count - sum(share.count for share in self.waiting.values())

    @property
    def enough(self) -> bool:
        """As many as the order needs at least have a place."""
        return self.count >= self._order.least

    # --- sending --------------------------------------------------------------------------------

    def next(self) -> tuple[Share, ...]:
        """Shares of what is left, for members that may have more room; they are waited for from now on."""
        n = self.left
        if n < 1 or self._tries >= MAX_TRIES + self._order.most:
            return ()
        result = []
        shape = self._want.shape
        for row, count in self._counts(n):
            key = self._candidates.member(row).key
            order = self._id(key)
            number = self._candidates.sent(key, order, shape, count)
            self.waiting[key] = Share(key, order, count, self._named, number)
            self._asked[key] = self._asked.get(key, 0) + 1
            self._named += count
            result.append(self.waiting[key])
        self._tries += len(result)
        return tuple(result)

    def _counts(self, n: int) -> list[tuple[int, int]]:
        """Who gets how many, by row."""
        if self._candidates.rows == 1 and self._order.specification.hints.policy is None:
            count = self._of_one(n)
            return [(0, count)] if count else []
        shares = self._shares(self._room(), n)
        rows = np.flatnonzero(shares)
        return list(zip(rows.tolist(), shares[rows].tolist(), strict=True))

    def _of_one(self, n: int) -> int:
        """What the only member gets: as `_shares`, of an order that no rule of a group binds."""
        if self._rows((*self._out, *self.waiting)) or (self._only is not None and not self._rows(self._only)):
            return 0
        if self.whole and (self.count or self.waiting):
            return 0
        room = min(self._candidates.room_of_one(self._want, debits=self._debits), MAX_ROOM)
        if self.whole and room < n:
            return room if room >= self._order.least else 0
        return min(room, n)

    def split(self) -> None:
        """From now on several may take a part each. Who refused to take all of it is asked again, unless it has room
        for none."""
        self.whole = False
        self._out = {key: refusal for key, refusal in self._out.items() if refusal is None or refusal.fits < 1}
        self._named = self._order.first + self.count

    def _id(self, key: Key) -> str:
        asked = self._asked.get(key, 0)
        if key[0] != "rack":
            return share_id(self._order.id, asked)
        first = next((one for one in self._asked if one[0] == "rack"), key)
        return share_id(self._order.id, asked, 0 if key == first and not asked else key[1])

    def disregard_debits(self) -> None:
        """From now on members are believed as they are: what they owe answers for may be in their digests already, and
        nobody is told that there is no room before whoever says that it has some was asked."""
        self._debits = False

    def _room(self) -> Ints:
        """What each member may get, by row."""
        room = (self._candidates.room if self._debits else self._candidates.said)(self._want.shape)
        room = np.where(self._candidates.able(self._want), room, 0)
        room[self._rows((*self._out, *self.waiting))] = 0
        if self._only is not None:
            room[~self._named_rows()] = 0
        return np.minimum(room, MAX_ROOM)

    def _rows(self, keys: Iterable[Key]) -> list[int]:
        return [row for key in keys if (row := self._candidates.row(key)) is not None]

    def _named_rows(self) -> Bools:
        named = np.zeros(self._candidates.rows, dtype=np.bool_)
        named[self._rows(self._only or ())] = True
        return named

    def _shares(self, room: Ints, n: int) -> Ints:
        hints = self._order.specification.hints
        if hints.policy is None:
            return self._one_takes_all(room, n) if self.whole else self._by_policy(room, n)
        group = self._group()
        zones = hints.scope is GroupScope.ZONE
        match hints.policy:
            case GroupPolicy.AFFINITY:
                # On one host, or in one member: either way one member takes them all.
                room = np.where(group > 0, room, 0) if self._members else room
                return self._one_takes_all(room, n)
            case GroupPolicy.SOFT_AFFINITY:
                inside = np.where(group > 0, room, 0)
                first = self._by_policy(inside, n)
                return first + self._by_policy(np.where(group > 0, 0, room), n - int(first.sum()))
            case GroupPolicy.ANTI_AFFINITY if zones:
                return self._by_policy(np.clip(hints.per_host - group, 0, room), n)
            case GroupPolicy.ANTI_AFFINITY:
                hosts = self._candidates.hosts()
                return self._by_policy(np.clip(hosts * hints.per_host - group, 0, room), n)
            case GroupPolicy.SOFT_ANTI_AFFINITY if zones:
                room = np.minimum(room, MAX_COUNT)
                ties = self._ties(room.shape[0])
                return apart(room, group, lambda taken: spread_keys(room - taken, ties), n)
        return self._by_policy(room, n)

    def _by_policy(self, room: Ints, n: int) -> Ints:
        if n < 1:
            return np.zeros_like(room)
        return spread_shares(room, n, self._chance) if self._order.policy is Policy.SPREAD else pack_shares(room, n)

    def _one_takes_all(self, room: Ints, n: int) -> Ints:
        """One member with room for all n, else the one with room for most that is enough."""
        if self.count or self.waiting:
            return np.zeros_like(room)
        able = np.where(room >= n, room, 0)
        if able.any():
            which = self._by_policy(able if self._order.policy is Policy.PACK else able // n, 1)
            return which * n
        most = int(np.argmax(room)) if room.size else 0
        shares = np.zeros_like(room)
        # While there are others with room, all may have a place by a part each.
        alone = not self.whole or (room > 0).sum() == 1
        if room.size and room[most] >= self._order.least and alone:
            shares[most] = room[most]
        return shares

    def _group(self) -> Ints:
        """Guests of the group by row, with those of this order that have a place."""
        group = np.zeros(self._candidates.rows, dtype=np.int64)
        waiting = {key: share.count for key, share in self.waiting.items()}
        for known in (self._members, self.placements, waiting):
            for key, count in known.items():
                row = self._candidates.row(key)
                if row is not None:
                    group[row] += count
        return group

    def _ties(self, rows: int) -> Ints:
        """The lower bits of keys (placement/score.py), other ones for each order."""
        numbers = np.arange(rows, dtype=np.int64)
        start = self._chance.below(max(1, rows))
        return (numbers + start) % max(1, rows) << 20 | numbers

    # --- what comes back ------------------------------------------------------------------------

    def placed(self, key: Key, count: int) -> None:
        """The member has placed so many of its share. One that could not place all is not asked again."""
        share = self.waiting.pop(key)
        self._candidates.answered(key, share.order, count)
        if count:
            self.placements[key] = self.placements.get(key, 0) + count
        if count < share.count or self._asked[key] >= MAX_ASKED:
            self._out[key] = Refusal(0, {}, count)

    def refused(self, key: Key, refusal: Refusal) -> None:
        """The member has placed none of its share. Its fresher digest is the caller's to take in."""
        share = self.waiting.pop(key)
        self._candidates.answered(key, share.order, 0)
        self._out[key] = replace(refusal, counts=few(refusal.counts))

    def undecided(self, key: Key) -> None:
        """It is not known what became of the share. Only after a cancel of it was stored does it go elsewhere."""
        del self.waiting[key]
        self._out[key] = None

    # --- why ------------------------------------------------------------------------------------

    @property
    def chosen(self) -> list[Chosen]:
        """Members with guests of this order: name, how many, and why (core.order.Policy, or Ground for a group)."""
        policy = self._order.specification.hints.policy
        why: str = self._order.policy
        if policy is not None:
            together = policy in (GroupPolicy.AFFINITY, GroupPolicy.SOFT_AFFINITY)
            why = Ground.WITH_GROUP if together else Ground.AWAY_FROM_GROUP
        found = []
        for key, count in sorted(self.placements.items()):
            row = self._candidates.row(key)
            found.append((self._candidates.member(row).name if row is not None else "", count, why))
        return found

    def left_out(self) -> dict[str, int]:
        """Members that have none of the order's guests, per reason; the most frequent first."""
        return self._reasons(in_hosts=False)

    def refusal(self) -> Refusal:
        """The refusal of the whole order: all hosts of the tree below, under the reason of whoever left them out.

        A member that was not asked counts with all of its hosts, at least as one.
        """
        counts = self._reasons(in_hosts=True)
        return Refusal(sum(counts.values()), counts, self.count)

    def _reasons(self, in_hosts: bool) -> dict[str, int]:
        candidates = self._candidates
        if not in_hosts and not self._out and len({*self.placements, *self.waiting}) == len(candidates):
            # All are asked or have some, as in a leaf with one rack: nothing is left to be looked at.
            asked = len(self.waiting.keys() - self.placements.keys())
            return {Reason.UNDECIDED: asked} if asked else {}
        weight = np.maximum(candidates.hosts(), 1) if in_hosts else np.ones(candidates.rows, dtype=np.int64)
        weight = np.where(candidates.present(), weight, 0)
        found: dict[str, int] = {}

        def leave(reason: str, count: int) -> None:
            if count:
                found[reason] = found.get(reason, 0) + count

        def leave_rows(reason: str, rows: Bools | list[int]) -> None:
            leave(reason, int(weight[rows].sum()))
            weight[rows] = 0

        for key in {**self._out, **self.placements, **self.waiting}:
            rows = self._rows((key,))
            refusal = self._out.get(key)
            if not in_hosts and key in self.placements:
                weight[rows] = 0
            elif in_hosts and refusal is not None and refusal.counts:
                for reason, count in refusal.counts.items():
                    leave(reason, count)
                weight[rows] = 0
            elif key in self.placements:
                leave_rows(Reason.TOO_FEW, rows)
            else:
                leave_rows(Reason.UNDECIDED if refusal is None else Reason.REFUSED, rows)
        codes, reasons = candidates.reasons(self._want)
        for code, reason in enumerate(reasons, 1):
            leave_rows(reason, codes == code)
        if self._only is not None:
            leave_rows(Reason.NOT_NAMED, ~self._named_rows())
        leave_rows(Reason.FULL, candidates.room(self._want.shape) < 1)
        leave_rows(Reason.GROUP if self._grouped() else Reason.NOT_ASKED, weight > 0)
        return add_reasons(found, {})

    def _grouped(self) -> bool:
        """True if a hard rule of the group decides over members."""
        hints = self._order.specification.hints
        return hints.policy is GroupPolicy.AFFINITY or (
            hints.policy is GroupPolicy.ANTI_AFFINITY and hints.scope is GroupScope.ZONE
        )


def for_member(order: Order, name: str, labels: Mapping[str, str], share: Share, least: int = 1) -> Order:
    """The order as it goes to a member of that name: its share, and the hints that still bind below.

    `labels`: the member's own, which hold for all that is below it. `least`: how many are of use; of a group
    kept together as many as the order needs.
    """
    specification = order.specification
    hints = specification.hints
    if hints.path or hints.labels or hints.hosts or hints.scope is GroupScope.ZONE:
        first, _, rest = hints.path.strip("/").partition("/")
        hints = replace(
            hints,
            path=rest if first == name else hints.path,
            labels={key: value for key, value in hints.labels.items() if labels.get(key) != value},
            hosts=hints.hosts if share.member[0] == "rack" else hosts_below(hints.hosts, name),
        )
        if hints.scope is GroupScope.ZONE and not hints.group:
            # It is kept here, for this order; below it is any order.
            hints = replace(hints, policy=None)
        specification = replace(specification, hints=hints)
    if hints.policy is GroupPolicy.AFFINITY:
        least = max(least, order.least)
    return replace(
        order,
        id=share.order,
        specification=specification,
        least=min(least, share.count),
        most=share.count,
        first=share.first,
        many=order.many or order.most,
    )


def hosts_below(hosts: tuple[NamedHost, ...], name: str) -> tuple[NamedHost, ...]:
    """Those in the child of that name, as the child names them."""
    parts = [(host.path.partition("/"), host.name) for host in hosts]
    return tuple(NamedHost(rest, host) for (first, _, rest), host in parts if first == name)
