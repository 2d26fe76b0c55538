"""Who is let in by its certificate, and who learns nothing."""

from __future__ import annotations

from banyan.core.errors import Refused
from banyan.core.ids import ZoneCode
from tests.contract.link.certificates import NOW, Authority
from tests.contract.link.transports import Transport
from tests.contract.link.world import EAST, World, refused


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
        async with World(transport) as world:
            long_ago = type(NOW)(NOW - 40 * 86_400)
            world.identity = type(world.identity)(world.top.controller(now=long_ago), world.identity.authorities)
            child, link = world.child(credentials=world.top.child(EAST, now=long_ago))
            world.run(link)
            await child.until("acknowledged")

    transport.run(test)
