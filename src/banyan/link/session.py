"""One session, by its rules alone: no I/O, no clock, no chance (protocols §6). Inputs are the peer's messages, the own
side's words and `now`; outputs are actions, and `deadline`, the next instant at which `tick` may have something to say.

The caller's duties: perform the actions in order; call `tick` at `deadline` or soon after; answer every action
that asks something of the own side by the method named beside it; stop after `End`. `child` and `parent` do so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from banyan.core.errors import Conflict
from banyan.core.messages import (
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
from banyan.core.transitions import Move, Table

NEVER = Mono(math.inf)

# Timers fire a little early on some clocks; a tick this near to the deadline counts as on it.
EPSILON = 1e-3


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a session waits, in seconds.

    `opening`: for each word of the peer's until the session stands. `answer`: for an acknowledgement.
    `gap`: between two reports, whatever news there is. `grace`: how much longer than lease and report a
    parent keeps a silent child's session. `second_look`: what is granted once more when a deadline passes, so that
    a loop which was blocked first reads what had arrived meanwhile. `outstanding`: requests at a time.
    """

    opening: float = 10.0
    answer: float = 10.0
    gap: float = 0.5
    grace: float = 30.0
    second_look: float = 1.0
    outstanding: int = 256
    longest_report: float = 3600.0


class Word(StrEnum):
    """What moves a session on: the messages, whoever sends them."""

    GREET = "greet"
    WELCOME = "welcome"
    HELLO = "hello"
    HELLO_ACK = "hello-ack"
    ENROL = "enrol"
    ADMITTED = "admitted"
    REPORT = "report"
    BEAT = "beat"
    ACK = "ack"
    BEAT_ACK = "beat-ack"
    RENEW = "renew"
    RENEWED = "renewed"
    REQUEST = "request"
    ANSWER = "answer"


WORDS: dict[type[Message], Word] = {
    Greet: Word.GREET,
    Welcome: Word.WELCOME,
    Hello: Word.HELLO,
    HelloAck: Word.HELLO_ACK,
    Enrol: Word.ENROL,
    Admitted: Word.ADMITTED,
    Report: Word.REPORT,
    Beat: Word.BEAT,
    Ack: Word.ACK,
    BeatAck: Word.BEAT_ACK,
    Renew: Word.RENEW,
    Renewed: Word.RENEWED,
    Request: Word.REQUEST,
    Answer: Word.ANSWER,
}


class Stage(StrEnum):
    """How far a session is. A stage that ends in -ing waits for the own side, the others for the peer."""

    NEW = "new"
    GREETED = "greeted"
    CHECKING = "checking"
    OPENED = "opened"
    DECIDING = "deciding"
    ENROLLED = "enrolled"
    ADMITTING = "admitting"
    STANDING = "standing"
    DONE = "done"


_S, _W = Stage, Word
CHILD: Table[Stage, Word] = Table(
    "child's session",
    Stage,
    Word,
    [
        Move(_S.NEW, _W.GREET, _S.GREETED, "the child speaks first, and says nothing of itself"),
        Move(_S.GREETED, _W.WELCOME, _S.CHECKING, "the parent's proof is judged before anything else leaves"),
        Move(_S.CHECKING, _W.HELLO, _S.OPENED, "the parent is the right one"),
        Move(_S.CHECKING, _W.ENROL, _S.ENROLLED, "the parent is the right one, and does not know us yet"),
        Move(_S.OPENED, _W.HELLO_ACK, _S.STANDING, "the parent took us"),
        Move(_S.ENROLLED, _W.ADMITTED, _S.DONE, "a certificate ends an enrolment; a session is another wire"),
        *(
            Move(_S.STANDING, word, _S.STANDING, "the daily exchange")
            for word in (_W.REPORT, _W.BEAT, _W.ACK, _W.BEAT_ACK, _W.RENEW, _W.RENEWED, _W.REQUEST, _W.ANSWER)
        ),
    ],
)
PARENT: Table[Stage, Word] = Table(
    "parent's session",
    Stage,
    Word,
    [
        Move(_S.NEW, _W.GREET, _S.CHECKING, "a stranger greets; the proof is being made"),
        Move(_S.CHECKING, _W.WELCOME, _S.GREETED, "the stranger may check who we are"),
        Move(_S.GREETED, _W.HELLO, _S.DECIDING, "it says which child it is"),
        Move(_S.GREETED, _W.ENROL, _S.ADMITTING, "it asks to become a child"),
        Move(_S.DECIDING, _W.HELLO_ACK, _S.STANDING, "its certificate and marks are right"),
        Move(_S.ADMITTING, _W.ADMITTED, _S.DONE, "a certificate ends an enrolment; a session is another wire"),
        *(
            Move(_S.STANDING, word, _S.STANDING, "the daily exchange")
            for word in (_W.REPORT, _W.BEAT, _W.ACK, _W.BEAT_ACK, _W.RENEW, _W.RENEWED, _W.REQUEST, _W.ANSWER)
        ),
    ],
)
FROM_PARENT = frozenset((_W.WELCOME, _W.HELLO_ACK, _W.ADMITTED, _W.ACK, _W.BEAT_ACK, _W.RENEWED, _W.REQUEST))


