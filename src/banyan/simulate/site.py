"""One zone's place in a world: its machine's clock, its disk, its bottom, its link upwards, and the process there.

A process is what `serve` assembles, on this world's adapters. A crash ends it as kill -9 does: what was committed
stays on the disk, its wires break (or hang, when the power went), its tasks never say another word that
anybody hears. Nothing here looks into a zone: it is asked through its surface, and its disk is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

from banyan.core.errors import BanyanError, Unreachable
from banyan.core.identity import Caller
from banyan.core.ids import ZoneCode, code_text
from banyan.core.journal import Line
from banyan.core.messages import Answer, CallerInfo
from banyan.core.ports import RackSpec
from banyan.core.receiver import ReceiverSpec, Senders
from banyan.core.records import StoreFull, StoreUnknown, Unit
from banyan.core.time import Terms
from banyan.core.zone import Mode
from banyan.drivers.registry import Drivers
from banyan.link.child import ChildSettings
from banyan.link.memory_wire import MemoryNetwork
from banyan.link.pace import Backoff
from banyan.serve.assemble import Adapters, Assembled, assemble
from banyan.simulate.bottom import Bottom, registry
from banyan.simulate.clock import VirtualClock
from banyan.simulate.faults import Disk, Weather, WeatheredDialer
from banyan.simulate.ids import SeededIds, stream
from banyan.simulate.loop import Owner, VirtualLoop, owned
from banyan.simulate.trace import Trace
from banyan.store.inline import Image, InlineStore
from banyan.zone.servers.leaf import LeafServers
from banyan.zone.servers.tree import TreeServers
from banyan.zone.settings import ZoneSettings
from banyan.zone.surface import Surface

T = TypeVar("T")

# Units that are frequent and write no journal line of their own.
QUIET = frozenset(("zone.time", "rack.scan-begun", "rack.batch", "rack.swept", "parent.digests", "parent.ledger"))
# Virtual seconds that a question to a zone may take.
PATIENCE = 120.0
# Virtual seconds that a process may take to open its disk and to listen.
START = 60.0
# As serve/run.py: children of a zone that stops come back within so many seconds.
RETURN = 10.0
# Virtual seconds that a killed process's tasks get to end; they do nothing that is heard.
LAST_BREATH = 10.0


class Ground:
    """What all sites of one world share: see world.World."""

    def __init__(self, seed: int, *, pace: int, commits: bool, rehearse: bool, traced: bool) -> None:
        self.seed = seed
        self.pace = pace
        self.commits = commits
        self.rehearse = rehearse
        self.traced = traced
        self.loop = VirtualLoop()
        self.network = MemoryNetwork()
        self.trace = Trace(self.loop.time)
        self.sites: dict[str, Site] = {}


class Site:
    """See the module. `state` is new, running, stopped, crashed, or ended (by itself, with `ended_by`)."""

    def __init__(
        self,
        world: Ground,
        path: str,
        *,
        hosts: int,
        guests: int,
        offset: float,
        rate: float,
        name: str | None,
        like: Site | None,
    ) -> None:
        self.world = world
        self.path = path
        self.parent_path, _, last = path.rpartition("/")
        self.name = name or last
        if like is not None:
            self.name, self.parent_path = like.name, like.parent_path
        self.machine = path.replace("/", ".")
        self.address = f"{self.machine}:8781"
        self.clock = VirtualClock(world.loop, self.machine, offset=offset, rate=rate)
        self.ids = SeededIds(world.seed, path)
        self.bottom: Bottom = Bottom(hosts, guests) if like is None else Bottom(like.bottom.hosts, like.bottom.guests)
        self.uplink = Weather()
        self.disk = Disk(self.clock, crash=self._doomed, committed=self._committed)
        if world.commits:
            draws = stream(world.seed, f"disk {path}")
            self.disk.commit = lambda: draws.uniform(0.0002, 0.003)
        self.state = "new"
        self.ended_by = ""
        self.news = ""
        self.starts = 0
        self.restores = 0
        # zone.shapes of its settings, from its next start on.
        self.shapes: tuple[str, ...] = ()
        # Receivers of alarms in its settings, from its next start on, and what tells them.
        self.receivers: tuple[ReceiverSpec, ...] = ()
        self.senders: Senders | None = None
        self.is_clone = like is not None
        # A link of it was tampered with: what is counted above may be anything.
        self.deceived = False
        self.most_hosts = self.bottom.hosts
        self._image: Image | None = None
        self._store: InlineStore | None = None
        self._owner: Owner | None = None
        self._surface: Surface | None = None
        self._built: Assembled | None = None
        self._stopping = asyncio.Event()
        self._journalled = 0

    # --- the process ----------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def started(self) -> bool:
        """There is something on its disk."""
        return self._store is not None or self._image is not None

    @property
    def code(self) -> str:
        """The code of the zone on its disk, as text; "" before its first start."""
        row = self.peek(lambda unit: unit.self_.get()) if self.started else None
        return "" if row is None else code_text(row.code)

    def start(self, join_code: str | None = None) -> None:
        """Starts the process on what the disk holds; with `join_code`, it joins if it has not yet. `wait` for it."""
        if self.running:
            raise ValueError(f"{self.path} runs already")
        self.starts += 1
        self.state, self.ended_by = "running", ""
        self._owner = Owner(self.path)
        self._stopping = asyncio.Event()
        self._store = InlineStore(
            SeededIds(self.world.seed, f"seal {self.path} {self.starts}"),
            self.disk.pause,
            image=self._image,
            observer=self.disk.observe,
            rehearse=self.world.rehearse,
        )
        self.world.trace.note(self.path, "started")
        self.world.loop.create_task(self._run(join_code), name=self.path, context=owned(self._owner))

    def wait(self) -> None:
        """Until the process listens and can be asked, or has ended, or START seconds are over."""
        loop = self.world.loop
        end = loop.time() + START
        while self.running and self._surface is None and loop.time() < end:
            loop.run_until(min(end, loop.time() + 0.005))

    async def _run(self, join_code: str | None) -> None:
        """The process: what serve/run.py does, on this world's adapters."""
        try:
            await self._serve(join_code)
        except Exception as error:  # noqa: BLE001 - the end of a process, which the world reports
            self._ended(_first(error))

    async def _serve(self, join_code: str | None) -> None:
        assert self._store is not None
        built = await assemble(self._settings(), self._adapters(self._store))
        if join_code is not None:
            await built.zone.accept_code(join_code)
        listener = self.world.network.listen(self.address, built.identity, built.parent.serve)
        self._built, self._surface = built, built.front
        zone = asyncio.ensure_future(built.zone.run())
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((zone, stop), return_when=asyncio.FIRST_COMPLETED)
            if stop.done() and not zone.done():
                await built.parent.stop("this zone's parent stops, or starts again", RETURN)
                await built.zone.roster.flush()
        finally:
            zone.cancel()
            stop.cancel()
            await asyncio.wait((zone, stop))
            await listener.close()
        await built.zone.close()
        await self._store.close()
        if not zone.cancelled() and (error := zone.exception()) is not None:
            raise error

    def _settings(self) -> ZoneSettings:
        racks = (RackSpec("hosts", "sim"),) if self.bottom.hosts else ()
        terms, pace = Terms(), self.world.pace
        slow = Terms(terms.lease * pace, terms.silence * pace, terms.grace * pace, terms.report * pace)
        return ZoneSettings(
            name=self.name,
            racks=racks,
            addresses=(self.address,),
            mode=Mode.PLACE,
            terms=slow,
            # Scans are not what plays of many days are about.
            scan_interval=60.0 * (pace if pace == 1 else 10 * pace),
            probe_interval=15.0 * (pace if pace == 1 else 10 * pace),
            flush=30.0 * pace,
            shapes=self.shapes,
            receivers=self.receivers,
        )

    def _adapters(self, store: InlineStore) -> Adapters:
        return Adapters(
            store=store,
            clock=self.clock,
            ids=self.ids,
            drivers=Drivers(registry(self.bottom), self.clock, self.ids),
            dialer=WeatheredDialer(
                self.world.network.dialer(self.address), lambda _: self.uplink, self.clock, self.ids
            ),
            child=ChildSettings(backoff=Backoff(ceiling=min(60.0 * self.world.pace, 1800.0))),
            senders=self.senders,
        )

    def _ended(self, error: BaseException | None) -> None:
        """The process ended by itself, or was told to stop."""
        if self.state != "running":
            return
        if self._store is not None:
            self._store.crash()
            self._image = self._store.image()
        self._store = self._surface = self._built = None
        self.state = "stopped" if error is None else "ended"
        if isinstance(error, BanyanError):
            self.ended_by = error.code
            self.world.trace.note(self.path, "ended", f"{error.code}: {error.text}")
        elif error is not None:
            self.ended_by = type(error).__name__
            self.news = f"{self.path} ended on {error!r}{_line_of(error)}"

    def crash(self, why: str, *, power: bool = False) -> None:
        """kill -9; with `power` the machine's power goes, and nobody is told."""
        if not self.running:
            return
        self.state = "crashed"
        self.world.trace.note(self.path, "crashed", why)
        store, owner = self._store, self._owner
        assert store is not None
        assert owner is not None
        store.crash()
        self._image = store.image()
        self._store = self._surface = self._built = None
        self._drop_wires(power)
        self._close_listener()
        owner.cancel()
        self._bury(owner)

    def stop(self) -> None:
        """SIGTERM: the process says goodbye and ends."""
        owner = self._owner
        if not self.running or owner is None:
            return
        self.world.trace.note(self.path, "stopping")
        self._stopping.set()
        end = self.world.loop.time() + PATIENCE
        while owner.tasks and self.world.loop.time() < end:
            self.world.loop.run_until(self.world.loop.time() + 0.1)
        if owner.tasks:
            self.world.loop.failures.append(f"{self.path} did not stop within {PATIENCE:g} s")
        self._ended(None)

    def discard(self) -> None:
        """At the end of a world: nothing is left running."""
        if self._owner is not None:
            if self._store is not None:
                self._store.crash()
            self._owner.cancel()
            self.state = "discarded"

    def _doomed(self, why: str) -> None:
        self.crash(f"killed {why}")

    def _close_listener(self) -> None:
        with suppress(Unreachable):  # it may have been killed before it began to listen
            self.world.network.forget(self.world.network.find(self.address))

    def _bury(self, owner: Owner) -> None:
        """Looks after the tasks of a dead process until they have ended."""
        loop = self.world.loop

        def look() -> None:
            if owner.tasks:
                names = ", ".join(task.get_name() for task in owner.tasks)
                loop.failures.append(f"{self.path} was killed, but these tasks ignore their end: {names}")

        loop.call_later(LAST_BREATH, look)

    def _drop_wires(self, power: bool) -> None:
        """Its own wires and those that were dialled to it: broken, or hanging when its power went."""
        for site in self.world.sites.values():
            to = None if site is self else self.address
            if power:
                site.uplink.hang_wires(to)
            else:
                site.uplink.break_wires("connection reset by peer", to)

    # --- asking ---------------------------------------------------------------------------------

    def ask(self, question: Callable[[Surface, Caller], Coroutine[object, object, T]]) -> T:
        """What the zone answers to its local administrator. Raises BanyanError; Unreachable if it does not run."""
        surface = self._surface
        if surface is None:
            raise Unreachable("not-running", f"{self.path} does not run: {self.ended_by or self.state}")
        caller = surface.local("operator", "play")
        return self.world.loop.run_task(question(surface, caller), PATIENCE)

    def servers(self, question: Callable[[LeafServers, Caller], Coroutine[object, object, T]]) -> T:
        """As `ask`, of the servers of this zone's own racks."""
        built, owner = self._built, self._owner
        if built is None or owner is None:
            raise Unreachable("not-running", f"{self.path} does not run: {self.ended_by or self.state}")
        caller = built.front.local("operator", self.ids.token(8).hex())
        # What is asked dies with the process that it asks.
        question_ = question(built.zone.servers, caller)
        return self.world.loop.run_task(question_, PATIENCE, context=owned(owner))

    def tree(self, question: Callable[[TreeServers, Caller], Coroutine[object, object, T]], request: str = "") -> T:
        """As `servers`, of the servers of this zone and of all below it."""
        built, owner = self._built, self._owner
        if built is None or owner is None:
            raise Unreachable("not-running", f"{self.path} does not run: {self.ended_by or self.state}")
        caller = built.front.local("operator", request or self.ids.token(8).hex())
        asked = question(built.zone.tree_servers, caller)
        return self.world.loop.run_task(asked, PATIENCE, context=owned(owner))

    def has_session(self, code: ZoneCode) -> bool:
        """Whether a session of that child stands now."""
        return self._built is not None and self._built.parent.session(code) is not None

    def request(self, code: ZoneCode, verb: str, body: bytes, caller: CallerInfo) -> Answer:
        """What that child answers to a request of this zone, whatever is in it: a parent of another version, or mad.

        Raises Unreachable if it has no session.
        """
        session = None if self._built is None else self._built.parent.session(code)
        if session is None:
            raise Unreachable("not-connected", f"{self.path} has no session of that child")
        return self.world.loop.run_task(session.request(verb, body, caller, PATIENCE / 2), PATIENCE)

    def peek(self, work: Callable[[Unit], T]) -> T:
        """Reads what is committed on the disk, now and without a turn of the loop, whether or not it runs."""
        store = self._store
        if store is None:
            store = InlineStore(SeededIds(0, "peek"), self.disk.pause, image=self._image)
        self.disk.immediate = True
        try:
            store.read(work).send(None)
        except StopIteration as answer:
            result: T = answer.value
            return result
        finally:
            self.disk.immediate = False
        raise RuntimeError("a read of a simulated disk waited")

    def fail_commits(self, *failures: type[StoreFull] | type[StoreUnknown] | None) -> None:
        """What becomes of the next commits; None is well (store.inline)."""
        assert self._store is not None
        self._store.fail(*failures)

    # --- the disk -------------------------------------------------------------------------------

    def backup(self) -> Image:
        """The committed database as it is now, running or not."""
        image = self._store.image() if self._store is not None else self._image
        if image is None:
            raise ValueError(f"{self.path} has nothing on its disk yet")
        return image

    def replace_disk(self, image: Image) -> None:
        """The disk of a zone that does not run becomes that copy."""
        if self.running:
            raise ValueError(f"{self.path} runs; crash or stop it first")
        self._image = image
        self.restores += 1
        last = self.peek(lambda unit: unit.journal.last())
        self._journalled = 0 if last is None else last.number

    def wipe(self) -> None:
        """The disk of a zone that does not run becomes empty."""
        if self.running:
            raise ValueError(f"{self.path} runs; crash or stop it first")
        self._image = None
        self.restores += 1
        self._journalled = 0

    def _committed(self, name: str) -> None:
        """After each commit: what it wrote into the journal goes into the trace."""
        if not self.world.traced or self._store is None or name in QUIET:
            return
        for line in self.peek(lambda unit: unit.journal.page(self._journalled, 1000, {})):
            self._journalled = line.number
            self._note(line)

    def _note(self, line: Line) -> None:
        self.world.trace.journal(self.path, line)


def _first(error: BaseException) -> BaseException:
    """The error of ours in a group, else whatever came first."""
    plain: list[BaseException] = []
    waiting = [error]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
        else:
            plain.append(one)
    return next((one for one in plain if isinstance(one, BanyanError)), plain[0])


def _line_of(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
