"""Two zones in miniature, as the link sees them: they record what is asked of them and answer as they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from banyan.core.errors import BanyanError, Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.messages import (
    PROTOCOL_CEILING,
    PROTOCOL_FLOOR,
    Ack,
    Admitted,
    Answer,
    Beat,
    BeatAck,
    CallerInfo,
    Enrol,
    EpochProof,
    Evidence,
    Generations,
    Grant,
    Greet,
    Hello,
    HelloAck,
    Renew,
    Renewed,
    Report,
    Request,
    Welcome,
)
from banyan.core.ports import Ids, ParentSession, Peer
from banyan.core.time import Mono

CALLER = CallerInfo("root@socket", 3, ZoneCode(1), "", "", "", "")


@dataclass
class FakeChild:
    """core.ports.ChildSide."""

    ids: Ids
    code: ZoneCode
    purpose: str = "session"
    floor: int = PROTOCOL_FLOOR
    ceiling: int = PROTOCOL_CEILING
    said: list[str] = field(default_factory=list)
    events: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    reports: list[Report | Beat] = field(default_factory=list)
    acks: list[Ack | BeatAck] = field(default_factory=list)
    known: list[Generations] = field(default_factory=list)
    budgets: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    peer: Peer | None = None
    proof: EpochProof | None = None
    crosses: tuple[bytes, ...] = ()
    refuse: BanyanError | None = None
    spoil: BanyanError | None = None
    to_report: list[Report] = field(default_factory=list)
    to_renew: list[Renew] = field(default_factory=list)
    fresh: asyncio.Event = field(default_factory=asyncio.Event)
    answering: Callable[[Request], Awaitable[Answer]] | None = None
    running: int = 0
    most_running: int = 0

    def _note(self, what: str) -> None:
        self.said.append(what)
        self.events.put_nowait(what)

    async def until(self, what: str, within: float = 30.0) -> None:
        """Waits for an event of this name; earlier ones are dropped."""
        async with asyncio.timeout(within):
            while await self.events.get() != what:
                pass

    def tell(self, report: Report) -> None:
        self.to_report.append(report)
        self.fresh.set()

    def greet(self) -> Greet:
        self._note("greet")
        return Greet(self.floor, self.ceiling, self.ids.token(16), self.purpose)

    async def welcomed(self, greet: Greet, welcome: Welcome, peer: Peer) -> Hello | Enrol:
        self._note("welcomed")
        self.peer = peer
        if self.refuse is not None:
            raise self.refuse
        if self.purpose == "enrol":
            return Enrol(Evidence("test", b"proof"), self.code, "east", bytes(32), bytes(64))
        epoch = 1 if self.proof is None else self.proof.epoch
        return Hello(self.code, "0", epoch, b"", b"mark", Generations(), proof=self.proof, crosses=self.crosses)

    async def admitted(self, admitted: Admitted, peer: Peer) -> None:
        self._note("admitted")
        if self.spoil is not None:
            raise self.spoil

    async def refused(self, error: BanyanError) -> None:
        self._note("refused")

    async def established(self, ack: HelloAck, sent_at: Mono) -> None:
        self.proof = ack.proof
        self._note("established")

    async def report(self, seq: int, known: Generations, budget: int) -> Report | Beat:
        self.known.append(known)
        self.budgets.append(budget)
        if self.to_report:
            report: Report | Beat = _numbered(self.to_report.pop(0), seq)
        else:
            report = Beat(seq)
        if not self.to_report:
            self.fresh.clear()
        self.reports.append(report)
        self._note("report")
        return report

    async def news(self) -> None:
        await self.fresh.wait()

    async def acknowledged(self, ack: Ack | BeatAck, sent_at: Mono) -> None:
        self.acks.append(ack)
        self._note("acknowledged")

    async def renewal(self) -> Renew | None:
        return self.to_renew.pop(0) if self.to_renew else None

    async def renewed(self, renewed: Renewed) -> None:
        self._note("renewed")

    async def asked(self, request: Request) -> Answer:
        self._note("asked")
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.answering is not None:
                return await self.answering(request)
            return Answer(request.id, request.body)
        finally:
            self.running -= 1

    async def ended(self, reason: str) -> None:
        self.reasons.append(reason)
        self._note("ended")


@dataclass
class FakeParent:
    """core.ports.ParentSide."""

    ids: Ids
    code: ZoneCode = ZoneCode(1)
    report_ms: int = 6000
    lease_ms: int = 15000
    said: list[str] = field(default_factory=list)
    events: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    sessions: list[ParentSession] = field(default_factory=list)
    reports: list[Report | Beat] = field(default_factory=list)
    endings: list[tuple[ParentSession, str]] = field(default_factory=list)
    peers: list[Peer] = field(default_factory=list)
    hellos: list[Hello] = field(default_factory=list)
    refuse: dict[str, BanyanError] = field(default_factory=dict)
    hang: set[str] = field(default_factory=set)
    acks: list[Ack] = field(default_factory=list)
    proof: EpochProof | None = None

    def _note(self, what: str) -> None:
        self.said.append(what)
        self.events.put_nowait(what)

    async def _step(self, what: str) -> None:
        self._note(what)
        if what in self.hang:
            await asyncio.Event().wait()
        if what in self.refuse:
            raise self.refuse[what]

    async def until(self, what: str, within: float = 30.0) -> None:
        async with asyncio.timeout(within):
            while await self.events.get() != what:
                pass

    @property
    def session(self) -> ParentSession:
        return self.sessions[-1]

    def grant(self) -> Grant:
        return Grant(self.lease_ms, 600_000, self.report_ms, 1)

    async def welcome(self, greet: Greet, peer: Peer) -> Welcome:
        self.peers.append(peer)
        await self._step("welcome")
        return Welcome(0, self.code, "top", 1_800_000_000_000, self.ids.token(16), (b"leaf", b"ca"), (), bytes(64))

    async def enrol(self, greet: Greet, welcome: Welcome, enrol: Enrol, peer: Peer) -> Admitted:
        await self._step("enrol")
        return Admitted(b"certificate", (), enrol.name, f"top/{enrol.name}", {}, "observe")

    async def hello(self, hello: Hello, session: ParentSession) -> HelloAck:
        await self._step("hello")
        self.hellos.append(hello)
        self.sessions.append(session)
        return HelloAck(self.grant(), Generations(), "east", "top/east", proof=self.proof)

    async def reported(self, session: ParentSession, report: Report | Beat) -> Ack | BeatAck:
        self.reports.append(report)
        await self._step("reported")
        if self.acks:
            ack = self.acks.pop(0)
            return Ack(report.seq, ack.grant, ack.known, ack.resend, ack.shapes)
        if isinstance(report, Beat):
            return BeatAck(report.seq, self.report_ms)
        return Ack(report.seq, self.grant(), Generations(1, 1, 1))

    async def renew(self, session: ParentSession, renew: Renew) -> Renewed:
        await self._step("renew")
        return Renewed(b"certificate", ())

    async def ended(self, session: ParentSession, reason: str) -> None:
        self.endings.append((session, reason))
        self._note("ended")


def report(**changes: object) -> Report:
    fields: dict[str, object] = {
        "seq": 0,
        "condition": "available",
        "reason": "",
        "scanning": False,
        "scanned": True,
        **changes,
    }
    return Report(**fields)


def _numbered(one: Report, seq: int) -> Report:
    return msgspec.structs.replace(one, seq=seq)


def busy() -> BanyanError:
    return Unreachable("busy", "try later", transient=True, retry_after=2.0)
