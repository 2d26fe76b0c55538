"""A small CONNECT proxy, a relay that counts bytes, and other peers; for loopback and tests only."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextlib import suppress

from banyan.core.ports import Wire


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Callable[[int], None]) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            seen(len(data))
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()


class Relay:
    """Passes bytes on to one address. `up` and `down` count TCP payload; `silent` swallows all, as a dead path does."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.up = 0
        self.down = 0
        self.silent = asyncio.Event()

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._relay(reader, writer, *self._to)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        away_reader, away_writer = await asyncio.open_connection(host, port)
        both = [
            asyncio.ensure_future(self._pour_up(reader, away_writer)),
            asyncio.ensure_future(self._pour_down(away_reader, writer)),
        ]
        self._tasks.update(both)
        try:
            await asyncio.wait(both)
        finally:
            for task in both:
                task.cancel()
                self._tasks.discard(task)
            for one in (writer, away_writer):
                one.close()

    async def _pour_up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _pour(reader, writer, self._seen_up)

    async def _pour_down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _pour(reader, writer, self._seen_down)

    def _seen_up(self, count: int) -> None:
        self.up += count

    def _seen_down(self, count: int) -> None:
        self.down += count


class ConnectProxy(Relay):
    """Knows CONNECT only. `user` and `password` if it asks for them; `answer` replaces its answer."""

    def __init__(self, user: str = "", password: str = "", answer: bytes = b"") -> None:
        super().__init__("", 0)
        self._expected = base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""
        self._answer = answer
        self.asked: list[str] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
        except asyncio.IncompleteReadError:
            writer.close()
            return
        method, target, _ = head.split("\r\n", 1)[0].split(" ")
        self.asked.append(target)
        if self._answer:
            answer = self._answer
        elif method != "CONNECT":
            answer = b"HTTP/1.1 405 Method Not Allowed\r\n\r\n"
        elif self._expected and f"proxy-authorization: basic {self._expected}".lower() not in head.lower():
            answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n"
        else:
            host, _, port = target.rpartition(":")
            writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
            await self._relay(reader, writer, host.strip("[]"), int(port))
            return
        writer.write(answer)
        with suppress(OSError):
            await writer.drain()
        writer.close()


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Plain:
    """A TCP server that does one thing with each connection."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._handler, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()


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
