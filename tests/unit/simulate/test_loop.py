"""The virtual loop: order, jumps, deadlines, and what a world has not."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from banyan.simulate.loop import (
    DeadlockError,
    LivelockError,
    OutsideError,
    OverdueError,
    Owner,
    VirtualLoop,
    owned,
)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


async def nap(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_later(seconds, future.set_result, None)
    await future


def test_time_jumps_to_the_next_timer_and_to_the_end_of_the_span(loop: VirtualLoop) -> None:
    seen: list[float] = []
    for delay in (86_400.0, 5.0):
        loop.call_later(delay, lambda: seen.append(loop.time()))
    loop.run_until(60.0)
    assert seen == [5.0]
    assert loop.time() == 60.0
    loop.run_until(86_400.0)
    assert seen == [5.0, 86_400.0]


def test_timers_of_one_instant_run_in_the_order_they_were_made(loop: VirtualLoop) -> None:
    seen: list[int] = []
    for number in range(100):
        loop.call_at(7.0, seen.append, number)
    loop.run_until(7.0)
    assert seen == list(range(100))


def test_what_is_ready_runs_before_time_moves(loop: VirtualLoop) -> None:
    seen: list[str] = []

    def chain(left: int) -> None:
        seen.append(f"{left}@{loop.time():g}")
        if left:
            loop.call_soon(chain, left - 1)

    loop.call_soon(chain, 2)
    loop.call_later(1.0, seen.append, "timer")
    loop.run_until(2.0)
    assert seen == ["2@0", "1@0", "0@0", "timer"]


def test_a_cancelled_timer_neither_runs_nor_holds_memory(loop: VirtualLoop) -> None:
    for _ in range(10_000):
        loop.call_later(1e6, pytest.fail).cancel()
    assert len(loop._timers) < 3_000
    loop.run_until(2e6)


def test_run_task_gives_the_result_and_errors(loop: VirtualLoop) -> None:
    async def answer() -> int:
        await nap(10.0)
        return 42

    async def fail() -> None:
        await nap(1.0)
        raise KeyError("x")

    assert loop.run_task(answer(), within=60.0) == 42
    assert loop.time() == 10.0
    with pytest.raises(KeyError):
        loop.run_task(fail(), within=60.0)


def test_a_deadlock_names_the_tasks_that_wait_and_where(loop: VirtualLoop) -> None:
    async def forever() -> None:
        await loop.create_future()

    task = loop.create_task(forever(), name="top/east inventory")
    with pytest.raises(DeadlockError, match=r"top/east inventory: .*test_loop.py:\d+ in .*forever"):
        loop.run_forever()
    task.cancel()
    loop.run_until(0.0)


def test_an_answer_that_does_not_come_is_overdue_and_its_task_is_ended(loop: VirtualLoop) -> None:
    ended: list[bool] = []

    async def forever() -> None:
        try:
            await loop.create_future()
        finally:
            ended.append(True)

    with pytest.raises(OverdueError, match="forever"):
        loop.run_task(forever(), within=5.0)
    assert loop.time() == 5.0
    assert ended == [True]


def test_a_livelock_is_an_error(loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banyan.simulate.loop.MAX_CALLBACKS_AT_ONE_INSTANT", 1000)

    def again() -> None:
        loop.call_soon(again)

    loop.call_soon(again)
    with pytest.raises(LivelockError):
        loop.run_until(1.0)


def test_a_loop_that_waits_for_less_than_time_can_measure_is_noticed(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("banyan.simulate.loop.CALLBACKS_PER_MILLISECOND", 100)

    async def spin() -> None:
        while loop.time() < 1.1:
            await nap(1e-20)

    loop.run_until(1.0)
    task = loop.create_task(spin(), name="spinner")
    loop.run_until(2.0)
    assert any("spinner" in failure for failure in loop.failures)
    loop.run_until_complete(task)


def test_there_is_no_outside(loop: VirtualLoop) -> None:
    async def thread() -> None:
        await asyncio.to_thread(print)

    async def socket() -> None:
        await asyncio.open_connection("127.0.0.1", 9)

    async def process() -> None:
        await asyncio.create_subprocess_exec("true")

    for attempt, what in ((thread, "thread"), (socket, "socket"), (process, "process")):
        with pytest.raises(OutsideError, match=what):
            loop.run_task(attempt(), within=1.0)
    caught: list[BaseException] = []

    def intrude() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except OutsideError as error:
            caught.append(error)

    intruder = threading.Thread(target=intrude)
    intruder.start()
    intruder.join()
    assert caught


def test_tasks_belong_to_the_owner_of_the_task_that_made_them(loop: VirtualLoop) -> None:
    owner = Owner("top/east")

    async def child() -> None:
        await nap(1e9)

    async def parent() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(child())

    loop.create_task(parent(), context=owned(owner))
    other = loop.create_task(child())
    loop.run_until(1.0)
    assert len(owner.tasks) == 4
    owner.cancel()
    loop.run_until(2.0)
    assert not owner.tasks
    assert not other.done()
    other.cancel()
    loop.run_until(3.0)


def test_a_set_of_tasks_iterates_alike_in_every_run() -> None:
    orders = []
    for _ in range(2):
        loop = VirtualLoop()
        ballast = [object() for _ in range(1000)]  # moves the heap, so that addresses differ
        tasks = {loop.create_task(nap(1.0), name=f"t{n}") for n in range(50)}
        orders.append([task.get_name() for task in tasks])
        loop.run_until(2.0)
        loop.close()
        del ballast
    assert orders[0] == orders[1]


def test_what_a_callback_or_a_forgotten_task_raises_is_kept(loop: VirtualLoop) -> None:
    async def fail() -> None:
        raise ValueError("forgotten")

    loop.call_soon(lambda: 1 / 0)
    task = loop.create_task(fail())
    loop.run_until(1.0)
    del task
    gc.collect()
    assert len(loop.failures) == 2
    assert "ZeroDivisionError" in loop.failures[0]
    assert "forgotten" in loop.failures[1]
