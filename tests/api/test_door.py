"""The queue in front of the handlers: bounds, turns, and nobody forgotten in it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from banyan.api.context import Limits
from banyan.api.door import Door
from banyan.api.faults import Busy
from tests.api.serving import until


def door(concurrency: int = 1, waiting: int = 4, wait: float = 5.0) -> Door:
    return Door(replace(Limits(), concurrency=concurrency, waiting=waiting, queue_wait=wait, followers=1))


def test_sources_are_let_in_by_turns() -> None:
    async def run() -> list[str]:
        queue, order = door(waiting=10), []
        await queue.enter(False, "a")

        async def one(source: str) -> None:
            await queue.enter(False, source)
            order.append(source)
            queue.leave(False)

        tasks = []
        for source in ("a", "a", "a", "a", "b", "c"):
            tasks.append(asyncio.ensure_future(one(source)))
        await until(lambda: queue.depth == 6)
        queue.leave(False)
        await asyncio.gather(*tasks)
        assert queue.inside == {False: 0, True: 0}
        assert not queue.depth
        return order

    assert asyncio.run(run()) == ["a", "b", "c", "a", "a", "a"]


def test_who_waits_most_gives_way_when_it_is_full() -> None:
    async def run() -> None:
        queue = door(waiting=3)
        await queue.enter(False, "a")
        many = [asyncio.ensure_future(queue.enter(False, "a")) for _ in range(3)]
        await until(lambda: queue.depth == 3)
        with pytest.raises(Busy):
            await queue.enter(False, "a")
        one = asyncio.ensure_future(queue.enter(False, "b"))
        await until(many[2].done)
        with pytest.raises(Busy):
            await many[2]
        assert queue.depth == 3
        for waiting in (many[0], one, many[1]):
            queue.leave(False)
            await waiting
        queue.leave(False)
        assert queue.inside[False] == queue.depth == 0
        assert queue.measured("x")['banyan_api_queue_refused_total{door="x"}'] == 2

    asyncio.run(run())


def test_nobody_waits_for_ever_and_who_gives_up_takes_no_place() -> None:
    async def run() -> None:
        queue = door(wait=0.02)
        await queue.enter(False, "a")
        with pytest.raises(Busy) as busy:
            await queue.enter(False, "a")
        assert busy.value.retry_after
        gone = asyncio.ensure_future(queue.enter(False, "a"))
        await until(lambda: queue.depth == 1)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert queue.depth == 0
        # Let in and given up in the same turn of the loop.
        late = asyncio.ensure_future(queue.enter(False, "a"))
        await until(lambda: queue.depth == 1)
        queue.leave(False)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        assert queue.inside[False] == 0
        await queue.enter(False, "b")

    asyncio.run(run())


def test_streams_have_places_of_their_own_and_do_not_wait() -> None:
    async def run() -> None:
        queue = door()
        await queue.enter(False, "a")
        await queue.enter(True, "a")
        with pytest.raises(Busy):
            await queue.enter(True, "b")

    asyncio.run(run())


def test_nobody_overtakes_who_waits() -> None:
    async def run() -> None:
        queue = door(concurrency=2)
        await queue.enter(False, "a")
        await queue.enter(False, "a")
        first = asyncio.ensure_future(queue.enter(False, "b"))
        await until(lambda: queue.depth == 1)
        queue.resize(3, 1)
        await first
        assert queue.inside[False] == 3

    asyncio.run(run())
