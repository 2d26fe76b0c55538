"""The line of those who wait for an answer: few at a time, none in vain, and whoever comes too late is told when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

import pytest

from banyan.core.errors import Unreachable
from banyan.core.ports import WireClosed
from banyan.core.time import Mono
from banyan.link.line import HALF_LIFE, LEAST, MOST, SHARE, Effort, Line
from banyan.link.pace import Turnstile
from banyan.simulate.clock import VirtualClock
from banyan.simulate.loop import VirtualLoop

PATIENCE = 10.0


@dataclass
class Desk:
    """A side that works on one thing after the other, `cost` seconds each."""

    cost: float
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    served: list[int] = field(default_factory=list)
    hung_up: list[int] = field(default_factory=list)
    sent_away: dict[int, float] = field(default_factory=dict)
    most: int = 0
    _inside: int = 0

    def __post_init__(self) -> None:
        self.clock = VirtualClock(self.loop, "test")
        self.turnstile = Turnstile(100, 200, 300, self.clock.now())
        self.line = Line(self.clock, self.turnstile, PATIENCE, lambda: self.turnstile.later(self.clock.now()))
        self.processor = asyncio.Lock()

    async def come(self, who: int, gone: Callable[[], bool] = lambda: False) -> None:
        try:
            async with self.line.turn(gone):
                self._inside += 1
                self.most = max(self.most, self._inside)
                try:
                    async with self.processor:
                        await self.sleep(self.cost)
                finally:
                    self._inside -= 1
                self.served.append(who)
        except WireClosed:
            self.hung_up.append(who)
        except Unreachable as busy:
            self.sent_away[who] = -1.0 if busy.code != "busy" or busy.retry_after is None else busy.retry_after

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep_until(Mono(self.clock.now() + seconds))

    def run(self, test: Coroutine[None, None, None]) -> None:
        self.loop.run_task(test, within=600)
        assert self.loop.failures == []


def test_who_can_be_answered_in_time_is_and_the_others_are_told_when_to_come_back() -> None:
    desk = Desk(0.1)

    async def crowd() -> None:
        async with asyncio.TaskGroup() as tasks:
            for who in range(1000):
                tasks.create_task(desk.come(who))

    desk.run(crowd())
    assert desk.clock.now() < PATIENCE
    assert 40 <= len(desk.served) <= 80
    assert len(desk.served) + len(desk.sent_away) == 1000
    # Spread over what the queue needs.
    waits = sorted(desk.sent_away.values())
    assert 0 < waits[0] < 1.0
    assert waits[-1] > 60.0


def test_nothing_is_done_for_those_who_hung_up() -> None:
    desk = Desk(0.05)
    dead: set[int] = set()

    async def crowd() -> None:
        async with asyncio.TaskGroup() as tasks:
            for who in range(MOST + 40):
                tasks.create_task(desk.come(who, lambda who=who: who in dead))
            await desk.sleep(0.01)
            assert desk.line.waiting == 40
            dead.update(range(MOST, MOST + 39))

    desk.run(crowd())
    assert desk.hung_up == list(range(MOST, MOST + 39))
    assert desk.served == [*range(MOST), MOST + 39]


def test_the_dead_make_no_line_for_the_living() -> None:
    """As soon as anything moves they are out of it, and nobody is sent away because of them."""
    desk = Desk(0.5)
    dead: set[int] = set()

    async def crowd() -> None:
        async with asyncio.TaskGroup() as tasks:
            for who in range(MOST + 4):
                tasks.create_task(desk.come(who, lambda who=who: who in dead))
            await desk.sleep(0.01)
            assert desk.line.waiting == 4
            dead.update(range(MOST, MOST + 4))
            tasks.create_task(desk.come(99))
            await desk.sleep(0.01)
            assert desk.line.waiting == 1

    desk.run(crowd())
    assert desk.served == [*range(MOST), 99]
    assert desk.sent_away == {}


def test_a_side_that_answers_nobody_keeps_nobody_past_its_patience() -> None:
    desk = Desk(500.0)

    async def crowd() -> None:
        tasks = [asyncio.ensure_future(desk.come(who)) for who in range(MOST + 10)]
        await desk.sleep(PATIENCE * 0.8)
        assert sorted(desk.sent_away) == list(range(MOST, MOST + 10))
        assert desk.line.waiting == 0
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        desk.cost = 0.1
        await desk.come(999)
        assert desk.served == [999]

    desk.run(crowd())


def test_who_gives_up_in_the_moment_of_its_turn_keeps_no_place() -> None:
    desk = Desk(1.0)

    async def crowd() -> None:
        first = [asyncio.ensure_future(desk.come(who)) for who in range(MOST)]
        await desk.sleep(0.5)
        late = asyncio.ensure_future(desk.come(99))
        await desk.sleep(0.1)
        first[-1].cancel()
        await desk.sleep(0.0)  # its place is given on
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        for task in first:
            task.cancel()
        await asyncio.gather(*first, return_exceptions=True)
        async with asyncio.TaskGroup() as tasks:
            for who in range(MOST):
                tasks.create_task(desk.come(who))
            await desk.sleep(0.01)
            assert desk.line.waiting == 0

    desk.cost = 0.01
    desk.run(crowd())


def test_the_turnstile_follows_what_the_side_manages() -> None:
    desk = Desk(0.1)

    async def one_by_one() -> None:
        for who in range(200):
            await desk.come(who)

    desk.run(one_by_one())
    now = desk.clock.now()
    entered = sum(desk.turnstile.enter(now) is None for _ in range(500))
    assert entered == pytest.approx(SHARE / 0.1 * PATIENCE / 2, abs=1)
    assert desk.turnstile.later(now) == pytest.approx(min(300, (500 - entered + 1) * 0.1 / SHARE), rel=0.01)


def test_a_side_that_is_quick_is_held_back_by_nothing() -> None:
    desk = Desk(0.0)

    async def crowd() -> None:
        async with asyncio.TaskGroup() as tasks:
            for who in range(1000):
                tasks.create_task(desk.come(who))

    desk.run(crowd())
    assert len(desk.served) == 1000
    assert sum(desk.turnstile.enter(desk.clock.now()) is None for _ in range(500)) == 200


def at(seconds: float) -> Mono:
    return Mono(seconds)


def measured(each: float) -> Effort:
    """After so many that none before them counts, the last at `each`."""
    effort = Effort(at(-200 * each))
    for number in range(-199, 2):
        effort.begin(at((number - 1) * each))
        effort.end(at(number * each), done=True)
    return effort


def test_what_waits_together_costs_less_the_more_share_it() -> None:
    effort = Effort(at(0))
    for _ in range(10):
        effort.begin(at(0))
    for _ in range(10):
        effort.end(at(0.5), done=True)
    assert effort.each == pytest.approx(0.03, rel=0.1)


def test_what_comes_one_after_the_other_costs_its_time_however_many_wait() -> None:
    effort = Effort(at(0))
    for _ in range(30):
        effort.begin(at(0))
    for number in range(30):
        effort.end(at((number + 1) * 0.1), done=True)
        assert effort.each <= 0.1
    assert effort.each == pytest.approx(0.1, rel=0.1)


def test_a_quick_refusal_says_nothing_of_the_others_and_a_slow_one_does() -> None:
    effort = measured(0.4)
    for _ in range(100):
        effort.begin(at(0.4))
        effort.end(at(0.4), done=False)
    assert effort.each == pytest.approx(0.4, rel=0.01)
    effort.begin(at(0.4))
    effort.end(at(30.4), done=False)
    assert effort.each > 2.0


def test_who_was_slow_long_ago_is_not_held_to_it() -> None:
    effort = measured(0.4)
    effort.begin(at(0.4 + 2 * HALF_LIFE))
    assert effort.each == pytest.approx(0.1, rel=0.05)


def test_work_that_takes_for_ever_is_still_done_a_few_at_a_time() -> None:
    desk = Desk(9.0)

    async def some() -> None:
        for who in range(3):
            await desk.come(who)

    desk.run(some())
    assert desk.line.at_once == LEAST
