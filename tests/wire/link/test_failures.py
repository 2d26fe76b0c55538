"""What goes wrong on the way to a parent, in words for whoever is woken by it; and what TLS must not do."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import suppress

import pytest

from banyan.core.errors import BanyanError, Conflict
from banyan.link.sockets import listen, split_address
from banyan.link.tls import server_context, session_context
from banyan.link.websocket_wire import WebSocketDialer
from tests.contract.link.certificates import Authority
from tests.contract.link.transports import WebSocket
from tests.contract.link.world import EAST, refused
from tests.wire.link.peers import Caught, Plain


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
    return await refused(WebSocketDialer(WebSocket().clock).dial(address, **given))


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
        async with Plain(handler) as address:
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
