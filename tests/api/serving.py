"""The API on real sockets, for tests: servers in the test's own loop, closed when it ends."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from banyan.api.app import Api, build_app
from banyan.api.context import Limits
from banyan.api.listen import Server, local_server, local_socket, public_server, public_socket
from banyan.core.time import Mono
from tests.api.surface import FakeSurface


class StillClock:
    """Time stands still unless `at` is moved."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> Mono:
        return Mono(self.at)

    def wall(self) -> float:
        return 1_796_000_000.0

    async def sleep_until(self, instant: Mono) -> None:
        self.at = max(self.at, instant)

    def boot_id(self) -> str:
        return "boot"


class CountingIds:
    """Chance without chance: 1, 2, 3, …"""

    def __init__(self) -> None:
        self.count = 0

    def token(self, size: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(size, "big")

    def below(self, bound: int) -> int:
        return 0

    def uniform(self, low: float, high: float) -> float:
        return low


def make(surface: FakeSurface, limits: Limits | None = None) -> Api:
    return build_app(surface, StillClock(), CountingIds(), limits)


def client(api: Api, bearer: str = "", *, local: bool = False) -> httpx.AsyncClient:
    """A client without a socket between."""
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    transport = httpx.ASGITransport(api.local if local else api, client=("root", 0) if local else ("192.0.2.7", 4711))
    return httpx.AsyncClient(transport=transport, base_url="http://zone", headers=headers)


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Returns soon after `condition` holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()


@dataclass
class Place:
    host: str
    port: int
    server: Server


@asynccontextmanager
async def running(server: Server, sock: socket.socket) -> AsyncIterator[Server]:
    task = asyncio.ensure_future(server.serve(sockets=[sock]))
    try:
        while not server.started:
            await asyncio.wait({task}, timeout=0.005)
            assert not task.done()
        yield server
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, 10)


@asynccontextmanager
async def public(api: Api, tls: ssl.SSLContext | None = None) -> AsyncIterator[Place]:
    sock = public_socket("127.0.0.1:0", encrypted=tls is not None)
    host, port = sock.getsockname()
    async with running(public_server(api, tls), sock) as server:
        yield Place(host, port, server)


@asynccontextmanager
async def local(api: Api, folder: Path) -> AsyncIterator[Server]:
    async with running(local_server(api), local_socket(folder)) as server:
        yield server
