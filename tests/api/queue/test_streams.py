"""Bodies and streams through the queue: in pieces, no faster than they are read, and broken off where they broke."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Message

from banyan.api.queue import frames
from tests.api.queue.house import CALLER, House, house
from tests.api.serving import until

MIB = 1024 * 1024
Said = list[dict[str, Any]]


def scope(method: str, path: str, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    token = [(b"x-auth-token", b"reader"), (b"authorization", b"Bearer viewer-all")]
    return {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
            "scheme": "https", "headers": [*token, *headers], "client": CALLER}  # fmt: skip


class Caller:
    """A caller by hand. `read` lets so many bytes of the answer be taken; `body` comes piece by piece."""

    def __init__(self, body: list[bytes] | None = None) -> None:
        self.said: list[Message] = []
        self.taken = 0
        self.asked = 0
        self.room = asyncio.Semaphore(0)
        self.left = asyncio.Event()
        self._body = body or []

    async def receive(self) -> Message:
        if self._body:
            self.asked += 1
            return {"type": "http.request", "body": self._body.pop(0), "more_body": bool(self._body)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and message.get("body"):
            await self.room.acquire()
            self.taken += len(message["body"])
        self.said.append(message)

    def unblock(self) -> None:
        for _ in range(10_000):
            self.room.release()

    @property
    def whole(self) -> bool:
        return bool(self.said) and not self.said[-1].get("more_body", False) and len(self.said) > 1


def run(work: Callable[[House], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        async with house() as built:
            async with asyncio.timeout(20):
                await work(built)

    asyncio.run(all_of_it())


def test_a_large_answer_waits_for_its_reader_in_the_zone() -> None:
    made = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal made
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % (8 * MIB))]})
        for n in range(128):
            await send({"type": "http.response.body", "body": bytes([n]) * frames.PIECE, "more_body": n < 127})
            made += frames.PIECE

    async def work(built: House) -> None:
        built.api.app = app
        caller = Caller()
        asked = asyncio.ensure_future(
            built.process(scope("GET", "/compute/v1/lamps/a/file"), caller.receive, caller.send)
        )
        await until(lambda: made >= frames.WINDOW)
        await asyncio.wait({asked}, timeout=0.1)
        assert made <= frames.WINDOW + frames.PIECE
        caller.unblock()
        await asked
        assert caller.taken == made == 8 * MIB
        assert caller.whole

    run(work)


def test_a_large_body_waits_for_the_zone_in_the_process() -> None:
    taken, go = bytearray(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        more = True
        while more:
            message = await receive()
            taken.extend(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def work(built: House) -> None:
        built.api.app = app
        caller = Caller([bytes([n]) * frames.PIECE for n in range(64)])
        length = (b"content-length", b"%d" % (64 * frames.PIECE))
        path = scope("PUT", "/compute/v1/lamps/a/file", length, (b"content-type", b"application/octet-stream"))
        asked = asyncio.ensure_future(built.process(path, caller.receive, caller.send))
        await until(lambda: bool(built.links[0].passing))
        await asyncio.wait({asked}, timeout=0.1)
        assert caller.asked == 0, "nothing is read before the zone wants it"
        go.set()
        await asked
        assert taken == b"".join(bytes([n]) * frames.PIECE for n in range(64))
        assert caller.said[0]["status"] == 204

    run(work)


def test_a_zone_that_reads_slowly_holds_its_sender_back() -> None:
    step = asyncio.Semaphore(0)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while True:
            await step.acquire()
            await receive()

    async def work(built: House) -> None:
        built.api.app = app
        caller = Caller([b"x" * frames.PIECE] * 64)
        path = scope("PUT", "/compute/v1/lamps/a/file", (b"transfer-encoding", b"chunked"))
        asked = asyncio.ensure_future(built.process(path, caller.receive, caller.send))
        step.release()
        await until(lambda: caller.asked >= 4)
        await asyncio.wait({asked}, timeout=0.1)
        assert caller.asked <= frames.WINDOW // frames.PIECE + 2
        asked.cancel()

    run(work)


def test_a_body_that_is_refused_unread_is_not_read() -> None:
    async def work(built: House) -> None:
        caller = Caller([b"x" * frames.PIECE] * 4)
        caller.unblock()
        lines = (b"content-length", b"%d" % (4 * frames.PIECE)), (b"content-type", b"text/html")
        await built.process(scope("PUT", "/compute/v1/lamps/a/file", *lines), caller.receive, caller.send)
        assert caller.said[0]["status"] == 415
        assert (b"connection", b"close") in caller.said[0]["headers"]
        assert caller.asked == 0

    run(work)


def test_a_caller_that_hangs_up_is_noticed_in_the_zone() -> None:
    async def work(built: House) -> None:
        caller = Caller()
        caller.unblock()
        path = scope("GET", "/v1/journal/follow")
        asked = asyncio.ensure_future(built.process(path, caller.receive, caller.send))
        await until(lambda: len(caller.said) > 1)
        await built.surface.grow("child-registered", "top/new")
        await until(lambda: any(b"top/new" in one.get("body", b"") for one in caller.said))
        assert built.process.figures()["followers"] == built.api.outer.inside[True] == 1
        caller.left.set()
        await asked
        await until(lambda: not built.api.outer.inside[True])
        assert not caller.whole

    run(work)


def test_an_answer_that_the_zone_breaks_off_is_not_made_whole() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("a disk that failed")

    async def work(built: House) -> None:
        built.api.app = app
        caller = Caller()
        caller.unblock()
        await built.process(scope("GET", "/compute/v1/lamps/a/file"), caller.receive, caller.send)
        assert [one.get("body") for one in caller.said[1:]] == [b"half"]
        assert not caller.whole
        assert not built.process.door.inside[False]

    run(work)


def test_a_zone_that_dies_amid_an_answer_breaks_it_off() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        await asyncio.Event().wait()

    async def work(built: House) -> None:
        built.api.app = app
        caller = Caller()
        caller.unblock()
        path = scope("GET", "/compute/v1/lamps/a/file")
        asked = asyncio.ensure_future(built.process(path, caller.receive, caller.send))
        await until(lambda: len(caller.said) == 2)
        await built.kill_zone()
        await asked
        assert not caller.whole
        for task in built.sessions.tasks:
            task.cancel()

    run(work)
