"""A thousand children that dial in one moment, at a parent which needs a while for each: all come in, each once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from banyan.core.ids import ZoneCode
from banyan.core.messages import Greet, Hello, HelloAck, Welcome
from banyan.core.ports import Credentials, ParentSession, Peer, Wire
from banyan.core.secret import Secret
from banyan.core.time import Mono
from banyan.link.child import ChildLink, Route
from banyan.link.memory_wire import MemoryNetwork, wire_pair
from banyan.link.parent import ParentLink, ParentSettings
from banyan.link.wire import Identity
from banyan.simulate.clock import VirtualClock
from banyan.simulate.ids import SeededIds
from banyan.simulate.loop import VirtualLoop
from tests.contract.link.sides import FakeChild, FakeParent

WELCOME = 0.002


class Busy(FakeParent):
    """A parent with one processor, of which each opening takes `cost` seconds (from, to)."""

    def __init__(self, clock: VirtualClock, ids: SeededIds, cost: tuple[float, float]) -> None:
        super().__init__(ids, report_ms=60_000, lease_ms=150_000)
        self.opened: Counter[ZoneCode] = Counter()
        self._clock = clock
        self._cost = cost
        self._processor = asyncio.Lock()

    async def _work(self, seconds: float) -> None:
        async with self._processor:
            await self._clock.sleep_until(Mono(self._clock.now() + seconds))

    async def welcome(self, greet: Greet, peer: Peer) -> Welcome:
        await self._work(WELCOME)
        return await super().welcome(greet, peer)

    async def hello(self, hello: Hello, session: ParentSession) -> HelloAck:
        self.opened[hello.code] += 1
        await self._work(self.ids.uniform(*self._cost))
        return await super().hello(hello, session)


class Plain:
    """core.ports.Dialer without a certificate's cost: what is looked at here is who is let in when."""

    def __init__(self, network: MemoryNetwork, source: str) -> None:
        self.dials = 0
        self._network = network
        self._source = source

    async def dial(
        self,
        address: str,
        *,
        purpose: str,
        credentials: Credentials | None,
        bundle: Sequence[bytes],
        timeout: float,
    ) -> Wire:
        self.dials += 1
        ours, theirs = wire_pair(Peer(b"parent", address, b"child"), Peer(b"child", self._source, b"parent"))
        self._network.find(address).accept(theirs, purpose)
        return ours


async def route() -> Route:
    return Route(("top:1",), Credentials(b"child", Secret(bytes(32))), (b"ca",))


def nobody() -> Identity:
    raise AssertionError("no certificate is asked for here")


@pytest.mark.parametrize(
    ("children", "cost"), [(1000, (0.03, 0.1)), (200, (0.3, 0.6))], ids=["a thousand", "at a slow one"]
)
def test_who_dial_in_one_moment_are_let_in_about_once_each(children: int, cost: tuple[float, float]) -> None:
    loop = VirtualLoop()
    clock, ids, network = VirtualClock(loop, "crowd"), SeededIds(1, "crowd"), MemoryNetwork()
    parent = Busy(clock, ids, cost)

    dialers: list[Plain] = []

    def child(number: int) -> ChildLink:
        dialers.append(Plain(network, f"10.0.{number % 20}.{number // 20}"))
        return ChildLink(FakeChild(ids, ZoneCode(100 + number)), dialers[-1], route, clock, ids)

    async def play() -> float:
        link = ParentLink(parent, clock, ids)
        network.listen("top:1", nobody, link.serve)
        links = [child(number) for number in range(children)]
        running = [loop.create_task(one.run()) for one in links]
        began = clock.now()
        while link.connected < children:
            await clock.sleep_until(Mono(clock.now() + 1.0))
            assert clock.now() < began + 900, link.connected
        took = clock.now() - began
        # Who is in stays in: nobody is pushed out by a second session of its own.
        await clock.sleep_until(Mono(clock.now() + 30.0))
        assert link.connected == children
        assert link.counters.sessions == children
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return took

    took = loop.run_task(play(), within=3600.0)
    assert loop.failures == []
    dials = sum(one.dials for one in dialers)
    print(f"took {took:.0f} s, {parent.opened.total()} opened, {len(parent.peers)} greeted, {dials} dials")
    assert parent.opened.total() <= 1.2 * children
    # But for the first burst, before anything was measured, who is let in at the door is answered as well.
    assert len(parent.peers) <= 1.1 * children + ParentSettings().openings_burst
    assert dials <= 4 * children
    assert took <= 2.5 * children * sum(cost) / 2 + 60.0
