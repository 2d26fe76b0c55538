"""When the zones below were heard: what a child says of that is believed where it can be so, and is nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from banyan.core.messages import Beat
from banyan.zone.live import heard_below
from tests.unit.zone.household import Household, Kid, delta


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def carrier(house: Household, name: str, below: str) -> Kid:
    kid = house.kid(name)
    joined = house.zone.own.wall()
    house.run(house.zone.roster.change(kid.code, "joined", lambda child: replace(child, joined_at=joined)))
    house.go(5)
    kid.open()
    kid.report(
        lineage=delta([kid.itself(), house.stranger(below).row(kid.code)]), heard=round(house.zone.own.wall() * 1000)
    )
    return kid


def says(kid: Kid, heard: int) -> None:
    kid.seq += 1
    kid.house.run(kid.say(Beat(kid.seq, heard)))
    kid.house.go(2)


@pytest.mark.parametrize("lie", [1, 1_000_000_000_000])
def test_what_can_not_be_so_is_unknown_and_makes_no_sibling_older(house: Household, lie: int) -> None:
    east, west = carrier(house, "east", "lab"), carrier(house, "west", "attic")
    house.go(2)
    before = house.zone.roster.heard()
    assert before > 0
    says(west, lie)
    assert house.zone.roster.heard() >= before
    now = house.zone.own.wall()
    assert heard_below(house.zone.roster.live[west.code], now) == -1
    assert heard_below(house.zone.roster.live[east.code], now) > 0


def test_an_instant_from_before_it_joined_is_unknown_too(house: Household) -> None:
    east = carrier(house, "east", "lab")
    live = house.zone.roster.live[east.code]
    assert live.child.joined_at is not None
    joined, now = round(live.child.joined_at * 1000), house.zone.own.wall()
    for below, believed in ((joined - 1, -1), (joined + 1, joined + 1), (round(now * 1000) + 60_000, -1), (0, 0)):
        live.below = below
        assert heard_below(live, now) == believed
