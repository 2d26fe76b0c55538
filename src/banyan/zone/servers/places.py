"""The places on one rack's hosts: what is held, what is pending, what a new picture of the rack changes about it.

Every write of a server's row goes through here: claims (placement/claims.py) and sums (held.py) follow it after its
commit. When a scan ends, columns made of what it saw take the place of those before, with everything held added. When
a commit's fate is not known, memory is made anew from the rows, with no other write under way (`reload`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from banyan.core.digest import flatten
from banyan.core.errors import Conflict, Unreachable
from banyan.core.host import Host, HostWord
from banyan.core.ids import RackCode, ZoneCode, code_text
from banyan.core.lineage import UseRow
from banyan.core.order import Claim, GroupScope, Order, Reason, Refusal, Specification, add_reasons
from banyan.core.ports import Driver, Ids, Store
from banyan.core.rack import Rack, RackHealth
from banyan.core.records import StoreUnknown, Unit
from banyan.core.resources import ResourceClass
from banyan.core.server import Holding, NoValidHost, Server
from banyan.core.server_steps import Spot
from banyan.placement.claims import Claims
from banyan.placement.columns import Columns
from banyan.placement.filters import NOBODY, Around, around, ask
from banyan.placement.fold import GuestCounts
from banyan.zone.members import Members
from banyan.zone.own import Own
from banyan.zone.servers.held import Held, Place
from banyan.zone.servers.said import Said, read_words
from banyan.zone.streams import Streams

T = TypeVar("T")


@dataclass(slots=True)
class Effect:
    """What a unit of work did to rows: `pairs` of before and after (None: not there), with the `claim` that a new place
    among them was pending under; and `new` servers by their claim, each time all of one specification. `said`: hosts as
    their own side has them, with what a person says of them from now on."""

    pairs: list[tuple[Server | None, Server | None]] = field(default_factory=list)
    claim: str = ""
    new: list[tuple[str, Sequence[Server]]] = field(default_factory=list)
    said: list[tuple[Host, HostWord | None]] = field(default_factory=list)


class Places:
    """`changed` is called after each change of what is held, `doubted` when memory must be made anew; neither may call
    back. `ceiling`: core.share."""

    def __init__(
        self,
        own: Own,
        store: Store,
        ids: Ids,
        rack: RackCode,
        driver: Driver,
        members: Members,
        streams: Streams,
        ceiling: Mapping[ResourceClass, int] | None = None,
    ) -> None:
        self.code = rack
        self.driver = driver
        self.held = Held()
        self.said = Said()
        self.changed: Callable[[], None] = lambda: None
        self.refused = 0
        self._attempts = 0
        self._own = own
        self._store = store
        self._ids = ids
        self._members = members
        self._streams = streams
        self._ceiling = dict(ceiling or {})
        self._epoch = 0
        self._claims: Claims | None = None
        self._next: Columns | None = None
        self._names: Mapping[str, str] = {}
        self._native: GuestCounts = {}
        self._native_uses: Sequence[UseRow] = ()
        self._writing = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._open_gate = asyncio.Event()
        self._open_gate.set()
        self._doubtful: set[str] = set()
        self.doubted: Callable[[], None] = lambda: None
        self.in_doubt = False

    # --- the picture ----------------------------------------------------------------------------

    async def load(self) -> None:
        """What the store holds of this rack, before anything is placed. Raises Conflict("rack-moved")."""

        def work(unit: Unit) -> tuple[int, Sequence[Holding], Said]:
            rack = unit.racks.get(self.code)
            if rack is None:
                raise _moved(self.code)
            return rack.epoch, unit.servers.holdings(self.code), read_words(unit, self.code)

        self._epoch, holdings, self.said = await self._store.read(work)
        self.held = Held()
        self.held.load(holdings)
        self._streams.unreported.waits(self.code, waits=self.held.waits(0, ""))

    def put_on(self, columns: Columns, strays: Sequence[Place]) -> None:
        """Adds what is held to the columns of a new picture, which from now on follow every change as well.

        `strays`: guests that carry our mark, and that no server is known for: they hold their place.
        """
        self._next = columns
        self.said.put_on(columns)
        for host, held in self.held.hosts():
            _use(columns, host, held, 1)
        for place in strays:
            _use(columns, place.host, dict(place.needs), place.count)

    def adopt(self, columns: Columns, names: Mapping[str, str], guests: GuestCounts, uses: Sequence[UseRow]) -> None:
        """The columns, of the last `put_on`, take the place of those before. `names` of hosts by id; `guests` and
        `uses` of what Banyan did not make. Raises Conflict("picture-overtaken")."""
        if self._next is not columns:
            # Memory was made anew meanwhile: what was added to these columns is not what is held now.
            raise Conflict("picture-overtaken", "what servers hold was read again during the scan", transient=True)
        self._next = None
        self._names, self._native, self._native_uses = names, guests, uses
        if self._claims is None:
            seed = int.from_bytes(self._ids.token(4), "big")
            self._claims = Claims(columns, self.driver.capacity, seed, self._ceiling)
        else:
            self._claims.adopt(columns)

    def guests(self, native: GuestCounts | None = None) -> GuestCounts:
        """All guests by state. `native`: others of those that Banyan did not make than at the last `adopt`."""
        total = dict(self._native if native is None else native)
        for key, count in self.held.guests().items():
            total[key] = total.get(key, 0) + count
        return total

    def uses(self) -> list[UseRow]:
        return [*self._native_uses, *self.held.uses()]

    def show(self) -> None:
        """Digest and ledger say what is held now."""
        self._members.refold(self.code, self.guests())
        touched, self.held.touched = sorted(self.held.touched), set()
        if touched:
            self._streams.put_uses(self.code, [self.held.use(project) for project in touched])
        self._streams.unreported.waits(self.code, waits=self.held.waits(0, ""))

    def digest(self) -> Mapping[str, int]:
        """The rack's counters now, for whoever was refused."""
        member = self._members.racks.get(self.code)
        if member is None or member.fold is None:
            return {}
        return flatten(member.fold.digest(self.guests(), member.rack.scanned_at))

    # --- claims ---------------------------------------------------------------------------------

    @property
    def hosts(self) -> int:
        return 0 if self._claims is None else len(self._claims.columns)

    def fits(self, order: Order) -> int:
        """How many guests of the order there is room for now; hints are not looked at."""
        return 0 if self._claims is None or not self.driver.operations else self._claims.fits(ask(order))

    def left_out(self, order: Order) -> Mapping[str, int]:
        """Hosts that would not take a guest of the order, per reason: for people, as of a moment ago."""
        return {} if self._claims is None else self._claims.survey(ask(order))[0]

    @property
    def pending(self) -> int:
        return 0 if self._claims is None else len(self._claims.pending)

    async def near(self, order: Order) -> Around:
        """Hosts that the order's hints come to. Reads the store only if there are hints."""
        hints = order.specification.hints
        named = (*hints.same_host, *hints.different_host)
        grouped = hints.group and hints.scope is GroupScope.HOST
        if not grouped and not named:
            return NOBODY if not hints.hosts else Around(same=self._listed(order))

        def work(unit: Unit) -> tuple[Mapping[str, int], Mapping[str, str]]:
            members = unit.servers.members(order.issuer, hints.group) if grouped else {}
            # Where another project's servers are is not to be found out by asking for a place beside them.
            hosts = {
                id: server.host
                for id, server in unit.servers.many(named).items()
                if server.holds and (server.issuer, server.project) == (order.issuer, order.project)
            }
            return members, hosts

        members, hosts = await self._store.read(work)
        same = frozenset(hosts[id] for id in hints.same_host if id in hosts) if hints.same_host else None
        different = frozenset(hosts[id] for id in hints.different_host if id in hosts)
        if hints.hosts:
            same = self._listed(order) if same is None else same & self._listed(order)
        return around(order, members, same, different)

    def _listed(self, order: Order) -> frozenset[str]:
        """Ids of the hosts that the order names, as far as this rack has them."""
        return frozenset(self.named({host.name for host in order.specification.hints.hosts if not host.path}))

    def claim(self, order: Order, near: Around = NOBODY) -> Claim:
        """Pending under the order's id from now on. Raises NoValidHost; Unreachable("order-undecided") while it is not
        known what became of a claim under that id: what is found out then must find it as it was."""
        if order.id in self._doubtful:
            text = f"it is not known whether this was stored for order {order.id}; send the same again"
            raise Unreachable("order-undecided", text, transient=True, retry_after=5.0)
        claim = self._open(order).claim(order.id, ask(order), order.least, order.most, near)
        if isinstance(claim, Refusal):
            self.refused += 1
            raise _no_valid_host(order, claim)
        return claim

    def claim_one(self, server: Server, specification: Specification, near: Around = NOBODY) -> tuple[str, Spot]:
        """Another place for a server that exists, and what it is pending under: an id of this attempt alone, so that
        another about the same server neither gets this place nor gives it back. Raises NoValidHost."""
        self._attempts += 1
        id = f"{server.id}/{server.move + 1}/{self._attempts}"
        order = Order(id, server.issuer, server.project, server.user, specification)
        return id, self.spot(self.claim(order, near).hosts[0], specification)

    def give_back(self, id: str) -> None:
        """A claim that was not stored."""
        if self._claims is not None:
            self._claims.cancel(id)

    # --- writing --------------------------------------------------------------------------------

    async def write(
        self, name: str, work: Callable[[Unit, Effect], T], claims: Sequence[str] = (), *, keep: bool = False
    ) -> T:
        """One unit of work about rows of this rack; memory follows before this returns. To be called within `firm`.

        Those of `claims` that it did not use are given back; all of them if it fails, unless the caller will try again
        and wants to `keep` them. Raises what the store does; StoreUnknown when only `reload` can tell.
        """
        await self._open_gate.wait()
        self._writing += 1
        self._quiet.clear()

        def unit_of_work(unit: Unit) -> tuple[T, Effect]:
            self.owned(unit)
            effect = Effect()
            return work(unit, effect), effect

        try:
            value, effect = await self._store.write(name, unit_of_work)
            used = {effect.claim, *(claim for claim, _ in effect.new)}
            for claim in claims:
                if claim not in used:
                    self.give_back(claim)
            try:
                self._follow(effect)
            except Exception:
                # It is stored, and memory does not say so: it must be made anew.
                self._doubt()
                raise
        except StoreUnknown:
            self._doubtful.update(claims)
            self._doubt()
            raise
        except BaseException:
            for claim in () if keep else claims:
                self.give_back(claim)
            raise
        finally:
            self._writing -= 1
            if not self._writing:
                self._quiet.set()
        return value

    def _follow(self, effect: Effect) -> None:
        if effect.claim:
            assert self._claims is not None
            self._claims.commit(effect.claim)
        for claim, servers in effect.new:
            assert self._claims is not None
            self._claims.commit(claim)
            needs = servers[0].spec.shape.needs
            hosts = self.held.placed(servers, needs)
            if self._next is not None:
                for host, count in hosts.items():
                    _use(self._next, host, dict(needs), count)
        for before, after in effect.pairs:
            for place in self.held.change(before, after):
                needs_of = dict(place.needs)
                if self._next is not None:
                    _use(self._next, place.host, needs_of, place.count)
                if place.count < 0 and self._claims is not None:
                    _use(self._claims.columns, place.host, needs_of, place.count)
        for seen, word in effect.said:
            shown = (self._next, None if self._claims is None else self._claims.columns)
            self.said.say(seen, word, [columns for columns in shown if columns is not None])
        if effect.new or effect.pairs or effect.said:
            self.changed()

    def _doubt(self) -> None:
        self.in_doubt = True
        self.doubted()

    async def reload(self, restore: Callable[[], Awaitable[None]]) -> None:
        """Memory from the rows, with no write under way; afterwards every commit's fate is known. `restore` makes the
        picture anew (reconcile/inventory.py). Raises what the store does; then it is called again."""
        self._open_gate.clear()
        try:
            await self._quiet.wait()
            before = self.held.uses()
            await self.load()
            for claim in self._doubtful:
                self.give_back(claim)
            self._doubtful.clear()
            await restore()
            self.in_doubt = False
            self.held.touched.update((ZoneCode(row.issuer), row.project) for row in (*before, *self.held.uses()))
        finally:
            self._open_gate.set()
        self.changed()

    def spot(self, host: str, specification: Specification | None = None) -> Spot:
        """`specification`: what is to stand there; where it names hosts, they are its availability zone."""
        zone = ""
        if specification is not None and specification.hints.hosts and specification.availability_zone:
            return Spot(host, self._names.get(host, host), specification.availability_zone)
        if self._claims is not None:
            columns = self._claims.columns
            row = columns.row(host)
            if row is not None:
                zone = columns.places[int(columns.stands[row])].availability_zone
        return Spot(host, self._names.get(host, host), zone)

    def named(self, names: Collection[str]) -> list[str]:
        """Ids of the hosts of these names."""
        return [id for id, name in self._names.items() if name in names]

    def owned(self, unit: Unit) -> Rack:
        """Raises Conflict("rack-moved") if another owner has the rack."""
        rack = unit.racks.get(self.code)
        if rack is None or rack.epoch != self._epoch:
            raise _moved(self.code)
        return rack

    def _open(self, order: Order) -> Claims:
        """The claims, if this rack takes orders now. Raises NoValidHost with one reason for all hosts."""
        member = self._members.racks.get(self.code)
        claims, hosts = self._claims, max(1, self.hosts)
        reason = ""
        if not self.driver.operations:
            reason = Reason.DRIVER
        elif self._own.row.restored_at is not None:
            reason = Reason.READ_ONLY
        elif claims is None:
            reason = Reason.NOT_READY
        elif member is not None and member.rack.health is RackHealth.UNAVAILABLE:
            reason = Reason.UNREACHABLE
        if claims is None or reason:
            self.refused += 1
            raise _no_valid_host(order, Refusal(hosts, {reason: hosts}))
        return claims


def _use(columns: Columns, host: str, needs: Mapping[ResourceClass, int], sign: int) -> None:
    """Adds to what is promised on a host; on one that is not there, or has no such class, nothing is held."""
    row = columns.row(host)
    if row is None:
        return
    for cls, need in needs.items():
        index = columns.class_index(cls)
        if index is not None:
            columns.use(row, index, need * sign)


def _no_valid_host(order: Order, refusal: Refusal) -> NoValidHost:
    return NoValidHost(refusal.looked, add_reasons(refusal.counts, {}), order.least, refusal.fits)


def _moved(code: RackCode) -> Conflict:
    return Conflict("rack-moved", f"rack {code_text(code)} is not this controller's any more; its owner places there")
