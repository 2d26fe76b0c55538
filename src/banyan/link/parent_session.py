"""The parent's side of a session: a state machine without I/O or clock. The rules are in `session`.

It lets a child speak only in turn, and asks at most a bounded number of things at a time.
"""

from __future__ import annotations

import msgspec

from banyan.core.errors import Unreachable
from banyan.core.messages import (
    PROTOCOL_CEILING,
    PROTOCOL_FLOOR,
    Ack,
    Admitted,
    Answer,
    Beat,
    BeatAck,
    Bye,
    CallerInfo,
    Enrol,
    Greet,
    Hello,
    HelloAck,
    Message,
    Renew,
    Renewed,
    Report,
    Request,
    Welcome,
)
from banyan.core.time import Mono
from banyan.link.session import (
    EPSILON,
    FROM_PARENT,
    NEVER,
    PARENT,
    WORDS,
    Answered,
    Enrolling,
    Greeted,
    Opening,
    ParentAction,
    Renewing,
    Reported,
    Send,
    Session,
    Stage,
    Timing,
    Word,
)


class ParentMachine(Session):
    """The parent's side. It waits for the child's greeting from the start."""

    _table = PARENT

    def __init__(self, purpose: str, timing: Timing, now: Mono) -> None:
        super().__init__(timing)
        self._purpose = purpose
        self.deadline = Mono(now + timing.opening)
        self._forgiven = False
        self._version = 0
        self._seq = 0
        self._pending: Report | Beat | None = None
        self._renewing = False
        self._quiet = 0.0
        self._lease = 0.0
        self._last_id = 0
        self._asked: set[int] = set()
        self.late_answers = 0

    def receive(self, message: Message, now: Mono) -> tuple[ParentAction, ...]:
        if self.ending is not None:
            return ()
        if isinstance(message, Bye):
            return self._said_bye(message)
        word = WORDS[type(message)]
        if word in FROM_PARENT or not self._moves(word):
            return self._out_of_order(message)
        self._forgiven = False
        match message:
            case Greet():
                return self._greet(message)
            case Hello():
                if self._purpose != "session":
                    return self._out_of_order(message, "a hello came on a wire for enrolment")
                self.deadline = NEVER
                return (Opening(message),)
            case Enrol():
                if self._purpose != "enrol":
                    return self._out_of_order(message, "an enrolment came on a wire for sessions")
                self.deadline = NEVER
                return (Enrolling(message),)
            case Report() | Beat():
                return self._report(message)
            case Renew():
                if self._renewing:
                    return self._out_of_order(message, "a renewal came while one is being made")
                self._renewing = True
                return (Renewing(message),)
            case Answer():
                return self._answer(message)
            case _:
                return self._out_of_order(message)

    def welcomed(self, welcome: Welcome, now: Mono) -> tuple[ParentAction, ...]:
        """The negotiated version is put in here, whatever the side wrote."""
        if self.ending is not None:
            return ()
        self._must(Word.WELCOME)
        self.deadline = Mono(now + self._timing.opening)
        return (Send(msgspec.structs.replace(welcome, version=self._version)),)

    def admitted(self, admitted: Admitted) -> tuple[ParentAction, ...]:
        if self.ending is not None:
            return ()
        self._must(Word.ADMITTED)
        return Send(admitted), *self.close("enrolled", "", tell=False)

    def established(self, ack: HelloAck, now: Mono) -> tuple[ParentAction, ...]:
        if self.ending is not None:
            return ()
        self._must(Word.HELLO_ACK)
        self._granted(ack.grant.lease, ack.grant.report, now)
        return (Send(ack),)

    def acknowledged(self, ack: Ack | BeatAck, now: Mono) -> tuple[ParentAction, ...]:
        if self.ending is not None:
            return ()
        pending = self._pending
        if pending is None or ack.seq != pending.seq or (isinstance(ack, BeatAck) and isinstance(pending, Report)):
            raise ValueError(f"{type(ack).__name__} {ack.seq} acknowledges nothing that is pending")
        self._pending = None
        if isinstance(ack, Ack):
            self._granted(ack.grant.lease, ack.grant.report, now)
        else:
            self._granted(round(self._lease * 1000), ack.report, now)
        return (Send(ack),)

    def renewed(self, renewed: Renewed) -> tuple[ParentAction, ...]:
        if self.ending is not None:
            return ()
        self._renewing = False
        return (Send(renewed),)

    def ask(self, verb: str, body: bytes, caller: CallerInfo, timeout: float) -> Request:
        """A request to send. Raises Unreachable when nothing can be asked now: then nothing was."""
        if self.ending is not None or self.stage is not Stage.STANDING:
            raise Unreachable("not-connected", "the child is not connected; nothing was asked of it", transient=True)
        if len(self._asked) >= self._timing.outstanding:
            raise Unreachable(
                "busy",
                f"{len(self._asked)} requests to this child are unanswered; this one was not sent, try again",
                transient=True,
                retry_after=1.0,
            )
        self._last_id += 1
        self._asked.add(self._last_id)
        return Request(self._last_id, verb, body, round(timeout * 1000), caller)

    def forget(self, id: int) -> None:
        """Nobody waits for this answer any more."""
        self._asked.discard(id)

    def tick(self, now: Mono) -> tuple[ParentAction, ...]:
        if now + EPSILON < self.deadline or self.ending is not None:
            return ()
        if not self._forgiven:
            self._forgiven = True
            self.deadline = Mono(now + self._timing.second_look)
            return ()
        if self.stage is Stage.STANDING:
            return self.close("silent", f"no report within {self._quiet:g} s")
        return self.close("no-answer", f"no word within {self._timing.opening:g} s")

    def _granted(self, lease_ms: int, report_ms: int, now: Mono) -> None:
        self._lease = lease_ms / 1000
        self._quiet = max(self._lease, report_ms / 1000) + self._timing.grace
        self.deadline = Mono(now + self._quiet)

    def _greet(self, greet: Greet) -> tuple[ParentAction, ...]:
        if greet.purpose != self._purpose:
            return self.close("wrong-purpose", f"this wire is for purpose {self._purpose!r}", retry_after=-1)
        self._version = min(greet.ceiling, PROTOCOL_CEILING)
        if self._version < max(greet.floor, PROTOCOL_FLOOR):
            return self.close(
                "version",
                f"this parent speaks protocol versions {PROTOCOL_FLOOR} to {PROTOCOL_CEILING}, "
                f"the child {greet.floor} to {greet.ceiling}: upgrade the older of the two",
                retry_after=-1,
            )
        self.deadline = NEVER
        return (Greeted(greet, self._version),)

    def _report(self, report: Report | Beat) -> tuple[ParentAction, ...]:
        if self._pending is not None:
            return self._out_of_order(report, f"report {report.seq} came before {self._pending.seq} was acknowledged")
        if report.seq != self._seq + 1:
            return self._out_of_order(report, f"report {self._seq + 1} is next, {report.seq} came")
        self._seq = report.seq
        self._pending = report
        self.deadline = NEVER
        return (Reported(report),)

    def waits_for(self, message: Message) -> bool:
        """Whether it is an answer, and to a question of ours that stands open."""
        return isinstance(message, Answer) and message.id in self._asked

    def _answer(self, answer: Answer) -> tuple[ParentAction, ...]:
        if answer.id in self._asked:
            self._asked.discard(answer.id)
            return (Answered(answer),)
        if 0 < answer.id <= self._last_id:
            self.late_answers += 1
            return ()
        return self._out_of_order(answer, f"an answer to request {answer.id} came, which was never sent")
