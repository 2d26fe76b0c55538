"""The child's side of a session: a state machine without I/O or clock. The rules are in `session`.

It sends one report at a time, counts every wait, and never repeats a word: a session that lost one ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from banyan.core.messages import (
    MAX_FRAME,
    Ack,
    Admitted,
    Answer,
    Beat,
    BeatAck,
    Bye,
    Enrol,
    Generations,
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
    CHILD,
    EPSILON,
    FROM_PARENT,
    NEVER,
    WORDS,
    Acknowledged,
    Asked,
    CertificateRenewed,
    ChildAction,
    End,
    Established,
    Last,
    ReportDue,
    Send,
    Session,
    Stage,
    Taken,
    Timing,
    Welcomed,
    Word,
)


@dataclass(slots=True)
class _Outstanding:
    seq: int
    sent_at: Mono
    beat: bool
    more: bool


class ChildMachine(Session):
    """The child's side. Begin with `start`."""

    _table = CHILD

    def __init__(self, greet: Greet, timing: Timing) -> None:
        super().__init__(timing)
        self._greet = greet
        self._deadline = NEVER
        self._opened_at = NEVER
        self._due = NEVER
        self._seq = 0
        self._building = False
        self._hurry = False
        self._forgiven = False
        self._sent: _Outstanding | None = None
        self._last_sent = Mono(-math.inf)
        self._renew_deadline = NEVER
        self._running: set[int] = set()
        self.known = Generations()
        self.max_frame = MAX_FRAME

    @property
    def deadline(self) -> Mono:
        if self.ending is not None:
            return NEVER
        if self.stage is not Stage.STANDING:
            return self._deadline
        if self._building:
            return self._renew_deadline
        return min(self._deadline if self._sent else self._due, self._renew_deadline)

    def start(self, now: Mono) -> tuple[ChildAction, ...]:
        self._must(Word.GREET)
        self._deadline = Mono(now + self._timing.opening)
        return (Send(self._greet),)

    def receive(self, message: Message, now: Mono) -> tuple[ChildAction, ...]:
        if self.ending is not None:
            return ()
        if isinstance(message, Bye):
            return self._said_bye(message)
        word = WORDS[type(message)]
        if word not in FROM_PARENT or not self._moves(word):
            return self._out_of_order(message)
        self._forgiven = False
        match message:
            case Welcome():
                return self._welcome(message)
            case HelloAck():
                self.known = message.known
                self.max_frame = min(MAX_FRAME, message.max_frame)
                self._due = now  # the parent knows our generations, but not yet our condition
                return (Established(message, self._opened_at),)
            case Admitted():
                self._deadline = NEVER
                return (Taken(message),)
            case Ack() | BeatAck():
                return self._ack(message, now)
            case Renewed():
                if self._renew_deadline == NEVER:
                    return self._out_of_order(message, "a certificate came that was not asked for")
                self._renew_deadline = NEVER
                return (CertificateRenewed(message),)
            case Request():
                return self._request(message)
            case _:
                return self._out_of_order(message)

    def opened(self, word: Hello | Enrol, now: Mono) -> tuple[ChildAction, ...]:
        """The parent was found right; this is what it may hear."""
        if self.ending is not None:
            return ()
        self._must(WORDS[type(word)])
        self._opened_at = now
        self._deadline = Mono(now + self._timing.opening)
        return (Send(word),)

    def closed(self, reason: str) -> Last:
        """The wire ended without a word; once admitted, nothing more was to come, and the own side still stores it."""
        return () if self.stage is Stage.DONE else super().closed(reason)

    def finished(self) -> Last:
        """The enrolment was stored."""
        return self.close("enrolled", "", tell=False)

    def news(self, now: Mono) -> tuple[ChildAction, ...]:
        """Something should not wait for the next report."""
        if self.stage is not Stage.STANDING or self.ending is not None:
            return ()
        if self._building or self._sent:
            self._hurry = True
            return ()
        self._due = min(self._due, Mono(max(now, self._last_sent + self._timing.gap)))
        return self.tick(now)

    def reported(self, report: Report | Beat, now: Mono) -> tuple[ChildAction, ...]:
        """What ReportDue asked for, at the instant that the lease will be counted from."""
        if self.ending is not None:
            return ()
        if not self._building or report.seq != self._seq:
            raise ValueError(f"report {report.seq} was not due; {self._seq} was")
        more = isinstance(report, Report) and any(part and part.more for part in (report.lineage, report.ledger))
        self._building = False
        self._sent = _Outstanding(report.seq, now, isinstance(report, Beat), more)
        self._last_sent = now
        self._deadline = Mono(now + self._timing.answer)
        return (Send(report),)

    def renew(self, renew: Renew, now: Mono) -> tuple[ChildAction, ...]:
        """One at a time; while one is asked for, another is dropped (it will be due again)."""
        if self.ending is not None or self.stage is not Stage.STANDING or self._renew_deadline != NEVER:
            return ()
        self._renew_deadline = Mono(now + self._timing.answer)
        return (Send(renew),)

    def answered(self, answer: Answer) -> tuple[ChildAction, ...]:
        if self.ending is not None or answer.id not in self._running:
            return ()
        self._running.discard(answer.id)
        return (Send(answer),)

    def tick(self, now: Mono) -> tuple[ChildAction, ...]:
        if now + EPSILON < self.deadline or self.ending is not None:
            return ()
        if self.stage is not Stage.STANDING:
            return self._late(now, f"no word from the parent within {self._timing.opening:g} s")
        overdue = (self._sent and now + EPSILON >= self._deadline) or now + EPSILON >= self._renew_deadline
        if overdue:
            return self._late(now, f"no acknowledgement from the parent within {self._timing.answer:g} s")
        self._building = True
        self._hurry = False
        self._seq += 1
        return (ReportDue(self._seq, self.known),)

    def _said_bye(self, bye: Bye) -> Last:
        """Whoever answers can put us off; for good, only who has proved to be the parent."""
        last = super()._said_bye(bye)
        if self.ending is None or self.stage not in (Stage.NEW, Stage.GREETED, Stage.CHECKING) or bye.retry_after >= 0:
            return last
        self.ending = replace(self.ending, retry_after=None)
        return (End(self.ending),)

    def _late(self, now: Mono, text: str) -> tuple[ChildAction, ...]:
        if self._forgiven:
            return self.close("no-answer", text)
        self._forgiven = True
        later = Mono(now + self._timing.second_look)
        if self._deadline <= later:
            self._deadline = later
        if self._renew_deadline <= later:
            self._renew_deadline = later
        return ()

    def _welcome(self, welcome: Welcome) -> tuple[ChildAction, ...]:
        if not self._greet.floor <= welcome.version <= self._greet.ceiling:
            return self.close(
                "version",
                f"the parent chose protocol version {welcome.version}; "
                f"this zone speaks {self._greet.floor} to {self._greet.ceiling}",
            )
        self._deadline = NEVER
        return (Welcomed(welcome),)

    def _ack(self, ack: Ack | BeatAck, now: Mono) -> tuple[ChildAction, ...]:
        sent = self._sent
        if sent is None or ack.seq != sent.seq:
            return self._out_of_order(ack, f"an acknowledgement of report {ack.seq} came, which is not outstanding")
        if isinstance(ack, BeatAck) and not sent.beat:
            return self._out_of_order(ack, f"report {ack.seq} had news, and was acknowledged as if it had none")
        self._sent = None
        report = ack.grant.report if isinstance(ack, Ack) else ack.report
        due = now + min(max(report / 1000, self._timing.gap), self._timing.longest_report)
        if sent.more:
            due = now
        elif self._hurry or (isinstance(ack, Ack) and ack.resend):
            due = max(now, sent.sent_at + self._timing.gap)
        self._due = Mono(due)
        if isinstance(ack, Ack):
            self.known = ack.known
        return (Acknowledged(ack, sent.sent_at),)

    def _request(self, request: Request) -> tuple[ChildAction, ...]:
        if request.id in self._running:
            return self._out_of_order(request, f"request {request.id} came twice")
        if len(self._running) >= self._timing.outstanding:
            text = f"{len(self._running)} requests are being answered; this one was not begun"
            return (Send(Answer(request.id, error="busy", text=text, status=503)),)
        self._running.add(request.id)
        return (Asked(request),)
