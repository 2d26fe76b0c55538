"""Shares of orders whose fate must outlive this process: what members were asked for, and are still to be told.

Who gave no answer to an order may have carried it out: before its part goes elsewhere a cancel of it is stored. What
several members claim for one order is stored before they are asked, and begun by nobody before the decision is stored:
all of it is confirmed, or all is cancelled. A share that this zone asked for and nobody works on any more, as after a
kill, is cancelled: nobody was told of it. One that a zone above asked for is kept until that says a word, however long.
Words are said to a member whenever it can be asked, until it acknowledges (protocols §5, decision 0020).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog
from msgspec.structs import replace

from banyan.core.errors import BanyanError, NotFound, Refused, Unreachable
from banyan.core.identity import Caller, Role
from banyan.core.ids import RackCode, ZoneCode, code_text
from banyan.core.ports import Clock, Store
from banyan.core.records import StoreUnknown, Unit
from banyan.core.server_messages import Nothing, OrderCall
from banyan.core.shares import HERE, KEY_LIFE, ShareKey, ShareRow, ShareState
from banyan.core.time import Mono, Wall
from banyan.zone.firm import firm
from banyan.zone.own import Own
from banyan.zone.servers.below import Below
from banyan.zone.servers.leaf import LeafServers

log = structlog.get_logger("banyan.shares")

# So many are said to one member in one turn, and so soon is a member asked again, seconds.
BATCH: Final = 100
# Members that are told at the same time, and how long each may take over a word, seconds: one that hangs holds up few.
TOGETHER: Final = 16
PATIENCE: Final = 10.0
AGAIN: Final = 2.0
# A link lives less long than this: an order that is still on its way then does not exist.
LIFE: Final = 86_400.0
SWEEP: Final = 3_600.0
# How often it is counted what waits for the word of a zone above, seconds.
COUNT: Final = 30.0
# Rows to one unit of work.
_PAGE: Final = 500
# How often the store is asked what became of a decision, and how long it is waited between, seconds.
LOOKS: Final = 5
LOOK_AGAIN: Final = 0.5
_OPEN: Final = frozenset((ShareState.ASKED, ShareState.HELD))

Note = Callable[[Unit], None]


class Shares:
    """zone.loop.Activation. `signal`, set by the zone, wakes it. `working`: whether an order is under way here now."""

    name = "shares"

    def __init__(self, own: Own, store: Store, clock: Clock, below: Below, leaf: LeafServers) -> None:
        self.said = 0
        self.unheard = 0
        self.signal: Callable[[], None] = _nobody
        self.working: Callable[[str], bool] = lambda order: False
        self._own = own
        self._store = store
        self._clock = clock
        self._below = below
        self._leaf = leaf
        # Orders that were cancelled here, and members to which a word is owed.
        self._marks: dict[str, Wall] = {}
        self._owed: set[int] = set()
        # What waits for the word of a zone above: whether anything may, how much did at the last look, since when.
        self._holds = True
        self._held: tuple[int, Wall | None] = (0, None)
        self._look = True
        self._swept = clock.now()

    async def load(self) -> None:
        def read(unit: Unit) -> tuple[list[ShareRow], Sequence[int]]:
            found: list[ShareRow] = []
            while page := unit.shares.owed(HERE, found[-1].id if found else "", _PAGE):
                found += page
            return found, unit.shares.owing()

        marks, owed = await self._store.read(read)
        self._marks = {mark.id: mark.at for mark in marks if mark.state is ShareState.CANCEL}
        self._owed = set(owed)

    def check(self, order: str) -> None:
        """Raises Refused("order-cancelled")."""
        if order in self._marks:
            raise _cancelled(order)

    def look(self) -> None:
        """Some order ended without a decision: its shares are nobody's."""
        self._look = True
        self.signal()

    # gap: no word of a person settles what is held for a zone above that has forgotten it, as after a restore

    def metrics(self) -> dict[str, float]:
        """Gauges and counters by Prometheus name, as of the last look."""
        count, since = self._held
        return {
            "banyan_orders_held": count,
            "banyan_orders_held_seconds": 0.0 if since is None else max(0.0, self._own.wall() - since),
            "banyan_orders_lost_total": self.unheard,
            "banyan_order_words_said_total": self.said,
            "banyan_members_owed_a_word": len(self._owed),
        }

    # --- an order under way -----------------------------------------------------------------------

    async def asked(self, rows: Sequence[ShareRow]) -> None:
        """Shares of one order, stored before their members are asked. Raises Refused("order-cancelled")."""
        order = rows[0].order

        def work(unit: Unit) -> None:
            mark = unit.shares.get(HERE, order)
            if mark is not None and mark.state is ShareState.CANCEL:
                raise _cancelled(order)
            unit.shares.put(rows)

        try:
            await firm(self._store.write("order.shared", work))
        except StoreUnknown as error:
            text = f"order {order} was sent to nobody, as it is not known whether that can be stored; send it again"
            raise Unreachable("order-lost", text, detail=error.text, transient=True) from error

    def row(self, order: str, key: ShareKey, state: ShareState, group: str = "") -> ShareRow:
        self._holds = self._holds or state is ShareState.HELD
        return ShareRow(key[0], key[1], order, state, self._own.wall(), group)

    async def owe(self, rows: Sequence[ShareRow]) -> None:
        """Stored when this returns: each of these shares is to be cancelled at its member."""
        rows = [replace(row, state=ShareState.CANCEL) for row in rows]
        await firm(self._owe("order.cancel", rows))

    async def _owe(self, name: str, rows: Sequence[ShareRow]) -> None:
        await self._store.write(name, lambda unit: unit.shares.put(rows))
        self._tell(rows)

    async def decide(
        self, order: str, placed: Sequence[tuple[ShareKey, bool]], verdict: ShareState, note: Note
    ) -> Sequence[ShareRow]:
        """Stored when this returns, with what `note` writes. `placed`: shares that have their places, and whether they
        wait to be confirmed. By CONFIRM these are to be, by CANCEL all are given back, by HELD a zone above decides.
        Whatever else the order asked for was refused. The words that are owed now.

        Raises Refused("order-cancelled") if it was cancelled meanwhile, Unreachable("order-undecided") if the store
        does not say whether it has the decision.
        """
        told: list[ShareRow] = []
        waits = dict(placed)

        def work(unit: Unit, again: bool) -> None:
            rows = {row.key: row for row in unit.shares.of_order(order)}
            if again and waits and not any(_state(rows.get(key)) in _OPEN for key in waits):
                told[:] = [row for key, row in rows.items() if key in waits]
                if verdict is ShareState.CONFIRM and any(row.state is ShareState.CANCEL for row in told):
                    raise _cancelled(order)
                return
            told.clear()
            if verdict is not ShareState.CANCEL and any(_state(rows.get(key)) not in _OPEN for key in waits):
                raise _cancelled(order)
            gone = [key for key, row in rows.items() if row.state in _OPEN and key not in waits]
            for key, two_phase in waits.items():
                row = rows.get(key)
                if row is None or row.state not in _OPEN or verdict is ShareState.HELD:
                    continue
                if two_phase or verdict is ShareState.CANCEL:
                    told.append(replace(row, state=verdict, at=self._own.wall()))
                else:
                    gone.append(key)
            unit.shares.put(told)
            unit.shares.drop(gone)
            note(unit)

        await firm(self._decided(order, work))
        self._tell(told)
        return told

    async def _decided(self, order: str, work: Callable[[Unit, bool], None]) -> None:
        """Until the store says whether it has the decision: said again, it finds that taken, or takes it."""
        for look in range(LOOKS):
            try:
                await self._store.write("order.decided", lambda unit, again=look > 0: work(unit, again))  # type: ignore[misc]  # mypy infers no type beside a default
                return
            except StoreUnknown:
                await self._clock.sleep_until(Mono(self._clock.now() + LOOK_AGAIN * 2**look))
        raise Unreachable(
            "order-undecided", f"it is not known whether order {order} was decided; ask again", transient=True
        )

    async def abandon(self, order: str) -> None:
        """What it asked for and nobody decided about is cancelled."""
        await firm(self._abandon(order, lambda member: True))

    async def _abandon(self, order: str, here: Callable[[int], bool]) -> bool:
        """As far as members are `here`; whether that is all of it."""
        told: list[ShareRow] = []

        def work(unit: Unit) -> bool:
            left = [row for row in unit.shares.of_order(order) if row.state in _OPEN]
            told[:] = [replace(row, state=ShareState.CANCEL) for row in left if here(row.member)]
            unit.shares.put(told)
            return len(told) == len(left)

        whole = await self._store.write("order.abandoned", work)
        self._tell(told)
        return whole

    # --- words from above -------------------------------------------------------------------------

    async def cancelled(self, order: str, keys: Sequence[ShareKey]) -> None:
        """The order is refused here from now on, also after a restart; its shares, and these, are to be cancelled."""
        self._marks[order] = self._own.wall()
        mark = self.row(order, (HERE, order), ShareState.CANCEL)
        rows = [self.row(order, key, ShareState.CANCEL) for key in keys]

        def work(unit: Unit) -> list[ShareRow]:
            known = [replace(row, state=ShareState.CANCEL) for row in unit.shares.of_order(order)]
            unit.shares.put([mark, *known, *rows])
            return known

        self._tell([*rows, *await firm(self._store.write("order.cancel", work))])

    async def confirmed(self, order: str) -> Sequence[ShareRow]:
        """The order's shares are to be confirmed; those to which it is still to be said. Said again it changes nothing.

        Raises NotFound("no-order"), Refused("order-cancelled").
        """
        mark = self.row(order, (HERE, order), ShareState.CONFIRM)

        def work(unit: Unit) -> list[ShareRow]:
            rows = [row for row in unit.shares.of_order(order) if row.state is not ShareState.CANCEL]
            known = unit.shares.get(HERE, order)
            if known is not None and known.state is ShareState.CANCEL:
                raise _cancelled(order)
            if known is None and not rows:
                raise NotFound("no-order", f"there is no order {order} here to be confirmed")
            rows = [replace(row, state=ShareState.CONFIRM) for row in rows]
            unit.shares.put([mark, *rows])
            return rows

        rows = await firm(self._store.write("order.confirm", work))
        self._tell(rows)
        return rows

    # --- words to members -------------------------------------------------------------------------

    async def say(self, rows: Sequence[ShareRow], within: float) -> None:
        """What is owed by these rows, said at once to all members that can be asked; the rest later, until they
        acknowledge. Raises nothing: what is owed is stored."""
        try:
            heard = await asyncio.gather(*(self._heard(row, within) for row in rows))
            await self._drop([row.key for row, was in zip(rows, heard, strict=True) if was])
        except BanyanError as error:
            log.warning("what members acknowledged was not stored", error=str(error))

    async def _drop(self, keys: Iterable[ShareKey]) -> None:
        dropped = list(keys)
        if dropped:
            await self._store.write("order.acknowledged", lambda unit: unit.shares.drop(dropped))

    async def _heard(self, row: ShareRow, within: float) -> bool:
        """Whether the member did what it was told, or never will."""
        caller = Caller("zone", Role.OPERATOR, self._own.code, request=row.id)
        try:
            if row.member in self._leaf.racks:
                if row.state is ShareState.CONFIRM:
                    await self._leaf.confirm(row.id)
                else:
                    await self._leaf.cancel(caller, row.id)
            else:
                verb = "confirm" if row.state is ShareState.CONFIRM else "cancel"
                await self._below.ask(ZoneCode(row.member), caller, verb, OrderCall(row.id), Nothing, within)
        except (NotFound, Refused) as error:
            if row.state is not ShareState.CONFIRM or error.code not in ("no-order", "order-cancelled"):
                log.warning("a word about an order was refused", member=self._named(row), error=str(error))
                return False
            # It held this and has lost it, as a zone does that was restored: nobody can begin what is not there.
            self.unheard += 1
            await self._note_lost(row, error)
        except BanyanError as error:
            log.info("a word about an order was not acknowledged yet", member=self._named(row), error=str(error))
            return False
        self.said += 1
        return True

    async def _note_lost(self, row: ShareRow, error: BanyanError) -> None:
        text = f"{self._named(row)} has lost what it claimed: {error.text}"
        event = self._own.event("order-lost", row.order, text, outcome="failed")
        await self._store.write("order.lost", lambda unit: self._own.write(unit, event))

    def _named(self, row: ShareRow) -> str:
        return (
            f"rack {code_text(RackCode(row.member))}"
            if row.member in self._leaf.racks
            else self._below.path(ZoneCode(row.member))
        )

    def _tell(self, rows: Iterable[ShareRow]) -> None:
        """Whom a word is owed to now."""
        members = {row.member for row in rows if row.state not in _OPEN and row.member != HERE}
        if members:
            self._owed |= members
            self.signal()

    # --- the activation ---------------------------------------------------------------------------

    async def activate(self, now: Mono) -> Mono | None:
        await self._sweep(now)
        if self._look:
            self._look = False
            await self._abandon_all()
        members = [member for member in sorted(self._owed) if self._can_be_told(member)]
        for begin in range(0, len(members), TOGETHER):
            await asyncio.gather(*(self._say(member) for member in members[begin : begin + TOGETHER]))
        if self._holds:
            self._held = await self._store.read(lambda unit: unit.shares.held())
            self._holds = self._held[0] > 0
        if self._owed or self._look:
            return Mono(self._clock.now() + AGAIN)
        return Mono(now + (COUNT if self._holds else SWEEP))

    def _can_be_told(self, member: int) -> bool:
        return member in self._leaf.racks or self._below.has_session(ZoneCode(member))

    async def _abandon_all(self) -> None:
        """Orders of an earlier life of this zone, or that ended by an error. That of a member is given up when it can
        be told: from whoever has seen later things a zone learns first that it was restored."""
        after = ""
        while page := await self._store.read(lambda unit, after=after: unit.shares.asked(after, _PAGE)):  # type: ignore[misc]  # mypy infers no type beside a default
            for order in page:
                # gap: of several processes on one database each takes what another works on for left behind
                if self._own.row.restored_at is not None:
                    await self._forget(order)
                elif not self.working(order) and not await firm(self._abandon(order, self._can_be_told)):
                    self._look = True
            after = page[-1]

    async def _forget(self, order: str) -> None:
        """Of a zone that was restored: it may have decided since its backup, and does not know what. Whoever claimed
        something keeps it, and shows it."""

        def work(unit: Unit) -> None:
            unit.shares.drop([row.key for row in unit.shares.of_order(order) if row.state is ShareState.ASKED])
            self._own.write(unit, self._own.event("order-unknown", order, "its shares were asked for before a restore"))

        await self._store.write("order.forgotten", work)

    async def _say(self, member: int) -> None:
        """What is owed to one member, as far as it answers."""
        rows = await self._store.read(lambda unit: unit.shares.owed(member, "", BATCH))
        heard: list[ShareKey] = []
        for row in rows:
            if not await self._heard(row, PATIENCE):
                break
            heard.append(row.key)
        await self._drop(heard)
        if len(heard) == len(rows) < BATCH and not await self._store.read(lambda unit: unit.shares.owed(member, "", 1)):
            self._owed.discard(member)

    async def _sweep(self, now: Mono) -> None:
        """Marks of orders that can not come any more, and keys that may be used anew."""
        if now - self._swept < SWEEP:
            return
        self._swept = now
        before, keys = Wall(self._own.wall() - LIFE), Wall(self._own.wall() - KEY_LIFE)

        def work(unit: Unit) -> int:
            return max(unit.shares.sweep(before, _PAGE), unit.retries.sweep(keys, _PAGE))

        while await self._store.write("order.swept", work) == _PAGE:
            pass
        self._marks = {order: at for order, at in self._marks.items() if at >= before}


def _state(row: ShareRow | None) -> ShareState | None:
    return None if row is None else row.state


def _cancelled(order: str) -> Refused:
    return Refused("order-cancelled", f"order {order} was cancelled by its sender; make a new one")


def _nobody() -> None:
    """Before the zone has its loops there is nobody to wake: each begins with an activation of its own."""
