"""Orders at one rack: claimed exactly in memory, stored with their servers by one commit, then built (protocols §5).

A claim is pending until its commit is known: it holds room, and is in no total. An order is known by its id: said
again it gets the same answer, cancelled before it came it is refused. What a two-phase order claims is stored, holds
its places, and is begun when its sender confirms. How servers are built and kept: work.py. What they hold: places.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from banyan.core.errors import Broken, Conflict, NotFound, Refused, Unreachable
from banyan.core.identity import Caller
from banyan.core.ids import GuestIds, read_guest_id
from banyan.core.order import Claim, Order, arguments_digest, check_order, placed
from banyan.core.ports import Clock, Ids, Store
from banyan.core.records import StoreUnknown, Unit
from banyan.core.server import Level, NoValidHost, OrderState, Server, StoredOrder
from banyan.core.shares import ShareRow
from banyan.core.time import Mono, Wall
from banyan.placement.explain import level
from banyan.zone.firm import firm
from banyan.zone.own import Own
from banyan.zone.servers.claimed import Claimed, ClaimedOrders
from banyan.zone.servers.places import Effect, Places

# Draws of ids before something else must be wrong.
DRAWS: Final = 3
# How often a commit whose fate is not known is looked into before its caller is told so, and after how many seconds.
LOOKS: Final = 5
LOOK_AGAIN: Final = 0.5
_PAGE: Final = 1_000

Admit = Callable[[Order], None]


def admit_all(order: Order) -> None:
    """Of this zone's own entry: nobody's lease counts."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An order that has its places. `again`: it was known already."""

    order: StoredOrder
    again: bool = False


