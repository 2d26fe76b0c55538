"""One zone: its parts put together, started, and shown as `Surface`. No policy is made here.

The parts: `Own` (itself), `Roster` and `Children` (below), `UplinkSide` (above), `Inventory` (racks), `Members`
and `Streams` (sums, and what goes up), `Tree` (paths). Each runs in a Loop of its own. Everything from outside
comes as a port. Read zone/loop.py for how things run, zone/surface.py for what can be asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from banyan import __version__
from banyan.core.errors import BadInput, Conflict, Refused, Unreachable
from banyan.core.identity import Caller
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.journal import Event
from banyan.core.messages import Request
from banyan.core.order import Order
from banyan.core.ports import Clock, Driver, DriverHost, Ids, RackSpec, Store
from banyan.core.rack import Rack
from banyan.core.receiver import Senders
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.zone import Uplink
from banyan.placement.shapes import read_keys
from banyan.trust import tokens
from banyan.zone.commands.access import Access
from banyan.zone.commands.tokens import ApiTokens
from banyan.zone.commands.zones import ZoneWords
from banyan.zone.loop import Activation, Loop
from banyan.zone.members import Members
from banyan.zone.own import Own, open_own
from banyan.zone.receivers import Receivers
from banyan.zone.reconcile.admission import Admission
from banyan.zone.reconcile.certificates import Certificates
from banyan.zone.reconcile.children import Children
from banyan.zone.reconcile.doubts import Doubts
from banyan.zone.reconcile.health import HealthWatch
from banyan.zone.reconcile.inventory import Inventory, InventorySettings
from banyan.zone.reconcile.publish import Publish
from banyan.zone.reconcile.refusals import RefusalNotes, Refusals
from banyan.zone.reconcile.shapes import Shapes
from banyan.zone.reconcile.uplinks import Answering, UplinkSide
from banyan.zone.roster import Roster
from banyan.zone.servers.assembly import Assembly, TreeAssembly, TreeKnown
from banyan.zone.servers.leaf import RackServers
from banyan.zone.servers.upkeep import Upkeep
from banyan.zone.settings import ZoneSettings
from banyan.zone.streams import Streams, first_generation
from banyan.zone.tree import Tree
from banyan.zone.uplink_rows import code_key, read_uplinks, stands, used_key

log = structlog.get_logger("banyan.zone")

# How long a leaving zone waits for a parent to hear it, seconds.
PATIENCE = 10.0


class UplinkRunner(Protocol):
    """The link's child for one uplink: runs for ever, or enrols once."""

    async def run(self) -> None: ...

    async def enrol(self, patience: float | None = None) -> object: ...

    def traffic(self) -> tuple[int, int]:
        """Bytes sent and received since the start."""


class Links(Protocol):
    """Makes an uplink's runner; the assembly knows how wires are dialled."""

    def uplink(self, side: UplinkSide) -> UplinkRunner: ...


@dataclass(slots=True)
class Up:
    """One uplink with what runs it."""

    side: UplinkSide
    runner: UplinkRunner
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Racked:
    """One rack with its driver and what reads it."""

    name: str
    driver: Driver
    inventory: Inventory
    servers: RackServers


