"""Callers whose bodies do not come: what they hold is bounded, and is never a place among the requests in work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from banyan.api.context import SMALL_BODY, Limits
from banyan.api.door import Bodies, Door, Seat
from banyan.api.faults import BusyWithBodies
from tests.api.openstack.lab import Lab
from tests.api.openstack.toy import lit
from tests.api.queue.house import client, house
from tests.api.serving import until

LIMITS = replace(Limits(), concurrency=4, waiting=64)
CASES = {
    "openstack": ("POST", "/compute/v1/lamps", b"x-auth-token", b"admin"),
    "log-in": ("POST", "/identity/v3/auth/tokens", b"accept", b"*/*"),
    "v1": ("POST", "/v1/codes", b"authorization", b"Bearer admin-all"),
}


def scope(method: str, path: str, address: str, *lines: tuple[bytes, bytes]) -> dict[str, Any]:
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "https",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": list(lines),
        "client": (address, 4711), "server": None,
    }  # fmt: skip


class Caller:
    """Sends `body` when `go` is set; hears the status of its answer."""

    def __init__(self, body: bytes = b"") -> None:
        self.go = asyncio.Event()
        self.body = body
        self.status = 0

    async def receive(self) -> Any:
        await self.go.wait()
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)


App = Callable[[Any, Any, Any], Awaitable[None]]


@contextmanager
def callers(app: App, case: str, count: int, *lines: tuple[bytes, bytes]) -> Iterator[list[Caller]]:
    method, path, name, value = CASES[case]
    asked = scope(method, path, "192.0.2.66", (name, value), (b"content-type", b"application/json"), *lines)
    made = [Caller(b'{"lamp": {"name": "x"}}') for _ in range(count)]
    tasks = [asyncio.ensure_future(app(dict(asked), one.receive, one.send)) for one in made]
    try:
        yield made
    finally:
        for task in tasks:
            task.cancel()


async def served(app: App, path: str = "/compute/v1/lamps") -> int:
    other = Caller()
    other.go.set()
    await app(scope("GET", path, "192.0.2.7", (b"x-auth-token", b"reader")), other.receive, other.send)
    return other.status


LINES = {"told": (b"content-length", b"500"), "untold": (b"transfer-encoding", b"chunked")}


@pytest.mark.parametrize("length", LINES)
@pytest.mark.parametrize("case", ["openstack", "v1"])
def test_bodies_that_do_not_come_shut_nobody_out_of_the_zone(case: str, length: str) -> None:
    async def run() -> None:
        api, _ = lit(limits=LIMITS)
        with callers(api, case, 3 * LIMITS.concurrency, LINES[length]) as slow:
            await until(lambda: api.outer.bodies.bytes >= 500 * len(slow))
            assert api.outer.inside[False] == 0
            assert await served(api) == 200
        await until(lambda: not api.outer.bodies.bytes)

    asyncio.run(run())


def test_strangers_who_half_log_in_shut_nobody_out() -> None:
    lab = Lab(limits=LIMITS)

    async def run() -> None:
        with callers(lab.api, "log-in", 3 * LIMITS.concurrency, LINES["told"]) as slow:
            await until(lambda: lab.api.outer.bodies.bytes == 500 * len(slow))
            assert await served(lab.api, "/identity/v3") == 200

    lab.run(run())


@pytest.mark.parametrize("length", LINES)
@pytest.mark.parametrize("case", ["openstack", "v1"])
def test_bodies_that_do_not_come_shut_nobody_out_of_an_api_process(case: str, length: str) -> None:
    async def run() -> None:
        async with house(LIMITS, LIMITS) as built:
            process = built.process
            with callers(process, case, 3 * LIMITS.concurrency, LINES[length], (b"expect", b"100-continue")) as slow:
                await until(lambda: process.door.bodies.bytes >= 500 * len(slow))
                assert process.door.inside[False] == 0
                assert await served(process) == 200

    asyncio.run(run())


def test_a_large_body_that_a_process_read_whole_is_handed_over_in_pieces() -> None:
    code = b'{"text": "' + b"x" * (3 * SMALL_BODY) + b'"}'

    async def run() -> None:
        async with house() as built, built.client(bearer="admin-all") as http:
            async with client(built.api, bearer="admin-all") as direct:
                said = [(await one.put("/v1/known-keys/x", content=code)).text for one in (http, direct)]
            assert said[0][:60] == said[1][:60]

    asyncio.run(run())


def test_who_sends_its_body_late_has_its_answer_and_a_place_again() -> None:
    async def run() -> None:
        api, _ = lit(limits=replace(LIMITS, concurrency=1))
        with callers(api, "openstack", 2, LINES["told"]) as slow:
            await until(lambda: api.outer.bodies.bytes == 1000)
            await api.outer.enter(False, "192.0.2.7")
            slow[0].go.set()
            await until(lambda: api.outer.depth == 1)
            assert api.outer.bodies.bytes == 1000, "it is in memory while it waits"
            api.outer.leave(False)
            await until(lambda: bool(slow[0].status))
            assert slow[0].status == 201
            assert api.outer.inside[False] == 0

    asyncio.run(run())


def test_what_came_with_its_head_keeps_its_place() -> None:
    async def run() -> None:
        door = Door(replace(LIMITS, concurrency=1, waiting=0))
        seat = Seat(door, "192.0.2.7")
        await seat.enter(False)

        async def there() -> bytes:
            return b"{}"

        assert await seat.whole(2, there()) == b"{}"
        assert door.inside[False] == 1
        seat.leave()
        seat.leave()
        assert door.inside[False] == 0

    asyncio.run(run())


def test_no_source_has_more_than_its_share_of_the_bytes_that_are_on_their_way() -> None:
    bodies = Bodies(replace(Limits(), bodies=4000))
    with bodies.held("2001:db8::1", 600), bodies.held("2001:db8::2", 400):
        with pytest.raises(BusyWithBodies) as busy, bodies.held("2001:db8::3", 1):
            pass
        assert busy.value.retry_after
        others = [bodies.held(f"192.0.2.{n}", 1000) for n in (1, 2, 3)]
        with others[0], others[1], others[2], pytest.raises(BusyWithBodies), bodies.held("192.0.2.4", 1):
            pass
    assert (bodies.bytes, bodies.refused) == (0, 2)
    with bodies.held("2001:db8::1", 1000):
        pass
