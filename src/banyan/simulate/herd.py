"""Thousands of children in one world, each only as much of a zone as its parent sees: key, certificate, digest.

For herds: what a parent must bear when all come back at once. The link is the real one (ChildLink over memory wires),
the trust as well; what is left out is a child's store, racks and surfaces. `plant` makes them children of a parent
that does not run, as if they had joined it some time ago.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from banyan.core.errors import BanyanError
from banyan.core.ids import ZoneCode
from banyan.core.lineage import Delta, Entry, Ledger, Row
from banyan.core.messages import (
    Ack,
    Admitted,
    Answer,
    Beat,
    BeatAck,
    DigestPart,
    Enrol,
    Generations,
    Greet,
    Hello,
    HelloAck,
    Renew,
    Renewed,
    Report,
    Request,
    Welcome,
)
from banyan.core.ports import Credentials, Dialer, Peer
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.time import Mono, TimeBasis, Wall
from banyan.core.zone import Child, ChildState, Condition
from banyan.link.child import ChildLink, Route
from banyan.simulate.clock import VirtualClock
from banyan.simulate.faults import Weather, WeatheredDialer
from banyan.simulate.ids import SeededIds
from banyan.simulate.loop import Owner, owned
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.store.inline import InlineStore, no_pause
from banyan.trust.authority import Issuer, issue_child
from banyan.trust.chain import verify_parent
from banyan.trust.enrol import sign_renewal
from banyan.trust.issued import read_issued
from banyan.trust.keys import fingerprint, public_key
from banyan.trust.lineage import sign_entry
from banyan.trust.rotation import should_renew
from banyan.zone.streams import own_row

HOSTS = 10
PLANTED = 500


@dataclass(frozen=True, slots=True)
class Planted:
    """One child as its parent has it, and what the child itself holds."""

    code: ZoneCode
    name: str
    seed: Secret
    certificate: bytes
    mark: bytes


class HerdChild:
    """core.ports.ChildSide with nothing behind it."""

    def __init__(self, planted: Planted, parent: ZoneCode, pin: bytes, clock: VirtualClock, ids: SeededIds) -> None:
        self.planted = planted
        self.certificate = planted.certificate
        self._issued = read_issued(planted.certificate)
        self.alive = False
        self.reasons: Counter[str] = Counter()
        self._parent = parent
        self._pin = pin
        self._clock = clock
        self.ids = ids
        self._basis = TimeBasis()
        self._shown = planted.certificate
        self._mark, self._next_mark = planted.mark, b""
        self._epoch = 0
        self._reported = False
        self._news = asyncio.Event()

    def credentials(self) -> Credentials:
        return Credentials(self.certificate, self.planted.seed)

    def greet(self) -> Greet:
        return Greet(1, 1, self.ids.token(16), "session")

    async def welcomed(self, greet: Greet, welcome: Welcome, peer: Peer) -> Hello | Enrol:
        proof = verify_parent(
            greet,
            welcome,
            peer.certificate or b"",
            pin=self._pin,
            code=self._parent,
            basis=self._basis,
            machine_wall=self._clock.wall(),
        )
        self._basis = proof.basis
        self._shown = self.certificate
        self._next_mark = self._next_mark or self.ids.token(16)
        return Hello(
            code=self.planted.code,
            version="1.0.0",
            epoch=self._epoch,
            mark=self._mark,
            next_mark=self._next_mark,
            offers=Generations(1, 1, 1),
            renew=await self.renewal(),
        )

    async def admitted(self, admitted: Admitted, peer: Peer) -> None:
        raise AssertionError("a herd's children are children already")

    async def refused(self, error: BanyanError) -> None:
        raise AssertionError("a herd's children do not enrol")

    async def established(self, ack: HelloAck, sent_at: Mono) -> None:
        self._mark, self._next_mark = self._next_mark, b""
        self._epoch = ack.grant.epoch
        if ack.certificate:
            self._take(ack.certificate)
        self.alive = True
        self._reported = False

    async def report(self, seq: int, known: Generations, budget: int) -> Report | Beat:
        if self._reported:
            return Beat(seq)
        self._reported = True
        now = Wall(self._basis.correct(self._clock.wall()))
        digest = None if known.digest else DigestPart(0, 1, {"lh": HOSTS, "lhu": HOSTS, "at": round(now * 1000)})
        lineage = None if known.lineage else Delta(0, 1, (self._row(now),))
        ledger = None if known.ledger else Ledger(0, 1, ())
        return Report(seq, Condition.AVAILABLE, "", False, True, digest, lineage, ledger)

    def _row(self, now: Wall) -> Row:
        seed = self.planted.seed
        entry = Entry(self.planted.code, public_key(seed), (self._parent,), round(now * 1000), (), "1.0.0")
        return own_row(entry, lambda body: sign_entry(seed, body), self.planted.name, {}, now)

    async def news(self) -> None:
        await self._news.wait()

    async def acknowledged(self, ack: Ack | BeatAck, sent_at: Mono) -> None:
        if isinstance(ack, Ack) and ack.resend:
            self._reported = False

    async def renewal(self) -> Renew | None:
        held = self._issued
        now = self._basis.correct(self._clock.wall())
        if not should_renew(held.not_before, held.not_after, now, self.certificate[-1] / 256):
            return None
        return sign_renewal(self.planted.seed, self.planted.code, self._shown)

    async def renewed(self, renewed: Renewed) -> None:
        self._take(renewed.certificate)

    def _take(self, certificate: bytes) -> None:
        self.certificate, self._issued = certificate, read_issued(certificate)

    async def asked(self, request: Request) -> Answer:
        return Answer(request.id, error="not-here", text="a herd's child answers nothing", status=501)

    async def ended(self, reason: str) -> None:
        self.alive = False
        self.reasons[reason.partition(":")[0]] += 1


class Herd:
    """The children of one parent, each dialling it for ever once `start` was called. `weather`: all of their links."""

    def __init__(self, world: World, parent: Site, planted: Sequence[Planted]) -> None:
        self.world = world
        self.parent = parent
        self.weather = Weather()
        row = parent.peek(lambda unit: unit.self_.get())
        authority = next(one for one in parent.peek(lambda unit: unit.authorities.all()) if one.current)
        assert row is not None
        self.clock = VirtualClock(world.loop, "herd")
        self.children = [
            HerdChild(one, row.code, authority.fingerprint, self.clock, SeededIds(world.seed, f"herd {one.name}"))
            for one in planted
        ]
        self._authority = authority.certificate
        self._owner = Owner("herd")

    def start(self) -> None:
        for number, child in enumerate(self.children):
            # Behind a few hundred addresses, as sites behind their gateways are.
            dialer: Dialer = WeatheredDialer(
                self.world.network.dialer(f"10.0.{number % 250}.{number // 250}:1"),
                lambda _: self.weather,
                self.clock,
                SeededIds(self.world.seed, f"herd link {number}"),
            )
            link = ChildLink(child, dialer, _route(child, self.parent.address, self._authority), self.clock, child.ids)
            self.world.loop.create_task(link.run(), name=child.planted.name, context=owned(self._owner))

    @property
    def alive(self) -> int:
        return sum(child.alive for child in self.children)

    def stop(self) -> None:
        self._owner.cancel()
        self.world.advance(5.0)


def _route(child: HerdChild, address: str, authority: bytes) -> Callable[[], Awaitable[Route]]:
    async def route() -> Route:
        return Route((address,), child.credentials(), (authority,))

    return route


def plant(world: World, parent: Site, count: int, *, joined_ago: float) -> list[Planted]:
    """Makes `count` ready children of a parent that has run once and does not now.

    Their certificates of a day were issued `joined_ago` seconds before now.
    """
    store = InlineStore(SeededIds(world.seed, "planting"), no_pause, image=parent.backup(), rehearse=False)
    ids = SeededIds(world.seed, "planted")

    def read(unit: Unit) -> tuple[ZoneCode, Secret]:
        row = unit.self_.get()
        authority = next(one for one in unit.authorities.all() if one.current)
        seed = unit.keys.get(authority.key)
        assert row is not None
        assert seed is not None
        return row.code, seed

    code, seed = world.loop.run_task(store.read(read), 1.0)
    issuer = Issuer(code, seed)
    then = Wall(parent.clock.wall() - joined_ago)
    planted: list[Planted] = []
    rows: list[Child] = []
    for number in range(count):
        own, zone, mark = Secret(ids.token(32)), ZoneCode(int.from_bytes(ids.token(5), "big")), ids.token(16)
        public, name = public_key(own), f"child-{number + 1:05}"
        certificate = issue_child(issuer, zone, public, serial=ids.token(16), now=then)
        planted.append(Planted(zone, name, own, certificate, mark))
        rows.append(
            Child(
                zone,
                name,
                fingerprint(public),
                state=ChildState.READY,
                mark=mark,
                joined_at=then,
                heard_at=then,
                certificate_until=read_issued(certificate).not_after,
            )
        )
    for first in range(0, count, PLANTED):
        some = rows[first : first + PLANTED]

        def write(unit: Unit, some: Sequence[Child] = some) -> None:
            for row in some:
                unit.children.put(row)

        world.loop.run_task(store.write("planted", write), 1.0)
    parent.replace_disk(store.image())
    return planted
