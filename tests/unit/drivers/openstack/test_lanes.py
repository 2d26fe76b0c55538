"""Blocking calls are bounded and told when nobody waits; what services say in headers and errors is understood."""

from __future__ import annotations

import asyncio
import socket

import pytest

from banyan.drivers.openstack.asking import seconds_of
from banyan.drivers.openstack.lanes import Lanes, LanesBusy, Overdue
from banyan.drivers.openstack.reasons import message
from tests.unit.drivers.fakes import START


def test_hanging_calls_are_bounded() -> None:
    left, right = socket.socketpair()
    with left, right:

        def hang(overdue: Overdue) -> int:
            return len(left.recv(1))

        async def story() -> None:
            lanes = Lanes(2, "test")
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    await lanes.run(hang, 0.05)
            with pytest.raises(LanesBusy):
                await lanes.run(hang, 0.05)
            right.send(b"xx")
            for _ in range(100):
                await asyncio.wait({asyncio.ensure_future(asyncio.to_thread(int))})
                if lanes._taken == 0:
                    break
            assert await lanes.run(lambda overdue: 7, 5) == 7

        asyncio.run(story())


def test_a_lane_tells_its_work_that_nobody_waits() -> None:
    async def story() -> bool:
        lanes = Lanes(1, "test")
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work(overdue: Overdue) -> None:
            while not overdue():
                pass
            loop.call_soon_threadsafe(ended.set)

        with pytest.raises(TimeoutError):
            await lanes.run(work, 0.05)
        async with asyncio.timeout(5):
            await ended.wait()
        return True

    assert asyncio.run(story())


def test_a_lane_raises_what_its_work_raised() -> None:
    def work(overdue: Overdue) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        asyncio.run(Lanes(1, "test").run(work, 5))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (" 12 ", 12.0),
        ("", 0.0),
        ("soon", 0.0),
        ("-3", 0.0),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float) -> None:
    assert seconds_of(text, START) == seconds


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"itemNotFound": {"code": 404, "message": "No server"}}', "No server"),
        (b'{"error": {"code": 401, "message": "Who?", "title": "Unauthorized"}}', "Who?"),
        (b'{"NeutronError": {"type": "X", "message": "no net", "detail": ""}}', "no net"),
        (b'{"errors": [{"status": 404, "title": "Not Found", "detail": "gone\\n\\n really"}]}', "gone really"),
        (b"<html>", ""),
        (b"[]", ""),
        (b"7", ""),
        (b'{"a": {"message": "' + b"x" * 900 + b'"}}', "x" * 200),
        (b'{"a": {"message": "line\\u0000\\u001b[31mred"}}', "line[31mred"),
    ],
)
def test_the_services_own_words(body: bytes, said: str) -> None:
    assert message(body) == said
