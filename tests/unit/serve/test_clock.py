"""The real clock keeps what its port promises."""

from __future__ import annotations

import asyncio

from banyan.core.time import Mono
from banyan.serve.clock import SystemClock, SystemIds


def test_a_past_instant_still_gives_the_loop_a_turn() -> None:
    async def turns() -> int:
        clock, seen = SystemClock(), 0

        async def other() -> None:
            nonlocal seen
            while True:
                seen += 1
                await clock.sleep_until(Mono(0.0))

        task = asyncio.ensure_future(other())
        for _ in range(20):
            await clock.sleep_until(Mono(clock.now() - 1))
        task.cancel()
        return seen

    assert asyncio.run(asyncio.wait_for(turns(), 10)) >= 19


def test_nobody_wakes_too_early() -> None:
    async def slept() -> float:
        clock = SystemClock()
        due = Mono(clock.now() + 0.02)
        await clock.sleep_until(due)
        return clock.now() - due

    assert asyncio.run(slept()) >= 0


def test_a_machine_knows_its_boot() -> None:
    assert len(SystemClock().boot_id()) == 36


def test_chance_stays_in_its_bounds() -> None:
    ids = SystemIds()
    assert {ids.below(3) for _ in range(200)} == {0, 1, 2}
    assert all(1.0 <= ids.uniform(1.0, 2.0) <= 2.0 for _ in range(200))
    assert len({ids.token(16) for _ in range(50)}) == 50
