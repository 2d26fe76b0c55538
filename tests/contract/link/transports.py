"""The kinds of wire that the contract suite runs on, behind one face.

`memory` runs in virtual time on a loop without sockets; `websocket` in real time on loopback with real TLS, on
asyncio's loop and on `uvloop`, whose sockets behave in ways of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol, TypeVar

import uvloop

from banyan.core.ports import Clock, Dialer, Ids, Wire
from banyan.core.time import Mono
from banyan.link.memory_wire import MemoryNetwork
from banyan.link.session import Timing
from banyan.link.websocket_wire import WebSocketDialer, WebSocketListener
from banyan.link.wire import Identity
from banyan.serve.clock import SystemClock
from banyan.simulate.clock import VirtualClock
from banyan.simulate.ids import SeededIds
from banyan.simulate.loop import VirtualLoop

T = TypeVar("T")
Serve = Callable[[Wire, str], Awaitable[None]]


class Listener(Protocol):
    async def close(self) -> None: ...


class Transport(Protocol):
    """`timing` is as short as this transport's clock allows."""

    name: str
    clock: Clock
    ids: Ids
    timing: Timing

    def run(self, test: Callable[[], Coroutine[None, None, T]]) -> T: ...
    async def listen(
        self, serve: Serve, identity: Callable[[], Identity], may_enter: Callable[[str], bool] = ...
    ) -> tuple[str, Listener]: ...
    def dialer(self) -> Dialer: ...


class Memory:
    name = "memory"
    timing = Timing()

    def __init__(self) -> None:
        self._loop = VirtualLoop()
        self.clock: Clock = VirtualClock(self._loop, "test")
        self.ids: Ids = SeededIds(1, "test")
        self._network = MemoryNetwork()
        self._port = 0

    def run(self, test: Callable[[], Coroutine[None, None, T]]) -> T:
        result = self._loop.run_task(test(), within=3600.0)
        assert self._loop.failures == [], self._loop.failures
        return result

    async def listen(
        self, serve: Serve, identity: Callable[[], Identity], may_enter: Callable[[str], bool] = lambda _: True
    ) -> tuple[str, Listener]:
        self._port += 1
        address = f"top:{self._port}"
        return address, self._network.listen(address, identity, serve)

    def dialer(self) -> Dialer:
        return self._network.dialer("192.0.2.7")


class WebSocket:
    name = "websocket"
    timing = Timing(opening=0.5, answer=0.5, gap=0.05, grace=0.5, second_look=0.1)

    def __init__(
        self,
        host: str = "127.0.0.1",
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        self._loop_factory = loop_factory
        self.clock: Clock = SystemClock()
        self.ids: Ids = SeededIds(1, "test")
        self._host = host

    def run(self, test: Callable[[], Coroutine[None, None, T]]) -> T:
        problems: list[object] = []

        async def watched() -> T:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: problems.append(context))
            async with asyncio.timeout(30):
                return await test()

        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            result = runner.run(watched())
        assert problems == [], problems
        return result

    async def listen(
        self, serve: Serve, identity: Callable[[], Identity], may_enter: Callable[[str], bool] = lambda _: True
    ) -> tuple[str, Listener]:
        listener = WebSocketListener(serve, identity, self.clock, may_enter=may_enter)
        host = f"[{self._host}]" if ":" in self._host else self._host
        await listener.start(f"{host}:0")
        return listener.addresses[0], listener

    def dialer(self) -> Dialer:
        return WebSocketDialer(self.clock)


class OnUvloop(WebSocket):
    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__(host, uvloop.new_event_loop)


TRANSPORTS: dict[str, Callable[[], Transport]] = {"memory": Memory, "websocket": WebSocket, "uvloop": OnUvloop}


async def pause(clock: Clock, seconds: float) -> None:
    await clock.sleep_until(Mono(clock.now() + seconds))
