"""The child's end of a link: dials its parent for ever, runs one session at a time, calls core.ports.ChildSide.

Order: what the parent proves is judged by the side before a word of ours leaves. Side calls of the session run one
after the other, requests of the parent beside them, a bounded number at a time. The rules are in `child_session`.
An exception that is not a BanyanError is a bug: it leaves `run`, whose owner starts it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field

import structlog

from banyan.core.errors import BadInput, BanyanError, Refused, Unreachable
from banyan.core.messages import Admitted, Answer, Bye, Generations, Greet, Request
from banyan.core.ports import ChildSide, Clock, Credentials, Dialer, Ids, Wire, WireClosed
from banyan.core.time import Mono
from banyan.link.child_session import ChildMachine
from banyan.link.pace import Backoff, Bucket
from banyan.link.session import (
    Acknowledged,
    Asked,
    CertificateRenewed,
    ChildAction,
    End,
    Ending,
    Established,
    ReportDue,
    Send,
    Stage,
    Taken,
    Timing,
    Welcomed,
)
from banyan.link.wire import Counters, SlowPeer, Stream

log = structlog.get_logger("banyan.link.child")

MIN_BUDGET = 1024


@dataclass(frozen=True, slots=True)
class Route:
    """How the parent is reached now; asked before each dial, since certificates renew and CAs rotate.

    `addresses` are host:port. `credentials` None is right only for an enrolment. `bundle`: core.ports.Dialer.
    """

    addresses: tuple[str, ...]
    credentials: Credentials | None
    bundle: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """`rate` and `burst` bound what we send, bytes per second and bytes. `own`: seconds that our side may take for a
    call, `last_turn` after the end of the session. `parallel`: requests of the parent that are worked on at a time.
    `budget`: bytes of one report, about. `steady`: a session that stood so long ends a series of failures.
    """

    timing: Timing = Timing()
    backoff: Backoff = Backoff()
    dial: float = 15.0
    send: float = 15.0
    own: float = 60.0
    last_turn: float = 5.0
    parallel: int = 64
    rate: float = 1024 * 1024
    burst: float = 256 * 1024
    budget: int = 48 * 1024
    steady: float = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One attempt's end. `error` if it was ours, not the parent's word; `admitted` if it enrolled; `stood`: seconds of
    an established session, None if there was none. `proved`: the parent had shown who it is.
    """

    ending: Ending
    error: BanyanError | None = None
    admitted: Admitted | None = None
    stood: float | None = None
    proved: bool = False


class ChildLink:
    """See the module. One `run` (or `enrol`) at a time."""

    def __init__(
        self,
        side: ChildSide,
        dialer: Dialer,
        route: Callable[[], Awaitable[Route]],
        clock: Clock,
        ids: Ids,
        settings: ChildSettings = ChildSettings(),
        counters: Counters | None = None,
    ) -> None:
        self._side = side
        self._dialer = dialer
        self._route = route
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._next = 0
        self.counters = counters or Counters()
        self.connected = False

    async def run(self) -> None:
        """Keeps a session with the parent, until cancelled. The side hears of every attempt's end by `ended`.

        If the side's greeting asks for enrolment, it enrols first, and goes on with the next greeting.
        """
        failures = 0
        while True:
            outcome = await self._attempt()
            if outcome.admitted is not None:
                failures = 0
                continue
            await self._side.ended(outcome.ending.reason)
            stood = outcome.stood
            failures = 0 if stood is not None and stood >= self._settings.steady else failures + 1
            await self._pause(outcome, failures)

    async def enrol(self, patience: float | None = None) -> Admitted:
        """Asks to be let in, once; goes on for `patience` seconds while no parent answers (None: one round of dials).

        Raises Refused or BadInput as the parent or our own side said, Unreachable with the last reason.
        """
        began = self._clock.now()
        failures = 0
        while True:
            outcome = await self._attempt()
            if outcome.admitted is not None:
                return outcome.admitted
            failures += 1
            error = outcome.error or _as_error(outcome.ending)
            more = failures < len((await self._route()).addresses)
            if _final(error):
                # What we found wrong with one address may be right at the next; the parent's own no is the end.
                if outcome.error is None or not more:
                    if outcome.proved:
                        await self._side.refused(error)
                    raise error
            elif not more and (patience is None or self._clock.now() - began >= patience):
                raise error
            await self._pause(outcome, failures)

    def traffic(self) -> tuple[int, int]:
        """Bytes sent and received since the start: of frames, without TLS."""
        return self.counters.bytes_out, self.counters.bytes_in

    async def _pause(self, outcome: Outcome, failures: int) -> None:
        ending = outcome.ending
        delay = self._settings.backoff.delay(
            failures, self._ids, lost=outcome.stood is not None, retry_after=ending.retry_after
        )
        log.info("link.ended", reason=ending.reason, again_in=round(delay, 1))
        await self._clock.sleep_until(Mono(self._clock.now() + delay))

    async def _attempt(self) -> Outcome:
        """Dials the next address and talks to the end."""
        try:
            route = await self._route()
            if not route.addresses:
                raise Unreachable("no-address", "no address of the parent is known")
            address = route.addresses[self._next % len(route.addresses)]
            greet = self._side.greet()
            if greet.purpose == "session" and route.credentials is None:
                raise Unreachable("no-certificate", "a session needs a certificate, and there is none; join first")
            self.counters.dials += 1
            wire = await self._dialer.dial(
                address,
                purpose=greet.purpose,
                credentials=route.credentials,
                bundle=route.bundle,
                timeout=self._settings.dial,
            )
        except BanyanError as error:
            self._next += 1
            self.counters.failed += 1
            return Outcome(_from_error(error), error)
        outcome = await _Conversation(self, wire, greet).run()
        if outcome.admitted is None and outcome.stood is None:
            self._next += 1
            self.counters.failed += 1
        return outcome


