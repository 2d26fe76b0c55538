"""What the unknown and the hostile can cause."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
import pytest

from banyan.core.errors import Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.messages import (
    MAX_FRAME,
    Admitted,
    Answer,
    Beat,
    BeatAck,
    Bye,
    Enrol,
    Evidence,
    HelloAck,
    Request,
    Welcome,
)
from banyan.core.ports import WireClosed
from banyan.link.line import MOST
from banyan.link.parent import FRAME_COST, REPORT_COST
from tests.contract.link.sides import CALLER
from tests.contract.link.transports import Transport
from tests.contract.link.world import EAST, HELLO, Talker, World, greet, settings


def test_words_out_of_order_end_the_wire(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            for first in (HELLO, Beat(1), Answer(1), Welcome(1, EAST, "", 0, bytes(16), (), (), b"")):
                talker = await world.stranger()
                await talker.say(first)
                [bye] = await talker.until_closed()
                assert isinstance(bye, Bye)
                assert bye.code == "out-of-order"
            talker = await world.stranger()
            await talker.say(greet())
            assert isinstance(await talker.hear(), Welcome)
            await talker.say(greet())
            [bye] = await talker.until_closed()
            assert isinstance(bye, Bye)
            assert bye.code == "out-of-order"
            assert "hello" not in world.parent.said

    transport.run(test)


def test_both_words_of_the_opening_in_one_frame_are_out_of_order(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            talker = await world.stranger()
            await talker.say(greet(), HELLO)
            [bye] = await talker.until_closed()
            assert isinstance(bye, Bye)
            assert bye.code == "bad-frame"
            assert world.parent.said == []

    transport.run(test)


def test_a_session_needs_a_certificate(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            talker = await world.stranger("enrol")
            await talker.say(greet("session"))
            [bye] = await talker.until_closed()
            assert isinstance(bye, Bye)
            assert bye.code == "wrong-purpose"
            assert world.parent.said == []

    transport.run(test)


@pytest.mark.parametrize(("floor", "ceiling"), [(2, 9), (0, 0)])
def test_versions_without_overlap(transport: Transport, floor: int, ceiling: int) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child()
            child.floor, child.ceiling = floor, ceiling
            world.run(link)
            await child.until("ended")
            assert child.reasons[0].startswith("version: ")
            assert world.parent.said == []

    transport.run(test)


def test_a_child_of_the_next_version_talks_to_a_parent_of_this_one(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            talker = await world.stranger()
            encoder = msgspec.msgpack.Encoder()
            await talker.wire.send(encoder.encode([[1, 1, 2, bytes(16), "session", "a field of version 2"]]))
            welcome = await talker.hear()
            assert isinstance(welcome, Welcome)
            assert welcome.version == 1
            hello = msgspec.msgpack.decode(encoder.encode(HELLO))
            await talker.wire.send(encoder.encode([[*hello, None, (), "a field of version 2"]]))
            assert isinstance(await talker.hear(), HelloAck)
            beat = msgspec.msgpack.decode(encoder.encode(Beat(1)))
            await talker.wire.send(encoder.encode([[77, "a message of version 2"], [*beat, "a field of version 2"]]))
            ack = await talker.hear()
            assert not isinstance(ack, Bye)
            assert world.link.counters.unknown == 1
            await talker.wire.close()

    transport.run(test)


GARBAGE = [b"", b"\x00", b"hello", b"\x91\x92\x09", b"\xdd\xff\xff\xff\xff", b"\x91" * 1000, bytes(range(256)) * 8]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda g: g[:6].hex() or "empty")
def test_garbage_ends_the_wire_at_every_stage(transport: Transport, garbage: bytes) -> None:
    async def test() -> None:
        async with World(transport) as world:
            talker = await world.stranger()
            await talker.wire.send(garbage)
            [bye] = await talker.until_closed()
            assert isinstance(bye, Bye)
            assert bye.code == "bad-frame"

            talker = await world.stranger()
            await talker.say(greet())
            await talker.hear()
            await talker.wire.send(garbage)
            [bye] = await talker.until_closed()
            assert isinstance(bye, Bye)
            assert bye.code == "bad-frame"

            talker = await world.stranger()
            await talker.say(greet())
            await talker.hear()
            await talker.say(HELLO)
            assert isinstance(await talker.hear(), HelloAck)
            await talker.wire.send(garbage)
            [bye] = await talker.until_closed()
            assert isinstance(bye, Bye)
            assert bye.code == "bad-frame"
            while not world.parent.endings:
                await world.parent.until("ended")
            assert world.link.connected == 0

    transport.run(test)


def test_a_stranger_may_not_send_what_a_child_may(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            talker = await world.stranger("enrol")
            await talker.say(greet("enrol"))
            await talker.hear()
            big = Enrol(Evidence("join-code", bytes(20_000)), EAST, "east", bytes(32), bytes(64))
            await talker.say(big)
            heard = await talker.until_closed()
            assert not any(isinstance(m, Admitted) for m in heard)
            assert world.parent.said == ["welcome"]

    transport.run(test)


def test_no_frame_is_larger_than_the_limit(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            talker = await world.stranger()
            await talker.say(greet())
            await talker.hear()
            await talker.say(HELLO)
            await talker.hear()
            await talker.wire.send(bytes(MAX_FRAME + 1))
            await talker.until_closed()
            while not world.parent.endings:
                await world.parent.until("ended")
            assert world.parent.reports == []

    transport.run(test)


@pytest.mark.parametrize("said", [0, 1])
def test_a_stranger_who_says_nothing_is_let_go(transport: Transport, said: int) -> None:
    async def test() -> None:
        async with World(transport, settings(transport)) as world:
            talker = await world.stranger()
            if said:
                await talker.say(greet())
                await talker.hear()
            began = transport.clock.now()
            [bye] = await talker.until_closed()
            assert isinstance(bye, Bye)
            assert bye.code == "no-answer"
            timing = transport.timing
            assert transport.clock.now() - began < timing.opening + timing.second_look + 1
            await world.pause(0.1)
            assert world.link.strangers == 0

    transport.run(test)


def test_a_child_that_falls_silent_is_let_go(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport, settings(transport)) as world:
            world.parent.lease_ms, world.parent.report_ms = 300, 100
            talker = await world.stranger()
            await talker.say(greet())
            await talker.hear()
            await talker.say(HELLO)
            await talker.hear()
            # Half-open: the wire stands, and nothing comes any more.
            await world.parent.until("ended", within=60)
            assert world.parent.endings[0][1].startswith("silent")
            assert world.link.connected == 0

    transport.run(test)


def test_a_parent_that_falls_silent_is_left(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.hang.add("reported")
            child, link = world.child()
            world.run(link)
            await child.until("ended", within=60)
            assert child.reasons[0].startswith("no-answer")
            del link

    transport.run(test)


def test_wires_in_their_opening_are_bounded_per_address(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport, settings(transport, strangers=3, strangers_per_address=3)) as world:
            held = [await world.stranger() for _ in range(3)]
            await world.pause(0.05)
            assert world.link.strangers == 3
            try:
                late = await world.stranger()
                heard = await late.until_closed()
            except Unreachable:
                heard = []  # a listener may turn away before it comes to words
            assert all(isinstance(m, Bye) and m.code == "busy" and m.retry_after > 0 for m in heard)
            assert world.link.strangers == 3
            for talker in held:
                await talker.wire.close()
            while world.link.strangers:
                await world.pause(0.01)
            await world.joined()

    transport.run(test)


def test_a_crowd_is_told_to_come_back_at_the_pace_that_can_be_served(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport, settings(transport, openings=2.0, openings_burst=2.0)) as world:
            waits = []
            for _ in range(8):
                talker = await world.stranger()
                with suppress(WireClosed):
                    await talker.say(greet())
                heard = await talker.hear()
                if isinstance(heard, Bye):
                    assert heard.code == "busy"
                    waits.append(heard.retry_after / 1000)
                await talker.wire.close()
            assert 4 <= len(waits) <= 6
            assert waits[-1] > waits[0]
            assert world.link.counters.refused == len(waits)

    transport.run(test)


def test_nothing_is_done_for_a_hello_whose_child_has_hung_up(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.hang.add("hello")
            held = [await world.stranger(code=ZoneCode(10 + n)) for n in range(MOST + 2)]
            for talker in held:
                await talker.say(greet())
                assert isinstance(await talker.hear(), Welcome)
            for n, talker in enumerate(held):
                await talker.say(msgspec.structs.replace(HELLO, code=ZoneCode(10 + n)))
                if n < MOST:
                    await world.parent.until("hello")
            while world.link.line.waiting < 2:
                await world.pause(0.01)
            await held[MOST].wire.close()
            await world.pause(0.05)
            world.parent.hang.clear()
            await held[0].wire.close()
            heard = await held[MOST + 1].until_closed()
            # In time it is told; the one before it, which is dead, was not worked on.
            assert isinstance(heard[0], HelloAck | Bye)
            assert world.parent.said.count("hello") in (MOST, MOST + 1)
            assert all(hello.code != ZoneCode(10 + MOST) for hello in world.parent.hellos)

    transport.run(test)


def test_a_parent_with_many_children_keeps_them_apart(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            sides = [await world.joined(ZoneCode(n)) for n in range(10, 30)]
            sessions = {s.code: s for s in world.parent.sessions}
            for n, side in enumerate(sides):

                async def named(request: Request, n: int = n) -> Answer:
                    return Answer(request.id, str(n).encode())

                side.answering = named
            answers = await asyncio.gather(
                *(sessions[ZoneCode(10 + n)].request("page", b"", CALLER, 5) for n in range(20))
            )
            assert [a.body for a in answers] == [str(n).encode() for n in range(20)]

    transport.run(test)


def test_a_child_that_speaks_without_end_is_heard_at_a_bounded_pace(transport: Transport) -> None:
    """However fast it is: so its parent has time for the others. Nothing of it is refused or lost."""
    beat = FRAME_COST + REPORT_COST
    hear, burst = 20 * beat, 10 * beat

    async def test() -> None:
        async with World(transport, settings(transport, hear=hear, hear_burst=burst)) as world:
            honest = await world.joined(ZoneCode(8))
            talker = await opened(world)
            began = transport.clock.now()
            heard = 0
            # A bound, in case that nothing holds it back: then virtual time stands still.
            while transport.clock.now() < began + 3.0 and heard < 500:
                heard += 1
                await talker.say(Beat(heard))
                assert isinstance(await talker.hear(), BeatAck)
            took = transport.clock.now() - began
            assert 20 <= heard <= (burst + hear * took) / beat + 2
            assert len(world.parent.reports) >= heard
            assert honest.reasons == []
            # Requests of the parent, and its last word, do not wait for the reader's turn.
            await world.link.cut(EAST, "banned", "that is enough", -1.0)
            [*_, last] = await talker.until_closed()
            assert isinstance(last, Bye)
            assert last.code == "banned"
            assert transport.clock.now() - began - took < 1.0

    transport.run(test)


def test_what_was_asked_for_is_read_at_once(transport: Transport) -> None:
    """An answer that somebody waits for is no stranger's word: it costs its child nothing."""
    hear, burst = 10 * FRAME_COST, 20 * FRAME_COST

    async def test() -> None:
        async with World(transport, settings(transport, hear=hear, hear_burst=burst)) as world:
            await world.joined()
            began = transport.clock.now()
            for _ in range(100):
                await world.parent.session.request("page", b"", CALLER, 20)
            assert transport.clock.now() - began < 5.0, "100 frames at ten a second"

    transport.run(test)


