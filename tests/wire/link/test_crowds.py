"""What strangers can cause at a real listener."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

import pytest

from banyan.core.errors import BanyanError
from banyan.core.messages import MAX_STRANGER_FRAME, Beat, Greet
from banyan.core.ports import Wire, WireClosed
from banyan.link.codec import encode, join
from banyan.link.parent import ParentLink, ParentSettings
from banyan.link.sockets import split_address
from banyan.link.websocket_wire import ListenSettings, WebSocketDialer, WebSocketListener, WebSocketWire
from tests.contract.link.certificates import NOW, Authority
from tests.contract.link.sides import CALLER, FakeParent
from tests.contract.link.transports import WebSocket, pause
from tests.contract.link.world import EAST, HELLO, World, greet, refused
from tests.wire.link.peers import Caught


async def error_of(address: str, **changes: object) -> BanyanError:
    top = Authority("top")
    given: dict[str, object] = {
        "purpose": "session",
        "credentials": top.child(EAST),
        "bundle": (top.certificate,),
        "timeout": 0.5,
        **changes,
    }
    return await refused(WebSocketDialer(WebSocket().clock).dial(address, **given))


async def http(address: str, request: bytes) -> bytes:
    """What a link port answers to bytes inside TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    host, port = split_address(address)
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.write(request)
    answer = b""
    with suppress(OSError, ssl.SSLError):
        answer = await reader.read(4096)
    writer.close()
    with suppress(OSError, ssl.SSLError):
        await writer.wait_closed()
    return answer


