"""Server groups over several members: where their servers are; their orders come one at a time (protocols §5.6).

The truth is the servers' rows at the leaves, which name their group; nobody keeps a second list. The zone that has the
group asks for them before each order that a hard rule binds, and holds the next such order back until this one is
done. Of a zone that can not be asked nobody knows what it has: then a hard rule can not be kept, and the order is
refused. Soft rules go by what is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from banyan.core.errors import BanyanError, Unreachable
from banyan.core.ids import RackCode, ZoneCode, read_guest_id
from banyan.core.order import GroupPolicy, GroupScope, Order
from banyan.core.ports import Clock, Store
from banyan.core.server_messages import GroupCall, GroupReply
from banyan.core.time import Mono
from banyan.placement.candidates import Key
from banyan.zone.roster import Roster
from banyan.zone.servers.access import Who
from banyan.zone.servers.below import Below
from banyan.zone.servers.leaf import LeafServers
from banyan.zone.servers.listing import some_of
from banyan.zone.servers.shares import Shares
from banyan.zone.streams import Streams
from banyan.zone.tree import Tree

HARD: Final = frozenset((GroupPolicy.AFFINITY, GroupPolicy.ANTI_AFFINITY))
# Orders of one group that wait for their turn.
MAX_WAITING: Final = 64


@dataclass(frozen=True, slots=True)
class Seen:
    """What an order's hints come to at this zone. `here`: the order as members are chosen for it, `onward` as it goes
    to them. `members`: its group's servers in each; `only`: the members that will do, None for any."""

    here: Order
    onward: Order
    members: Mapping[Key, int] = field(default_factory=dict)
    only: frozenset[Key] | None = None


