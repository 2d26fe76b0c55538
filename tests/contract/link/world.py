"""A top and its children on one transport, put together for a test."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from banyan.core.errors import BanyanError
from banyan.core.ids import ZoneCode
from banyan.core.messages import MAX_FRAME, Generations, Greet, Hello, Message
from banyan.core.ports import Credentials, Wire, WireClosed
from banyan.core.time import Mono
from banyan.link.child import ChildLink, ChildSettings, Route
from banyan.link.codec import SESSION, decode, encode, join
from banyan.link.pace import Backoff
from banyan.link.parent import ParentLink, ParentSettings
from banyan.link.wire import Identity
from tests.contract.link.certificates import Authority
from tests.contract.link.sides import FakeChild, FakeParent
from tests.contract.link.transports import Listener, Transport, pause

EAST = ZoneCode(7)
HELLO = Hello(EAST, "0", 1, b"", b"mark", Generations())


def greet(purpose: str = "session", floor: int = 1, ceiling: int = 1) -> Greet:
    return Greet(floor, ceiling, bytes(16), purpose)


def settings(transport: Transport, **changes: object) -> ParentSettings:
    return ParentSettings(timing=transport.timing, **changes)


@dataclass
class World:
    transport: Transport
    settings: ParentSettings = field(default_factory=ParentSettings)
    top: Authority = field(default_factory=lambda: Authority("top"))
    parent: FakeParent = field(init=False)
    link: ParentLink = field(init=False)
    identity: Identity = field(init=False)
    address: str = ""
    _listener: Listener | None = None
    _running: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parent = FakeParent(self.transport.ids)
        self.identity = self.top.identity()

    async def __aenter__(self) -> World:
        self.link = ParentLink(self.parent, self.transport.clock, self.transport.ids, self.settings)
        self.address, self._listener = await self.transport.listen(
            self.link.serve, lambda: self.identity, self.link.may_enter
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop_children()
        if self._listener is not None:
            await self._listener.close()

    async def stop_children(self) -> None:
        for task in self._running:
            task.cancel()
        for task in self._running:
            with suppress(asyncio.CancelledError):
                await task
        self._running.clear()

    def child(
        self,
        code: ZoneCode = EAST,
        *,
        addresses: tuple[str, ...] = (),
        credentials: Credentials | None = None,
        bundle: tuple[bytes, ...] | None = None,
        **settings: object,
    ) -> tuple[FakeChild, ChildLink]:
        side = FakeChild(self.transport.ids, code)
        shown = credentials or self.top.child(code)

        async def route() -> Route:
            known = (self.top.certificate,) if bundle is None else bundle
            return Route(addresses or (self.address,), shown, known)

        backoff = Backoff(first=0.05, ceiling=0.2, spread=0.2, longest=1.0)
        given: dict[str, object] = {"timing": self.transport.timing, "backoff": backoff, "dial": 5.0, **settings}
        link = ChildLink(
            side,
            self.transport.dialer(),
            route,
            self.transport.clock,
            self.transport.ids,
            ChildSettings(**given),
        )
        return side, link

    def run(self, link: ChildLink) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(link.run())
        self._running.append(task)
        return task

    async def joined(self, code: ZoneCode = EAST) -> FakeChild:
        """A child whose session stands and whose first report was acknowledged."""
        side, link = self.child(code)
        self.run(link)
        await side.until("acknowledged")
        return side

    async def pause(self, seconds: float) -> None:
        await pause(self.transport.clock, seconds)

    async def stranger(self, purpose: str = "session", code: ZoneCode = EAST) -> Talker:
        """A bare wire, for saying whatever one likes."""
        wire = await self.transport.dialer().dial(
            self.address,
            purpose=purpose,
            credentials=self.top.child(code) if purpose == "session" else None,
            bundle=(self.top.certificate,),
            timeout=5.0,
        )
        wire.allow(MAX_FRAME)
        return Talker(wire)


class Talker:
    """Speaks and hears frames, one by one."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    async def say(self, *messages: Message) -> None:
        await self.wire.send(join([encode(m) for m in messages]))

    async def hear(self, within: float = 10.0) -> Message:
        async with asyncio.timeout(within):
            [message] = decode(await self.wire.receive(), SESSION).messages
        return message

    async def until_closed(self, within: float = 60.0) -> list[Message]:
        """All that still comes, up to the end of the wire."""
        heard: list[Message] = []
        async with asyncio.timeout(within):
            while True:
                try:
                    heard += decode(await self.wire.receive(), SESSION).messages
                except WireClosed:
                    return heard


async def refused(call: asyncio.Future[object] | object) -> BanyanError:
    """The error that an awaitable raises."""
    try:
        await call
    except BanyanError as error:
        return error
    raise AssertionError("it was not refused")


def later(transport: Transport, seconds: float) -> Mono:
    return Mono(transport.clock.now() + seconds)
