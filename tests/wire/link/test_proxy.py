"""The way out through an HTTP proxy that knows CONNECT."""

from __future__ import annotations

from pathlib import Path

import pytest

from banyan.core.errors import BadInput
from banyan.core.ports import Wire
from banyan.link.sockets import Proxy
from banyan.link.websocket_wire import WebSocketDialer
from tests.contract.link.transports import WebSocket
from tests.contract.link.world import EAST, World, refused
from tests.wire.link.peers import ConnectProxy


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
            transport.dialer = lambda: proxied(proxy, "zone", password_file)
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