@dataclass(slots=True)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class Grouping:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        tree: Tree,
        roster: Roster,
        streams: Streams,
        leaf: LeafServers,
        below: Below,
        shares: Shares,
    ) -> None:
        self._store = store
        self._clock = clock
        self._tree = tree
        self._roster = roster
        self._streams = streams
        self._leaf = leaf
        self._below = below
        self._shares = shares
        # gap: turns are of this process: with several on one database a group's orders would pass side by side
        self._turns: dict[tuple[int, str], _Turn] = {}

    def turn(self, order: Order, until: Mono, *, own: bool) -> AbstractAsyncContextManager[None]:
        """While no other order of the same group is under way, if it has a hard rule. `own`: the group is of this zone.

        Raises Unreachable("group-busy") when its turn does not come in time.
        """
        hints = order.specification.hints
        if not own or not hints.group or hints.policy not in HARD:
            return nullcontext()
        return self._turn(order, until)

    @asynccontextmanager
    async def _turn(self, order: Order, until: Mono) -> AsyncIterator[None]:
        hints = order.specification.hints
        key = order.issuer, hints.group
        turn = self._turns.setdefault(key, _Turn())
        if turn.waiting >= MAX_WAITING:
            raise _busy(hints.group)
        turn.waiting += 1
        try:
            try:
                await asyncio.wait_for(turn.lock.acquire(), max(0.0, until - self._clock.now()))
            except TimeoutError:
                raise _busy(hints.group) from None
            try:
                yield
            finally:
                turn.lock.release()
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[key]

    async def seen(self, order: Order, who: Who, within: float, *, own: bool) -> Seen:
        """To be asked in the group's turn. Raises Unreachable("group-unknown") if a hard rule can not be kept now."""
        hints = order.specification.hints
        only = self._only(order)
        if not own and hints.scope is GroupScope.ZONE:
            # Zones of a group are told apart at the zone that has the group; below it is any order.
            plain = replace(hints, group="", policy=None)
            return Seen(replace(order, specification=replace(order.specification, hints=plain)), order, {}, only)
        apart = hints.policy in (GroupPolicy.ANTI_AFFINITY, GroupPolicy.SOFT_ANTI_AFFINITY)
        if not own or not hints.group or (apart and hints.scope is GroupScope.HOST):
            # Hosts are told apart where they are; without a group the servers of this order are all that there is.
            return Seen(order, order, {}, only)
        hard = hints.policy in HARD
        if hard:
            await self._settled(hints.group, within)
        members, racks, absent = await self._members(who, GroupCall(order.issuer, order.project, hints.group), within)
        if absent and hard:
            raise _unknown(
                hints.group, f"{', '.join(sorted(absent)[:5])} can not be asked whether it has servers of it"
            )
        onward = order
        if hints.policy is GroupPolicy.AFFINITY and hints.scope is GroupScope.HOST:
            onward = replace(order, near=tuple(sorted(racks)))
        return Seen(order, onward, members, only)

    async def racks(self, who: Who, call: GroupCall, within: float) -> GroupReply:
        """Racks here and below with servers of a group, confirmed or not."""
        _, racks, absent = await self._members(who, call, within)
        return GroupReply(tuple(sorted(racks.items())), some_of(sorted(absent), self._tree.path))

    def holders(self, issuer: ZoneCode, project: str) -> list[ZoneCode]:
        """Children that may have servers of that project, by code."""
        uses, untold = self._streams.uses, self._streams.unreported.may_hold((issuer, project))
        return sorted(
            code
            for code, live in self._roster.live.items()
            if code in untold or uses.holds(code, (issuer, project)) or not live.inbox.known.ledger
        )

    def sent(self, child: ZoneCode, order: Order) -> None:
        """That order goes there: its ledger does not say so yet."""
        self._streams.unreported.sent(child, (order.issuer, order.project), self._clock.now())

    async def _members(
        self, who: Who, call: GroupCall, within: float
    ) -> tuple[dict[Key, int], dict[RackCode, int], set[str]]:
        """Servers of the group by member and by rack; and the zones that could not be asked."""
        own = await self._store.read(lambda unit: unit.servers.group_racks(call.issuer, call.group))
        racks = {code: count for code, count in own.items() if code in self._leaf.racks}
        members: dict[Key, int] = {("rack", code): count for code, count in racks.items()}
        absent: set[str] = set()
        children = self.holders(call.issuer, call.project)
        asked = (self._below.ask(child, who, "group", call, GroupReply, within) for child in children)
        for child, reply in zip(children, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(reply, BanyanError):
                absent.add(self._below.path(child))
            elif isinstance(reply, BaseException):
                raise reply
            else:
                absent.update(reply.absent)
                for rack, count in reply.racks:
                    racks[rack] = racks.get(rack, 0) + count
                    members["child", child] = members.get(("child", child), 0) + count
        return members, racks, absent

    async def _settled(self, group: str, within: float) -> None:
        """What earlier orders of the group left to be said is said. Raises Unreachable("group-unknown")."""
        rows = await self._store.read(lambda unit: unit.shares.of_group(group))
        if rows:
            await self._shares.say(rows, within)
            rows = await self._store.read(lambda unit: unit.shares.of_group(group))
        if rows:
            path = self._below.path(ZoneCode(rows[0].member))
            raise _unknown(group, f"{path} has not acknowledged yet what became of an earlier order of it")

    def _only(self, order: Order) -> frozenset[Key] | None:
        """Members that lead to where the order must go; None if it may go anywhere."""
        found: set[Key] | None = None
        parts = [read_guest_id(id) for id in order.specification.hints.same_host]
        if parts:
            found = {self._way(RackCode(0) if one is None else one.rack) for one in parts}
        if order.near:
            near = {self._way(rack) for rack in order.near}
            found = near if found is None else found & near
        return None if found is None else frozenset(found)

    def _way(self, rack: RackCode) -> Key:
        owner = None if rack in self._leaf.racks else self._roster.routes.owner(rack)
        node = None if owner is None else self._tree.get(owner)
        # One that is not known here is no member: nothing will do.
        return ("rack", rack) if node is None else ("child", node.via)


def _busy(group: str) -> Unreachable:
    text = f"other orders of server group {group} are under way, and they come one at a time; try again"
    return Unreachable("group-busy", text, transient=True, retry_after=5.0)


def _unknown(group: str, why: str) -> Unreachable:
    text = f"the rule of server group {group} can not be kept now: {why}; try again later, or order without the group"
    return Unreachable("group-unknown", text[:500], transient=True, retry_after=10.0)
