"""What a session does, on memory and on real sockets alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

import msgspec
import pytest

from banyan.core.errors import Broken, Conflict, Refused, Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.lineage import Delta
from banyan.core.messages import (
    MAX_FRAME,
    Ack,
    Admitted,
    Answer,
    Beat,
    Bye,
    Enrol,
    Evidence,
    Generations,
    Grant,
    Greet,
    Hello,
    HelloAck,
    Renew,
    Report,
    Request,
    Welcome,
)
from banyan.core.ports import WireClosed
from banyan.link.parent import ParentSettings
from tests.contract.link.sides import CALLER, FakeParent, busy, report
from tests.contract.link.transports import TRANSPORTS, Transport
from tests.contract.link.world import EAST, World, refused

Run = Callable[[Callable[[Transport], Coroutine[None, None, None]]], None]
HELLO = Hello(EAST, "0", "boot", 1, b"", b"mark", Generations())


@pytest.fixture(params=sorted(TRANSPORTS))
def transport(request: pytest.FixtureRequest) -> Transport:
    made: Transport = TRANSPORTS[request.param]()
    return made


def greet(purpose: str = "session", floor: int = 1, ceiling: int = 1) -> Greet:
    return Greet(floor, ceiling, bytes(16), purpose)


def settings(transport: Transport, **changes: object) -> ParentSettings:
    return ParentSettings(timing=transport.timing, **changes)  # type: ignore[arg-type]


def test_a_session_opens_reports_and_is_acknowledged(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()
            assert child.said[:5] == ["greet", "welcomed", "established", "report", "acknowledged"]
            assert world.parent.said[:3] == ["welcome", "hello", "reported"]
            assert world.link.connected == 1
            assert world.link.strangers == 0
            assert world.link.session(EAST) is world.parent.session
            assert world.parent.session.code == EAST
            [peer] = world.parent.peers
            assert peer.certificate == world.top.child(EAST).certificate or peer.certificate
            assert peer.local == world.identity.credentials.certificate
            assert child.peer is not None
            assert child.peer.certificate == world.identity.credentials.certificate
            await world.stop_children()
            await world.parent.until("ended")
            assert world.link.connected == 0
            [(session, reason)] = world.parent.endings
            assert session is world.parent.session
            assert reason.startswith("stopping")

    transport.run(test)


def test_an_enrolment_gives_a_certificate_and_ends_the_wire(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child()
            child.purpose = "enrol"
            admitted = await link.enrol()
            assert admitted.path == "top/east"
            assert child.said == ["greet", "welcomed", "admitted"]
            assert world.parent.said == ["welcome", "enrol"]
            assert child.peer is not None
            assert child.peer.certificate == world.identity.credentials.certificate
            [peer] = world.parent.peers
            assert peer.certificate is None
            await world.pause(0.1)
            assert world.link.strangers == 0
            assert world.link.counters.enrolled == link.counters.enrolled == 1

    transport.run(test)


def test_a_zone_that_has_not_joined_enrols_and_goes_on_with_a_session(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child()
            child.purpose = "enrol"
            world.run(link)
            await child.until("admitted")
            child.purpose = "session"
            await child.until("established")
            assert child.reasons == []

    transport.run(test)


def test_what_the_parent_refuses_is_final_for_an_enrolment(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.refuse["enrol"] = Refused("code-used", "this code has been used; make a new one")
            child, link = world.child()
            child.purpose = "enrol"
            error = await refused(link.enrol(patience=60))
            assert isinstance(error, Refused)
            assert (error.code, error.text) == ("code-used", "this code has been used; make a new one")
            assert link.counters.dials == 1
            assert child.said == ["greet", "welcomed"]

    transport.run(test)


def test_an_enrolment_waits_for_a_parent_that_is_not_ready(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.refuse["enrol"] = busy()
            child, link = world.child()
            child.purpose = "enrol"
            enrolling = asyncio.get_running_loop().create_task(link.enrol(patience=60))
            await world.parent.until("enrol")
            del world.parent.refuse["enrol"]
            assert (await enrolling).name == "east"
            assert link.counters.dials == 2

    transport.run(test)


def test_a_wrong_parent_learns_nothing(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child()
            child.purpose = "enrol"
            child.refuse = Refused("wrong-pin", "expected another CA")
            error = await refused(link.enrol(patience=60))
            assert error.code == "wrong-pin"
            await world.pause(0.2)
            assert world.parent.said == ["welcome"]
            # A greeting of a fixed form, and not a byte more.
            assert link.counters.frames_out == 1

    transport.run(test)


def test_a_parent_of_another_ca_is_not_even_greeted(transport: Transport) -> None:
    async def test() -> None:
        from tests.contract.link.certificates import Authority

        async with World(transport) as world:
            other = Authority("somebody else")
            child, link = world.child(bundle=(other.certificate,))
            world.run(link)
            await child.until("ended")
            assert "not-the-parent" in child.reasons[0]
            assert world.parent.said == []
            assert link.counters.frames_out == 0

    transport.run(test)


def test_a_certificate_of_another_ca_opens_no_session(transport: Transport) -> None:
    async def test() -> None:
        from tests.contract.link.certificates import Authority

        async with World(transport) as world:
            child, link = world.child(credentials=Authority("somebody else").child(EAST))
            world.run(link)
            await child.until("ended")
            assert "handshake-refused" in child.reasons[0]
            assert world.parent.said == []

    transport.run(test)


def test_a_controllers_certificate_opens_no_session_as_a_child(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child(credentials=world.top.controller())
            world.run(link)
            await child.until("ended")
            assert "handshake-refused" in child.reasons[0]
            assert world.parent.said == []

    transport.run(test)


def test_a_child_is_no_parent(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.identity = type(world.identity)(world.top.child(ZoneCode(9)), world.identity.authorities)
            child, link = world.child()
            world.run(link)
            await child.until("ended")
            assert "not-the-parent" in child.reasons[0]

    transport.run(test)


def test_a_renewed_certificate_and_a_rotated_ca_hold_from_the_next_wire_on(transport: Transport) -> None:
    async def test() -> None:
        from tests.contract.link.certificates import Authority

        async with World(transport) as world:
            child = await world.joined()
            newer = Authority("top, second CA")
            world.identity = newer.identity(world.top)
            await world.pause(0.1)
            assert child.reasons == []  # a session that stands is not disturbed
            # A child of the old CA, which knows only the old CA, gets in through the cross certificate.
            again = await world.joined(ZoneCode(8))
            assert again.peer is not None
            assert again.peer.certificate == world.identity.credentials.certificate
            fresh, link = world.child(ZoneCode(9), credentials=newer.child(ZoneCode(9)), bundle=(newer.certificate,))
            world.run(link)
            await fresh.until("acknowledged")

    transport.run(test)


def test_an_expired_certificate_passes_the_wire_since_chain_judges_time(transport: Transport) -> None:
    async def test() -> None:
        from tests.contract.link.certificates import NOW

        async with World(transport) as world:
            long_ago = type(NOW)(NOW - 40 * 86_400)
            world.identity = type(world.identity)(world.top.controller(now=long_ago), world.identity.authorities)
            child, link = world.child(credentials=world.top.child(EAST, now=long_ago))
            world.run(link)
            await child.until("acknowledged")

    transport.run(test)


def test_news_travel_at_once_and_in_one_report_after_another(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.report_ms = 600_000
            child = await world.joined()
            await world.pause(1)
            began = transport.clock.now()
            child.tell(report(reason="first"))
            await world.parent.until("reported")
            await child.until("acknowledged")
            assert transport.clock.now() - began < 0.3
            for n in range(5):
                child.tell(report(reason=str(n)))
            while len(child.reports) < 7:
                await child.until("acknowledged")
            assert [r.reason for r in world.parent.reports if isinstance(r, Report)] == ["first", *"01234"]
            assert [r.seq for r in world.parent.reports] == list(range(1, 8))

    transport.run(test)


def test_a_long_report_follows_in_pages_without_pause(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()
            await world.pause(1)
            began = transport.clock.now()
            for n in range(20):
                child.tell(report(reason=str(n), lineage=Delta(0, 9, (), more=n < 19)))
            while len(child.reports) < 21:
                await child.until("acknowledged")
            assert transport.clock.now() - began < 20 * transport.timing.gap

    transport.run(test)


def test_the_pace_and_what_is_known_come_from_the_parent(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.report_ms = 100
            child = await world.joined()
            grant = Grant(15_000, 600_000, 100, 1)
            world.parent.acks.append(Ack(0, grant, Generations(5, 6, 7)))
            await child.until("acknowledged")
            await child.until("acknowledged")
            await child.until("report")
            assert child.known[-1] == Generations(5, 6, 7)

    transport.run(test)


def test_requests_right_behind_the_opening_do_not_disturb_it(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child()
            world.run(link)
            await world.parent.until("hello")
            session = world.parent.session
            while True:
                answers = await asyncio.gather(
                    *(session.request("page", b"x", CALLER, 5) for _ in range(10)), return_exceptions=True
                )
                if isinstance(answers[0], Answer):
                    break
                await asyncio.wait([asyncio.get_running_loop().create_task(world.pause(0))])
            assert len([a for a in answers if isinstance(a, Answer)]) == 10
            assert child.reasons == []

    transport.run(test)


def test_a_renewal_rides_along(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.report_ms = 100
            child = await world.joined()
            child.to_renew.append(Renew(bytes(32), bytes(64)))
            await child.until("renewed")
            await child.until("acknowledged")

    transport.run(test)


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
            await asyncio.gather(*(world.parent.session.request("page", b"", CALLER, 5) for _ in range(40)))
            assert child.most_running == 8

    transport.run(test)


def test_more_requests_than_a_session_takes_are_refused_and_none_is_lost(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            await world.joined()
            outcomes = await asyncio.gather(
                *(world.parent.session.request("page", b"", CALLER, 5) for _ in range(100)), return_exceptions=True
            )
            refusals = [o for o in outcomes if isinstance(o, Unreachable)]
            assert {r.code for r in refusals} == {"busy"}
            assert len(refusals) == 100 - 64
            assert sum(isinstance(o, Answer) for o in outcomes) == 64

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


def test_a_newer_session_of_the_same_zone_replaces_the_older(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            first = await world.joined()
            older = world.parent.session
            await world.joined()
            await first.until("ended")
            assert first.reasons[0].startswith("replaced")
            assert world.link.connected == 1
            assert world.link.session(EAST) is world.parent.session is not older
            while not world.parent.endings:
                await world.parent.until("ended")
            assert world.parent.endings[0][0] is older
            assert world.link.counters.replaced == 1

    transport.run(test)


def test_a_session_that_was_not_let_in_replaces_nothing(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            await world.joined()
            world.parent.refuse["hello"] = Refused("banned", "this key is banned")
            second, link = world.child()
            world.run(link)
            await second.until("ended")
            assert second.reasons[0] == "banned: this key is banned"
            assert world.link.connected == 1
            assert world.parent.endings == []

    transport.run(test)


def test_cut_tells_why_and_when_to_come_again(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            child = await world.joined()
            began = transport.clock.now()
            assert await world.link.cut(EAST, "moving", "another controller owns you now", 0.5)
            await child.until("ended")
            assert child.reasons == ["moving: another controller owns you now"]
            await child.until("established")
            assert 0.5 <= transport.clock.now() - began < 2
            assert not await world.link.cut(ZoneCode(99), "moving", "", None)

    transport.run(test)


def test_stopping_tells_everybody_and_lets_nobody_in(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            children = [await world.joined(ZoneCode(n)) for n in range(10, 15)]
            await world.link.stop("the parent is being upgraded", 0.5)
            for child in children:
                await child.until("ended")
                assert child.reasons[0].startswith("stopping")
            while world.link.connected:
                await world.pause(0.05)
            said = len(world.parent.said)
            await world.pause(1)
            assert "welcome" not in world.parent.said[said:]

    transport.run(test)


@pytest.mark.parametrize("step", ["welcome", "hello"])
def test_a_refusal_of_the_parent_reaches_the_child(transport: Transport, step: str) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.refuse[step] = Conflict("name-taken", "this name is taken", detail="by 7k3m9qxz")
            child, link = world.child()
            world.run(link)
            await child.until("ended")
            assert child.reasons[0] == "name-taken: this name is taken"
            assert world.parent.endings == []  # it never stood

    transport.run(test)


def test_a_refusal_of_a_report_ends_the_session(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.refuse["reported"] = Refused("foreign-lineage", "this zone is not below you")
            child, link = world.child()
            world.run(link)
            await child.until("ended")
            assert child.reasons[0].startswith("foreign-lineage")
            await world.parent.until("ended")

    transport.run(test)


def test_what_is_broken_in_the_parent_is_not_told_to_a_child(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport) as world:
            world.parent.refuse["hello"] = Broken("store", "table child has no column x")
            child, link = world.child()
            world.run(link)
            await child.until("ended")
            assert "column" not in child.reasons[0]

    transport.run(test)


def test_a_parent_that_is_slow_to_decide_gives_up(transport: Transport) -> None:
    async def test() -> None:
        async with World(transport, settings(transport, own=0.3)) as world:
            world.parent.hang.add("hello")
            child, link = world.child()
            world.run(link)
            await child.until("ended")
            assert child.reasons[0].startswith("busy")
            assert world.parent.endings == []

    transport.run(test)


# --- strangers ------------------------------------------------------------------------------------


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
            await talker.wire.send(encoder.encode([[77, "a message of version 2"], [9, 1, "a field of version 2"]]))
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


# --- the child ------------------------------------------------------------------------------------


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

            child.report = stuck  # type: ignore[method-assign]
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
