"""An order at one zone: which of its members take it, asked one after the other until it has its places (protocols §5).

Own racks and child zones are members alike: a zone never looks inside one, so that depth costs no code. What a member
has is believed from its digest less what was sent to it since; who refuses says what it has now. An order for one
server, for several of which any number will do, or that one member takes whole, is durable where it is claimed, and
nothing is written here. One that needs several members at once is claimed everywhere before any of it is begun: its
shares are stored before they leave, and what came of all of them is one commit (shares.py). Of a member that gave no
answer nobody knows what it did: its part goes elsewhere only once a cancel of it is stored.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from banyan.core.digest import check_counters
from banyan.core.errors import BanyanError, Unreachable
from banyan.core.identity import Caller
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.order import GroupPolicy, Order, Reason, Refusal, Specification, check_order, share_id
from banyan.core.ports import Clock, Ids
from banyan.core.records import Unit
from banyan.core.server import Level, Made, NoValidHost
from banyan.core.server_messages import MAX_LEVELS, PlaceCall, PlaceReply
from banyan.core.shares import HERE, ShareKey, ShareRow, ShareState
from banyan.core.time import Mono
from banyan.placement.candidates import Key
from banyan.placement.choose import MAX_ASKED, Share, Sharing, for_member
from banyan.placement.explain import few, level
from banyan.zone.members import Members
from banyan.zone.own import Own
from banyan.zone.servers.access import Who, caller_of
from banyan.zone.servers.below import Below, may_have_acted, person_of
from banyan.zone.servers.grouping import HARD, Grouping
from banyan.zone.servers.leaf import LeafServers
from banyan.zone.servers.orders import Admit, Taken, admit_all
from banyan.zone.servers.shares import Shares

# Of what is left of a deadline so much goes to a member, so that there is time to do something about its silence.
PART: Final = 0.8
# What is decided is told at once to whom it concerns; an answer waits no longer for that than so many seconds.
SAY: Final = 5.0
# Orders whose ways are remembered for whoever asks why.
REMEMBERED: Final = 1_000
# Orders of which it is remembered to whom they went: a cancel comes soon, or after a restart.
MAX_WENT: Final = 20_000
_NONE: Final = Specification("", {})


Note = Callable[[Unit, PlaceReply], None]
"""What is stored with the decision about an order, in the same commit."""


@dataclass(slots=True)
class _Course:
    """One order under way. `until`: when its sender gives up. `state`: that of its shares before anything is decided,
    None if they are not stored; `two_phase`: what they claim waits to be confirmed. `placed`: shares that have their
    places, and whether these wait."""

    order: Order
    who: Who
    above: tuple[Level, ...]
    until: Mono
    admit: Admit
    sharing: Sharing
    note: Note | None
    state: ShareState | None
    two_phase: bool
    placed: list[tuple[ShareKey, bool]] = field(default_factory=list)
    refused: bool = False
    made: list[Made] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    again: bool = False
    # What was said of its turns; and how many guests they were for.
    here: list[Level] = field(default_factory=list)
    asked: int = 0


class Placing:
    def __init__(
        self,
        own: Own,
        clock: Clock,
        ids: Ids,
        members: Members,
        leaf: LeafServers,
        below: Below,
        shares: Shares,
        grouping: Grouping,
    ) -> None:
        self.placed = self.refused = self.undecided = 0
        self._own = own
        self._clock = clock
        self._ids = ids
        self._members = members
        self._leaf = leaf
        self._below = below
        self._shares = shares
        self._grouping = grouping
        self._path = leaf.path
        # Where orders of late went: the children, HERE for own racks, and under which ids.
        self._went: OrderedDict[str, set[ShareKey]] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[PlaceReply]] = {}
        shares.working = self.working
        self._ways: OrderedDict[str, tuple[Order, tuple[Level, ...]]] = OrderedDict()

    async def place(
        self,
        order: Order,
        who: Who,
        within: float,
        above: tuple[Level, ...] = (),
        admit: Admit = admit_all,
        note: Note | None = None,
    ) -> PlaceReply:
        """Its places, or the refusal of all members; within so many seconds. With a `note` its shares are stored before
        they leave: after a death of this zone none is kept that the note does not tell of.

        Of members that do not answer nothing is expected any more: a cancel of their part is stored. Raises what
        Orders.take raises but NoValidHost, and what Shares.decide does.
        """
        check_order(order)
        admit(order)
        self._shares.check(order.id)
        known = self._under_way.get(order.id)
        if known is None:
            known = asyncio.get_running_loop().create_task(self._place(order, who, within, above, admit, note))
            self._under_way[order.id] = known
            known.add_done_callback(lambda task: self._ended(order.id, task))
        # Whoever asked may be gone before it is known what became of the order; that is found out all the same.
        return await asyncio.shield(known)

    def working(self, order: str) -> bool:
        """Whether that order is under way here now."""
        return order in self._under_way

    async def cancel(self, who: Who, order: str) -> None:
        """Refuses the order from now on, and undoes what came of it, here and below: stored when this returns. Who does
        not know any more where it went, as after a restart, tells all children, which may have it, under all the ids
        that this zone may have asked them under."""
        went = self._went.get(order)
        if went is None:
            # gap: a cancel of an order that is not remembered is owed to all children, four words each, till heard
            racks = [share_id(order, n, rack) for rack in self._leaf.racks for n in range(MAX_ASKED)]
            ids = [share_id(order, n) for n in range(MAX_ASKED)]
            went = {(int(code), id) for code in self._members.children for id in ids}
            went |= {(HERE, id) for id in await self._leaf.known(racks)}
        await self._shares.cancelled(order, sorted(one for one in went if one[0] != HERE))
        for id in sorted({order, *(id for member, id in went if member == HERE)}):
            await self._leaf.cancel(who, id)

    async def confirm(self, order: str, within: float) -> None:
        """What was claimed here and below for that order is begun: stored when this returns, and told to whom it
        concerns, as far as they answer in so many seconds. Raises what Shares.confirmed does."""
        await self._shares.say(await self._shares.confirmed(order), min(SAY, within))

    def ways(self, who: Who, id: str) -> tuple[Level, ...]:
        """Of an order or a request of late: what this zone and those below did with it."""
        found: list[Level] = []
        for order, levels in self._ways.values():
            mine = isinstance(who, Caller) or (order.issuer, order.project) == (who.issuer, who.project)
            if mine and id in (order.id, levels[0].request):
                found += levels
        return tuple(found)

    def _sent(self, order: Order, child: int, id: str) -> None:
        self._went.setdefault(order.id, set()).add((child, id))
        while len(self._went) > MAX_WENT:
            self._went.popitem(last=False)
        if child != HERE:
            self._grouping.sent(ZoneCode(child), order)

    def _ended(self, order: str, task: asyncio.Task[PlaceReply]) -> None:
        del self._under_way[order]
        if not task.cancelled() and task.exception() is not None:
            # Of what it asked for something may be left, if the store did not answer.
            self._shares.look()

    # --- one order --------------------------------------------------------------------------------

    async def _place(
        self, order: Order, who: Who, within: float, above: tuple[Level, ...], admit: Admit, note: Note | None
    ) -> PlaceReply:
        until, own = Mono(self._clock.now() + within), not above
        async with self._grouping.turn(order, until, own=own):
            seen = await self._grouping.seen(order, who, (until - self._clock.now()) * PART, own=own)
            sharing = Sharing(
                self._members.candidates, seen.here, self._ids, seen.members, seen.only, whole=order.least > 1
            )
            state = ShareState.HELD if order.two_phase else ShareState.ASKED if note is not None else None
            course = _Course(seen.onward, who, above, until, admit, sharing, note, state, order.two_phase)
            try:
                return await self._carry(course)
            except Exception:
                await self._undo(course)
                raise

    async def _carry(self, course: _Course) -> PlaceReply:
        sharing, order = course.sharing, course.order
        together = order.specification.hints.policy is GroupPolicy.AFFINITY
        if order.least > 1 and not sharing.whole and not together:
            self._split(course)
        await self._share_out(course)
        if not sharing.enough and sharing.whole:
            self._split(course)
            await self._share_out(course)
        if not sharing.enough:
            sharing.disregard_debits()
            await self._share_out(course)
        reply = self._reply(course)
        await self._decide(course, reply)
        return reply

    def _split(self, course: _Course) -> None:
        """From now on what several members claim is begun when all that is needed is claimed."""
        course.sharing.split()
        course.two_phase = True
        course.state = course.state or ShareState.ASKED

    async def _decide(self, course: _Course, reply: PlaceReply) -> None:
        order, note = course.order, course.note
        if course.state is None:
            return
        if course.state is ShareState.HELD and reply.refusal is None and not course.refused:
            self._shares.check(order.id)
            return
        held = course.state is ShareState.HELD
        verdict = ShareState.CANCEL if reply.refusal else ShareState.HELD if held else ShareState.CONFIRM

        def noted(unit: Unit) -> None:
            if note is not None:
                note(unit, reply)

        rows = await self._shares.decide(order.id, course.placed, verdict, noted)
        await self._shares.say(rows, min(SAY, max(0.0, course.until - self._clock.now()) * PART))

    async def _undo(self, course: _Course) -> None:
        """After an error nobody is told of any server: none is kept."""
        order = course.order
        if course.state is not None:
            await self._shares.abandon(order.id)
            return
        children = [key for key, _ in course.placed if key[0] not in self._leaf.racks]
        if children:
            await self._shares.owe([self._row(course, key) for key in children])
        for key, _ in course.placed:
            if key[0] in self._leaf.racks:
                await self._leaf.cancel(course.who, key[1])

    async def _share_out(self, course: _Course) -> None:
        """Until the order has its places or nobody is left to ask. All members of one turn are asked at once."""
        order = course.order
        while shares := course.sharing.next():
            self._shares.check(order.id)
            here = self._level(course, shares)
            course.here.append(here)
            course.asked += sum(share.count for share in shares)
            children = [key_of(share) for share in shares if share.member[0] == "child"]
            if course.state is not None and children:
                await self._shares.asked([self._row(course, key) for key in children])
            results = await _all([self._send(course, share, here) for share in shares])
            raised: BaseException | None = None
            silent: list[ShareKey] = []
            for share, result in zip(shares, results, strict=True):
                if isinstance(result, BanyanError) and may_have_acted(result) and share.member[0] == "child":
                    silent.append(key_of(share))
                error = self._heed(course, share, result)
                raised = raised or error
            if silent:
                # Stored before anything goes elsewhere, and before anybody is told.
                await self._shares.owe([self._row(course, key) for key in silent])
            if raised is not None:
                raise raised

    def _row(self, course: _Course, key: ShareKey) -> ShareRow:
        hints = course.order.specification.hints
        group = hints.group if hints.policy in HARD else ""
        return self._shares.row(course.order.id, key, course.state or ShareState.ASKED, group)

    def _heed(self, course: _Course, share: Share, result: PlaceReply | BaseException) -> BaseException | None:
        """What came of one share; an error that ends the order here."""
        sharing, key = course.sharing, share.member
        if isinstance(result, PlaceReply):
            if result.refusal is not None:
                self._believe(key, result.refusal)
                sharing.refused(key, result.refusal)
                course.refused = True
            else:
                sharing.placed(key, len(result.made))
                course.placed.append((key_of(share), course.two_phase))
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
        course.refused = True
        return result if result.code == "other-order" else None

    async def _send(self, course: _Course, share: Share, here: Level) -> PlaceReply:
        order, (kind, code) = course.order, share.member
        least = 1 if course.two_phase else order.least
        part = replace(for_member(order, self._name(share.member), {}, share, least), two_phase=course.two_phase)
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
        row = None
        if course.state is not None:
            row = self._row(course, (rack, part.id))
        try:
            taken = await servers.orders.take(part, caller_of(course.who), course.admit, above, row)
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
        request = course.who.request
        return level(self._path(), self._own.wall(), order.id, request, looked, left_out, chosen, "members")

    def _reply(self, course: _Course) -> PlaceReply:
        order, sharing = course.order, course.sharing
        if len(course.here) == 1 and len(course.made) == course.asked and order.specification.hints.policy is None:
            # All was placed as it was chosen: that was said already.
            here = course.here[0]
        else:
            request, looked = course.who.request, len(self._members.candidates)
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


async def _all(work: Sequence[Coroutine[object, object, PlaceReply]]) -> list[PlaceReply | BaseException]:
    """What came of each, all at once. One alone, as most orders are, needs no task of its own."""
    if len(work) > 1:
        return await asyncio.gather(*work, return_exceptions=True)
    try:
        return [await work[0]]
    except Exception as error:  # noqa: BLE001 - as of many; _heed weighs it
        return [error]


def key_of(share: Share) -> ShareKey:
    return share.member[1], share.order


def _reply_of(taken: Taken, path: str) -> PlaceReply:
    stored = taken.order
    made = tuple(
        Made(id, path, stored.rack, place.host, place.ground, place.fits) for place in stored.placed for id in place.ids
    )
    return PlaceReply(made, None, taken.again, () if stored.level is None else (stored.level,))