# --- actions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a session ended. `retry_after` in seconds, below 0 never, None as you like; `by_peer`: it said so."""

    code: str
    text: str = ""
    retry_after: float | None = None
    by_peer: bool = False

    @property
    def reason(self) -> str:
        return f"{self.code}: {self.text}" if self.text else self.code


@dataclass(frozen=True, slots=True)
class Send:
    message: Message


@dataclass(frozen=True, slots=True)
class End:
    """The last action of all. A Bye was sent before it where the peer is to know."""

    ending: Ending


@dataclass(frozen=True, slots=True)
class Welcomed:
    """Child: judge the parent, then `opened`."""

    welcome: Welcome


@dataclass(frozen=True, slots=True)
class Taken:
    """Child: the parent admitted us; keep it, then `finished`."""

    admitted: Admitted


@dataclass(frozen=True, slots=True)
class Established:
    ack: HelloAck
    sent_at: Mono


@dataclass(frozen=True, slots=True)
class ReportDue:
    """Child: say what is new, then `reported`."""

    seq: int
    known: Generations


@dataclass(frozen=True, slots=True)
class Acknowledged:
    ack: Ack | BeatAck
    sent_at: Mono


@dataclass(frozen=True, slots=True)
class CertificateRenewed:
    renewed: Renewed


@dataclass(frozen=True, slots=True)
class Asked:
    """Child: do it, then `answered`. Several at a time, in any order."""

    request: Request


@dataclass(frozen=True, slots=True)
class Greeted:
    """Parent: make a welcome of this version, then `welcomed`."""

    greet: Greet
    version: int


@dataclass(frozen=True, slots=True)
class Enrolling:
    """Parent: judge the stranger, then `admitted`."""

    enrol: Enrol


@dataclass(frozen=True, slots=True)
class Opening:
    """Parent: judge the child, then `established`."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class Reported:
    """Parent: take it in, then `acknowledged`."""

    report: Report | Beat


@dataclass(frozen=True, slots=True)
class Renewing:
    """Parent: make a certificate, then `renewed`."""

    renew: Renew


@dataclass(frozen=True, slots=True)
class Answered:
    answer: Answer


ChildAction: TypeAlias = (
    Send | End | Welcomed | Taken | Established | ReportDue | Acknowledged | CertificateRenewed | Asked
)
ParentAction: TypeAlias = Send | End | Greeted | Enrolling | Opening | Reported | Renewing | Answered
Last: TypeAlias = tuple[Send | End, ...]


def _clean(text: str) -> str:
    """A peer's text, fit for a log: printable and short, since whoever answers may have written it."""
    return "".join(c if c.isprintable() else "?" for c in text[:300])


class Session:
    """What both sides share: the stage, the end."""

    _table: Table[Stage, Word]

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.stage = Stage.NEW
        self.ending: Ending | None = None

    def close(self, code: str, text: str, *, retry_after: float | None = None, tell: bool = True) -> Last:
        """Ends the session for a reason of our own. `retry_after` in seconds, below 0 never."""
        if self.ending is not None:
            return ()
        self.ending = Ending(code, text, retry_after)
        if not tell:
            return (End(self.ending),)
        wait = 0 if retry_after is None else -1 if retry_after < 0 else round(retry_after * 1000)
        return Send(Bye(code, text, wait)), End(self.ending)

    def closed(self, reason: str) -> Last:
        """The wire ended without a word."""
        if self.ending is not None:
            return ()
        self.ending = Ending("wire-closed", _clean(reason))
        return (End(self.ending),)

    def _said_bye(self, bye: Bye) -> Last:
        self.ending = Ending(_clean(bye.code), _clean(bye.text), bye.retry_after / 1000, by_peer=True)
        return (End(self.ending),)

    def _moves(self, word: Word) -> bool:
        """Moves on by `word` if the table has such a move."""
        try:
            self.stage = self._table.after(self.stage, word)
        except Conflict:
            return False
        return True

    def _must(self, word: Word) -> None:
        """Moves on by a word of our own side; a wrong one is a bug of ours."""
        self.stage = self._table.after(self.stage, word)

    def _out_of_order(self, message: Message, why: str = "") -> Last:
        word = WORDS.get(type(message), "bye")
        return self.close(
            "out-of-order",
            why or f"a {word} does not belong here: the {self._table.what} is {self.stage}",
        )
