"""The parent's end of a link: one session per wire that comes in, and the table of those that stand, by zone code.

What a stranger can cause is bounded: wires that are not yet known, in total and per address; their time; openings
per second and at a time (`line`), beyond which they are told when to come back. Calls of the side
(core.ports.ParentSide): `welcome`, then `enrol` or `hello`; after a `hello` that returned, `ended` is called exactly
once and nothing of that session after it. An exception that is not a BanyanError is a bug: it leaves `serve`, after the
session was ended.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

import structlog

from banyan.core.errors import BadInput, BanyanError, Broken, Conflict, Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.messages import Answer, Beat, Bye, CallerInfo, Greet, Message, Report, Welcome
from banyan.core.ports import Clock, Ids, ParentSession, ParentSide, Peer, Wire, WireClosed
from banyan.core.time import Mono
from banyan.link.door import Door
from banyan.link.line import Line
from banyan.link.pace import Bucket, Toll, Turnstile
from banyan.link.parent_session import ParentMachine
from banyan.link.session import (
    Answered,
    End,
    Ending,
    Enrolling,
    Greeted,
    Opening,
    ParentAction,
    Renewing,
    Reported,
    Send,
    Timing,
)
from banyan.link.wire import Counters, SlowPeer, Stream

# A frame costs about as much as 8 KiB of it, a report with its commit and acknowledgement about 128 KiB, a lineage row
# with its signature 4 KiB: at 4 MiB/s that is 500 frames, 30 reports, 800 new rows per second, and a tenth of a core.
FRAME_COST = 8 * 1024
MESSAGE_COST = 1024
REPORT_COST = 128 * 1024
ROW_COST = 4 * 1024

log = structlog.get_logger("banyan.link.parent")


@dataclass(frozen=True, slots=True)
class ParentSettings:
    """`rate` and `burst` bound what we send to one child, `hear` and `hear_burst` what its words cost us (`_cost`).
    `own`: seconds that our side may take for a call.

    `strangers`: wires that may be in their opening at a time, `strangers_per_address` of them from one address (one
    /64 of IPv6); `openings`: per second, `openings_burst` at once, less if our side does not manage so many;
    `longest_wait`: the latest return that is named to those who are turned away.
    """

    timing: Timing = Timing()
    send: float = 15.0
    own: float = 30.0
    rate: float = 1024 * 1024
    burst: float = 256 * 1024
    hear: float = 4 * 1024 * 1024
    hear_burst: float = 16 * 1024 * 1024
    strangers: int = 1000
    strangers_per_address: int = 200
    openings: float = 100.0
    openings_burst: float = 200.0
    longest_wait: float = 300.0


class ParentLink:
    """See the module."""

    def __init__(
        self,
        side: ParentSide,
        clock: Clock,
        ids: Ids,
        settings: ParentSettings = ParentSettings(),
        counters: Counters | None = None,
    ) -> None:
        self._side = side
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._sessions: dict[ZoneCode, Session] = {}
        self._door = Door(settings.strangers, settings.strangers_per_address)
        self._turning_away = 0
        self._stopping = False
        self._turnstile = Turnstile(settings.openings, settings.openings_burst, settings.longest_wait, clock.now())
        self.line = Line(clock, self._turnstile, settings.timing.opening, self._later)
        self.counters = counters or Counters()

    # --- for the zone ---------------------------------------------------------------------------

    def session(self, code: ZoneCode) -> ParentSession | None:
        """The session that stands now, if there is one."""
        return self._sessions.get(code)

    @property
    def connected(self) -> int:
        return len(self._sessions)

    @property
    def strangers(self) -> int:
        """Wires in their opening."""
        return self._door.count

    async def cut(self, code: ZoneCode, error: str, text: str, retry_after: float | None = None) -> bool:
        """Ends a child's session, saying why; False if there is none. `retry_after` in seconds, below 0 never."""
        session = self._sessions.get(code)
        if session is None:
            return False
        await session.cut(error, text, retry_after)
        return True

    async def stop(self, text: str, retry_after: float) -> None:
        """Ends all sessions and lets nobody in any more. Children come back spread over `retry_after` seconds."""
        self._stopping = True
        for session in list(self._sessions.values()):
            await session.cut("stopping", text, self._ids.uniform(0.0, retry_after))

    # --- for the wires --------------------------------------------------------------------------

    def may_enter(self, address: str) -> bool:
        """Whether a wire from here would be taken now; asked before the costly part of its opening (TLS)."""
        return not self._stopping and self._door.may_enter(address)

    async def serve(self, wire: Wire, purpose: str) -> None:
        """Talks to the end of one wire, and closes it. `purpose`: "session" or "enrol", by how the wire came."""
        if not self.may_enter(wire.peer.address):
            await self._turn_away(wire, self._settings.longest_wait / 10)
            return
        wait = self._turnstile.enter(self._clock.now())
        if wait is not None:
            await self._turn_away(wire, wait)
            return
        session = Session(self, wire, purpose, self._door.enter(wire.peer.address))
        try:
            await session.run()
        finally:
            self._known(session)

    def _known(self, session: Session) -> None:
        """The wire is no stranger's any more, or has ended."""
        if session.counted:
            session.counted = False
            self._door.leave(session.origin)

    async def _turn_away(self, wire: Wire, wait: float) -> None:
        self.counters.refused += 1
        if self._turning_away >= self._settings.strangers:
            await wire.close("busy")
            return
        self._turning_away += 1
        try:
            after = round(self._spread(wait) * 1000)
            bye = Bye("busy", "many zones are coming back at once; come again a little later", after)
            stream = Stream(wire, Bucket(math.inf, 1.0, self._clock.now()), self._clock, self.counters, 2.0)
            await stream.finish(bye, "busy")
        finally:
            self._turning_away -= 1

    def _later(self) -> float:
        """When to come back who is sent away from the line: seconds."""
        return self._spread(self._turnstile.later(self._clock.now()))

    def _spread(self, wait: float) -> float:
        return wait + self._ids.uniform(0.0, 1.0 + wait / 10)

    async def _stand(self, session: Session) -> None:
        """`session` is the one of its code from now on."""
        self._known(session)
        self.counters.sessions += 1
        older = self._sessions.get(session.code)
        self._sessions[session.code] = session
        if older is not None:
            self.counters.replaced += 1
            # Long enough that two copies of one zone do not push each other out at every second.
            await older.cut("replaced", "another session of the same zone has begun", 30.0)

    def _gone(self, session: Session) -> None:
        if self._sessions.get(session.code) is session:
            del self._sessions[session.code]


