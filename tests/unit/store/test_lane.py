"""The lane: bounded, in order, and nobody waits in it for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from banyan.core.errors import BanyanError, Broken, Unreachable
from banyan.core.records import Unit
from banyan.store.lane import Job, Lane, answer
from banyan.store.transactor import Outcome


def late() -> BanyanError:
    return Broken("late", "begun, and not answered")


def nothing(u: Unit) -> None:
    return None


def serve(lane: Lane, work: Callable[[Job[object]], Outcome[object]]) -> threading.Thread:
    def loop() -> None:
        while job := lane.wait():
            answer([job], [work(job)])

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    return thread


def test_jobs_are_served_in_order_and_the_rest_before_closing() -> None:
    lane = Lane("the store", 100)
    seen: list[str] = []

    async def main() -> list[None]:
        jobs = [asyncio.ensure_future(lane.run(f"j{n}", nothing, 20, late)) for n in range(50)]
        while len(lane) < 50:
            await asyncio.wait([asyncio.ensure_future(asyncio.wait_for(asyncio.Event().wait(), 0.001))])
        thread = serve(lane, lambda job: (seen.append(job.name), Outcome())[1])
        lane.close()
        answers = await asyncio.gather(*jobs)
        thread.join(20)
        return answers

    assert asyncio.run(main()) == [None] * 50
    assert seen == [f"j{n}" for n in range(50)]


def test_a_full_lane_refuses_at_once() -> None:
    lane = Lane("the store", 3)

    async def main() -> None:
        waiting = [asyncio.ensure_future(lane.run("x", nothing, 20, late)) for _ in range(3)]
        await turn()
        with pytest.raises(Unreachable, match="3 units of work waiting") as refused:
            await lane.run("one too many", nothing, 20, late)
        assert refused.value.code == "store-busy"
        assert refused.value.transient
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(main())


async def turn() -> None:
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


def test_a_caller_that_gave_up_is_taken_out_before_the_job_begins() -> None:
    lane = Lane("the store", 10)

    async def main() -> None:
        gone = asyncio.ensure_future(lane.run("gone", nothing, 20, late))
        stays = asyncio.ensure_future(lane.run("stays", nothing, 20, late))
        await turn()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        job = lane.poll()
        assert job is not None
        assert job.name == "stays"
        answer([job], [Outcome(None)])
        await stays

    asyncio.run(main())


def test_patience_ends_and_says_whether_anything_may_have_happened() -> None:
    lane = Lane("the store", 10)

    async def main() -> None:
        begun = asyncio.ensure_future(lane.run("begun", nothing, 0.05, late))
        waits = asyncio.ensure_future(lane.run("waits", nothing, 0.05, late))
        await turn()
        job = lane.poll()
        assert job is not None
        with pytest.raises(Broken, match="begun"):
            await begun
        with pytest.raises(Unreachable, match="nothing was done") as refused:
            await waits
        assert refused.value.code == "store-busy"
        # The late answer finds nobody, and harms nobody; the other job is not begun any more.
        answer([job], [Outcome(error=LookupError())])
        await turn()
        assert lane.poll() is None

    asyncio.run(main())


def test_an_answer_to_a_loop_that_is_gone_is_dropped() -> None:
    lane = Lane("the store", 10)

    async def main() -> None:
        task = asyncio.ensure_future(lane.run("x", nothing, 20, late))
        await turn()
        jobs.append(lane.poll())
        task.cancel()

    jobs: list[Job[object] | None] = []
    asyncio.run(main())
    assert jobs[0] is not None
    answer([jobs[0]], [Outcome(None)])


def test_a_closed_lane_takes_nothing() -> None:
    lane = Lane("the store", 10)
    lane.close()
    assert lane.wait() is None
    with pytest.raises(Unreachable, match="closed"):
        asyncio.run(lane.run("x", nothing, 20, late))


def test_a_pause_ends_when_the_lane_closes() -> None:
    lane = Lane("the store", 10)
    thread = threading.Thread(target=lane.pause, args=(60.0,))
    thread.start()
    lane.close()
    thread.join(10)
    assert not thread.is_alive()
