"""Servers of this zone's own racks: what can be asked of them and done with them, wherever the question came from.

The leaf's half of servers/surface.py: no zone below or above is known here. Each change is one commit of the row, the
action and a line of the journal; what the rack has to do for it is done after that (work.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import Final

from msgspec.structs import replace

from banyan.core import server_steps as steps
from banyan.core.deed import DeedFailed
from banyan.core.errors import Conflict, NotFound, Refused, Unreachable
from banyan.core.identity import Caller
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.order import Order, Reason, add_reasons
from banyan.core.ports import Store
from banyan.core.records import StoreUnknown, Unit
from banyan.core.secret import Secret
from banyan.core.server import (
    Action,
    ActionRecord,
    Arguments,
    Change,
    EventRecord,
    Level,
    NoValidHost,
    Server,
    ServerPage,
    ServerQuery,
    Task,
    VmState,
)
from banyan.core.server_states import TASKS, check
from banyan.core.time import Wall
from banyan.placement.filters import Around
from banyan.zone.firm import firm
from banyan.zone.own import Own
from banyan.zone.servers import secrets
from banyan.zone.servers.access import (
    Who,
    caller_of,
    is_operator,
    is_owner,
    require_may_act,
    require_seen,
    sees,
    sees_all,
)
from banyan.zone.servers.changing import changed, named, touches_metadata
from banyan.zone.servers.orders import Admit, Orders, Taken, admit_all
from banyan.zone.servers.places import Effect, Places
from banyan.zone.servers.work import Work, first_action

MAX_ACTIONS: Final = 1_000
_PLACES: Final = frozenset({Action.RESIZE, Action.MIGRATE, Action.UNSHELVE})
# Deleting many servers of a cancelled order: so many rows to a unit of work.
_BATCH: Final = 200


@dataclass(slots=True)
class RackServers:
    """One rack's servers: their places, its orders, and what is done to them."""

    places: Places
    orders: Orders
    work: Work

    async def run(self) -> None:
        """For ever, until cancelled."""
        if not self.places.driver.operations:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.orders.claimed.run(), name="claimed orders")
            tasks.create_task(self.work.run(), name="work")

    def metrics(self, rack: str) -> dict[str, float]:
        """Gauges and counters by Prometheus name; cheap to read."""
        label = f'{{rack="{rack}"}}'
        return {
            f"banyan_servers{label}": self.places.held.servers,
            f"banyan_servers_placed_total{label}": self.orders.taken,
            f"banyan_orders_refused_total{label}": self.places.refused,
            f"banyan_claims_pending{label}": self.places.pending,
            f"banyan_deeds_under_way{label}": self.work.under_way,
            f"banyan_deeds_waiting{label}": self.work.waiting,
            f"banyan_deeds_done_total{label}": self.work.done,
            f"banyan_deeds_failed_total{label}": self.work.failed,
            f"banyan_deeds_unanswered_total{label}": self.work.unanswered,
            f"banyan_builds_elsewhere_total{label}": self.work.built_anew,
        }


