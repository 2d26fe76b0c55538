"""Orders that must not be, or not be any more: cancels that are owed to members, and orders that were cancelled here.

Who gave no answer to an order may have carried it out. Before its part goes elsewhere a cancel of it is stored; that is
said to the member, whenever it can be asked, until it acknowledges (protocols §5). A member stores that before it does;
an order that comes after its cancel is refused, one that was carried out is undone: nobody was told of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from banyan.core.errors import BanyanError, Refused
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.core.ports import Clock, Store
from banyan.core.records import Unit
from banyan.core.server_messages import Nothing, OrderCall
from banyan.core.time import Mono, Wall
from banyan.zone.firm import firm
from banyan.zone.own import Own
from banyan.zone.servers.below import Below

log = structlog.get_logger("banyan.cancels")

HERE: Final = ZoneCode(0)
# So many are said to one member in one turn, and so soon is a member asked again, seconds.
BATCH: Final = 100
AGAIN: Final = 2.0
# A link lives less long than this: an order that is still on its way then does not exist.
LIFE: Final = 86_400.0
SWEEP: Final = 3_600.0
_PAGE: Final = 1_000


class Cancels:
    """zone.loop.Activation. `owe` wakes it through `signal`, set by the zone."""

    name = "cancels"

    def __init__(self, own: Own, store: Store, clock: Clock, below: Below) -> None:
        self.said = 0
        self.signal: Callable[[], None] = _nobody
        self._own = own
        self._store = store
        self._clock = clock
        self._below = below
        self._here: dict[str, Wall] = {}
        self._owed: set[ZoneCode] = set()
        self._swept = clock.now()

    async def load(self) -> None:
        def read(unit: Unit) -> tuple[list[str], Sequence[ZoneCode]]:
            found: list[str] = []
            while page := unit.cancels.of(HERE, found[-1] if found else "", _PAGE):
                found += page
            return found, unit.cancels.members()

        here, owed = await self._store.read(read)
        self._here = dict.fromkeys(here, self._own.wall())
        self._owed = set(owed)

    def check(self, order: str) -> None:
        """Raises Refused("order-cancelled")."""
        if order in self._here:
            raise Refused("order-cancelled", f"order {order} was cancelled by its sender; make a new one")

    async def owe(self, members: Sequence[tuple[ZoneCode, str]]) -> None:
        """Stored when this returns: each of these orders is to be cancelled at that child."""
        await firm(self._owe(members, ()))

    async def here(self, order: str, members: Sequence[tuple[ZoneCode, str]]) -> None:
        """As `owe`; and the order is refused here from now on, also after a restart."""
        self._here[order] = self._own.wall()
        await firm(self._owe(members, (order,)))

    async def _owe(self, members: Sequence[tuple[ZoneCode, str]], here: Sequence[str]) -> None:
        now = self._own.wall()

        def work(unit: Unit) -> None:
            for order in here:
                unit.cancels.put([HERE], order, now)
            for member, order in members:
                unit.cancels.put([member], order, now)

        await self._store.write("order.cancel", work)
        self._owed.update(member for member, _ in members)
        self.signal()

    async def activate(self, now: Mono) -> Mono | None:
        await self._sweep(now)
        for member in sorted(self._owed):
            if self._below.has_session(member):
                await self._say(member)
        if not self._owed:
            return Mono(now + SWEEP) if self._here else None
        return Mono(self._clock.now() + AGAIN)

    async def _say(self, member: ZoneCode) -> None:
        """What is owed to one member, as far as it answers."""
        orders = await self._store.read(lambda unit: unit.cancels.of(member, "", BATCH))
        for order in orders:
            caller = Caller("zone", Role.OPERATOR, self._own.code, request=order)
            try:
                await self._below.ask(member, caller, "cancel", OrderCall(order), Nothing)
            except BanyanError as error:
                log.info("a cancel was not acknowledged yet", member=self._below.path(member), error=str(error))
                return
            self.said += 1

            def work(unit: Unit, order: str = order) -> None:
                unit.cancels.drop(member, order)

            await self._store.write("order.cancel-acknowledged", work)
        if len(orders) < BATCH and not await self._store.read(lambda unit: unit.cancels.of(member, "", 1)):
            self._owed.discard(member)

    async def _sweep(self, now: Mono) -> None:
        """Marks of orders that can not come any more."""
        if now - self._swept < SWEEP:
            return
        self._swept = now
        before = Wall(self._own.wall() - LIFE)
        await self._store.write("order.cancels-swept", lambda unit: unit.cancels.forget(HERE, before))
        self._here = {order: at for order, at in self._here.items() if at >= before}


def _nobody() -> None:
    """Before the zone has its loops there is nobody to wake: each begins with an activation of its own."""
