"""A walk over all hosts is made once for all who ask meanwhile, and the less often the longer it takes."""

from __future__ import annotations

import asyncio

import pytest

from banyan.core.errors import Unreachable
from banyan.core.time import Mono
from banyan.simulate.clock import VirtualClock
from banyan.simulate.loop import VirtualLoop
from banyan.zone.compute.walked import LIFE, SHARE, Walked


class Walks:
    """`takes`: seconds."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.made = 0
        self.takes = 4.0
        self.broken = False
        self.clock = VirtualClock(loop, "m")
        self.walked: Walked[int] = Walked(self)

    def mono(self) -> Mono:
        return self.clock.now()

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep_until(Mono(self.clock.now() + seconds))

    async def walk(self) -> int:
        self.made += 1
        number = self.made
        await self.sleep(self.takes)
        if self.broken:
            raise Unreachable("store-busy", "not now")
        return number

    async def get(self) -> int:
        return await self.walked.get(self.walk)


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()


def test_many_who_ask_at_once_share_one_walk(loop: VirtualLoop) -> None:
    async def ask() -> None:
        walks = Walks(loop)
        first = asyncio.ensure_future(walks.get())
        await walks.sleep(1.0)
        others = [asyncio.ensure_future(walks.get()) for _ in range(100)]
        await walks.sleep(1.0)
        first.cancel()
        assert await asyncio.gather(*others) == [1] * 100
        assert walks.made == 1, "and who asked first went away"

    loop.run_task(ask(), within=100.0)


def test_it_is_believed_the_longer_the_longer_it_took(loop: VirtualLoop) -> None:
    async def ask() -> None:
        walks = Walks(loop)
        await walks.get()
        await walks.sleep(4.0 / SHARE - 1.0)
        assert await walks.get() == 1
        await walks.sleep(2.0)
        walks.takes = 0.0
        assert await walks.get() == 2
        await walks.sleep(LIFE + 1.0)
        assert await walks.get() == 3

    loop.run_task(ask(), within=1_000.0)


def test_what_changes_during_a_walk_is_walked_for_again(loop: VirtualLoop) -> None:
    async def ask() -> None:
        walks = Walks(loop)
        first = asyncio.ensure_future(walks.get())
        await walks.sleep(1.0)
        walks.walked.forget()
        second = asyncio.ensure_future(walks.get())
        assert await first == 1
        assert (await walks.get(), await second) == (2, 2)

    loop.run_task(ask(), within=100.0)


def test_a_walk_that_fails_is_not_remembered(loop: VirtualLoop) -> None:
    async def ask() -> None:
        walks = Walks(loop)
        walks.broken = True
        with pytest.raises(Unreachable):
            await walks.get()
        walks.broken = False
        assert await walks.get() == 2

    loop.run_task(ask(), within=100.0)
