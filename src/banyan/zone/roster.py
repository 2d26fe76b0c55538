"""The children that a zone has: their rows, and what memory holds beside each row.

A child's row is changed through `change`, or by the caller inside `lock(code)` with `took` after the commit, so
that memory follows the store in the order of its commits; tree, members and streams follow memory. A zone's place
is reserved while the row that takes it is being stored, so that no two are judged against one free place. Decides
nothing: sessions are in reconcile/children.py, verdicts in reconcile/health.py, a person's word in commands/zones.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from weakref import WeakValueDictionary

from banyan.core.errors import BanyanError, NotFound
from banyan.core.ids import ZoneCode, code_text
from banyan.core.journal import Event
from banyan.core.lineage import Row, UseRow
from banyan.core.ports import Clock, Store
from banyan.core.records import StoreUnknown, Unit
from banyan.core.time import Mono, Terms, Wall
from banyan.core.zone import Child, ChildState
from banyan.trust.lineage import vouch
from banyan.zone.again import not_stored
from banyan.zone.firm import firm
from banyan.zone.inbox import Inbox
from banyan.zone.live import HEARD, RETIRED, Farewell, Live, check_key, farewell_of, heard_below, oldest_heard, part
from banyan.zone.members import Members
from banyan.zone.own import Own
from banyan.zone.rack_owners import RackOwners
from banyan.zone.refused_zones import RefusedZones
from banyan.zone.roster_rows import PAGE, Loaded, lineage, loader, node_of_child, node_of_row, uses_of
from banyan.zone.streams import Streams, child_row
from banyan.zone.tree import Node, Tree
from banyan.zone.two_carriers import settle_astray, settle_carriers
from banyan.zone.uses import Project
from banyan.zone.weights import Weights, entry_of

# Digests written in one unit.
FLUSH = 500


class Roster:
    """All children. `live` is read by many, and written here only. `woken` is called when a verdict may be due."""

    def __init__(
        self, own: Own, store: Store, clock: Clock, terms: Terms, tree: Tree, members: Members, streams: Streams
    ) -> None:
        self.live: dict[ZoneCode, Live] = {}
        self.owners = RackOwners(own, store, tree)
        self.routes = self.owners.routes
        self.unreported = streams.unreported
        self._weights = Weights()
        self.woken: Callable[[], None] = lambda: None
        # Children of whom the store may know what memory does not, each with the places that are kept for it until
        # then; `doubted` is called when one is added (reconcile/doubts.py).
        self.doubtful: dict[ZoneCode, list[ZoneCode]] = {}
        self.doubted: Callable[[], None] = lambda: None
        self._own = own
        self._store = store
        self._clock = clock
        self._terms = terms
        self._tree = tree
        self._members = members
        self._streams = streams
        # Each as long as somebody holds it, or waits for it.
        self._locks: WeakValueDictionary[ZoneCode, asyncio.Lock] = WeakValueDictionary()
        self._refused = RefusedZones()
        # Zones whose place is taken by what is being stored now: by which child, and in how many units.
        self._reserved: dict[ZoneCode, tuple[ZoneCode, int]] = {}
        self._fresh: list[ZoneCode] = []
        self._oldest: tuple[Mono, int] | None = None

    # --- start ----------------------------------------------------------------------------------

    async def load(self) -> None:
        """Reads all children and what they last reported. Each is treated as granted a full term now."""
        await settle_carriers(self._own, self._store)
        after: ZoneCode | None = None
        while True:
            loaded = await self._store.read(loader(after))
            for one in loaded:
                await self._restore(one)
            if len(loaded) < PAGE:
                break
            after = loaded[-1].child.code
        for live in self.live.values():
            if lost := await settle_astray(self._own, self._store, self._tree, self.carrier, live.child.code):
                self._ask_again(live)
                self.keep_rows(live, (), lost)
        await self.owners.load()

    async def _restore(self, one: Loaded) -> None:
        child = one.child
        if child.state is ChildState.RETIRED:
            return
        generation, counters = one.digest or (0, {})
        live = self.live[child.code] = self._new(child)
        self._fresh.append(child.code)
        self.unreported.began(child.code)
        live.inbox = self._inbox(child.code, generation, one.lineage, one.ledger)
        await self._read_rows(live)
        self._streams.replace_uses(child.code, await uses_of(self._store, child.code))
        self._show(live)
        if counters:
            self._members.put_digest(child.code, counters)

    async def _read_rows(self, live: Live) -> set[ZoneCode]:
        """Takes the rows that the store has of what this child reported; whose they are."""
        codes: set[ZoneCode] = set()
        last: ZoneCode | None = None
        while rows := await self._store.read(lineage(live.child.code, last)):
            self.keep_rows(live, rows, ())
            last = rows[-1].code
            codes.update(row.code for row in rows)
        return codes

    # --- rows -----------------------------------------------------------------------------------

    def lock(self, code: ZoneCode) -> asyncio.Lock:
        """Held around every write of this child's row."""
        return self._locks.setdefault(code, asyncio.Lock())

    async def change(
        self,
        code: ZoneCode,
        name: str,
        new: Callable[[Child], Child],
        event: Event | None = None,
        farewell: Farewell | None = None,
    ) -> Child:
        """Changes one child's row by `new`, with a journal line, then memory; then its session ends with `farewell`.

        `new` judges by the row that it is given: what memory said before may be over by now. Where it gives that row
        back nothing is to be changed, and nothing is written. Raises NotFound("no-zone"), Unreachable("not-stored"):
        the commit failed and nothing changed; StoreUnknown: what became of it is read later, and is followed then.
        """
        made: list[Child] = []

        def work(unit: Unit) -> Child:
            row = unit.children.get(code)
            if row is None or row.state is ChildState.RETIRED:
                raise NotFound("no-zone", f"there is no child zone {code_text(code)} here")
            changed = new(row)
            made[:] = [changed]
            if changed is row:
                return row
            unit.children.put(changed)
            if event is not None:
                self._own.write(unit, event)
            return changed

        async def write() -> Child:
            async with self.lock(code):
                live = self.live.get(code)
                try:
                    child = await self._store.write(name, work)
                except NotFound:
                    # Where memory has it still, the commit that retired it was one whose fate was not known.
                    await self._lose(code)
                    raise
                except StoreUnknown as error:
                    row = await self._ask(code, name)
                    if row is None or [row] != made:
                        await self._follow(code, row)
                        raise not_stored(name) from error
                    child = row
                self.took(child)
                if live is not None and farewell is not None:
                    await part(live, farewell)
            return child

        return await firm(write())

    async def said(self, live: Live, name: str, new: Callable[[Child], Child], event: Event | None = None) -> Child:
        """As `change`, by the child's own word, which counts while its key holds the place: Refused("replaced")."""
        keys = live.keys

        def checked(row: Child) -> Child:
            check_key(row, keys)
            return new(row)

        return await self.change(live.child.code, name, checked, event)

    async def store(self, code: ZoneCode, name: str, work: Callable[[Unit], Child]) -> Child:
        """Writes this child's row by a unit of the caller's, inside `lock`; raises as `change` does."""
        try:
            return await self._own.again.write(name, work, lambda unit, row: unit.children.get(code) == row)
        except StoreUnknown:
            self.doubt(code)
            raise

    async def _ask(self, code: ZoneCode, what: str) -> Child | None:
        """The row as the store has it, after a commit whose fate is not known; inside `lock`."""
        try:
            return await self._own.again.ask(what, lambda unit: unit.children.get(code))
        except BanyanError:
            self.doubt(code)
            raise

    async def _follow(self, code: ZoneCode, row: Child | None) -> None:
        """Memory, and the child's session, follow a row that was read again; inside `lock`."""
        live = self.live.get(code)
        if row is None or row.state is ChildState.RETIRED:
            await self._lose(code)
            return
        before = None if live is None else live.child
        live = self.took(row)
        if before is None or before == row:
            return
        if before.fingerprint != row.fingerprint or before.rolled_back > row.rolled_back:
            # Another machine, or one that is believed again: what it reported before is not its own.
            self.forget_reports(live)
        await part(live, farewell_of(before, row))

    async def _lose(self, code: ZoneCode) -> None:
        live = self.live.get(code)
        if live is not None:
            self.drop(code)
            await part(live, RETIRED)

    def doubt(self, code: ZoneCode, places: Iterable[ZoneCode] = ()) -> None:
        """What the store knows of this child is to be read again; until then these places are kept."""
        self.doubtful.setdefault(code, []).extend(places)
        self.doubted()

    async def settle(self, code: ZoneCode) -> None:
        """Reads again what the store knows of a child that is in doubt: its row, and what it reported.

        Raises StoreUnknown if the store does not answer; the doubt stays.
        """
        live = self.live.get(code)
        async with live.receiving if live is not None else asyncio.Lock():
            async with self.lock(code):
                await self._follow(code, await self._ask(code, "a child's row"))
            if live is not None and self.live.get(code) is live:
                await self.settle_reports(live)
        self._give_back(code, self.doubtful.pop(code, ()))

    async def settle_reports(self, live: Live) -> None:
        """What the child reported is what the store has of it, and it goes on from there; inside `receiving`."""
        code, inbox = live.child.code, live.inbox
        try:
            whole = await self._own.again.ask("a report", lambda unit: unit.streams.generations(code))
            if not self.holds(live, inbox):
                return
            live.inbox = self._inbox(code, inbox.known.digest, *whole)
            live.again = True
            there = await self._read_rows(live)
            self.keep_rows(live, (), self.held(code) - there)
            self._streams.replace_uses(code, await uses_of(self._store, code))
        except BanyanError:
            self.doubt(code)
            raise

    def took(self, child: Child) -> Live:
        """Memory follows a committed row; inside `lock`."""
        live = self.live.get(child.code)
        if live is None:
            live = self.live[child.code] = self._new(child)
            self._fresh.append(child.code)
            self.unreported.began(child.code)
        live.child = child
        self._show(live)
        self.woken()
        return live

    def take_fresh(self) -> list[ZoneCode]:
        """Children that came since the last call, for whoever judges them."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def get(self, code: ZoneCode) -> Live:
        """Raises NotFound("no-zone")."""
        live = self.live.get(code)
        if live is None:
            raise NotFound("no-zone", f"there is no child zone {code_text(code)} here")
        return live

    def _new(self, child: Child) -> Live:
        return Live(child, self._inbox(child.code), self._clock.now(), self._terms)

    def _inbox(self, code: ZoneCode, digest: int = 0, lineage: int = 0, ledger: int = 0) -> Inbox:
        def weigh(put: Collection[Row], drop: Collection[ZoneCode]) -> tuple[int, int]:
            return self._weights.after(code, put, drop)

        return Inbox(code, digest, lineage, ledger, weigh)

    def _show(self, live: Live) -> None:
        child = live.child
        if child.state is ChildState.RETIRED:
            self.drop(child.code)
            return
        self._members.put_child(child)
        self._tree.put(node_of_child(child, self._own.code, live.racks))
        if live.entry:
            self._streams.put_rows([child_row(child, self._own.code, live.entry, live.signature)])

    def path(self) -> str:
        """Our own whole path, as children are told it."""
        return self._tree.path

    # --- places -----------------------------------------------------------------------------------

    def carrier(self, code: ZoneCode) -> ZoneCode | None:
        """The child through which a zone is reached, or will be once what is being stored is; None if by none."""
        node = self._tree.get(code)
        if node is not None:
            return node.via
        held = self._reserved.get(code)
        return None if held is None else held[0]

    @contextmanager
    def reserved(self, carrier: ZoneCode, codes: Iterable[ZoneCode]) -> Iterator[None]:
        """Keeps free places for zones that were judged just now, without an await since, until they are in the tree.

        A place that nobody took in the end is free for whoever was refused because of it. While it is not known whether
        it was taken it is kept: whose the zone is, only the store can say.
        """
        mine = [code for code in codes if code not in self._tree and self.carrier(code) in (None, carrier)]
        for code in mine:
            self._reserved[code] = carrier, self._reserved.get(code, (carrier, 0))[1] + 1
        try:
            yield
        except StoreUnknown:
            self.doubt(carrier, mine)
            raise
        except BaseException:
            self._give_back(carrier, mine)
            raise
        self._give_back(carrier, mine)

    def _give_back(self, carrier: ZoneCode, places: Iterable[ZoneCode]) -> None:
        places = tuple(places)
        for code in places:
            count = self._reserved[code][1] - 1
            if count:
                self._reserved[code] = carrier, count
            else:
                del self._reserved[code]
        self._free([code for code in places if self.carrier(code) is None])

    # --- what it reported -------------------------------------------------------------------------

    def holds(self, live: Live, inbox: Inbox) -> bool:
        """Whether what was judged by that inbox before a commit still counts after it: the child was not retired
        meanwhile, nor told to start over."""
        return self.live.get(live.child.code) is live and live.inbox is inbox

    def held(self, code: ZoneCode) -> set[ZoneCode]:
        """Codes of the zones reported through this child, itself included once it reported itself."""
        live = self.live.get(code)
        below = set(self._tree.through(code))
        if live is not None and not live.entry:
            below.discard(code)
        return below

    def keep_rows(self, live: Live, put: Iterable[Row], drop: Iterable[ZoneCode]) -> None:
        """Takes lineage rows that were judged and stored."""
        code = live.child.code
        upwards: list[Row] = []
        put, drop = tuple(put), tuple(drop)
        self._refused.forget(code, (*(row.code for row in put), *drop))
        self._weights.keep(code, put, drop)
        for row in put:
            self.routes.put(row.code, (rack.code for rack in entry_of(row).racks))
            if row.code == code:
                live.entry, live.racks = row.entry, len(entry_of(row).racks)
                live.signature = vouch(self._own.seed, row.entry, row.signature)
                self._show(live)
            else:
                self._tree.put(self._node(row, live))
                upwards.append(row)
        self._streams.put_rows(upwards)
        # A child withdraws what came through it; of another's zones it has nothing to say.
        gone = [c for c in drop if c != code and (node := self._tree.get(c)) is not None and node.via == code]
        for one in gone:
            self._tree.remove(one)
            self.routes.drop(one)
        self._streams.drop_rows(gone)
        self._free(gone)

    def _node(self, row: Row, live: Live) -> Node:
        """The zone of a row, and what stays known of those below it when it falls silent: what was said before."""
        node, before = node_of_row(row, live.child.code), self._tree.get(row.code)
        if node.health in HEARD or before is None:
            return node
        below = heard_below(live, self._own.wall())
        return replace(node, below=below / 1000 if before.health in HEARD and below > 0 else before.below)

    def keep_refused(self, carrier: ZoneCode, codes: Iterable[ZoneCode]) -> None:
        """Notes zones that this child reported and that may not be there: somebody else's, so far."""
        self._refused.put(carrier, codes)

    def refused(self, carrier: ZoneCode) -> set[ZoneCode]:
        return self._refused.of(carrier)

    def _free(self, codes: Iterable[ZoneCode]) -> None:
        """Zones that left their place here: whoever was refused with one of them is asked again."""
        for code in codes:
            for carrier in self._refused.free(code):
                live = self.live.get(carrier)
                if live is not None:
                    self._ask_again(live)
                    live.again = True

    def _ask_again(self, live: Live) -> None:
        """For all of its lineage."""
        known = live.inbox.known
        live.inbox = self._inbox(live.child.code, known.digest, 0, known.ledger)

    def held_uses(self, live: Live) -> set[Project]:
        return self._streams.uses.held(live.child.code)

    def known_row(self, code: ZoneCode) -> Row | None:
        """The newest row held of a zone below, whoever reported it."""
        return self._streams.row(code)

    def keep_uses(self, live: Live, rows: Sequence[UseRow]) -> None:
        self._streams.put_uses(live.child.code, rows)

    def forget_reports(self, live: Live) -> None:
        """Drops what a child reported, so that its next session sends all of it."""
        live.inbox = self._inbox(live.child.code)
        self.keep_rows(live, (), self.held(live.child.code))
        live.entry = live.signature = b""
        self._streams.replace_uses(live.child.code, ())
        self.unreported.began(live.child.code)
        self._members.put_digest(live.child.code, {})

    def drop(self, code: ZoneCode) -> None:
        """Forgets a retired child; its row stays in the store as a tombstone."""
        live = self.live.pop(code, None)
        if live is None:
            return
        below = self._tree.through(code)
        for one in (code, *below):
            self.routes.drop(one)
        self._tree.remove(code)
        self._streams.drop_rows([code, *below])
        self._streams.replace_uses(code, ())
        self.unreported.dropped(code)
        self._members.drop_child(code)
        self._refused.leave(code)
        self._weights.leave(code)
        self._free([code, *below])

    def unheard_since(self, instant: Wall | None) -> list[str]:
        """Names of the children that said nothing since then, in order; none for None."""
        if instant is None:
            return []
        return sorted(
            live.child.name
            for live in self.live.values()
            if live.heard is None and (live.child.heard_at is None or live.child.heard_at < instant)
        )

    def heard(self) -> int:
        """What we say in our reports: all zones below us that we report as alive were heard then, or later.

        Milliseconds of corrected time; 0 if there is none, -1 if a child has some below it and does not say so. What a
        child says that can not be so (`heard_below`) is not passed on: its zones are then of no known instant here, and
        nobody else's become older by it.
        """
        wall, now = self._own.wall(), self._clock.now()
        if self._oldest is not None and now < self._oldest[0] + 1.0:
            # Over 20,000 children this is not free, and what was true a moment ago still is.
            return self._oldest[1]
        oldest = oldest_heard(self.live.values(), self._tree.carries, wall, now)
        self._oldest = (now, oldest)
        return oldest

    async def cut(self, code: ZoneCode, why: str, text: str, retry_after: float = -1.0) -> None:
        """Ends a child's session, if it has one, with an error's code and text. Below 0: it shall not come back."""
        live = self.live.get(code)
        if live is not None:
            await part(live, (why, text, retry_after))

    async def flush(self) -> bool:
        """Writes down newer digests, so that a restart shows them at once; True if more wait."""
        waiting = [live for live in self.live.values() if live.unwritten]
        chosen = waiting[:FLUSH]
        rows = [
            (live.child.code, live.inbox.known.digest, dict(self._members.child_counters(live.child.code)))
            for live in chosen
        ]
        for live in chosen:
            live.unwritten = False

        def work(unit: Unit) -> None:
            for code, generation, counters in rows:
                unit.streams.put_digest(code, generation, counters)

        if rows:
            await self._store.write("parent.digests", work)
        return len(waiting) > len(chosen)