class LeafServers:
    """`racks` by code, of which some may only be observed. `path`: of this zone, as it is called now."""

    def __init__(self, own: Own, store: Store, path: Callable[[], str]) -> None:
        self.racks: dict[RackCode, RackServers] = {}
        self._own = own
        self._store = store
        self.path = path

    # --- orders ---------------------------------------------------------------------------------

    async def order(self, who: Who, order: Order, admit: Admit = admit_all) -> Taken:
        """The order, taken whole by one of the racks, the one with most room first. Raises NoValidHost with the counts
        of all, and what Orders.take does."""
        caller = caller_of(who)
        looked, counts, fits = 0, dict[str, int](), 0
        racks = list(self.racks.values())
        if len(racks) > 1:
            racks.sort(key=lambda rack: -rack.places.fits(order))
        for rack in racks:
            try:
                return await firm(rack.orders.take(order, caller, admit))
            except NoValidHost as refusal:
                looked += refusal.looked
                counts = add_reasons(counts, refusal.counts)
                fits += refusal.fits
        if not self.racks:
            looked, counts = 1, {Reason.NOT_OFFERED: 1}
        raise NoValidHost(looked, counts, order.least, fits)

    async def confirm(self, order: str) -> None:
        """Raises NotFound("no-order"), Refused("order-cancelled")."""
        known = await self._store.read(lambda unit: unit.orders.get(order))
        rack = self.racks.get(known.rack) if known is not None else None
        if rack is None:
            raise NotFound("no-order", f"there is no order {order} here to be confirmed")
        await rack.orders.confirm(order)

    async def cancel(self, who: Who, order: str) -> None:
        """Refuses the order for good, whether it came or not, and removes what it made. Safe to repeat."""
        known = await self._store.read(lambda unit: unit.orders.get(order))
        racks = list(self.racks.values())
        rack = self.racks.get(known.rack) if known is not None else racks[0] if racks else None
        if rack is None:
            return
        made = await rack.orders.cancel(order, caller_of(who))
        for at in range(0, len(made), _BATCH):
            await firm(self._delete(who, rack, [server.id for server in made[at : at + _BATCH]]))

    async def _delete(self, who: Who, rack: RackServers, ids: Sequence[str]) -> None:
        now = self._own.wall()

        def work(unit: Unit, effect: Effect) -> list[Server]:
            begun = []
            for id in ids:
                row = unit.servers.get(id)
                if row is None or row.state is VmState.DELETED or row.task is Task.DELETING:
                    continue
                after = steps.accepted(row, Action.DELETE, Arguments(), VmState.DELETED, None, now)
                secrets.over(unit, row)
                unit.servers.update((row, after))
                unit.actions.put(_record(after, Action.DELETE, who, Arguments(), now))
                effect.pairs.append((row, after))
                begun.append(after)
            return begun

        rack.work.queue(await rack.places.write("server.action", work))

    async def known(self, orders: Sequence[str]) -> list[str]:
        """Those of these orders that came to a rack here."""
        return await self._store.read(lambda unit: [id for id in orders if unit.orders.get(id) is not None])

    async def unconfirmed(self) -> list[str]:
        """Orders that wait for their sender's word, of all racks."""
        return [id for rack in self.racks.values() for id in await rack.orders.unconfirmed()]

    # --- looking --------------------------------------------------------------------------------

    async def show(self, who: Who, id: str) -> Server:
        server = require_seen(who, id, await self._store.read(lambda unit: unit.servers.get(id)))
        if server.state is VmState.DELETED and not is_operator(who):
            raise NotFound("no-server", f"there is no server {id}")
        return server

    async def page(self, who: Who, query: ServerQuery) -> ServerPage:
        query = bounded(who, query)
        # Before the rows are read: what is confirmed meanwhile is in neither.
        racks = () if query.deleted else self.racks.values()
        waits = any(rack.places.held.waits(query.issuer, query.project) for rack in racks)
        page = await self._store.read(lambda unit: unit.servers.page(query))
        # Somebody may have been told of them: a list that is silent about them would say that they are not there.
        return replace(page, absent=(f"{self.path()} (unconfirmed)",)) if waits else page

    async def actions(self, who: Who, id: str) -> tuple[ActionRecord, ...]:
        def work(unit: Unit) -> tuple[Server | None, Sequence[ActionRecord]]:
            return unit.servers.get(id), unit.actions.of(id, MAX_ACTIONS)

        found, records = await self._store.read(work)
        server = require_seen(who, id, found)
        known = [replace(record, arguments=None) for record in records]
        if all(record.request != server.request for record in known):
            known.append(_told_by_row(server))
        return tuple(known)

    async def console(self, who: Who, id: str, lines: int | None = None) -> str:
        server = await self.show(who, id)
        rack = self.racks.get(server.rack)
        if rack is None or not server.holds or server.state is VmState.BUILDING:
            raise Conflict("bad-state", f"server {id} is {server.state} and has no console")
        try:
            return await rack.places.driver.console(server, lines)
        except DeedFailed as error:
            raise Conflict("bad-state", f"server {id}: {error.text}") from error

    async def why(self, who: Who, id: str) -> tuple[Level, ...]:
        def work(unit: Unit) -> tuple[Server | None, list[Level]]:
            server = unit.servers.get(id)
            order = unit.orders.get(id if server is None else server.order)
            orders = [order] if order is not None else list(unit.orders.of_request(id, MAX_ACTIONS))
            if server is None and orders and orders[0].placed:
                server = unit.servers.get(orders[0].placed[0].ids[0])
            return server, [level for order in orders for level in (*order.above, order.level) if level is not None]

        server, levels = await self._store.read(work)
        if server is None or not sees(who, server):
            raise NotFound("no-server", f"there is no server, order or request {id}")
        return tuple(levels)

    def counts(self, issuer: ZoneCode, project: str) -> Mapping[str, int]:
        """Use of one project in these racks."""
        uses = [rack.places.held.use((issuer, project)) for rack in self.racks.values()]
        return {
            "servers": sum(use.guests for use in uses),
            "vcpu": sum(use.vcpu for use in uses),
            "memory_mib": sum(use.memory_mib for use in uses),
            "disk_gib": sum(use.disk_gib for use in uses),
        }

    # --- changing -------------------------------------------------------------------------------

    async def change(self, who: Who, id: str, change: Change) -> Server:
        found = await self._store.read(lambda unit: unit.servers.get(id))
        rack = self._rack(who, _living(who, id, found))
        caller, now, what = caller_of(who), self._own.wall(), named(change)

        def work(unit: Unit, effect: Effect) -> Server:
            row = _living(who, id, unit.servers.get(id))
            if row.locked and touches_metadata(change) and not is_operator(who):
                raise Conflict("locked", f"server {id} is locked; unlock it first")
            after = changed(row, change, now)
            unit.servers.update((row, after))
            if after is not row:
                effect.pairs.append((row, after))
            if what:
                self._own.write(unit, self._own.event("server-changed", id, f"{what} of {row.name!r}", caller))
            return after

        return await self._written(rack.places.write("server.changed", work), id)

    async def act(
        self,
        who: Who,
        id: str,
        action: Action,
        arguments: Arguments | None = None,
        password: Secret | None = None,
    ) -> Server:
        arguments, caller, now = arguments or Arguments(), caller_of(who), self._own.wall()

        def read(unit: Unit) -> tuple[Server | None, bool]:
            return unit.servers.get(id), _was_asked(unit, id, action, caller.request)

        found, asked = await self._store.read(read)
        row = require_seen(who, id, found)
        if asked:
            return row
        rack = self._rack(who, _living(who, id, row))
        if action in TASKS and steps.OPERATIONS[TASKS[action]] not in rack.places.driver.operations:
            raise Refused("not-offered", f"the rack of server {id} cannot {action} a server")
        claim, spot = "", None
        if action in _PLACES:
            check(row, action, operator=is_operator(who))
            claim, spot = await self._another_place(rack, row, action, arguments)
        revision = row.revision

        def work(unit: Unit, effect: Effect) -> Server:
            row = require_seen(who, id, unit.servers.get(id))
            if _was_asked(unit, id, action, caller.request):
                return row
            _living(who, id, row)
            if action is Action.DELETE and row.task is Task.DELETING:
                return row
            after = check(row, action, operator=is_operator(who))
            if claim and row.revision != revision:
                raise Conflict("changed", f"server {id} was changed at the same time; try again", transient=True)
            begun = steps.accepted(row, action, arguments, after, spot, now, owner=is_owner(who, row))
            unit.servers.update((row, begun))
            secrets.accepted(unit, row, begun, password)
            unit.actions.put(_record(begun, action, who, arguments, now))
            self._own.write(unit, self._own.event(f"server-{action}", id, f"of {row.name!r}", caller))
            effect.pairs.append((row, begun))
            effect.claim = claim
            return begun

        server = await self._written(rack.places.write("server.action", work, (claim,) if claim else ()), id)
        if server.task is not Task.NONE:
            rack.work.queue([server])
        return server

    async def _another_place(
        self, rack: RackServers, row: Server, action: Action, arguments: Arguments
    ) -> tuple[str, steps.Spot]:
        """Claimed, and what it is pending under. Raises NoValidHost."""
        spec = steps.wanted_specification(row, action, arguments)
        near = await rack.places.near(Order(row.id, row.issuer, row.project, row.user, spec))
        if row.host:
            members = {host: count - (host == row.host) for host, count in near.members.items()}
            near = with_fields(near, members=members)
        if action is Action.MIGRATE:
            near = with_fields(near, different=near.different | {row.host})
        if arguments.host:
            near = Around(same=frozenset({arguments.host, *rack.places.named((arguments.host,))}))
        return rack.places.claim_one(row, spec, near)

    def _rack(self, who: Who, server: Server) -> RackServers:
        """The rack of a server that the caller may change."""
        require_may_act(who, server.id)
        rack = self.racks.get(server.rack)
        if rack is None:
            raise Conflict("rack-gone", f"the rack of server {server.id} is not in this zone's settings any more")
        return rack

    async def _written(self, write: Coroutine[object, object, Server], id: str) -> Server:
        try:
            return await firm(write)
        except StoreUnknown as error:
            text = f"it is not known whether this was stored for server {id}; ask again under the same request id"
            raise Unreachable("server-undecided", text, detail=error.text, transient=True) from error