class Session:
    """One wire's session: the tasks around a ParentMachine, and core.ports.ParentSession for the zone.

    The task that runs it reads, and calls the side; a second one sends. While requests wait for answers, calls of the
    side are tasks of their own (at most one report and one renewal), so that a store holds up no answer.
    """

    def __init__(self, link: ParentLink, wire: Wire, purpose: str, origin: str) -> None:
        self.origin = origin
        self.counted = True
        self._link = link
        self._side = link._side
        self._clock = link._clock
        self._settings = link._settings
        now = self._clock.now()
        bucket = Bucket(self._settings.rate, self._settings.burst, now)
        self._stream = Stream(wire, bucket, self._clock, link.counters, self._settings.send)
        self._toll = Toll(self._settings.hear, self._settings.hear_burst, now)
        self._purpose = purpose
        self._machine = ParentMachine(purpose, self._settings.timing, now)
        self._code = ZoneCode(0)
        self._greet: Greet | None = None
        self._welcome: Welcome | None = None
        self._bye: Bye | None = None
        self._hello_returned = False
        # When the child gives up: from the last word of its opening on.
        self._patient_until = math.inf
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._scope = asyncio.timeout(None)
        self._receiving = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    # --- core.ports.ParentSession -----------------------------------------------------------------

    @property
    def code(self) -> ZoneCode:
        return self._code

    @property
    def peer(self) -> Peer:
        return self._stream.peer

    @property
    def gone(self) -> bool:
        waits = self._hello_returned or self._clock.now() <= self._patient_until
        return self._machine.ending is not None or self._stream.ended or not waits

    async def request(self, verb: str, body: bytes, caller: CallerInfo, timeout: float) -> Answer:
        request = self._machine.ask(verb, body, caller, timeout)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[request.id] = answer
        try:
            self._stream.put(request)
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError as error:
            raise Unreachable(
                "no-answer", f"the child gave no answer within {timeout:g} s; whether it acted is not known"
            ) from error
        finally:
            self._machine.forget(request.id)
            del self._answers[request.id]

    async def cut(self, code: str, text: str, retry_after: float | None) -> None:
        """Ends the session; `ended` follows. Returns at once, so that it may be called from within a call."""
        self._do(self._machine.close(code, text, retry_after=retry_after))

    # --- running --------------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._arm()
                pump = tasks.create_task(self._pump(), name="link.parent.pump")
                await self._read()
                if self._calls:
                    await asyncio.wait(self._calls, timeout=self._settings.own)
                pump.cancel()
                for call in list(self._calls):
                    call.cancel()
        finally:
            await self._end()

    async def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        ending = self._machine.ending
        if ending is None:
            self._do(self._machine.close("stopping", "the parent stops, or starts again"))
            ending = self._machine.ending or Ending("stopping")
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(
                    Unreachable(
                        "session-ended", f"the child's session ended ({ending.reason}); the outcome is not known"
                    )
                )
        self._link.counters.late += self._machine.late_answers
        self._link._gone(self)
        await self._stream.finish(self._bye, ending.reason)
        if self._hello_returned:
            await self._side.ended(self, ending.reason)
        elif ending.code not in ("enrolled", "wire-closed"):
            self._link.counters.failed += 1
            log.info("link.refused", address=self.peer.address, purpose=self._purpose, reason=ending.reason)

    async def _read(self) -> None:
        """Reads to the end of the session. Calls of the side are made in between, unless an answer could be waiting
        behind them: then they are tasks of their own. A child that speaks without end is read at a bounded pace.
        """
        wait, before = 0.0, 0
        try:
            async with asyncio.timeout(None) as self._scope:
                while self._machine.ending is None:
                    self._receiving = True
                    try:
                        if wait > 0:
                            await self._clock.sleep_until(Mono(self._clock.now() + wait))
                        messages = await self._stream.receive()
                    finally:
                        # Whatever ends the wait, there is nobody to wake any more; the handlers below say more.
                        self._receiving = False
                    # What we asked for is as much as we asked for, and somebody waits for it.
                    free = bool(messages) and all(map(self._machine.waits_for, messages))
                    for message in messages:
                        await self._hear(message)
                    cost = self._stream.received - before + FRAME_COST + sum(map(_cost, messages))
                    before = self._stream.received
                    wait = 0.0 if free else self._toll.pay(cost, self._clock.now())
        except TimeoutError:
            if not self._scope.expired():
                raise
        except WireClosed as closed:
            self._do(self._machine.closed(closed.reason))
        except BadInput as error:
            self._do(self._machine.close(error.code, error.text))

    async def _hear(self, message: Message) -> None:
        for action in self._machine.receive(message, self._clock.now()):
            match action:
                case Greeted() | Enrolling() | Opening():
                    await self._guard(self._open(action))
                case Reported() | Renewing() if not self._answers:
                    await self._guard(self._call(action))
                case _:
                    self._do((action,))

    async def _pump(self) -> None:
        try:
            await self._stream.pump()
        except SlowPeer as slow:
            self._do(self._machine.close("slow-peer", str(slow)))
        except WireClosed:
            return  # the reader still hears what had arrived before

    async def _open(self, action: Greeted | Enrolling | Opening) -> None:
        side, machine = self._side, self._machine
        match action:
            case Greeted(greet, _):
                if self._purpose == "session" and self.peer.certificate is None:
                    raise BadInput("no-certificate", "a session needs the certificate of a child; join first")
                self._greet = greet
                actions = machine.welcomed(await side.welcome(greet, self.peer), self._clock.now())
                self._welcome = next(
                    (a.message for a in actions if isinstance(a, Send) and isinstance(a.message, Welcome)), None
                )
                self._do(actions)
            case Enrolling(enrol):
                assert self._greet is not None
                assert self._welcome is not None
                self._patient_until = self._clock.now() + self._settings.timing.opening
                async with self._link.line.turn(lambda: self.gone):
                    admitted = await side.enrol(self._greet, self._welcome, enrol, self.peer)
                self._link.counters.enrolled += 1
                self._do(machine.admitted(admitted))
            case Opening(hello):
                self._code = hello.code
                self._patient_until = self._clock.now() + self._settings.timing.opening
                async with self._link.line.turn(lambda: self.gone):
                    ack = await side.hello(hello, self)
                    self._hello_returned = True
                await self._link._stand(self)
                self._stream.establish()
                self._do(machine.established(ack, self._clock.now()))

    async def _call(self, action: Reported | Renewing) -> None:
        match action:
            case Reported(report):
                ack = await self._side.reported(self, report)
                self._do(self._machine.acknowledged(ack, self._clock.now()), wake=False)
            case Renewing(renew):
                self._do(self._machine.renewed(await self._side.renew(self, renew)), wake=False)
        try:
            await self._stream.flush()
        except SlowPeer as slow:
            self._do(self._machine.close("slow-peer", str(slow)))
        except WireClosed:
            return  # the reader still hears what had arrived before

    async def _guard(self, call: Coroutine[None, None, None]) -> None:
        """Awaits a call of our side; what it refuses, and its lateness, end the session with a word to the child."""
        try:
            async with asyncio.timeout(self._settings.own):
                await call
        except TimeoutError:
            text = f"the parent took over {self._settings.own:g} s; come again a little later"
            self._do(self._machine.close("busy", text, retry_after=self._link._ids.uniform(1.0, self._settings.own)))
        except BanyanError as error:
            after = _retry_after(error, enrolling=self._purpose == "enrol")
            self._do(self._machine.close(error.code, _public(error), retry_after=after))

    def _do(self, actions: Sequence[ParentAction], *, wake: bool = True) -> None:
        """Performs what the machine said. At its end the reader is woken, which ends the rest. `wake`: Stream.put."""
        for action in actions:
            match action:
                case Send(Bye() as bye):
                    self._bye = bye
                case Send(message):
                    self._stream.put(message, wake=wake)
                case Reported() | Renewing():
                    assert self._tasks is not None
                    task = self._tasks.create_task(self._guard(self._call(action)), name="link.parent.call")
                    self._calls.add(task)
                    task.add_done_callback(self._calls.discard)
                case Answered(answer):
                    waiting = self._answers.get(answer.id)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(answer)
                case End():
                    self._wake_reader()
                case _:
                    raise TypeError(f"{type(action).__name__} belongs to the opening")
        self._arm()

    def _wake_reader(self) -> None:
        if self._receiving:
            self._scope.reschedule(asyncio.get_running_loop().time())

    def _arm(self) -> None:
        """Sees to it that the machine's deadline is met. That moves with each message, mostly away: so the timer stays
        where it is, and moves when it fires.
        """
        deadline = self._machine.deadline if self._machine.ending is None else math.inf
        if deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = deadline
            left = max(0.0, deadline - self._clock.now())
            self._timer = asyncio.get_running_loop().call_later(left, self._on_time)

    def _on_time(self) -> None:
        self._timer, self._timer_at = None, math.inf
        self._do(self._machine.tick(self._clock.now()))


def _cost(message: Message) -> int:
    """What a message costs beside its bytes: a commit, signatures; in as many bytes as take as long."""
    if isinstance(message, Report | Beat):
        rows = 0 if isinstance(message, Beat) or message.lineage is None else len(message.lineage.rows)
        return REPORT_COST + rows * ROW_COST
    return MESSAGE_COST


def _public(error: BanyanError) -> str:
    return (
        "the parent is not as it must be; its operator finds the reason in its log"
        if isinstance(error, Broken)
        else error.text
    )


def _retry_after(error: BanyanError, *, enrolling: bool) -> float | None:
    """What the child is told: a refusal is for ever unless it says otherwise, the rest is worth another try.

    Who is a child already may try again where the present state forbids (Conflict); a stranger who meets a taken
    name would wait for ever, where a person must choose.
    """
    if error.retry_after is not None:
        return error.retry_after
    if error.transient or isinstance(error, Unreachable | Broken) or (isinstance(error, Conflict) and not enrolling):
        return None
    return -1.0