class Orders:
    """See the module. `queue` is told of servers that have something to be done; set by whoever works on them."""

    def __init__(self, own: Own, store: Store, clock: Clock, ids: Ids, places: Places, path: Callable[[], str]) -> None:
        self.places = places
        self.claimed = ClaimedOrders(own, places)
        self.queue: Callable[[Sequence[Server]], None] = lambda servers: None
        self.taken = 0
        self._own = own
        self._store = store
        self._clock = clock
        self._ids = ids
        self._path = path
        self._guest_ids = GuestIds(places.code, 0, 0)
        self._waiting: dict[str, asyncio.Future[Taken]] = {}

    async def load(self) -> None:
        """No id is given out that a stored server could have."""
        parts = read_guest_id(await self._store.read(lambda unit: unit.servers.newest()))
        start = int.from_bytes(self._ids.token(5), "big")
        self.draw_from(parts.milliseconds if parts is not None else 0, start)

    def draw_from(self, milliseconds: int, start: int) -> None:
        """Ids are drawn from that instant on, their sequence from `start`."""
        self._guest_ids = GuestIds(self.places.code, milliseconds, start)

    # --- taking ---------------------------------------------------------------------------------

    async def take(
        self,
        order: Order,
        caller: Caller,
        admit: Admit = admit_all,
        above: tuple[Level, ...] = (),
        share: ShareRow | None = None,
    ) -> Taken:
        """Claims and stores; the servers are built after it. `admit` raises Refused for an order that comes too late;
        it is asked again where the order commits. `above`: what the zones said through which it came; it and `share`
        (core.shares) are stored with the order. To be called within `firm`, or by a task that nobody cancels.

        Raises NoValidHost, Conflict("other-order"), Refused("order-cancelled"), BadInput("bad-order"); Unreachable
        ("order-undecided") when the store does not say whether it has it, ("order-lost") when it has not: the same
        order may be sent again.
        """
        check_order(order)
        admit(order)
        waiting = self._waiting.get(order.id)
        if waiting is not None:
            return self._same(order, (await asyncio.shield(waiting)).order)
        future: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()
        self._waiting[order.id] = future
        try:
            taken = await self._take(order, caller, admit, above, share)
        except BaseException as error:
            if isinstance(error, Exception):
                future.set_exception(error)
                future.exception()  # nobody need have waited for it
            else:
                future.cancel()
            raise
        else:
            future.set_result(taken)
            return taken
        finally:
            del self._waiting[order.id]

    async def _take(
        self, order: Order, caller: Caller, admit: Admit, above: tuple[Level, ...], share: ShareRow | None
    ) -> Taken:
        near = await self.places.near(order)
        for _ in range(DRAWS):
            try:
                claim = self.places.claim(order, near)
            except NoValidHost:
                # Where it stands already there may be no room for a second.
                known = await self._store.read(lambda unit: unit.orders.get(order.id))
                if known is None:
                    raise
                return self._same(order, known)
            stored, servers = self._servers(order, claim, caller, above)
            event = self._own.event(
                "order-placed",
                order.id,
                f"{claim.count} of {order.specification.name!r} on {len(claim.hosts)} hosts",
                caller,
                project=order.project,
                first=servers[0].id,
                servers=str(claim.count),
            )
            claimed = Claimed(order, stored, servers, event, admit, share)
            try:
                known = await self.claimed.store(claimed)
            except StoreUnknown:
                return await self._settle(order)
            except Conflict as error:
                if error.code != "id-taken" or order.ids:
                    raise
                continue
            if known is not None:
                return self._same(order, known)
            self._begin(servers)
            return Taken(stored)
        raise Broken("id-taken", f"{DRAWS} draws of ids for order {order.id} met ids that are in use")

    def _begin(self, servers: Sequence[Server]) -> None:
        self.taken += len(servers)
        self.queue([server for server in servers if not server.unconfirmed])

    def _servers(
        self, order: Order, claim: Claim, caller: Caller, above: tuple[Level, ...]
    ) -> tuple[StoredOrder, list[Server]]:
        now, spec = self._own.wall(), order.specification
        ids = order.ids or tuple(self._guest_ids.draw(round(now * 1000), claim.count))
        drawn = Wall(self._guest_ids.ceiling / 1000)
        places = placed(claim, ids)
        spots = [self.places.spot(place.host, spec) for place in places]
        chosen = [(spot.name, len(p.ids), p.ground._value_) for p, spot in zip(places, spots, strict=True)]
        left_out = self.places.left_out(order)
        why = level(self._path(), now, order.id, caller.request, self.places.hosts, left_out, chosen)
        state = OrderState.CLAIMED if order.two_phase else OrderState.CONFIRMED
        digest = arguments_digest(order)
        stored = StoredOrder(order.id, state, now, caller.request, self.places.code, digest, places, why, above)
        servers: list[Server] = []
        for place, spot in zip(places, spots, strict=True):
            for id in place.ids:
                number = order.first + len(servers)
                servers.append(
                    Server(
                        id,
                        order.issuer,
                        order.project,
                        order.user,
                        f"{spec.name}-{number + 1}" if order.numbered else spec.name,
                        self.places.code,
                        place.host,
                        spec,
                        _made_at(id, drawn) if order.ids else drawn,
                        now,
                        description=spec.description,
                        hostname=spec.hostname,
                        availability_zone=spot.availability_zone,
                        host_name=spot.name,
                        move=order.move or 1,
                        order=order.id,
                        index=number,
                        unconfirmed=order.two_phase,
                        request=caller.request,
                    )
                )
        return stored, servers

    def _same(self, order: Order, known: StoredOrder) -> Taken:
        """The answer that was given before. Raises Refused("order-cancelled"), Conflict("other-order")."""
        if known.state is OrderState.CANCELLED:
            raise Refused("order-cancelled", f"order {order.id} was cancelled by its sender; make a new one")
        if known.digest != arguments_digest(order):
            raise Conflict(
                "other-order",
                f"order {order.id} was made before with other arguments; the same retry key must ask for the same",
            )
        return Taken(known, again=True)

    async def _settle(self, order: Order) -> Taken:
        """The commit's fate was not known. Memory is made anew from the rows; then they say what became of it."""
        for look in range(LOOKS):
            await self._clock.sleep_until(Mono(self._clock.now() + LOOK_AGAIN * 2**look))
            if self.places.in_doubt:
                continue
            known = await self._store.read(lambda unit: unit.orders.get(order.id))
            if known is None:
                raise Unreachable("order-lost", f"order {order.id} was not stored; send it again", transient=True)
            return self._same(order, known)
        raise _undecided(order.id)

    # --- confirm, cancel --------------------------------------------------------------------------

    async def unconfirmed(self) -> list[str]:
        """Ids of orders that wait for their sender's word; named to it at each new session."""
        found: list[str] = []
        after = ""
        while True:
            page = await self._store.read(lambda unit, after=after: unit.orders.unconfirmed(after, _PAGE))  # type: ignore[misc]  # mypy infers no type beside a default
            found += [order.id for order in page if order.rack == self.places.code]
            if len(page) < _PAGE:
                return found
            after = page[-1].id

    async def confirm(self, order: str) -> None:
        """Its servers are begun. Said again it changes nothing. Raises NotFound("no-order"), Refused."""
        try:
            await firm(self._confirm(order))
        except StoreUnknown as error:
            raise _undecided(order) from error

    async def _confirm(self, id: str) -> None:
        def work(unit: Unit, effect: Effect) -> list[Server]:
            known = unit.orders.get(id)
            if known is None:
                raise NotFound("no-order", f"there is no order {id} here to be confirmed")
            if known.state is OrderState.CANCELLED:
                raise Refused("order-cancelled", f"order {id} was cancelled")
            if known.state is OrderState.CONFIRMED:
                return []
            unit.orders.put(replace(known, state=OrderState.CONFIRMED))
            pairs = [
                (server, replace(server, unconfirmed=False, revision=server.revision + 1))
                for server in _of(unit, known)
                if server.unconfirmed
            ]
            unit.servers.update(*pairs)
            effect.pairs += pairs
            return [after for _, after in pairs]

        self._begin(await self.places.write("order.confirmed", work))

    async def cancel(self, order: str, caller: Caller) -> Sequence[Server]:
        """Refuses the order for good. What it claimed and nobody confirmed is given back; servers of an order that was
        carried out are given to the caller, who deletes them. Said again it gives those that are still there."""
        try:
            return await firm(self._cancel(order, caller))
        except StoreUnknown as error:
            raise _undecided(order) from error

    async def _cancel(self, id: str, caller: Caller) -> Sequence[Server]:
        mark = StoredOrder(id, OrderState.CANCELLED, self._own.wall(), caller.request, self.places.code)
        event = self._own.event("order-cancelled", id, "by its sender", caller)

        def work(unit: Unit, effect: Effect) -> Sequence[Server]:
            known = unit.orders.insert(mark).get(id)
            if known is None:
                return ()
            if known.state is not OrderState.CANCELLED:
                unit.orders.put(replace(known, state=OrderState.CANCELLED))
                self._own.write(unit, event)
            servers = _of(unit, known)
            waiting = [server for server in servers if server.unconfirmed]
            unit.servers.drop([server.id for server in waiting])
            effect.pairs += [(server, None) for server in waiting]
            return [server for server in servers if not server.unconfirmed]

        return await self.places.write("order.cancelled", work)


def _undecided(order: str) -> Unreachable:
    text = f"it is not known whether this was stored for order {order}; send the same again"
    return Unreachable("order-undecided", text, transient=True, retry_after=5.0)


def _made_at(id: str, otherwise: Wall) -> Wall:
    """The instant in the id of a server that is placed again."""
    parts = read_guest_id(id)
    return otherwise if parts is None else Wall(parts.milliseconds / 1000)


def _of(unit: Unit, order: StoredOrder) -> list[Server]:
    """The servers of an order that are not deleted."""
    ids = [id for place in order.placed for id in place.ids]
    found: list[Server] = []
    for at in range(0, len(ids), _PAGE):
        found += [server for server in unit.servers.many(ids[at : at + _PAGE]).values() if server.deleted_at is None]
    return found
