"""Machines' clocks: boot time, wall time, and what befalls them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from banyan.core.time import Mono
from banyan.simulate.clock import WORLD_BEGAN, VirtualClock
from banyan.simulate.ids import stream
from banyan.simulate.loop import VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_both_clocks_follow_virtual_time(loop: VirtualLoop) -> None:
    clock = VirtualClock(loop, "m1")
    assert (clock.now(), clock.wall()) == (0.0, WORLD_BEGAN)
    loop.run_until(90.0)
    assert (clock.now(), clock.wall()) == (90.0, WORLD_BEGAN + 90.0)


def test_a_machine_that_starts_later_counts_from_its_own_boot(loop: VirtualLoop) -> None:
    loop.run_until(1000.0)
    clock = VirtualClock(loop, "m1", offset=-60.0)
    loop.run_until(1010.0)
    assert (clock.now(), clock.wall()) == (10.0, WORLD_BEGAN + 950.0)


def test_a_jump_moves_the_wall_and_not_boot_time(loop: VirtualLoop) -> None:
    clock = VirtualClock(loop, "m1")
    loop.run_until(10.0)
    clock.jump(-90 * 86_400.0)
    assert clock.now() == 10.0
    assert clock.wall() == WORLD_BEGAN + 10.0 - 90 * 86_400.0
    clock.set_offset(5.0)
    assert clock.wall() == WORLD_BEGAN + 15.0


def test_a_fast_quartz_and_its_sleepers(loop: VirtualLoop) -> None:
    clock = VirtualClock(loop, "m1", rate=2.0)
    loop.run_until(10.0)
    assert (clock.now(), clock.wall()) == (20.0, WORLD_BEGAN + 20.0)
    loop.run_task(clock.sleep_until(Mono(30.0)), within=60.0)
    assert loop.time() == 15.0
    clock.run_at(1.0)
    loop.run_until(16.0)
    assert (clock.now(), clock.wall()) == (31.0, WORLD_BEGAN + 31.0)


def test_a_reboot_starts_boot_time_anew_and_names_it_anew(loop: VirtualLoop) -> None:
    clock = VirtualClock(loop, "m1", offset=7.0)
    before = clock.boot_id()
    loop.run_until(50.0)
    clock.reboot()
    loop.run_until(51.0)
    assert clock.now() == 1.0
    assert clock.wall() == WORLD_BEGAN + 58.0
    assert clock.boot_id() != before


def test_sleeping_until_the_past_lets_others_run_and_returns(loop: VirtualLoop) -> None:
    clock = VirtualClock(loop, "m1")
    loop.run_until(10.0)
    seen: list[str] = []

    async def sleeper() -> None:
        await clock.sleep_until(Mono(3.0))
        seen.append("woke")

    task = loop.create_task(sleeper())
    loop.call_soon(seen.append, "other")
    loop.run_until(10.0)
    assert seen == ["other", "woke"]
    assert task.done()


def test_a_sleeper_that_is_cancelled_leaves_no_timer(loop: VirtualLoop) -> None:
    clock = VirtualClock(loop, "m1")
    task = loop.create_task(clock.sleep_until(Mono(1e6)))
    loop.run_until(1.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    assert all(timer.cancelled() for _, _, timer in loop._timers)


def test_whoever_wakes_finds_that_it_is_time(loop: VirtualLoop) -> None:
    chance = stream(1, "instants")
    for _ in range(500):
        clock = VirtualClock(loop, "m1", rate=chance.choice((1.0, 1.01, 0.97)))
        loop.run_until(loop.time() + chance.uniform(0.0, 1000.0))
        clock.reboot()
        instant = Mono(clock.now() + chance.uniform(0.0, 100.0))
        loop.run_task(clock.sleep_until(instant), within=1000.0)
        assert instant <= clock.now() < instant + 1e-3
