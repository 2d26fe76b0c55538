"""What is done to servers: each row with a task is a deed for the driver, until the row has none.

The task in the row is the intent: it was committed before anything is done, so whoever restarts goes on with it, and
the driver knows a deed that it has done already. One deed of a server at a time; so many at once as the driver takes.
What came of deeds is written many to a commit. A deed of which nobody knows whether it was done is said again, later
and later; a build that failed is tried on another host, within limits. A delete waits for the deed under way, and wins.
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog
from msgspec.structs import replace

from banyan.core import server_steps as steps
from banyan.core.deed import Deed, DeedFailed, Operation, Sighting
from banyan.core.errors import BanyanError, Broken
from banyan.core.order import Order
from banyan.core.ports import Clock, Ids, Store
from banyan.core.records import DriverUnavailable, Unit
from banyan.core.server import Action, ActionRecord, EventRecord, Fault, NoValidHost, Server, Task
from banyan.core.server_states import ACTIONS
from banyan.core.time import Mono, Wall
from banyan.zone.firm import firm
from banyan.zone.loop import contained
from banyan.zone.own import Own
from banyan.zone.servers import secrets
from banyan.zone.servers.places import Effect, Places

log = structlog.get_logger("banyan.servers")

# Rows held ready; more are read again from the store when these are done.
MAX_READY: Final = 10_000
# Outcomes to one unit of work.
BATCH: Final = 256
# Seconds between the first two tries of a deed that was not answered, and at most.
FIRST_WAIT: Final = 1.0
LAST_WAIT: Final = 60.0
# How often overdue deeds are looked for, seconds.
LOOK: Final = 5.0
FAULT_TEXT: Final = 255


@dataclass(frozen=True, slots=True)
class WorkSettings:
    """Seconds. `deadline` of one deed; `patience` with one that is not answered. A build has `tries` within `build`."""

    deadline: float = 600.0
    patience: float = 300.0
    tries: int = 5
    build: float = 300.0


@dataclass(slots=True)
class _Outcome:
    """A deed that ended. `after` is what the row becomes; the future has the row that is left with a task, or None."""

    server: Server
    record: ActionRecord | None
    event: EventRecord
    after: Sighting | Fault | None
    lost: bool
    future: asyncio.Future[Server | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class _Overtaken(Exception):
    """A row is not as it was written any more."""


class Work:
    """Runs for ever, until cancelled. Counters are for metrics."""

    def __init__(
        self,
        own: Own,
        store: Store,
        clock: Clock,
        ids: Ids,
        places: Places,
        settings: WorkSettings,
    ) -> None:
        self.done = 0
        self.failed = 0
        self.unanswered = 0
        self.built_anew = 0
        self._own = own
        self._store = store
        self._clock = clock
        self._ids = ids
        self._places = places
        self._settings = settings
        self._ready: deque[Server] = deque()
        self._later: list[tuple[Mono, str]] = []
        self._waits: dict[str, tuple[int, Mono]] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._deadlines: dict[str, Mono] = {}
        self._overdue: set[str] = set()
        self._missed: set[str] = set()
        self._more = True
        self._wake = asyncio.Event()
        self._outcomes: deque[_Outcome] = deque()
        self._outcome = asyncio.Event()

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    @property
    def waiting(self) -> int:
        return len(self._ready) + len(self._later)

    def queue(self, servers: Sequence[Server]) -> None:
        """Rows with a task, whole, as they were committed."""
        for server in servers:
            if server.id in self._under_way:
                self._missed.add(server.id)
            elif len(self._ready) < MAX_READY:
                self._ready.append(server)
            else:
                self._more = True
        self._wake.set()

    def refill(self) -> None:
        """Reads again what has to be done."""
        self._more = True
        self._wake.set()

    # --- the loop -------------------------------------------------------------------------------

    async def run(self) -> None:
        if not self._places.driver.operations:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_outcomes(), name="outcomes")
            tasks.create_task(self._watch_deadlines(), name="deadlines")
            while True:
                self._wake.clear()
                wake_at = await self._begin(tasks)
                await self._pause(wake_at)

    async def _begin(self, tasks: asyncio.TaskGroup) -> Mono | None:
        """Begins what can be begun; when to look again."""
        if self._own.row.restored_at is not None:
            # Nothing is done to any guest before a person has looked (protocols §8).
            return Mono(self._clock.now() + LAST_WAIT)
        now = self._clock.now()
        while self._later and self._later[0][0] <= now:
            _, id = heapq.heappop(self._later)
            server = await self._store.read(lambda unit, id=id: unit.servers.get(id))  # type: ignore[misc]  # mypy infers no type beside a default
            if server is not None and server.task is not Task.NONE:
                self.queue([server])
            else:
                self._waits.pop(id, None)
        most = self._places.driver.at_once
        while len(self._under_way) < most:
            if not self._ready:
                if not self._more:
                    break
                await self._read()
                continue
            server = self._ready.popleft()
            if server.id not in self._under_way:
                self._under_way[server.id] = tasks.create_task(self._carry(server), name=f"server {server.id}")
        return self._later[0][0] if self._later else None

    async def _read(self) -> None:
        """All that has a task, as far as there is room for it."""
        self._more = False
        after = ""
        resting = {id for _, id in self._later}
        while len(self._ready) < MAX_READY:
            page = await self._store.read(
                lambda unit, after=after: unit.servers.busy(self._places.code, after, 1_000)  # type: ignore[misc]  # mypy infers no type beside a default
            )
            known = {server.id for server in self._ready}
            self._ready.extend(
                s for s in page if s.id not in known and s.id not in self._under_way and s.id not in resting
            )
            if len(page) < 1_000:
                return
            after = page[-1].id
        self._more = True

    async def _pause(self, wake_at: Mono | None) -> None:
        if wake_at is None:
            await self._wake.wait()
            return
        sleeper = asyncio.ensure_future(self._clock.sleep_until(wake_at))
        waker = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((sleeper, waker), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
            waker.cancel()
            await asyncio.gather(sleeper, waker, return_exceptions=True)

    # --- one server -------------------------------------------------------------------------------

    async def _carry(self, server: Server) -> None:
        """Deeds of one server, one after the other, until it rests or must wait."""
        left: Server | None = server
        try:
            while left is not None and left.task is not Task.NONE:
                left = await contained(self._step(left), f"a step of server {server.id}")
        except BanyanError as error:
            # The store does not answer, or another owner has the rack: the row is read again.
            log.warning("a server's step was not written", server=server.id, error=str(error))
            self._wait(server.id)
        finally:
            self._under_way.pop(server.id, None)
            if server.id in self._missed:
                self._missed.discard(server.id)
                self._wait(server.id, at_once=True)
            self._wake.set()

    async def _step(self, server: Server) -> Server | None:
        """One deed, and what came of it; the row if something is left to be done now."""
        record = await self._record(server)
        password = None
        if server.task in secrets.WITH_PASSWORD:
            password = await self._store.read(lambda unit: secrets.kept(unit, server))
        deed = steps.deed(server, record, password)
        began = self._own.wall()
        try:
            if server.task is Task.SETTING_PASSWORD and password is None:
                raise DeedFailed("password-gone", "no password came with the order to set it; set it again")
            seen = await self._perform(deed)
        except DeedFailed as error:
            self.failed += 1
            event = self._event(server, deed.operation, began, "error", error.text)
            fault = Fault(500, error.text[:FAULT_TEXT], self._own.wall(), error.detail)
            if server.task is Task.SPAWNING:
                return await self._build_failed(server, record, event, error)
            return await self._ended(server, record, event, fault)
        except (DriverUnavailable, Broken, TimeoutError) as error:
            self.unanswered += 1
            text = str(error) or f"no answer in {self._settings.deadline:g} s"
            if self._is_over(server):
                event = self._event(server, deed.operation, began, "error", text)
                fault = Fault(500, f"it is not known whether this was done: {text}"[:FAULT_TEXT], self._own.wall())
                return await self._ended(server, record, event, fault, lost=True)
            self._wait(server.id)
            return None
        self.done += 1
        return await self._ended(server, record, self._event(server, deed.operation, began, "success"), seen)

    async def _perform(self, deed: Deed) -> Sighting | None:
        """Raises TimeoutError when `_watch_deadlines` has ended it."""
        self._deadlines[deed.guest] = Mono(self._clock.now() + self._settings.deadline)
        try:
            return await contained(self._places.driver.perform(deed), f"the driver's {deed.operation} of {deed.guest}")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if deed.guest not in self._overdue or task is None or task.uncancel():
                raise
            raise TimeoutError from None
        finally:
            del self._deadlines[deed.guest]
            self._overdue.discard(deed.guest)

    async def _watch_deadlines(self) -> None:
        """For ever: one look at all deeds now and then costs less than a timer for each."""
        while True:
            await self._clock.sleep_until(Mono(self._clock.now() + LOOK))
            now = self._clock.now()
            for id, deadline in self._deadlines.items():
                if deadline <= now and id not in self._overdue:
                    self._overdue.add(id)
                    self._under_way[id].cancel()

    async def _record(self, server: Server) -> ActionRecord | None:
        """The action under way. A first build has none before something went wrong with it."""
        if server.task is Task.SPAWNING and server.move == 1:
            return None
        action = ACTIONS[server.task]

        def work(unit: Unit) -> ActionRecord | None:
            if action is Action.CREATE:
                return unit.actions.get(server.id, server.request)
            return next((one for one in unit.actions.of(server.id, 20) if one.action is action), None)

        return await self._store.read(work)

    def _is_over(self, server: Server) -> bool:
        """Patience with a deed that is not answered is over. Never with a delete: it is owed."""
        if server.task is Task.DELETING:
            return False
        _, since = self._waits.get(server.id, (0, self._clock.now()))
        return self._clock.now() - since >= self._settings.patience

    def _wait(self, id: str, *, at_once: bool = False) -> None:
        """The row is read again, later each time."""
        now = self._clock.now()
        if at_once:
            heapq.heappush(self._later, (now, id))
            return
        tries, since = self._waits.get(id, (0, now))
        self._waits[id] = (tries + 1, since)
        wait = min(LAST_WAIT, FIRST_WAIT * 2 ** min(tries, 10)) * self._ids.uniform(0.5, 1.0)
        heapq.heappush(self._later, (Mono(now + wait), id))

    def _event(self, server: Server, operation: Operation, began: Wall, result: str, text: str = "") -> EventRecord:
        host = server.host_name or server.host
        return EventRecord(str(operation), began, self._own.wall(), result, host, text[:FAULT_TEXT])

    # --- a build on another host --------------------------------------------------------------------

    async def _build_failed(
        self, server: Server, record: ActionRecord | None, event: EventRecord, error: DeedFailed
    ) -> Server | None:
        record = self._extended(server, record, event)
        failed = [one for one in record.events if one.result == "error"]
        text = f"no valid host: {error.text}"
        old = self._own.wall() - failed[0].started
        if error.elsewhere and len(failed) < self._settings.tries and old < self._settings.build:
            try:
                return await firm(self._place_anew(server, record))
            except NoValidHost as refusal:
                counts = ", ".join(f"{count} {reason}" for reason, count in refusal.counts.items())
                text = f"no valid host: {error.text}; then of {refusal.looked} hosts: {counts}"
        elif len(failed) > 1:
            hosts = ", ".join(dict.fromkeys(one.host for one in failed))
            text = f"no valid host: {len(failed)} builds failed, on {hosts}; the last: {error.text}"
        fault = Fault(500, text[:FAULT_TEXT], self._own.wall(), error.detail)
        return await self._ended(server, replace(record, events=record.events[:-1]), event, fault)

    async def _place_anew(self, server: Server, record: ActionRecord) -> Server | None:
        """The same server on another host, as its next copy; hosts on which it failed are left out."""
        spec = server.spec
        near = await self._places.near(Order(server.id, server.issuer, server.project, server.user, spec))
        members = {host: n - (host == server.host) for host, n in near.members.items()}
        names = {one.host for one in record.events if one.result == "error"}
        hosts = {server.host, *self._places.named(names)}
        near = dataclasses.replace(near, members=members, different=near.different | hosts)
        claim, spot = self._places.claim_one(server, spec, near)
        now = self._own.wall()

        def work(unit: Unit, effect: Effect) -> Server | None:
            row = unit.servers.get(server.id)
            if row is None or row.task is not server.task or row.move != server.move:
                return row
            after = steps.placed_anew(row, spot, now)
            unit.servers.update((row, after))
            unit.actions.put(replace(record, updated=now))
            effect.pairs.append((row, after))
            effect.claim = claim
            return after

        self.built_anew += 1
        return await self._places.write("server.replaced", work, (claim,))

    def _extended(self, server: Server, record: ActionRecord | None, event: EventRecord) -> ActionRecord:
        if record is None:
            record = first_action(server)
        return replace(record, events=(*record.events, event))

    # --- what came of it ------------------------------------------------------------------------------

    async def _ended(
        self,
        server: Server,
        record: ActionRecord | None,
        event: EventRecord,
        after: Sighting | Fault | None,
        lost: bool = False,
    ) -> Server | None:
        self._waits.pop(server.id, None)
        outcome = _Outcome(server, record, event, after, lost)
        self._outcomes.append(outcome)
        self._outcome.set()
        return await outcome.future

    async def _write_outcomes(self) -> None:
        """For ever. While a commit is under way, outcomes gather for the next one."""
        while True:
            await self._outcome.wait()
            self._outcome.clear()
            while self._outcomes:
                batch = [self._outcomes.popleft() for _ in range(min(BATCH, len(self._outcomes)))]
                try:
                    left = await firm(contained(self._write(batch), "writing what came of deeds"))
                except BanyanError as error:
                    for outcome in batch:
                        if not outcome.future.done():
                            outcome.future.set_exception(_again(error))
                    continue
                for outcome, row in zip(batch, left, strict=True):
                    if not outcome.future.done():
                        outcome.future.set_result(row)

    async def _write(self, batch: Sequence[_Outcome]) -> list[Server | None]:
        """One unit for all. A row that another action has taken over meanwhile is left to that. First builds that went
        well are most of what there is: their rows are taken to be as they were written, and read only if one is not."""
        built = {outcome.server.id: outcome.server for outcome in batch if _is_told_by_row(outcome)}
        try:
            return await self._write_on(batch, built)
        except _Overtaken:
            return await self._write_on(batch, {})

    async def _write_on(self, batch: Sequence[_Outcome], known: Mapping[str, Server]) -> list[Server | None]:
        """Raises _Overtaken if one of the rows that are `known` is another one by now."""
        now = self._own.wall()
        asked = [outcome.server.id for outcome in batch if outcome.server.id not in known]

        def work(unit: Unit, effect: Effect) -> list[Server | None]:
            rows = {**known, **(unit.servers.many(asked) if asked else {})}
            left: list[Server | None] = []
            changed: list[tuple[Server, Server]] = []
            for outcome in batch:
                row = rows.get(outcome.server.id)
                if row is None:
                    left.append(None)
                    continue
                taken_over = row.task is not outcome.server.task or row.move != outcome.server.move
                after = row if taken_over else _after(row, outcome, now)
                if not taken_over and after.task is not row.task:
                    secrets.over(unit, row)
                if after is not row:
                    changed.append((row, after))
                self._note(unit, row, outcome, now)
                left.append(None if after.task is Task.NONE else after)
            if known and not unit.servers.step(*(pair for pair in changed if pair[0].id in known)):
                raise _Overtaken
            unit.servers.update(*(pair for pair in changed if pair[0].id not in known))
            effect.pairs += changed
            return left

        return await self._places.write("server.done", work)

    def _note(self, unit: Unit, row: Server, outcome: _Outcome, now: Wall) -> None:
        """The action's record, and a line of the journal for what a person should know. A first build that went well
        is told by its row."""
        wrong = isinstance(outcome.after, Fault)
        record = outcome.record
        if record is None and wrong:
            record = first_action(row)
        if record is not None:
            message = "Error" if wrong else ""
            events = (*record.events, outcome.event)
            unit.actions.put(replace(record, message=message, events=events, updated=now, arguments=None))
        if isinstance(outcome.after, Fault):
            text = f"{outcome.event.name}: {outcome.after.text}"
            self._own.write(unit, self._own.event("server-failed", row.id, text, outcome="failed"))


def first_action(server: Server) -> ActionRecord:
    """The record of a server's creation as its row tells it: it is stored only when more is to be told."""
    events: tuple[EventRecord, ...] = ()
    return ActionRecord(
        server.id,
        server.request,
        Action.CREATE,
        server.issuer,
        server.project,
        server.user,
        server.created,
        server.updated,
        events=events,
        number=1,
    )


def _is_told_by_row(outcome: _Outcome) -> bool:
    """A first build that went well, of which nothing else is written."""
    return outcome.server.task is Task.SPAWNING and outcome.record is None and not isinstance(outcome.after, Fault)


def _after(row: Server, outcome: _Outcome, now: Wall) -> Server:
    if not isinstance(outcome.after, Fault):
        return steps.done(row, outcome.after, now)
    if outcome.lost:
        return steps.unknown(row, outcome.after, now)
    return steps.failed(row, outcome.after, now)


def _again(error: BanyanError) -> BanyanError:
    """A copy for one more waiter."""
    copy = type(error)(error.code, error.text, detail=error.detail, transient=error.transient)
    copy.__cause__ = error
    return copy
