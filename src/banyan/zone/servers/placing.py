"""An order at one zone: which of its members take it, asked one after the other until it has its places (protocols §5).

Own racks and child zones are members alike: a zone never looks inside one, so that depth costs no code. What a member
has is believed from its digest less what was sent to it since; who refuses says what it has now. An order for one
server, or for several of which any number will do, is durable where it is claimed, and nothing is written here. Of a
member that gave no answer nobody knows what it did: its part goes elsewhere only once a cancel of it is stored.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from banyan.core.digest import check_counters
from banyan.core.errors import BanyanError, Unreachable
from banyan.core.identity import Caller
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.order import Order, Reason, Refusal, Specification, check_order
from banyan.core.ports import Clock, Ids
from banyan.core.server import Level, Made, NoValidHost
from banyan.core.server_messages import MAX_LEVELS, PlaceCall, PlaceReply
from banyan.core.time import Mono
from banyan.placement.candidates import Key
from banyan.placement.choose import Share, Sharing, for_member
from banyan.placement.explain import few, level
from banyan.zone.members import Members
from banyan.zone.own import Own
from banyan.zone.servers.access import Who, caller_of
from banyan.zone.servers.below import Below, may_have_acted, person_of
from banyan.zone.servers.cancels import HERE, Cancels
from banyan.zone.servers.leaf import LeafServers
from banyan.zone.servers.orders import Admit, Taken, admit_all

# Of what is left of a deadline so much goes to a member, so that there is time to do something about its silence.
PART: Final = 0.8
# Orders whose ways are remembered for whoever asks why.
REMEMBERED: Final = 1_000
# After so many seconds a child's ledger has what was ordered there, or it is not heard.
LATE: Final = 120.0
# Orders of which it is remembered to whom they went: a cancel comes soon, or after a restart.
MAX_WENT: Final = 20_000
_NONE: Final = Specification("", {})


@dataclass(slots=True)
class _Course:
    """One order under way. `until`: when its sender gives up."""

    order: Order
    who: Who
    above: tuple[Level, ...]
    until: Mono
    admit: Admit
    sharing: Sharing
    made: list[Made] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    again: bool = False


class Placing:
    """`path`: of this zone, as it is called now."""

    def __init__(
        self,
        own: Own,
        clock: Clock,
        ids: Ids,
        members: Members,
        leaf: LeafServers,
        below: Below,
        cancels: Cancels,
        path: Callable[[], str],
    ) -> None:
        self.placed = self.refused = self.undecided = 0
        self._own = own
        self._clock = clock
        self._ids = ids
        self._members = members
        self._leaf = leaf
        self._below = below
        self._cancels = cancels
        self._path = path
        # Where orders of late went: the children, HERE for own racks, and under which ids.
        self._went: OrderedDict[str, set[tuple[ZoneCode, str]]] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[PlaceReply]] = {}
        self._ways: OrderedDict[str, tuple[Order, tuple[Level, ...]]] = OrderedDict()
        self._recent: OrderedDict[tuple[int, str], dict[int, Mono]] = OrderedDict()

    async def place(
        self,
        order: Order,
        who: Who,
        within: float,
        above: tuple[Level, ...] = (),
        admit: Admit = admit_all,
    ) -> PlaceReply:
        """Its places, or the refusal of all members; within so many seconds.

        Of members that do not answer nothing is expected any more: a cancel of their part is stored. Raises what
        Orders.take raises but NoValidHost.
        """
        check_order(order)
        admit(order)
        self._cancels.check(order.id)
        known = self._under_way.get(order.id)
        if known is None:
            known = asyncio.ensure_future(self._place(order, who, within, above, admit))
            self._under_way[order.id] = known
            known.add_done_callback(lambda task: self._ended(order.id, task))
        # Whoever asked may be gone before it is known what became of the order; that is found out all the same.
        return await asyncio.shield(known)

    async def cancel(self, who: Who, order: str) -> None:
        """Refuses the order from now on, and undoes what came of it, here and below: stored when this returns. Who does
        not know any more where it went, as after a restart, tells all children, which may have it."""
        went = self._went.get(order)
        if went is None:
            went = {(code, order) for code in self._members.children}
        await self._cancels.here(order, sorted(one for one in went if one[0] != HERE))
        for id in sorted({order, *(id for member, id in went if member == HERE)}):
            await self._leaf.cancel(who, id)

    def ways(self, who: Who, id: str) -> tuple[Level, ...]:
        """Of an order or a request of late: what this zone and those below did with it."""
        found: list[Level] = []
        for order, levels in self._ways.values():
            mine = isinstance(who, Caller) or (order.issuer, order.project) == (who.issuer, who.project)
            if mine and id in (order.id, levels[0].request):
                found += levels
        return tuple(found)

    def recent(self, issuer: ZoneCode, project: str) -> set[ZoneCode]:
        """Children to which an order of that project went of late: their ledgers may not say so yet."""
        now = self._clock.now()
        return {ZoneCode(c) for c, at in self._recent.get((issuer, project), {}).items() if now - at < LATE}

    def _sent(self, order: Order, child: ZoneCode, id: str) -> None:
        self._went.setdefault(order.id, set()).add((child, id))
        while len(self._went) > MAX_WENT:
            self._went.popitem(last=False)
        children = self._recent.setdefault((order.issuer, order.project), {})
        self._recent.move_to_end((order.issuer, order.project))
        children[child] = self._clock.now()
        while len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)

    def _ended(self, order: str, task: asyncio.Task[PlaceReply]) -> None:
        del self._under_way[order]
        if not task.cancelled():
            task.exception()

    # --- one order --------------------------------------------------------------------------------

    async def _place(self, order: Order, who: Who, within: float, above: tuple[Level, ...], admit: Admit) -> PlaceReply:
        until = Mono(self._clock.now() + within)
        sharing = Sharing(self._members.candidates, order, self._ids, whole=order.least > 1)
        course = _Course(order, who, above, until, admit, sharing)
        await self._share_out(course)
        if not sharing.enough:
            sharing.disregard_debits()
            await self._share_out(course)
        return self._reply(course)

    async def _share_out(self, course: _Course) -> None:
        """Until the order has its places or nobody is left to ask. All members of one turn are asked at once."""
        while shares := course.sharing.next():
            self._cancels.check(course.order.id)
            here = self._level(course, shares)
            sent = (self._send(course, share, here) for share in shares)
            results = await asyncio.gather(*sent, return_exceptions=True)
            raised: BaseException | None = None
            silent: list[tuple[ZoneCode, str]] = []
            for share, result in zip(shares, results, strict=True):
                if isinstance(result, BanyanError) and may_have_acted(result) and share.member[0] == "child":
                    silent.append((ZoneCode(share.member[1]), share.order))
                error = self._heed(course, share, result)
                raised = raised or error
            if silent:
                # Stored before anything goes elsewhere, and before anybody is told.
                await self._cancels.owe(silent)
            if raised is not None:
                raise raised

    def _heed(self, course: _Course, share: Share, result: PlaceReply | BaseException) -> BaseException | None:
        """What came of one share; an error that ends the order here."""
        sharing, key = course.sharing, share.member
        if isinstance(result, PlaceReply):
            if result.refusal is not None:
                self._believe(key, result.refusal)
                sharing.refused(key, result.refusal)
            else:
                sharing.placed(key, len(result.made))
                course.made += result.made
                course.again = course.again or result.again
            course.levels += result.levels
            if key[0] == "rack":
                self._members.candidates.settled(key)
            return None
        if not isinstance(result, BanyanError):
            sharing.undecided(key)
            return result
        if may_have_acted(result):
            self.undecided += 1
            sharing.undecided(key)
            self._members.candidates.answered(key, share.order, 0)
            # Of an own rack it is the store that does not say what it did: nobody is there to be told of a cancel.
            return result if key[0] == "rack" else None
        sharing.refused(key, Refusal(1, {Reason.REFUSED: 1}))
        return result if result.code == "other-order" else None

    async def _send(self, course: _Course, share: Share, here: Level) -> PlaceReply:
        order, (kind, code) = course.order, share.member
        part = for_member(order, self._name(share.member), {}, share, order.least)
        above = (*course.above, here)
        if kind == "rack":
            self._sent(order, HERE, part.id)
            return await self._take(course, RackCode(code), part, above)
        child = ZoneCode(code)
        left = course.until - self._clock.now()
        self._sent(order, child, part.id)
        call = PlaceCall(replace(part, epoch=self._below.epoch(child)), share.number, above, person_of(course.who))
        reply = await self._below.ask(child, course.who, "place", call, PlaceReply, left * PART)
        if reply.refusal is None and not 1 <= len(reply.made) <= part.most:
            text = f"{self._below.path(child)} placed {len(reply.made)} servers of {part.most}"
            raise Unreachable("bad-answer", text)
        return reply

    async def _take(self, course: _Course, rack: RackCode, part: Order, above: tuple[Level, ...]) -> PlaceReply:
        servers = self._leaf.racks.get(rack)
        if servers is None:
            return PlaceReply(refusal=Refusal(1, {Reason.NOT_OFFERED: 1}))
        try:
            taken = await servers.orders.take(part, caller_of(course.who), course.admit, above)
        except NoValidHost as error:
            return PlaceReply(refusal=Refusal(error.looked, error.counts, error.fits))
        return _reply_of(taken, self._path())

    # --- what is told -----------------------------------------------------------------------------

    def _name(self, key: Key) -> str:
        row = self._members.candidates.row(key)
        return "" if row is None else self._members.candidates.member(row).name

    def _level(self, course: _Course, shares: Sequence[Share]) -> Level:
        """What this zone leaves out and chooses now. Kept by whoever takes a share, with it."""
        sharing, order = course.sharing, course.order
        chosen = [*sharing.chosen, *((self._name(share.member), share.count, str(order.policy)) for share in shares)]
        looked = len(self._members.candidates)
        left_out = dict(sharing.left_out())
        # Those that are asked now are not left out.
        left_out.pop(Reason.UNDECIDED, None)
        request = caller_of(course.who).request
        return level(self._path(), self._own.wall(), order.id, request, looked, left_out, chosen, "members")

    def _reply(self, course: _Course) -> PlaceReply:
        order, sharing = course.order, course.sharing
        request, looked = caller_of(course.who).request, len(self._members.candidates)
        left_out, chosen = sharing.left_out(), sharing.chosen
        here = level(self._path(), self._own.wall(), order.id, request, looked, left_out, chosen, "members")
        levels = (here, *course.levels)[:MAX_LEVELS]
        self._remember(order, levels)
        if sharing.enough:
            self.placed += len(course.made)
            return PlaceReply(tuple(course.made), None, course.again, levels)
        self.refused += 1
        refusal = sharing.refusal()
        counts = few(refusal.counts) or {Reason.NOT_OFFERED: 1}
        refusal = Refusal(sum(counts.values()), counts, refusal.fits, dict(self._members.counters()))
        return PlaceReply((), refusal, False, levels)

    def _remember(self, order: Order, levels: tuple[Level, ...]) -> None:
        self._ways[order.id] = (replace(order, specification=_NONE), levels)
        while len(self._ways) > REMEMBERED:
            self._ways.popitem(last=False)

    def _believe(self, key: Key, refusal: Refusal) -> None:
        """What a child has now, by its own word; one that makes no sense is not believed."""
        if key[0] != "child" or not refusal.digest:
            return
        try:
            check_counters(refusal.digest)
            self._members.refused(ZoneCode(key[1]), refusal.digest)
        except (ValueError, KeyError):
            return


def _reply_of(taken: Taken, path: str) -> PlaceReply:
    stored = taken.order
    made = tuple(
        Made(id, path, stored.rack, place.host, place.ground, place.fits) for place in stored.placed for id in place.ids
    )
    return PlaceReply(made, None, taken.again, () if stored.level is None else (stored.level,))
