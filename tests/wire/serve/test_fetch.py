"""Fetching over real sockets: what a name resolves to is judged, and so is each hop, before anybody is asked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from banyan.core.image_ports import FetchFailed
from banyan.serve.fetch import HttpFetcher
from banyan.zone.images.addresses import AddressRules

HEAD = "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n"
Play = Callable[[int, list[str]], Awaitable[Any]]


def served(answer: bytes, play: Play) -> Any:
    """Runs `play(port, heads)` beside a server that gives every request this answer; `heads` are what it was asked."""

    async def whole() -> Any:
        heads: list[str] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            return await play(server.sockets[0].getsockname()[1], heads)

    return asyncio.run(whole())


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Every name has these addresses."""

    async def found(self: object, host: str, port: int, **more: object) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", found)


async def fetched(fetcher: HttpFetcher, url: str) -> bytes:
    return b"".join([piece async for piece in fetcher.fetch(url)])


def test_the_host_is_asked_by_its_name_at_the_address_that_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(port: int, heads: list[str]) -> None:
        fetcher = HttpFetcher(AddressRules(private=True, ports=(port,)))
        resolving(monkeypatch, "127.0.0.1")
        assert await fetched(fetcher, f"http://images.example:{port}/a%20b?c=d") == b"12345"
        assert heads[0].startswith("GET /a%20b?c=d HTTP/1.1\r\n")
        lines = heads[0].lower().split("\r\n")
        assert f"host: images.example:{port}" in lines and "accept-encoding: identity" in lines

    served(HEAD.format(5).encode() + b"12345", play)


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("1.1.1.1", "127.0.0.1"), ("10.0.0.1",), ("169.254.169.254",)])
def test_a_name_of_an_address_that_nobody_may_be_led_to_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]
) -> None:
    async def play(port: int, heads: list[str]) -> None:
        resolving(monkeypatch, *addresses)
        with pytest.raises(FetchFailed, match="may be fetched from"):
            await fetched(HttpFetcher(AddressRules(ports=(port,))), f"http://images.example:{port}/")
        assert heads == []

    served(HEAD.format(0).encode(), play)


def test_a_redirect_leads_to_no_address_that_would_not_have_been_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends at the first hop that is not allowed: a port, a scheme, an address."""

    async def play(port: int, heads: list[str]) -> None:
        resolving(monkeypatch, "127.0.0.1")
        fetcher = HttpFetcher(AddressRules(private=True, ports=(port,)))
        with pytest.raises(FetchFailed, match="its port must be"):
            await fetched(fetcher, f"http://images.example:{port}/")
        assert len(heads) == 1

    moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:22/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    served(moved, play)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (HEAD.format(10).encode() + b"short", "before the image was whole"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "status 404"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "2 redirects"),
        (b"nonsense\r\n\r\n", "could not be reached"),
    ],
)
def test_what_goes_wrong_is_said(monkeypatch: pytest.MonkeyPatch, answer: bytes, why: str) -> None:
    async def play(port: int, heads: list[str]) -> None:
        resolving(monkeypatch, "127.0.0.1")
        fetcher = HttpFetcher(AddressRules(private=True, ports=(port,)), redirects=2)
        with pytest.raises(FetchFailed, match=why):
            await fetched(fetcher, f"http://images.example:{port}/")

    served(answer, play)


def test_a_name_that_is_none_and_a_port_where_nobody_listens() -> None:
    async def play() -> None:
        with pytest.raises(FetchFailed, match="could not be resolved"):
            await fetched(HttpFetcher(AddressRules()), "http://images.invalid/")
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            with pytest.raises(FetchFailed, match="could not be reached"):
                await fetched(HttpFetcher(AddressRules(private=True, ports=(port,))), f"http://127.0.0.1:{port}/")

    asyncio.run(play())