@pytest.mark.parametrize("kind", ["small frames", "words unknown here"])
def test_frames_without_a_meaning_cost_their_sender_time_too(transport: Transport, kind: str) -> None:
    """A frame of words that only a newer version knows is skipped; a thousand of them are not read at once."""
    count = 1 if kind == "small frames" else 250
    frame = msgspec.msgpack.encode([[99, "new"]] * count)
    hear, burst = 100 * FRAME_COST, 10 * FRAME_COST

    async def test() -> None:
        async with World(transport, settings(transport, hear=hear, hear_burst=burst)) as world:
            talker = await opened(world)
            before = world.link.counters.frames_in

            async def flood() -> None:
                for _ in range(3_000):
                    await talker.wire.send(frame)
                    await world.pause(0.0)

            task = asyncio.get_running_loop().create_task(flood())
            began = transport.clock.now()
            await world.pause(1.5)
            took = transport.clock.now() - began
            read = world.link.counters.frames_in - before
            task.cancel()
            with suppress(asyncio.CancelledError, WireClosed):
                await task
            assert 10 <= read <= (burst + hear * took) / FRAME_COST + 2

    transport.run(test)


async def opened(world: World) -> Talker:
    """A session in the test's own hands."""
    talker = await world.stranger()
    await talker.say(greet())
    assert isinstance(await talker.hear(), Welcome)
    await talker.say(HELLO)
    assert isinstance(await talker.hear(), HelloAck)
    return talker
