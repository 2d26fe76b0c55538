"""A zone in memory, its queue on a unix socket, and an API process in front of it, all in the test's loop."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from banyan.api.app import Api, build_app
from banyan.api.context import Limits
from banyan.api.openstack.call import Surfaces
from banyan.api.openstack.serve import Face
from banyan.api.queue import frames
from banyan.api.queue.process import Link, Process
from banyan.api.queue.wire import Wire
from banyan.api.queue.zone_end import Sessions
from banyan.core.errors import Unauthenticated
from banyan.serve.process import KnownTokens, NoGate, NoSurface
from banyan.zone.surface import Surface
from tests.api.openstack.toy import Gate, service
from tests.api.serving import CountingIds, StillClock
from tests.api.surface import FakeSurface

CALLER = ("198.51.100.9", 50_123)


class Words:
    """zone_end.Words."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, float]] = []
        self.watchers: list[Callable[[str, float], None]] = []

    def zone(self) -> str:
        return "top"

    def beat(self) -> frames.Beat:
        return frames.Beat(1.0, 1, 1, b"k")

    def certificate(self) -> tuple[bytes, bytes]:
        return b"certificate", b"key"

    def revoked(self) -> Iterable[tuple[str, float]]:
        return self.ended

    def watch(self, tell: Callable[[str, float], None]) -> Callable[[], None]:
        self.watchers.append(tell)
        return lambda: self.watchers.remove(tell)


class Tokens:
    """process.Tokens: knows what is bad by its name."""

    def __init__(self) -> None:
        self.beats: list[frames.Beat] = []
        self.ended: list[tuple[str, float]] = []

    def believe(self, beat: frames.Beat) -> None:
        self.beats.append(beat)

    def revoked(self, rows: Iterable[tuple[str, float]]) -> None:
        self.ended += rows

    def user(self, token: str) -> None:
        if token.startswith("bad"):
            raise Unauthenticated("bad-token", "this token is not one of ours")

    def operator(self, bearer: str) -> None:
        self.user(bearer)


class Recording(FakeSurface):
    """Notes from where, and under which id, each token came."""

    def __init__(self) -> None:
        super().__init__()
        self.proved: list[tuple[str, str, str]] = []

    async def authenticate(self, bearer: str, address: str, request: str):
        self.proved.append((bearer, address, request))
        return await super().authenticate(bearer, address, request)


class ZoneApi(Api):
    """The zone's; `app`, if set, answers in its stead."""

    app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.app or super().__call__)(scope, receive, send)


def _ids(begin: int) -> CountingIds:
    """Other ids than the zone's own: its would fit by chance."""
    ids = CountingIds()
    ids.count = begin
    return ids


@dataclass
class House:
    folder: Path
    surface: Recording
    api: ZoneApi
    words: Words
    sessions: Sessions
    process: Process
    tokens: Tokens
    server: asyncio.AbstractServer | None = None
    links: list[Link] = field(default_factory=list)

    @property
    def socket(self) -> str:
        return str(self.folder / "queue.sock")

    async def open(self) -> None:
        self.server = await asyncio.get_running_loop().create_unix_server(self.sessions.local, self.socket)

    async def connect(self) -> Link:
        wire = Wire(lambda wire: Link(wire, "here:1/2", self.tokens, self.process.figures))
        await asyncio.get_running_loop().create_unix_connection(lambda: wire, self.socket)
        link = cast("Link", wire.end)
        self.links.append(link)
        self.process.connected(link, await link.welcome)
        return link

    async def kill_zone(self) -> None:
        """As when its process ends: connections are gone, and nobody listens."""
        assert self.server is not None
        self.server.close()
        for session in tuple(self.sessions.sessions):
            assert session.wire.transport is not None
            session.wire.transport.abort()
        for link in self.links:
            await link.over.wait()

    def client(
        self, token: str = "", *, bearer: str = "", headers: Mapping[str, str] | None = None
    ) -> httpx.AsyncClient:
        return client(self.process, token, bearer, headers)


def client(
    app: ASGIApp, token: str = "", bearer: str = "", headers: Mapping[str, str] | None = None
) -> httpx.AsyncClient:
    given = {**({"X-Auth-Token": token} if token else {}), **({"Authorization": f"Bearer {bearer}"} if bearer else {})}
    transport = httpx.ASGITransport(app, client=CALLER, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="https://cloud:8790", headers={**given, **(headers or {})})


@asynccontextmanager
async def house(
    limits: Limits | None = None, process_limits: Limits | None = None, *, connected: bool = True
) -> AsyncIterator[House]:
    surface, words, tokens = Recording(), Words(), Tokens()
    api = ZoneApi(surface, StillClock(), CountingIds(), limits or Limits())
    api.offer([service()], Gate(), Surfaces(), Face())
    known = cast("KnownTokens", tokens)
    no_surface, gate = NoSurface(known), NoGate(known)
    bounds = process_limits or Limits()
    own = build_app(cast("Surface", no_surface), StillClock(), _ids(1_000), bounds)
    own.offer([service()], gate, Surfaces(), Face(listen="https://cloud:8790"))
    process = Process(own, tokens, _ids(5_000), bounds)
    no_surface.process = gate.process = process
    with tempfile.TemporaryDirectory() as folder:
        made = House(Path(folder), surface, api, words, Sessions(api, words), process, tokens)
        await made.open()
        if connected:
            await made.connect()
        try:
            yield made
        finally:
            assert made.server is not None
            made.server.close()
            await made.sessions.close()
            for link in made.links:
                link.wire.cut()
