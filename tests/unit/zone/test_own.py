"""A zone's own row has several writers: none of them undoes what another wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from banyan.core.errors import BadInput, Conflict
from banyan.core.identity import Role
from banyan.core.ids import ZoneCode
from banyan.core.records import Self, Unit
from banyan.core.time import BUILD_DATE, TimeBasis, Wall
from banyan.simulate.ids import SeededIds
from banyan.store.inline import InlineStore
from banyan.zone.own import Adopted, open_own
from banyan.zone.views import TokenView
from tests.unit.zone.household import ADMIN, Household

LATER = Wall(BUILD_DATE + 86_400.0)


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def stored(house: Household) -> Self:
    row = house.run(house.store.read(lambda unit: unit.self_.get()))
    assert row is not None
    return row


def take_time(house: Household) -> None:
    """From now on each unit takes a while, so that its neighbours begin before it ends."""

    async def pause(instant: str) -> None:
        await house.nap(0.003)

    house.pause = pause


def test_changes_that_meet_are_all_kept(house: Household) -> None:
    own = house.zone.own
    take_time(house)

    async def all_at_once() -> None:
        await asyncio.gather(
            own.learn_time(TimeBasis(3.0, BUILD_DATE)),
            own.raise_epoch("a child has seen more", own.row.epoch),
            own.learn_time(TimeBasis(5.0, LATER)),
        )

    house.run(all_at_once())
    assert own.row == stored(house)
    assert (own.row.time, own.row.epoch) == (TimeBasis(5.0, LATER), 2)
    assert own.row.restored_at is not None
    house.run(own.release(ADMIN))
    assert own.row == stored(house)
    assert (own.row.epoch, own.row.time.offset) == (2, 5.0)
    assert stored(house).restored_at is None


def test_tokens_of_a_zone_that_took_anothers_place_are_listed_as_what_they_are(house: Household) -> None:
    own, tokens = house.zone.own, house.zone.tokens

    async def token() -> str:
        return (await tokens.create(ADMIN, "bob", Role.VIEWER, own.code, None)).id

    async def states() -> dict[str, str]:
        page = await tokens.page("", 10)
        return {view.id: view.state for view in (msgspec.json.decode(row, type=TokenView) for row in page.items)}

    def of_a_version_before(unit: Unit) -> None:
        for row in unit.tokens.page(None, 10):
            unit.tokens.put(replace(row, issuer=None))

    older = house.run(token())
    house.run(house.store.write("earlier", of_a_version_before))
    old = house.run(token())
    assert house.run(states()) == {older: "good", old: "good"}
    code = ZoneCode(0xABCDE)
    own.adopted(house.run(house.store.write("child.certified", lambda unit: own.adopt(unit, code, bytes(range(32))))))
    new = house.run(token())
    assert house.run(states()) == {older: "of-another-zone", old: "of-another-zone", new: "good"}
    with pytest.raises(Conflict, match="of-another-zone"):
        house.run(tokens.affirm(ADMIN, old))


@pytest.mark.parametrize("first", ["adopt", "learn"])
def test_a_code_that_is_taken_over_meanwhile_is_kept(house: Household, first: str) -> None:
    own, code = house.zone.own, ZoneCode(0xABCDE)
    take_time(house)

    def work(unit: Unit) -> Adopted | None:
        return own.adopt(unit, code, bytes(range(32)))

    async def adopt() -> None:
        own.adopted(await house.store.write("child.certified", work))

    async def all_at_once() -> None:
        learn = own.learn_time(TimeBasis(5.0, LATER))
        await asyncio.gather(*((adopt(), learn) if first == "adopt" else (learn, adopt())))

    house.run(all_at_once())
    assert own.row == stored(house)
    assert (own.row.code, own.row.time) == (code, TimeBasis(5.0, LATER))
    assert [one.row.current for one in own.authorities] == [True]


def test_what_was_not_stored_does_not_count(house: Household) -> None:
    """And a change whose asker was cancelled is either made in both places, or in none."""
    own = house.zone.own
    before = own.row

    async def cut_short() -> None:
        take_time(house)
        task = asyncio.ensure_future(own.learn_time(TimeBasis(9.0, LATER)))
        await house.nap(0.004)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    house.run(cut_short())
    assert own.row == stored(house)
    assert own.row.time in (before.time, TimeBasis(9.0, LATER))


def test_a_zone_may_be_called_as_a_code_is_spelled_and_keeps_its_name(house: Household) -> None:
    own = house.zone.own

    def named(unit: Unit) -> None:
        unit.self_.put(replace(own.row, name="h4kmsy1t"))

    async def pause(instant: str) -> None:
        pass

    empty = InlineStore(SeededIds(1, "new"), pause)
    assert house.run(open_own(empty, house.clock, house.ids, "h4kmsy1t", {})).name == "h4kmsy1t"
    house.run(house.store.write("named", named))
    with pytest.raises(BadInput, match="belongs to zone 'h4kmsy1t'"):
        house.run(open_own(house.store, house.clock, house.ids, "lab", {}))
    assert house.run(open_own(house.store, house.clock, house.ids, "h4kmsy1t", {})).name == "h4kmsy1t"
