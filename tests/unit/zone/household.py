"""A real zone in memory on virtual time, and children in the test's hands, which say to it what they like.

Between the two there is no link: a `Kid` calls what the link's parent would call, with real certificates and
signatures. What a whole tree does is for plays; what passes a socket, for tests/wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from banyan.core.errors import Unreachable
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.core.journal import Line
from banyan.core.lineage import Delta, Entry, Row
from banyan.core.messages import (
    Ack,
    Answer,
    Beat,
    BeatAck,
    CallerInfo,
    EpochProof,
    Generations,
    Hello,
    HelloAck,
    Renew,
    Renewed,
    Report,
)
from banyan.core.ports import Driver, Peer, RackSpec
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.time import Mono, Wall
from banyan.core.zone import Child, ChildState
from banyan.simulate.clock import VirtualClock
from banyan.simulate.ids import SeededIds
from banyan.simulate.loop import VirtualLoop
from banyan.store.inline import Image, InlineStore
from banyan.trust.enrol import sign_renewal
from banyan.trust.keys import fingerprint, public_key
from banyan.trust.lineage import sign_entry
from banyan.zone.reconcile.uplinks import UplinkSide
from banyan.zone.settings import ZoneSettings
from banyan.zone.zone import UplinkRunner, Zone, open_zone

T = TypeVar("T")

ADMIN = Caller("ann@local", Role.ADMIN, ZoneCode(0))


class NoDrivers:
    """core.ports.DriverHost."""

    def kinds(self) -> Sequence[str]:
        return ()

    def make(self, spec: RackSpec) -> Driver:
        raise AssertionError("there is none in this room")


class NoLinks:
    """zone.zone.Links."""

    def uplink(self, side: UplinkSide) -> UplinkRunner:
        raise AssertionError("there is none in this room")


class Household:
    """`run` runs on virtual time. `pause` is awaited at each instant of each unit (store/inline.py)."""

    def __init__(self, image: Image | None = None, **settings: Any) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop, "top")
        self.ids = SeededIds(1, "top")
        self.pause: Callable[[str], Awaitable[None]] = _at_once
        self.settings = ZoneSettings(name="top", **settings)
        self.store = self._open(image)
        self.zone = self.run(self._zone())
        self._running: asyncio.Task[None] | None = None

    async def _zone(self) -> Zone:
        return await open_zone(self.settings, self.store, self.clock, self.ids, NoDrivers(), NoLinks())

    def _open(self, image: Image | None) -> InlineStore:
        async def pause(instant: str) -> None:
            await self.pause(instant)

        return InlineStore(SeededIds(1, "store"), pause, image=image)

    def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            self.go(0.0)
        self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T], within: float = 10_000.0) -> T:
        return self.loop.run_task(coroutine, within)

    def start(self) -> None:
        """The zone's loops run from now on, while time passes."""
        self._running = self.loop.create_task(self.zone.run(), name="zone")

    def go(self, seconds: float) -> None:
        self.loop.run_until(self.loop.time() + seconds)

    async def nap(self, seconds: float) -> None:
        """Inside `run`: lets time pass."""
        await self.clock.sleep_until(Mono(self.clock.now() + seconds))

    def restore(self, image: Image) -> None:
        """The zone begins anew from an earlier copy of its database; sessions are gone."""
        self.store = self._open(image)
        self.zone = self.run(self._zone())

    def journal(self, kind: str) -> list[Line]:
        return list(self.run(self.store.read(lambda unit: unit.journal.page(0, 10_000, {"kind": kind}))))

    def stranger(self, name: str) -> Kid:
        """A zone that is no child here; another may report it."""
        return Kid(self, name, ZoneCode(int.from_bytes(self.ids.token(5), "big")), Secret(self.ids.token(32)))

    def kid(self, name: str) -> Kid:
        """A child that has enrolled and never had a session."""
        kid = self.stranger(name)
        self.run(self._admit(kid))
        return kid

    async def _admit(self, kid: Kid) -> None:
        print_ = fingerprint(public_key(kid.seed))
        until = Wall(self.zone.own.wall() + self.settings.certificate_life)
        row = Child(kid.code, kid.name, print_, ChildState.JOINING, certificate_until=until)

        def work(unit: Unit) -> None:
            unit.children.put(row)

        await self.store.write("test", work)
        self.zone.roster.took(row)
        kid.certificate = self.zone.admission.certify(kid.code, public_key(kid.seed))