@dataclass(slots=True)
class _Stood:
    since: Mono | None = None
    admitted: Admitted | None = None
    error: BanyanError | None = None
    ending: Ending = field(default_factory=lambda: Ending("cancelled"))


class _Conversation:
    """One wire's session: the tasks around a ChildMachine."""

    def __init__(self, link: ChildLink, wire: Wire, greet: Greet) -> None:
        self._link = link
        self._side = link._side
        self._clock = link._clock
        self._settings = link._settings
        self._greet = greet
        now = self._clock.now()
        bucket = Bucket(self._settings.rate, self._settings.burst, now)
        self._stream = Stream(wire, bucket, self._clock, link.counters, self._settings.send)
        self._machine = ChildMachine(greet, self._settings.timing)
        self._turns: asyncio.Queue[ChildAction | None] = asyncio.Queue()
        self._moved = asyncio.Event()
        self._told = asyncio.Event()
        self._parallel = asyncio.Semaphore(self._settings.parallel)
        self._tasks: asyncio.TaskGroup | None = None
        self._working: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._bye: Bye | None = None
        self._result = _Stood()

    async def run(self) -> Outcome:
        result = self._result
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for work in (self._pump, self._read, self._time, self._listen):
                    self._work(work(), work.__name__.strip("_"))
                turns = self._work(self._take_turns(), "turns")
                self._do(self._machine.start(self._clock.now()))
                await self._over.wait()
                # What had come before the end still counts: an acknowledgement, a certificate.
                self._turns.put_nowait(None)
                await asyncio.wait([turns], timeout=self._settings.last_turn)
                for task in list(self._working):
                    task.cancel()
        finally:
            if self._machine.ending is None and self._machine.stage is Stage.STANDING:
                self._bye = Bye("stopping", "the child stops, or starts again", 0)
            self._link.connected = False
            await self._stream.finish(self._bye, result.ending.reason)
        stood = None if result.since is None else self._clock.now() - result.since
        proved = self._machine.stage not in (Stage.NEW, Stage.GREETED, Stage.CHECKING)
        return Outcome(result.ending, result.error, result.admitted, stood, proved)

    # --- tasks ----------------------------------------------------------------------------------

    async def _pump(self) -> None:
        try:
            await self._stream.pump()
        except SlowPeer as slow:
            self._do(self._machine.close("slow-peer", str(slow), tell=False))
        except WireClosed:
            return  # the reader still hears what had arrived before, a Bye above all

    async def _read(self) -> None:
        while self._machine.ending is None:
            try:
                messages = await self._stream.receive()
            except WireClosed as closed:
                self._do(self._machine.closed(closed.reason))
                return
            except BadInput as error:
                self._do(self._machine.close(error.code, error.text))
                return
            for message in messages:
                try:
                    self._do(self._machine.receive(message, self._clock.now()))
                except Unreachable as full:
                    self._do(self._machine.close("slow-peer", full.text, tell=False))

    async def _time(self) -> None:
        while True:
            self._moved.clear()
            left = self._machine.deadline - self._clock.now()
            try:
                async with asyncio.timeout(max(0.0, left) if left != float("inf") else None):
                    await self._moved.wait()
            except TimeoutError:
                self._do(self._machine.tick(self._clock.now()))

    async def _listen(self) -> None:
        """Speeds up the next report when the side has news; then waits until that report was made."""
        while True:
            self._told.clear()
            await self._side.news()
            self._do(self._machine.news(self._clock.now()))
            await self._told.wait()

    async def _take_turns(self) -> None:
        while (action := await self._turns.get()) is not None:
            if self._machine.ending is not None and isinstance(action, Welcomed | ReportDue):
                continue
            try:
                async with asyncio.timeout(self._settings.own):
                    await self._turn(action)
            except TimeoutError:
                name = type(action).__name__
                self._do(self._machine.close("own-side", f"our own side took over {self._settings.own:g} s ({name})"))
            except BanyanError as error:
                # Before the parent is known to be ours it learns nothing, not even what we think of it.
                tell = self._machine.stage is not Stage.CHECKING
                self._result.error = error
                self._do(self._machine.close(error.code, error.text, retry_after=error.retry_after, tell=tell))

    async def _turn(self, action: ChildAction) -> None:
        side, machine = self._side, self._machine
        match action:
            case Welcomed(welcome):
                word = await side.welcomed(self._greet, welcome, self._stream.peer)
                self._do(machine.opened(word, self._clock.now()))
            case Taken(admitted):
                await side.admitted(admitted, self._stream.peer)
                self._result.admitted = admitted
                self._link.counters.enrolled += 1
                self._do(machine.finished())
            case Established(ack, sent_at):
                await side.established(ack, sent_at)
            case ReportDue(seq, known):
                await self._report(seq, known)
            case Acknowledged(ack, sent_at):
                await side.acknowledged(ack, sent_at)
            case CertificateRenewed(renewed):
                await side.renewed(renewed)

    async def _report(self, seq: int, known: Generations) -> None:
        renew = await self._side.renewal()
        if renew is not None:
            self._do(self._machine.renew(renew, self._clock.now()))
        wait = self._stream.wait_for(MIN_BUDGET * 4)
        if wait > 0:
            # A heartbeat is never late by more than a second because the bucket is empty.
            await self._clock.sleep_until(Mono(self._clock.now() + min(wait, 1.0)))
        most = min(self._settings.budget, self._machine.max_frame // 2)
        budget = max(MIN_BUDGET, min(most, self._stream.allowance()))
        report = await self._side.report(seq, known, budget)
        self._told.set()
        self._do(self._machine.reported(report, self._clock.now()))

    async def _answer(self, request: Request) -> None:
        began = self._clock.now()
        async with self._parallel:
            left = request.deadline / 1000 - (self._clock.now() - began)
            try:
                async with asyncio.timeout(max(0.0, left)):
                    answer = await self._side.asked(request)
            except TimeoutError:
                answer = Answer(request.id, error="deadline", text="there was no answer in time", status=504)
            except BanyanError as error:
                answer = Answer(request.id, error=error.code, text=error.text, status=error.status)
            await self._send(request, answer, max(1.0, request.deadline / 1000 - (self._clock.now() - began)))

    async def _send(self, request: Request, answer: Answer, left: float) -> None:
        """Never raises: what one question comes to ends no session. An answer that can not go is told to be lost, and
        not that nothing was done.
        """
        for action in self._machine.answered(answer):
            assert isinstance(action, Send)
            try:
                async with asyncio.timeout(left):
                    await self._stream.put_in_turn(answer, self._machine.max_frame)
            except TimeoutError:
                text = f"{request.verb!r} was worked on, but its answer could not be sent in time"
                self._stream.put(Answer(request.id, error="answer-lost", text=text, status=504))
            except Unreachable as error:
                text = f"the answer to {request.verb!r} does not fit: {error.text}"
                self._stream.put(Answer(request.id, error=error.code, text=text, status=error.status))

    # --- actions --------------------------------------------------------------------------------

    def _do(self, actions: tuple[ChildAction, ...]) -> None:
        """Performs what the machine said. At its end `run` is woken, which ends all tasks."""
        for action in actions:
            match action:
                case Send(Bye() as bye):
                    self._bye = bye
                case Send(message):
                    self._stream.put(message, self._machine.max_frame)
                case Asked(request):
                    self._work(self._answer(request), "answer")
                case End(ending):
                    self._result.ending = ending
                    self._over.set()
                case _:
                    if isinstance(action, Established):
                        self._stand()
                    self._turns.put_nowait(action)
        self._moved.set()

    def _work(self, call: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        assert self._tasks is not None
        task = self._tasks.create_task(call, name=f"link.child.{name}")
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return task

    def _stand(self) -> None:
        self._stream.establish()
        self._result.since = self._clock.now()
        self._link.connected = True
        self._link.counters.sessions += 1


def _from_error(error: BanyanError) -> Ending:
    return Ending(error.code, error.text, error.retry_after)


def _as_error(ending: Ending) -> BanyanError:
    """What an enrolment failed of: the parent's "never" is a refusal, anything else may be tried again."""
    if ending.by_peer and ending.retry_after is not None and ending.retry_after < 0:
        return Refused(ending.code, ending.text)
    return Unreachable(ending.code, ending.text, transient=True, retry_after=ending.retry_after)


def _final(error: BanyanError) -> bool:
    """What no further attempt would change: a no, and what the state here or there forbids."""
    return isinstance(error, Refused | BadInput) and not error.transient
