"""What a parent asks and a child answers."""

from __future__ import annotations

import asyncio

import pytest

from banyan.core.errors import Conflict, Unreachable, error_of
from banyan.core.messages import (
    MAX_FRAME,
    Answer,
    Request,
)
from banyan.zone.servers.below import may_have_acted
from tests.contract.link.sides import CALLER
from tests.contract.link.transports import Transport
from tests.contract.link.world import EAST, World, refused


def test_requests_are_answered_by_number(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()

            async def slow_first(request: Request) -> Answer:
                await world.pause(0.3 if request.body == b"0" else 0.0)
                return Answer(request.id, request.body * 2)

            child.answering = slow_first
            asked = [world.parent.session.request("page", str(n).encode(), CALLER, 5) for n in range(5)]
            answers = await asyncio.gather(*asked)
            assert [a.body for a in answers] == [b"00", b"11", b"22", b"33", b"44"]

    transport.run(test)


def test_answers_are_worked_on_a_bounded_number_at_a_time(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()

            async def slow(request: Request) -> Answer:
                await world.pause(0.05)
                return Answer(request.id)

            child.answering = slow
            await asyncio.gather(*(world.parent.session.request("page", b"", CALLER, 5) for _ in range(200)))
            assert child.most_running == 64

    transport.run(test)


def test_more_requests_than_a_session_takes_are_refused_and_none_is_lost(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            await world.joined()
            outcomes = await asyncio.gather(
                *(world.parent.session.request("page", b"", CALLER, 5) for _ in range(300)), return_exceptions=True
            )
            refusals = [o for o in outcomes if isinstance(o, Unreachable)]
            assert {r.code for r in refusals} == {"busy"}
            assert len(refusals) == 300 - 256
            assert sum(isinstance(o, Answer) for o in outcomes) == 256

    transport.run(test)


def test_an_error_below_comes_back_as_what_it_is(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()

            async def no(request: Request) -> Answer:
                raise Conflict("bad-transition", "a banned zone cannot take enable", detail="for operators only")

            child.answering = no
            answer = await world.parent.session.request("command", b"", CALLER, 5)
            assert (answer.error, answer.status) == ("bad-transition", 409)
            assert "banned zone" in answer.text
            assert "operators only" not in answer.text

    transport.run(test)


def test_no_answer_in_time_is_an_unknown_outcome_and_a_late_one_is_dropped(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()
            go = asyncio.Event()

            async def stubborn(request: Request) -> Answer:
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    await go.wait()  # does not stop when its time is over
                return Answer(request.id)

            child.answering = stubborn
            error = await refused(world.parent.session.request("page", b"", CALLER, 0.2))
            assert error.code == "no-answer"
            assert "not known" in error.text
            await world.pause(0.3)
            go.set()
            child.answering = None
            assert (await world.parent.session.request("page", b"x", CALLER, 5)).body == b"x"
            assert world.link.connected == 1

    transport.run(test)


def test_a_child_gives_up_a_request_whose_time_is_over(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()

            async def forever(request: Request) -> Answer:
                await asyncio.Event().wait()
                raise AssertionError

            child.answering = forever
            await refused(world.parent.session.request("page", b"", CALLER, 0.2))
            await world.pause(0.3)
            assert child.running == 0

    transport.run(test)


def test_the_end_of_a_session_is_the_end_of_its_requests(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()

            async def forever(request: Request) -> Answer:
                await asyncio.Event().wait()
                raise AssertionError

            child.answering = forever
            session = world.parent.session
            asking = asyncio.get_running_loop().create_task(session.request("page", b"", CALLER, 60))
            await child.until("asked")
            await world.link.cut(EAST, "banned", "by a person's word", None)
            error = await refused(asking)
            assert error.code == "session-ended"
            assert child.running == 0 or await child.until("ended") is None
            assert (await refused(session.request("page", b"", CALLER, 1))).code == "not-connected"

    transport.run(test)


def test_large_answers_pass_and_too_large_ones_are_errors(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()
            size = MAX_FRAME - 64

            async def big(request: Request) -> Answer:
                return Answer(request.id, bytes(int(request.body)))

            child.answering = big
            answer = await world.parent.session.request("page", str(size).encode(), CALLER, 20)
            assert len(answer.body) == size
            answer = await world.parent.session.request("page", str(MAX_FRAME).encode(), CALLER, 20)
            assert answer.error == "too-large"
            error = await refused(world.parent.session.request("page", bytes(MAX_FRAME), CALLER, 20))
            assert error.code == "too-large"
            assert world.link.connected == 1

    transport.run(test)


def test_heartbeats_pass_while_bulk_waits_for_its_pace(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.report_ms = 100
            child, link = world.child(rate=100_000.0, burst=100_000.0)
            world.run(link)
            await child.until("acknowledged")

            async def big(request: Request) -> Answer:
                return Answer(request.id, bytes(60_000))

            child.answering = big
            began = transport.clock.now()
            asked = asyncio.gather(*(world.parent.session.request("page", b"", CALLER, 20) for _ in range(3)))
            seen = len(world.parent.reports)
            await asked
            took = transport.clock.now() - began
            assert took > 0.7  # 180,000 bytes, less what was in the bucket, at 100,000 a second
            beats = len(world.parent.reports) - seen
            assert beats >= took / max(0.1, transport.timing.gap) * 0.5

    transport.run(test)


def test_what_hangs_does_not_hold_up_what_does_not(transport: Transport) -> None:
    """Lists that wait for a silent member, and an order beside them: dozens of the ones leave the other free."""

    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()

            async def answering(request: Request) -> Answer:
                if request.verb == "page":
                    await world.pause(15.0)
                return Answer(request.id, b"done")

            child.answering = answering
            session = world.parent.session
            hung = [asyncio.ensure_future(session.request("page", b"", CALLER, 20)) for _ in range(50)]
            await world.pause(0.1)
            assert (await session.request("order", b"", CALLER, 5)).body == b"done"
            for task in hung:
                task.cancel()
            await asyncio.gather(*hung, return_exceptions=True)

    transport.run(test)


@pytest.mark.parametrize("size", [34_900, 200 * 1024])
def test_no_answer_is_lost_to_the_queue_and_none_ends_the_session(transport: Transport, size: int) -> None:
    """Dozens of users read pages of one child at the same time: more than may wait on its way to the wire at once."""

    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child(rate=8e6)
            world.run(link)
            await child.until("acknowledged")

            async def answering(request: Request) -> Answer:
                await world.pause(0.05)
                return Answer(request.id, bytes(size))

            child.answering = answering
            asked = (world.parent.session.request("page", b"", CALLER, 20) for _ in range(62))
            answers = await asyncio.gather(*asked)
            assert {answer.error for answer in answers} == {""}
            assert world.link.connected == 1

    transport.run(test)


def test_an_answer_that_can_not_be_sent_in_time_is_not_told_as_a_deed_undone(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child(rate=50_000.0, burst=1_000_000.0)
            world.run(link)
            await child.until("acknowledged")

            async def answering(request: Request) -> Answer:
                if request.verb == "place":
                    await world.pause(0.3)
                return Answer(request.id, bytes(200_000))

            child.answering = answering
            session = world.parent.session
            pages = [asyncio.ensure_future(session.request("page", b"", CALLER, 60)) for _ in range(12)]
            order = await asyncio.gather(session.request("place", b"", CALLER, 2.0), return_exceptions=True)
            [found] = order
            error = found if isinstance(found, Unreachable) else error_of(found.status, found.error, found.text)
            assert error.code in ("no-answer", "answer-lost")
            assert may_have_acted(error)
            for page in pages:
                page.cancel()
            await asyncio.gather(*pages, return_exceptions=True)
            assert world.link.connected == 1

    transport.run(test)