@dataclass
class Wire:
    """core.ports.ParentSession of a kid. `cuts`: what the zone said when it ended this; `answer`: to what it asks;
    `gone`: it has hung up."""

    code: ZoneCode
    peer: Peer
    answer: Callable[[str, bytes], Answer] | None = None
    cuts: list[tuple[str, str, float | None]] = field(default_factory=list)
    gone: bool = False

    async def request(self, verb: str, body: bytes, caller: CallerInfo, timeout: float) -> Answer:
        if self.answer is None:
            raise Unreachable("no-answer", "this child answers nothing")
        return self.answer(verb, body)

    async def cut(self, code: str, text: str, retry_after: float | None) -> None:
        self.cuts.append((code, text, retry_after))


@dataclass
class Kid:
    """A child; see the module. `epoch` and `proof`: as it was granted last."""

    house: Household
    name: str
    code: ZoneCode
    seed: Secret
    certificate: bytes = b""
    mark: bytes = b""
    epoch: int = 0
    proof: EpochProof | None = None
    seq: int = 0
    wire: Wire | None = None

    def peer(self) -> Peer:
        shown = self.house.zone.certificates.credentials
        return Peer(self.certificate, "192.0.2.7", None if shown is None else shown.certificate)

    def hello(self, **changes: object) -> Hello:
        fresh = self.house.ids.token(16)
        plain = Hello(self.code, "0.1.0", self.epoch, self.mark, fresh, Generations(), proof=self.proof)
        return msgspec.structs.replace(plain, **changes)

    async def say_hello(self, **changes: object) -> HelloAck:
        hello = self.hello(**changes)
        wire = Wire(self.code, self.peer())
        ack = await self.house.zone.children.hello(hello, wire)
        self.wire, self.seq, self.mark = wire, 0, hello.next_mark
        self.epoch, self.proof = ack.grant.epoch, ack.proof
        return ack

    def open(self, **changes: object) -> HelloAck:
        return self.house.run(self.say_hello(**changes))

    async def say(self, report: Report | Beat) -> Ack | BeatAck:
        assert self.wire is not None
        return await self.house.zone.children.reported(self.wire, report)

    def report(self, **changes: object) -> Ack:
        """A report with nothing in it but `changes`."""
        ack = self.house.run(self.say(self.words(**changes)))
        assert isinstance(ack, Ack)
        return ack

    def words(self, **changes: object) -> Report:
        self.seq += 1
        return msgspec.structs.replace(Report(self.seq, "available", "", False, True), **changes)

    def beat(self) -> Ack | BeatAck:
        self.seq += 1
        return self.house.run(self.say(Beat(self.seq)))

    def renew(self) -> Renewed:
        assert self.wire is not None
        return self.house.run(self.house.zone.children.renew(self.wire, self.renewal()))

    def renewal(self) -> Renew:
        assert self.wire is not None
        return sign_renewal(self.seed, self.code, self.wire.peer.certificate or b"")

    # --- what it reports --------------------------------------------------------------------------

    def entry(self, *parents: ZoneCode) -> bytes:
        now = round(self.house.zone.own.wall() * 1000)
        return msgspec.msgpack.encode(Entry(self.code, public_key(self.seed), parents, now, (), "0.1.0"))

    def row(self, parent: ZoneCode, *others: ZoneCode, **changes: object) -> Row:
        """Its row as a child of `parent`; its entry names `others` as well."""
        entry = self.entry(parent, *others)
        now = round(self.house.zone.own.wall() * 1000)
        plain = Row(
            self.code, parent, self.name, entry, sign_entry(self.seed, entry), "ready", "alive", "enabled", "", now
        )
        return msgspec.structs.replace(plain, **changes)

    def itself(self) -> Row:
        """The row of itself in its own lineage."""
        return msgspec.structs.replace(self.row(self.house.zone.own.code), parent=ZoneCode(0))


def delta(rows: Iterable[Row], since: int = 0, until: int = 1, more: bool = False) -> Delta:
    return Delta(since, until, tuple(rows), more)


async def _at_once(instant: str) -> None:
    return
