"""The ceiling of a project's use: no order passes a limit, whatever comes at the same time, is lost, or dies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest

from banyan.core.errors import Refused
from banyan.core.principal import Principal
from banyan.core.quota import DEFAULTS, NO_USE, Limits, Quota, Use
from banyan.store.inline import Image, InlineStore, no_pause
from banyan.zone.compute.ceilings import AHEAD, Ceilings
from banyan.zone.compute.desk import Desk
from banyan.zone.own import open_own
from tests.api.nova.cloud import principals
from tests.api.serving import StillClock
from tests.contract.store.fakes import SeededIds

ONE = Use(1, 2, 512)


@dataclass
class World:
    """A zone, and a tree that holds `held`: what an order made is there once its answer came."""

    desk: Desk
    store: InlineStore
    clock: StillClock
    who: Principal
    held: Use = NO_USE
    whole: bool = True
    counts: int = 0
    before_count: Callable[[], Awaitable[None]] | None = None
    ceilings: Ceilings = field(init=False)

    def __post_init__(self) -> None:
        self.ceilings = Ceilings(self.desk, self.count)

    async def count(self, who: Principal) -> Use | None:
        self.counts += 1
        held = self.held
        if self.before_count is not None:
            await self.before_count()
        return held if self.whole else None

    async def order(self, use: Use = ONE) -> None:
        reservation = await self.ceilings.reserve(self.who, use)
        await no_pause("placing")
        self.held += use
        reservation.settle()

    async def stored(self) -> Use:
        row = await self.desk.read(lambda rows: rows.quotas.use("p1"))
        return NO_USE if row is None else row.use


def limits(servers: int) -> Limits:
    return {**DEFAULTS, Quota.SERVERS: servers}


async def world(servers: int = 10_000, image: Image | None = None) -> World:
    store = InlineStore(SeededIds(), no_pause, rehearse=False, image=image)
    clock = StillClock()
    own = await open_own(store, clock, SeededIds(5), "top", {})
    return World(Desk(own, store, clock, SeededIds(6), limits(servers)), store, clock, principals(own.code)["member"])


def test_a_commit_pays_for_many_orders() -> None:
    async def play() -> None:
        w = await world()
        commits = [0]
        write = w.store.write

        async def counted(name: str, work: object) -> object:
            commits[0] += 1
            return await write(name, work)

        w.store.write = counted
        for _ in range(3 * AHEAD):
            await w.order()
        # The first finds no row, and makes one.
        assert commits[0] <= 3 + 2
        assert (await w.stored()).servers >= w.held.servers

    asyncio.run(play())


@pytest.mark.parametrize("most", [0, 1, 7, AHEAD, AHEAD + 3])
def test_no_more_are_made_than_the_limit_whoever_asks_at_once(most: int) -> None:
    async def play() -> None:
        w = await world(most)
        answers = await asyncio.gather(*(w.order() for _ in range(most + 9)), return_exceptions=True)
        assert sum(answer is None for answer in answers) == most
        assert w.held == ONE * most
        assert all(answer is None or isinstance(answer, Refused) for answer in answers)

    asyncio.run(play())


def test_a_refusal_names_what_is_in_the_way() -> None:
    async def play() -> None:
        w = await world(1)
        await w.order()
        with pytest.raises(Refused) as refused:
            await w.order(Use(2, 1, 1))
        assert refused.value.code == "quota-exceeded"
        assert refused.value.text == "Quota exceeded for instances: Requested 2, but already used 1 of 1 instances"

    asyncio.run(play())


def test_what_was_deleted_can_be_had_again_at_once() -> None:
    async def play() -> None:
        w = await world(2)
        await w.order()
        await w.order()
        for _ in range(5):
            w.held -= ONE
            w.ceilings.deleted("p1")
            await w.order()
            with pytest.raises(Refused):
                await w.order()

    asyncio.run(play())


def test_a_refusal_that_nothing_changes_is_not_counted_for_each_time() -> None:
    async def play() -> None:
        w = await world(1)
        await w.order()
        before = w.counts
        for _ in range(20):
            with pytest.raises(Refused):
                await w.order()
        assert w.counts <= before + 1
        w.clock.at += 10
        w.held = NO_USE
        await w.order()

    asyncio.run(play())


def test_a_count_overlooks_nobody_who_is_on_the_way() -> None:
    """While the tree is counted one order is answered, one begins, and one was never answered."""

    async def play() -> None:
        w = await world(4)
        await w.order()
        slow = await w.ceilings.reserve(w.who, ONE)
        begun: list[object] = []

        async def meanwhile() -> None:
            w.held += ONE
            slow.settle()
            begun.append(await w.ceilings.reserve(w.who, ONE))

        w.before_count = meanwhile
        w.ceilings.deleted("p1")
        with pytest.raises(Refused):
            await w.ceilings.reserve(w.who, ONE * 3)
        w.before_count = None
        # Two are there, one is on its way: there is room for one more.
        await w.order()
        with pytest.raises(Refused):
            await w.order()

    asyncio.run(play())


def test_what_is_cancelled_is_given_to_the_next() -> None:
    async def play() -> None:
        w = await world(1)
        for _ in range(3):
            (await w.ceilings.reserve(w.who, ONE)).cancel()
        await w.order()
        with pytest.raises(Refused):
            await w.order()

    asyncio.run(play())


def test_who_got_less_gives_the_rest_back() -> None:
    async def play() -> None:
        w = await world(5)
        reservation = await w.ceilings.reserve(w.who, ONE * 5)
        w.held += ONE * 2
        reservation.settle(ONE * 2)
        reservation.cancel()  # it ended already: this gives nothing twice
        for _ in range(3):
            await w.order()
        with pytest.raises(Refused):
            await w.order()

    asyncio.run(play())


def test_a_zone_that_dies_forgets_what_it_had_ahead_on_the_safe_side() -> None:
    async def play() -> None:
        w = await world(AHEAD)
        await w.order()
        w.store.crash()
        again = await world(AHEAD, w.store.image())
        again.held = w.held
        for _ in range(AHEAD - 1):
            await again.order()
        with pytest.raises(Refused):
            await again.order()
        assert again.held.servers == AHEAD

    asyncio.run(play())


def test_while_a_part_of_the_tree_is_away_nothing_is_lowered() -> None:
    async def play() -> None:
        w = await world(2)
        await w.order()
        await w.order()
        w.held, w.whole = NO_USE, False
        w.ceilings.deleted("p1")
        with pytest.raises(Refused):
            await w.order()
        w.whole = True
        await w.order()

    asyncio.run(play())


def test_who_is_cancelled_while_taking_keeps_nothing() -> None:
    async def play() -> None:
        w = await world(1)
        await w.desk.change("begun", lambda unit: unit.compute.quotas.begin("p1", NO_USE))
        task = asyncio.ensure_future(w.ceilings.reserve(w.who, ONE))
        await no_pause("begun")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await w.stored()) == ONE, "it was taken all the same"
        await w.order()
        with pytest.raises(Refused):
            await w.order()

    asyncio.run(play())


def test_spare_of_old_limits_is_not_given_out_under_new_ones() -> None:
    async def play() -> None:
        w = await world()
        await w.order()
        await w.ceilings.drop_spare("p1")
        w.desk = replace(w.desk, limits=limits(1))
        lowered = Ceilings(w.desk, w.count)
        with pytest.raises(Refused):
            await lowered.reserve(w.who, ONE)
        with pytest.raises(Refused):
            await lowered.reserve(w.who, ONE)
        assert (await w.stored()).servers == 1

    asyncio.run(play())