UPGRADE = (
    b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@pytest.mark.parametrize(
    ("request_bytes", "answer"),
    [
        (UPGRADE % b"/", b"404"),
        (UPGRADE % b"/link/v1/session/..", b"404"),
        (UPGRADE % b"/link/v1/enrol", b"101"),
        (b"GET /link/v1/session HTTP/1.1\r\nHost: x\r\n\r\n", b"426"),
        (b"POST /link/v1/session HTTP/1.1\r\nHost: x\r\n\r\n", b""),
        (b"\x00\x01\x02\r\n\r\n", b""),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", b""),
    ],
    ids=["root", "dots", "enrol", "no upgrade", "post", "binary", "long line"],
)
def test_http_that_is_not_ours(request_bytes: bytes, answer: bytes) -> None:
    transport = WebSocket()

    async def test() -> None:
        async with World(transport) as world:
            got = await http(world.address, request_bytes)
            assert got.split(b"\r\n")[0].startswith(b"HTTP/1.1 " + answer) if answer else b"101" not in got[:20]
            assert b"Server:" not in got
            assert world.parent.said == []
            await world.joined()

    transport.run(test)


def test_text_messages_and_large_ones_of_strangers_end_the_wire() -> None:
    transport = WebSocket()

    async def test() -> None:
        async with World(transport) as world:
            talker = await world.stranger()
            assert isinstance(talker.wire, WebSocketWire)
            await talker.wire._connection.send("hello")
            with pytest.raises(WireClosed, match="binary"):
                await talker.wire.receive()

            talker = await world.stranger()
            await talker.wire.send(bytes(MAX_STRANGER_FRAME + 1))
            with pytest.raises(WireClosed, match=r"16385 bytes exceeds limit of 16384"):
                await talker.wire.receive()
            while world.link.strangers:
                await world.pause(0.01)
            assert world.parent.said == []

    transport.run(test)


def test_a_frame_in_many_fragments_is_bounded_as_a_whole() -> None:
    transport = WebSocket()

    async def test() -> None:
        async with World(transport) as world:
            talker = await world.stranger()
            assert isinstance(talker.wire, WebSocketWire)
            with suppress(Exception):
                await talker.wire._connection.send([b"x" * 1000] * 20)
            with pytest.raises(WireClosed):
                await talker.wire.receive()
            assert world.parent.said == []

    transport.run(test)


def test_connections_in_tls_are_bounded_and_those_beyond_cost_nothing() -> None:
    transport = WebSocket()

    async def test() -> None:
        top = Authority("top")
        identity = top.identity()
        caught = Caught()
        settings = ListenSettings(strangers=5, per_address=5, opening=0.5)
        listener = WebSocketListener(caught.serve, lambda: identity, transport.clock, settings=settings)
        await listener.start("127.0.0.1:0")
        host, port = split_address(listener.addresses[0])
        silent = [await asyncio.open_connection(host, port) for _ in range(5)]
        while listener.accepted < 5:
            await a_moment(transport)
        reader, writer = await asyncio.open_connection(host, port)
        with suppress(OSError):
            assert await reader.read(1) == b""
        writer.close()
        assert listener.turned_away == 1
        # They are let go when their time is over, and others get in.
        for one, _ in silent:
            with suppress(OSError):
                await one.read(1)
        wire = await transport.dialer().dial(
            listener.addresses[0], purpose="enrol", credentials=None, bundle=(), timeout=5
        )
        await caught.came.wait()
        assert listener.failed == 5
        for _, one_writer in silent:
            one_writer.close()
        caught.done.set()
        await wire.close()
        await listener.close()

    transport.run(test)


async def a_moment(transport: WebSocket) -> None:
    await pause(transport.clock, 0.01)


def test_who_may_not_enter_is_turned_away_before_tls() -> None:
    transport = WebSocket()

    async def test() -> None:
        top = Authority("top")
        identity = top.identity()
        address, listener = await transport.listen(Caught().serve, lambda: identity, lambda _: False)
        error = await error_of(address, timeout=2.0)
        assert error.code == "closed-in-handshake"
        assert isinstance(listener, WebSocketListener)
        assert listener.turned_away == 1
        assert listener.failed == 0
        await listener.close()

    transport.run(test)


def test_new_connections_are_accepted_at_a_pace() -> None:
    transport = WebSocket()

    async def test() -> None:
        top = Authority("top")
        identity = top.identity()
        settings = ListenSettings(accepts=20.0, accepts_burst=5.0)
        listener = WebSocketListener(Caught().serve, lambda: identity, transport.clock, settings=settings)
        await listener.start("127.0.0.1:0")
        host, port = split_address(listener.addresses[0])
        began = transport.clock.now()
        opened = [await asyncio.open_connection(host, port) for _ in range(15)]
        while listener.accepted < 15:
            await a_moment(transport)
        assert 0.4 < transport.clock.now() - began < 2
        for _, writer in opened:
            writer.close()
        await listener.close()

    transport.run(test)


def test_a_peer_that_does_not_read_is_left() -> None:
    transport = WebSocket()

    async def test() -> None:
        settings = ParentSettings(timing=transport.timing, send=0.3, rate=1e9, burst=1e9)
        async with World(transport, settings) as world:
            world.parent.lease_ms = 60_000
            talker = await world.stranger()
            await talker.say(greet())
            await talker.hear()
            await talker.say(HELLO)
            await talker.hear()
            session = world.parent.session
            codes: set[str] = set()
            # Loopback takes some megabytes before it blocks.
            while "session-ended" not in codes and "not-connected" not in codes:
                codes.add((await refused(session.request("page", bytes(250_000), CALLER, 0.02))).code)
                await world.pause(0.002)
            while not world.parent.endings:
                await world.parent.until("ended")
            assert world.parent.endings[0][1].startswith("slow-peer")
            assert codes <= {"no-answer", "busy", "session-ended", "not-connected"}
            await talker.wire.close()

    transport.run(test)


def test_a_listener_that_closes_ends_its_sessions_in_an_orderly_way() -> None:
    transport = WebSocket()

    async def test() -> None:
        parent = FakeParent(transport.ids)
        top = Authority("top")
        identity = top.identity()
        link = ParentLink(parent, transport.clock, transport.ids)
        address, listener = await transport.listen(link.serve, lambda: identity, link.may_enter)
        wire = await transport.dialer().dial(
            address, purpose="session", credentials=top.child(EAST), bundle=(top.certificate,), timeout=5
        )
        await wire.send(join([encode(Greet(1, 1, bytes(16), "session"))]))
        await wire.receive()
        await listener.close()
        with pytest.raises(WireClosed):
            await _read_to_the_end(wire)
        assert link.strangers == 0
        assert Beat(1) not in parent.reports
        await wire.close()

    transport.run(test)


async def _read_to_the_end(wire: Wire) -> None:
    while True:
        await wire.receive()


def test_times_of_certificates_are_not_judged_by_tls() -> None:
    transport = WebSocket()

    async def test() -> None:
        long_ago = type(NOW)(NOW - 400 * 86_400)
        async with World(transport) as world:
            world.identity = type(world.identity)(world.top.controller(now=long_ago), world.identity.authorities)
            child, link = world.child(credentials=world.top.child(EAST, now=long_ago))
            world.run(link)
            await child.until("acknowledged")

    transport.run(test)