class Zone:
    """Made by `open_zone`; `run` until cancelled. Parts are public: views and worlds read them, and write nothing."""

    def __init__(
        self,
        own: Own,
        settings: ZoneSettings,
        store: Store,
        clock: Clock,
        ids: Ids,
        drivers: DriverHost,
        links: Links,
        senders: Senders | None = None,
    ) -> None:
        self.own = own
        self.settings = settings
        self.store = store
        self.clock = clock
        self.ids = ids
        self.ups: dict[int, Up] = {}
        self.racks: dict[RackCode, Racked] = {}
        self._drivers = drivers
        self._links = links
        self.tree = Tree(own.code, own.name)
        self.members = Members(settings.shapes, self._members_changed, lambda: self._signal("shapes"))
        self.streams = Streams(own.code, first_generation(own.wall(), ids))
        self.roster = Roster(own, store, clock, settings.terms, self.tree, self.members, self.streams)
        self.admission = Admission(own, store, clock, ids, settings, self.roster, self.tree, self.ancestors)
        self.children = Children(
            own, store, clock, ids, settings, self.roster, self.tree, self.members, self.admission, self.ancestors
        )
        self.certificates = Certificates(own, store, clock, ids, self.admission)
        self.words = ZoneWords(own, self.roster)
        self.access = Access(own, store, ids, settings.addresses)
        self.tokens = ApiTokens(own, store, ids, self.tree)
        self._assembly = Assembly(own, store, clock, ids, self.members, self.streams, lambda: self.tree.path)
        self.servers = self._assembly.leaf
        above = TreeKnown(self.roster, self.tree, self.members, self.streams, settings.replies, self.ancestors)
        below = TreeAssembly(own, store, clock, ids, self.servers, above, self._admit)
        self.order_shares, self.tree_servers, self.server_answers = below.shares, below.servers, below.answers
        self.answer: Answering = _not_ready
        self.publish = Publish(
            own,
            clock,
            settings,
            self.members,
            self.streams,
            self.roster,
            self.parents,
            self.ancestors,
            ids,
            self.rack_rows,
            __version__,
        )
        self.health = HealthWatch(own, clock, self.roster, self.children)
        self.doubts = Doubts(own, self.roster, lambda: [up.side for up in self.ups.values()], self._forget)
        self.shapes = Shapes(own, store, clock, self.members)
        self.receivers = Receivers(own, store, clock, ids, settings.receivers, senders, lambda: self.tree.path)
        # A budget of its own: strangers at the API shall not hide strangers at the link.
        self.api_refusals = Refusals("API")
        self.refusal_notes = RefusalNotes(own, store, clock, (self.admission.refusals, self.api_refusals))
        self.loops = {a.name: Loop(a, clock, ids) for a in self._activations()}
        self.roster.woken = self.loops["health"].signal
        self.roster.routes.changed = self.loops[self.roster.owners.name].signal
        self.roster.doubted = own.doubted = self.loops["doubts"].signal
        self.order_shares.signal = self.loops["shares"].signal
        self.admission.refusals.full = self.api_refusals.full = self.loops["refusals"].signal
        own.retimed = self._retimed
        self._tasks: asyncio.TaskGroup | None = None

    def _activations(self) -> tuple[Activation, ...]:
        quiet = (self.shapes, self.refusal_notes, self.order_shares, self.roster.owners)
        return (self.publish, self.health, self.doubts, self.certificates, *quiet)

    def _retimed(self) -> None:
        for name in ("certificates", "publish"):
            self.loops[name].signal()

    def _members_changed(self) -> None:
        self._signal("publish")

    def _signal(self, name: str) -> None:
        """Members are made before the loops are, and each loop begins with an activation of its own."""
        if hasattr(self, "loops"):
            self.loops[name].signal()

    async def _asked(self, request: Request, caller: Caller) -> bytes:
        return await self.answer(request, caller)

    def _admit(self, order: Order) -> None:
        """Raises Refused("lease-over") for an order that was sent under a lease that does not stand any more."""
        now = self.clock.now()
        leases = [up.side.lease for up in self.ups.values() if up.side.lease is not None]
        if not any(lease.epoch == order.epoch and not lease.over(now) for lease in leases):
            raise Refused("lease-over", f"order {order.id} was sent under a lease that is over; it was not taken")

    # --- what it is -----------------------------------------------------------------------------

    def ancestors(self) -> tuple[ZoneCode, ...]:
        """Codes of the zones above, the home parent first, each once."""
        seen: dict[ZoneCode, None] = {}
        for up in sorted(self.ups.values(), key=lambda up: (not up.side.row.home, up.side.row.id)):
            for code in up.side.ancestors:
                seen[code] = None
            if not up.side.ancestors and up.side.row.parent_code is not None:
                seen[up.side.row.parent_code] = None
        return tuple(seen)

    def parents(self) -> tuple[ZoneCode, ...]:
        """Codes of the zones at which this one is enrolled, the home parent first."""
        rows = sorted((up.side.row for up in self.ups.values()), key=lambda row: (not row.home, row.id))
        return tuple(row.parent_code for row in rows if row.parent_code is not None and row.certificate)

    def home(self) -> Uplink | None:
        return next((up.side.row for up in self.ups.values() if up.side.row.home), None)

    def rack_rows(self) -> Sequence[Rack]:
        return [member.rack for member in self.members.racks.values()]

    # --- start ----------------------------------------------------------------------------------

    async def load(self) -> None:
        """Reads what the store knows, makes drivers, and puts everything in its place. Nothing runs yet."""
        for row, coded in await self.store.read(read_uplinks):
            self._add_uplink(row).side.again = coded and bool(row.certificate)
        self._place()
        await self.roster.load()
        await self.order_shares.load()
        for spec in self.settings.racks:
            await self._add_rack(spec)
        await self._drop_racks()
        await self.receivers.load()
        for telling in self.receivers.told.values():
            self.loops[telling.name] = Loop(telling, self.clock, self.ids)
        await self.certificates.activate(self.clock.now())

    def _add_uplink(self, row: Uplink) -> Up:
        side = UplinkSide(
            row,
            self.own,
            self.store,
            self.clock,
            self.ids,
            self.settings,
            self.streams,
            self.members,
            self._asked,
            self._uplink_changed,
            self.roster.heard,
        )
        up = self.ups[row.id] = Up(side, self._links.uplink(side))
        self.own.guided = True
        return up

    def _uplink_changed(self, row: Uplink) -> None:
        self._place()
        self.loops["publish"].signal()

    def _place(self) -> None:
        """Takes the whole path that the home parent gave, as far as it is known, and its word on time."""
        self.own.guided = bool(self.ups)
        home = self.home()
        if self.streams.code != self.own.code:
            self.streams.code = self.own.code
            self.loops["certificates"].signal()
        self.tree.move(self.own.code, home.path if home is not None and home.path else self.own.name)
        ups = sorted((up.side.row for up in self.ups.values()), key=lambda row: (not row.home, row.id))
        self.members.announced(read_keys(row.shapes.keys) for row in ups)

    async def _add_rack(self, spec: RackSpec) -> None:
        drawn = RackCode(int.from_bytes(self.ids.token(5), "big"))
        kinds = self._drivers.kinds()
        if spec.driver not in kinds:
            raise BadInput("bad-driver", f"rack {spec.name}: drivers here are {', '.join(kinds)}; got {spec.driver!r}")

        def work(unit: Unit) -> Rack:
            row = next((rack for rack in unit.racks.all() if rack.name == spec.name), None)
            if row is not None and row.driver != spec.driver:
                raise Conflict(
                    "other-driver",
                    f"rack {spec.name} has been of driver {row.driver}, not {spec.driver}; name the new rack otherwise",
                )
            if row is None:
                row = Rack(drawn, spec.name, spec.driver, dict(spec.options), owner="self")
                text = f"a rack of driver {spec.driver}"
                self.own.write(unit, self.own.event("rack-added", spec.name, text))
            row = replace(row, options=dict(spec.options))
            unit.racks.put(row)
            return row

        row = await self.store.write("rack.added", work)
        driver = self._drivers.make(replace(spec, code=row.code))
        servers, watch = self._assembly.rack(row.code, driver, spec)
        inventory = Inventory(
            self.store,
            self.clock,
            self.ids,
            self.own.wall,
            driver,
            row.code,
            self.members,
            self.streams,
            InventorySettings(
                self.settings.scan_interval,
                self.settings.probe_interval,
                self.settings.scan_deadline,
                ceiling=dict(spec.share.ceiling),
            ),
            servers.places,
            watch,
        )
        await inventory.start()
        await servers.orders.load()
        self.racks[row.code] = Racked(row.name, driver, inventory, servers)
        upkeep = Upkeep(self.own, self.store, servers.places, servers.work, inventory.restore)
        for activation in (inventory, upkeep):
            self.loops[activation.name] = Loop(activation, self.clock, self.ids)
        servers.places.changed = upkeep.heed(self.loops[upkeep.name].signal)
        servers.places.doubted = self.loops[upkeep.name].signal

    async def _drop_racks(self) -> None:
        """Racks that the settings no longer name go, with all that was seen in them; their codes are not reused."""

        def work(unit: Unit) -> None:
            for rack in unit.racks.all():
                if rack.code not in self.racks:
                    unit.racks.delete(rack.code)
                    unit.streams.forget(ZoneCode(rack.code))
                    text = "no longer in the settings"
                    self.own.write(unit, self.own.event("rack-removed", rack.name, text))

        await self.store.write("rack.removed", work)

    # --- joining --------------------------------------------------------------------------------

    async def accept_code(self, text: str) -> Up:
        """Stores a join code, sealed, as an uplink to be enrolled; one that is stored or was used changes nothing.

        Another code of the same parent enrols this zone again, with the same key, once it runs. Raises BadInput for a
        malformed code, Conflict("joined-elsewhere") if another home parent is known.
        """
        code = tokens.parse(text)
        for up in self.ups.values():
            if up.side.row.certificate and code.pin in {up.side.row.pin, *up.side.pins()}:
                return await self._accept_again(up, code, text)
        self._check_no_parent()
        floor = self.own.row.time.raised(code.issued)
        packed = Secret("".join(text.split()).encode())

        def work(unit: Unit) -> Uplink:
            old = next((row for row in unit.uplinks.all() if not row.certificate), None)
            if old is not None and unit.keys.get(code_key(old.id)) == packed:
                return old
            row = Uplink(unit.uplinks.next_id() if old is None else old.id, code.addresses, code.pin)
            unit.uplinks.put(row)
            unit.keys.put(code_key(row.id), packed)
            text_ = f"a join code for {', '.join(code.addresses)}"
            self.own.write(unit, self.own.event("code-stored", self.own.name, text_, reference=code.id))
            return row

        await self.own.learn_time(floor)
        return self._add_uplink(await self.own.again.write("child.code-stored", work, stands))

    async def _accept_again(self, up: Up, code: tokens.JoinCode, text: str) -> Up:
        id, packed = up.side.row.id, Secret("".join(text.split()).encode())

        def work(unit: Unit) -> bool:
            used = unit.keys.get(used_key(id))
            if used is not None and used.reveal() == code.id.encode():
                return False
            if unit.keys.get(code_key(id)) != packed:
                unit.keys.put(code_key(id), packed)
                text_ = f"another join code for {', '.join(code.addresses)}"
                self.own.write(unit, self.own.event("code-stored", self.own.name, text_, reference=code.id))
            return True

        up.side.again = await self.own.again.write(
            "child.code-stored", work, lambda unit, made: not made or unit.keys.get(code_key(id)) == packed
        )
        return up

    async def accept_parent(self, addresses: tuple[str, ...], pin: bytes) -> Up:
        """Makes an uplink to a parent that has listed this zone's key; if it is our parent, that is where it is now.

        Raises BadInput for a malformed address, Conflict("joined-elsewhere") if another home parent is known.
        """
        for address in addresses:
            tokens.check_address(address)
        known = next((up for up in self.ups.values() if pin in {up.side.row.pin, *up.side.pins()}), None)
        if known is not None and known.side.row.addresses == addresses:
            return known
        self._check_no_parent(known)

        def work(unit: Unit) -> Uplink:
            old = next((row for row in unit.uplinks.all() if not row.certificate), None)
            row = Uplink(unit.uplinks.next_id() if old is None else old.id, addresses, pin)
            if known is not None:
                row = replace(known.side.row, addresses=addresses)
            elif old is not None:
                # The word of a person now stands over a code that was stored earlier, and is not of this parent.
                unit.keys.delete(code_key(old.id))
            unit.uplinks.put(row)
            self.own.write(unit, self.own.event("parent-named", self.own.name, f"at {', '.join(addresses)}"))
            return row

        return self._add_uplink(await self.own.again.write("child.parent-named", work, stands))

    def _check_no_parent(self, known: Up | None = None) -> None:
        home = self.home()
        if known is None and home is not None and home.certificate:
            raise Conflict(
                "joined-elsewhere",
                f"this zone is a child of {home.parent_name or 'another zone'} already; `banyan leave` it first",
            )

    # --- running --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs all loops and uplinks until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for name, loop in self.loops.items():
                tasks.create_task(loop.run(), name=name)
            for racked in self.racks.values():
                tasks.create_task(racked.servers.run(), name=f"servers {racked.name}")
            for up in self.ups.values():
                up.task = tasks.create_task(up.runner.run(), name=f"uplink {up.side.row.id}")

    async def leave(self, caller: Caller) -> None:
        """Tells the parents, as far as they can be reached, and forgets them. Racks and children stay as they are."""
        for up in list(self.ups.values()):
            row = up.side.row
            told = await up.side.say_leaving(PATIENCE)
            if up.task is not None:
                up.task.cancel()
                await asyncio.gather(up.task, return_exceptions=True)
            text = "the parent was told" if told else "the parent could not be told: retire this zone there"
            event = self.own.event("left", row.path or row.parent_name, text, caller)

            def work(unit: Unit, id: int = row.id, event: Event = event) -> None:
                unit.uplinks.delete(id)
                unit.keys.delete(code_key(id))
                unit.keys.delete(used_key(id))
                self.own.write(unit, event)

            await up.side.leave(work)
            self._forget(row.id)

    def _forget(self, uplink: int) -> None:
        self.ups.pop(uplink, None)
        self._place()
        self.loops["publish"].signal()

    async def close(self) -> None:
        for racked in self.racks.values():
            await racked.driver.close()
        await self.receivers.close()


async def open_zone(
    settings: ZoneSettings,
    store: Store,
    clock: Clock,
    ids: Ids,
    drivers: DriverHost,
    links: Links,
    senders: Senders | None = None,
) -> Zone:
    """A zone as the store has it, made there at the first start; loaded, not yet running."""
    own = await open_own(store, clock, ids, settings.name, settings.labels)
    zone = Zone(own, settings, store, clock, ids, drivers, links, senders)
    await zone.load()
    return zone


async def _not_ready(request: Request, caller: Caller) -> bytes:
    raise Unreachable("starting", "this zone is starting", transient=True)
