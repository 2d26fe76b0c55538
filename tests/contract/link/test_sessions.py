"""How a session opens, goes on and ends, on memory and on real sockets alike."""

from __future__ import annotations

import asyncio

import pytest

from banyan.core.digest import MAX_NAME, MAX_SHAPES
from banyan.core.errors import Broken, Conflict, Refused
from banyan.core.ids import ZoneCode
from banyan.core.lineage import Delta
from banyan.core.messages import (
    Ack,
    Answer,
    Beat,
    EpochProof,
    Generations,
    Grant,
    Renew,
    Report,
    ShapeSet,
)
from tests.contract.link.certificates import Authority
from tests.contract.link.sides import CALLER, busy, report
from tests.contract.link.transports import Transport
from tests.contract.link.world import EAST, World, refused, settings


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


def test_what_a_parent_signed_of_an_epoch_comes_back_with_the_next_hello(transport: Transport) -> None:
    """With as many certificates as lead to an older CA, whole, within what a stranger's frame may hold."""

    async def test() -> None:
        async with World(transport) as world:
            proof = world.parent.proof = EpochProof(7, bytes(range(32)), bytes(range(64)), 3)
            child = await world.joined()
            assert child.proof == proof
            child.crosses = tuple(Authority(f"CA {number}").certificate for number in range(4))
            await world.link.cut(EAST, "try-again", "for the sake of the test", 0.0)
            await child.until("ended")
            await child.until("established")
            first, second = world.parent.hellos
            assert (first.proof, first.crosses) == (None, ())
            assert (second.epoch, second.proof, second.crosses) == (7, proof, child.crosses)

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
            assert child.said == ["greet", "welcomed", "refused"]

    transport.run(test)


def test_what_our_own_state_forbids_is_final_for_an_enrolment(transport: Transport) -> None:
    """Admitted, and unable to take it: to ask again would change nothing, for ever."""

    async def test() -> None:
        async with World(transport) as world:
            child, link = world.child()
            child.purpose = "enrol"
            child.spoil = Conflict("has-children", "this zone has children, and can take no other code")
            error = await refused(link.enrol(patience=3.0))
            assert error.code == "has-children"
            assert child.said == ["greet", "welcomed", "admitted", "refused"]
            assert world.parent.said.count("enrol") == 1

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
            # Where time is real a busy machine may take as long for twenty reports.
            if transport.name == "memory":
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


def test_a_set_of_shapes_comes_down_with_any_acknowledgement(transport: Transport) -> None:
    """The longest that there may be, also in answer to a heartbeat that had no news."""
    longest = ShapeSet(bytes(16), tuple(f"custom_{n:03}_{'x' * (MAX_NAME - 13)}=1" for n in range(MAX_SHAPES)))

    async def test() -> None:
        async with World(transport) as world:
            known = Generations(1, 1, 1)
            world.parent.acks = [
                Ack(0, Grant(15_000, 600_000, 600, 1), known),
                Ack(0, Grant(15_000, 600_000, 600, 1), known, shapes=longest),
                Ack(0, Grant(15_000, 600_000, 60_000, 1), known, shapes=ShapeSet(b"hash", ("vcpu=1",))),
            ]
            child, link = world.child()
            child.tell(report(shapes=b"none", heard=7))
            world.run(link)
            for _ in range(3):
                await child.until("acknowledged")
            first, *rest = world.parent.reports
            assert isinstance(first, Report)
            assert (first.shapes, first.heard) == (b"none", 7)
            assert [type(one) for one in rest] == [Beat, Beat]
            told = [ack.shapes for ack in child.acks if isinstance(ack, Ack)]
            assert told == [None, longest, ShapeSet(b"hash", ("vcpu=1",))]

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
