"""What only real sockets show: marks, families, proxies, texts of failures, what strangers cost."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from banyan.core.errors import BadInput, BanyanError, Conflict
from banyan.core.messages import MAX_STRANGER_FRAME, Beat, Greet
from banyan.core.ports import Wire, WireClosed
from banyan.link.codec import encode, join
from banyan.link.parent import ParentLink, ParentSettings
from banyan.link.sockets import Proxy, listen, split_address
from banyan.link.tls import server_context, session_context
from banyan.link.websocket_wire import ListenSettings, WebSocketDialer, WebSocketListener, WebSocketWire
from tests.contract.link.certificates import NOW, Authority
from tests.contract.link.sides import FakeParent
from tests.contract.link.transports import WebSocket
from tests.contract.link.world import EAST, World, refused
from tests.wire.link.proxy import ConnectProxy, Plain

LE = 1 << 2  # DSCP 1 in the upper six bits


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def sock_of(wire: Wire) -> socket.socket:
    assert isinstance(wire, WebSocketWire)
    sock: socket.socket = wire._connection.transport.get_extra_info("socket")
    return sock


class Caught:
    """Keeps the wires that a listener hands on, until told to let go."""

    def __init__(self) -> None:
        self.wires: list[tuple[Wire, str]] = []
        self.came = asyncio.Event()
        self.done = asyncio.Event()

    async def serve(self, wire: Wire, purpose: str) -> None:
        self.wires.append((wire, purpose))
        self.came.set()
        await self.done.wait()


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
def test_both_ends_are_marked_as_lower_effort(host: str) -> None:
    transport = WebSocket(host)

    async def test() -> None:
        top = Authority("top")
        caught = Caught()
        identity = top.identity()
        address, listener = await transport.listen(caught.serve, lambda: identity)
        wire = await transport.dialer().dial(
            address, purpose="session", credentials=top.child(EAST), bundle=(top.certificate,), timeout=5
        )
        await caught.came.wait()
        [(accepted, purpose)] = caught.wires
        assert purpose == "session"
        for end in (wire, accepted):
            sock = sock_of(end)
            if ":" in host:
                assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS) == LE
            assert sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == LE
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
        assert accepted.peer.address == host
        assert accepted.peer.certificate == top.child(EAST).certificate or accepted.peer.certificate
        assert wire.peer.address == address
        caught.done.set()
        await wire.close()
        await listener.close()

    transport.run(test)


@needs_ipv6
def test_a_session_over_ipv6() -> None:
    transport = WebSocket("::1")

    async def test() -> None:
        async with World(transport) as world:
            assert world.address.startswith("[::1]:")
            await world.joined()

    transport.run(test)


@needs_ipv6
def test_one_socket_serves_both_families_and_names_ipv4_as_people_do() -> None:
    transport = WebSocket("::")

    async def test() -> None:
        top = Authority("top")
        caught = Caught()
        caught.done.set()
        identity = top.identity()
        address, listener = await transport.listen(caught.serve, lambda: identity)
        port = split_address(address)[1]
        for host in ("127.0.0.1", "[::1]", "localhost"):
            wire = await transport.dialer().dial(
                f"{host}:{port}", purpose="enrol", credentials=None, bundle=(), timeout=5
            )
            await wire.close()
        assert {w.peer.address for w, _ in caught.wires} <= {"127.0.0.1", "::1"}
        await listener.close()

    transport.run(test)


# --- through a proxy ------------------------------------------------------------------------------


def proxied(proxy: ConnectProxy, user: str = "", password_file: Path | None = None) -> WebSocketDialer:
    transport = WebSocket()
    found = Proxy.parse(f"http://{proxy.address}", user, str(password_file or ""))
    return WebSocketDialer(transport.clock, proxy=found)


async def dialled(world: World, dialer: WebSocketDialer) -> Wire:
    return await dialer.dial(
        world.address,
        purpose="session",
        credentials=world.top.child(EAST),
        bundle=(world.top.certificate,),
        timeout=3,
    )


def test_a_session_through_an_authenticated_proxy(tmp_path: Path) -> None:
    transport = WebSocket()
    password_file = tmp_path / "password"
    password_file.write_text("open sesame\n")

    async def test() -> None:
        async with World(transport) as world, ConnectProxy("zone", "open sesame") as proxy:
            transport.dialer = lambda: proxied(proxy, "zone", password_file)  # type: ignore[method-assign]
            await world.joined()
            assert proxy.asked == [world.address]
            assert proxy.up > 500
            await world.stop_children()

    transport.run(test)


@pytest.mark.parametrize(
    ("user", "password", "code", "says"),
    [
        ("zone", "wrong", "proxy-unauthorized", "does not accept"),
        ("", "", "proxy-unauthorized", "asks for a user"),
        ("zone", None, "proxy-password", "link.proxy_password_file"),
    ],
)
def test_a_proxy_that_wants_other_credentials(
    tmp_path: Path, user: str, password: str | None, code: str, says: str
) -> None:
    transport = WebSocket()
    password_file = tmp_path / "password"
    if password is not None:
        password_file.write_text(password)

    async def test() -> None:
        async with World(transport) as world, ConnectProxy("zone", "open sesame") as proxy:
            error = await refused(dialled(world, proxied(proxy, user, password_file if user else None)))
            assert error.code == code
            assert says in error.text
            assert proxy.address in error.text
            assert "wrong" not in error.text
            assert world.parent.said == []

    transport.run(test)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "proxy-forbids"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "proxy-unreachable"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "proxy-failed"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "proxy-failed"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000, "proxy-failed"),
        (b"\r\n\r\n", "proxy-failed"),
    ],
    ids=["403", "502", "too much", "no HTTP", "endless head", "empty"],
)
def test_a_proxy_that_makes_no_tunnel(answer: bytes, code: str) -> None:
    transport = WebSocket()

    async def test() -> None:
        async with World(transport) as world, ConnectProxy(answer=answer) as proxy:
            error = await refused(dialled(world, proxied(proxy)))
            assert error.code == code
            assert proxy.address in error.text

    transport.run(test)


def test_a_proxy_that_is_not_there() -> None:
    transport = WebSocket()

    async def test() -> None:
        async with World(transport) as world:
            dialer = WebSocketDialer(transport.clock, proxy=Proxy("127.0.0.1", 1))
            error = await refused(dialled(world, dialer))
            assert error.code == "proxy-refused"
            assert "link.proxy" in error.text

    transport.run(test)


@pytest.mark.parametrize(
    "url", ["http://zone:swordfish@proxy:3128", "zone:swordfish@proxy:3128", "https://proxy:3128", "http://proxy",
            "http://proxy:99999", "http://proxy:3128/path", "socks5://proxy:1080", "http://[::1:3128"],
)  # fmt: skip
def test_a_proxys_url_is_checked_and_holds_no_password(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        Proxy.parse(url)
    assert caught.value.code == "bad-proxy"
    assert "swordfish" not in caught.value.text


def test_a_proxys_url() -> None:
    assert Proxy.parse("") is None
    assert str(Proxy.parse("http://proxy:3128/")) == "proxy:3128"
    assert str(Proxy.parse("http://[2001:db8::1]:3128")) == "[2001:db8::1]:3128"
    with pytest.raises(BadInput, match="proxy_password_file"):
        Proxy.parse("http://proxy:3128", user="zone")


# --- what goes wrong, in words --------------------------------------------------------------------


async def _close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.CancelledError):
        await reader.read(1)
        await asyncio.sleep(1)
    writer.close()


async def _ssh(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2p1\r\n" * 10)
    with suppress(OSError):
        await writer.drain()
    writer.close()


async def error_of(address: str, **changes: object) -> BanyanError:
    top = Authority("top")
    given: dict[str, object] = {
        "purpose": "session",
        "credentials": top.child(EAST),
        "bundle": (top.certificate,),
        "timeout": 0.5,
        **changes,
    }
    return await refused(WebSocketDialer(WebSocket().clock).dial(address, **given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("handler", "code", "says"),
    [
        (_close, "closed-in-handshake", "busy or stopping"),
        (_hang, "timed-out", "did not finish"),
        (_ssh, "tls-failed", "link port"),
    ],
)
def test_a_peer_that_is_no_link_port(handler: object, code: str, says: str) -> None:
    async def test() -> None:
        async with Plain(handler) as address:  # type: ignore[arg-type]
            error = await error_of(address)
            assert error.code == code
            assert says in error.text
            assert address in error.text

    WebSocket().run(test)


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("127.0.0.1:1", "refused"),
        ("no-such-host.invalid:8781", "no-such-host"),
        ("127.0.0.1", "bad-address"),
        ("::1:8781", "bad-address"),
        ("127.0.0.1:99999", "bad-address"),
    ],
)
def test_an_address_that_leads_nowhere(address: str, code: str) -> None:
    async def test() -> None:
        error = await error_of(address)
        assert error.code == code
        assert address.rpartition(":")[0] in error.text

    WebSocket().run(test)


def test_a_web_server_with_the_right_certificate_is_no_link_port() -> None:
    async def test() -> None:
        top = Authority("top")

        async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(web, "127.0.0.1", 0, ssl=server_context(top.identity()))
        host, port = server.sockets[0].getsockname()[:2]
        error = await error_of(f"{host}:{port}")
        assert error.code == "not-a-link-port"
        assert "404" in error.text
        server.close()
        await server.wait_closed()

    WebSocket().run(test)


def test_an_older_tls_is_not_spoken() -> None:
    async def test() -> None:
        transport = WebSocket()
        top = Authority("top")
        caught = Caught()
        identity = top.identity()
        address, listener = await transport.listen(caught.serve, lambda: identity)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        host, port = split_address(address)
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await asyncio.open_connection(host, port, ssl=context)
        await listener.close()

    # Older than 1.2 is not built into OpenSSL any more; 1.2 is the newest that must be refused.
    WebSocket().run(test)


def test_no_tickets_and_no_resumption() -> None:
    context = server_context(Authority("top").identity())
    assert context.num_tickets == 0
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    top = Authority("top")
    assert session_context(top.child(EAST), (top.certificate,)).minimum_version == ssl.TLSVersion.TLSv1_3


def test_keys_touch_no_file_and_leave_no_descriptor() -> None:
    top = Authority("top")
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(20):
        server_context(top.identity())
    assert len(set(os.listdir("/proc/self/fd"))) <= len(before)


def test_two_processes_on_one_address() -> None:
    first = listen("127.0.0.1:0", 1)
    port = first[0].getsockname()[1]
    with pytest.raises(Conflict) as caught:
        listen(f"127.0.0.1:{port}", 1)
    assert caught.value.code == "address-in-use"
    for sock in first:
        sock.close()


# --- strangers ------------------------------------------------------------------------------------


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
            await world_pause(transport)
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


async def world_pause(transport: WebSocket) -> None:
    from tests.contract.link.transports import pause

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
            await world_pause(transport)
        assert 0.4 < transport.clock.now() - began < 2
        for _, writer in opened:
            writer.close()
        await listener.close()

    transport.run(test)


def test_a_peer_that_does_not_read_is_left() -> None:
    transport = WebSocket()

    async def test() -> None:
        from tests.contract.link.sides import CALLER
        from tests.contract.link.test_sessions import HELLO, greet

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
