"""How a child finds its parent, and does not lose itself."""

from __future__ import annotations

import asyncio

from banyan.core.errors import Refused
from banyan.core.ids import ZoneCode
from banyan.core.messages import (
    Answer,
    Beat,
    Generations,
    Request,
)
from banyan.link.child import Route
from tests.contract.link.sides import CALLER, FakeParent
from tests.contract.link.transports import Transport
from tests.contract.link.world import EAST, World, refused


def test_a_child_tries_each_address_and_stays_with_the_one_that_answers(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            dead = "127.0.0.1:1"
            child, link = world.child(addresses=(dead, world.address, dead))
            world.run(link)
            await child.until("established")
            assert len(child.reasons) == 1
            assert child.reasons[0].startswith("refused: ")
            assert dead in child.reasons[0]
            await world.link.cut(EAST, "moving", "", None)
            await child.until("established")
            assert len(child.reasons) == 2  # the cut, and no dead address in between

    transport.run(test)


def test_a_child_never_gives_up(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child(addresses=("127.0.0.1:1",))
            world.run(link)
            for _ in range(20):
                await child.until("ended")
            assert link.counters.dials >= 20
            assert link.counters.failed >= 20

    transport.run(test)


def test_a_refusal_is_asked_again_slowly_since_it_may_be_lifted(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.refuse["hello"] = Refused("banned", "this key is banned")
            child, link = world.child()
            world.run(link)
            await child.until("ended")
            del world.parent.refuse["hello"]
            began = transport.clock.now()
            await child.until("established")
            assert transport.clock.now() - began >= 1.0  # the longest wait of these tests' backoff

    transport.run(test)


def test_a_slow_side_of_our_own_ends_the_session(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child(own=0.2)

            async def stuck(seq: int, known: Generations, budget: int) -> Beat:
                await asyncio.Event().wait()
                raise AssertionError

            child.report = stuck
            world.run(link)
            await child.until("ended")
            assert child.reasons[0].startswith("own-side")

    transport.run(test)


def test_a_report_is_given_a_budget_within_the_pace(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child(rate=1e6, burst=20_000.0, budget=48_000)
            world.run(link)
            await child.until("acknowledged")
            assert 1024 <= child.budgets[0] <= 20_000

    transport.run(test)


def test_nothing_is_left_running_when_a_child_stops(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()
            child.answering = _forever
            asking = asyncio.get_running_loop().create_task(world.parent.session.request("page", b"", CALLER, 60))
            await child.until("asked")
            await world.stop_children()
            assert (await refused(asking)).code == "session-ended"
            await world.parent.until("ended")
            left = [t.get_name() for t in asyncio.all_tasks() if t.get_name().startswith(("link.child", "link.parent"))]
            assert left == []

    transport.run(test)


async def _forever(request: Request) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError


def test_ended_is_called_once_for_each_session_that_stood(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            for n in range(5):
                await world.joined(ZoneCode(20 + n % 2))
            await world.stop_children()
            while len(world.parent.endings) < 5:
                await world.parent.until("ended")
            ended = [session for session, _ in world.parent.endings]
            assert len(ended) == len({id(s) for s in ended}) == len(world.parent.sessions) == 5
            assert isinstance(world.parent, FakeParent)

    transport.run(test)


def test_an_enrolment_asks_each_address_once(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child(addresses=("127.0.0.1:1", world.address))
            child.purpose = "enrol"
            assert (await link.enrol()).name == "east"
            assert link.counters.dials == 2

            other, link = world.child(addresses=("127.0.0.1:1", "127.0.0.1:2"))
            other.purpose = "enrol"
            error = await refused(link.enrol())
            assert error.code == "refused"
            assert link.counters.dials == 2

    transport.run(test)


def test_what_a_child_finds_wrong_with_one_address_may_be_right_at_the_next(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world, World(transport) as wrong:
            child, link = world.child(addresses=(wrong.address, world.address))
            child.purpose = "enrol"
            child.refuse = Refused("wrong-pin", "expected another CA")
            enrolling = asyncio.get_running_loop().create_task(link.enrol())
            await child.until("welcomed")
            child.refuse = None
            assert (await enrolling).name == "east"
            assert wrong.parent.said == ["welcome"]

    transport.run(test)


def test_a_session_without_a_certificate_is_not_dialled(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            side, link = world.child()

            async def route() -> Route:
                return Route((world.address,), None, (world.top.certificate,))

            link._route = route
            world.run(link)
            await side.until("ended")
            assert side.reasons[0].startswith("no-certificate")
            assert link.counters.dials == 0
            assert world.parent.said == []

    transport.run(test)