def bounded(who: Who, query: ServerQuery) -> ServerQuery:
    """What the caller may ask for: a principal its own project, or all of its issuer if it may see them."""
    if isinstance(who, Caller):
        return replace(query, every_project=query.every_project or not query.project)
    if query.every_project and sees_all(who):
        return replace(query, issuer=who.issuer)
    deleted = query.deleted and is_operator(who)
    return replace(query, issuer=who.issuer, project=who.project, every_project=False, deleted=deleted)


def _living(who: Who, id: str, server: Server | None) -> Server:
    """Raises NotFound also for one that was deleted."""
    found = require_seen(who, id, server)
    if found.state is VmState.DELETED:
        raise NotFound("no-server", f"there is no server {id}")
    return found


def _was_asked(unit: Unit, id: str, action: Action, request: str) -> bool:
    """The same action was accepted under the same request before."""
    known = unit.actions.get(id, request) if request else None
    return known is not None and known.action is action


def _user(who: Who) -> str:
    return who.subject if isinstance(who, Caller) else who.user


def _record(server: Server, action: Action, who: Who, arguments: Arguments, now: Wall) -> ActionRecord:
    request = caller_of(who).request or f"revision-{server.revision}"
    return ActionRecord(
        server.id,
        request,
        action,
        server.issuer,
        server.project,
        _user(who),
        now,
        now,
        arguments=arguments,
        number=server.revision,
    )


def _told_by_row(server: Server) -> ActionRecord:
    """The creation of a server with which nothing went wrong."""
    host = server.host_name or server.host
    result = "success" if server.launched is not None else ""
    event = EventRecord("create", server.created, server.launched, result, host)
    return replace(first_action(server), events=(event,))
