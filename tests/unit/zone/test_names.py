"""A zone named as another's code is spelled is never taken for that other zone, nor the other for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from banyan.core.errors import Conflict
from banyan.core.ids import ZoneCode, code_text, coded_text, parse_code
from tests.unit.zone.household import ADMIN, Household, Kid, delta


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def reported(house: Household, name: str) -> Kid:
    kid = house.kid(name)
    kid.open()
    kid.report(lineage=delta([kid.itself()]))
    return kid


def test_a_zone_reported_deep_below_a_sibling_takes_over_no_code(house: Household) -> None:
    east, west = reported(house, "east"), reported(house, "west")
    impostor = house.stranger(code_text(east.code))
    west.report(lineage=delta([impostor.row(west.code)], since=1, until=2))
    tree = house.zone.tree
    assert tree.get(impostor.code) is not None
    with pytest.raises(Conflict) as refused:
        tree.resolve(code_text(east.code))
    assert f"top/east ({coded_text(east.code)})" in refused.value.text
    assert tree.path_of(impostor.code) in refused.value.text
    assert tree.resolve(coded_text(east.code)) == east.code
    assert tree.resolve(tree.path_of(impostor.code)) == impostor.code


def test_a_zone_may_have_any_ordinary_name(house: Household) -> None:
    edge = reported(house, "edge0001")
    house.run(house.zone.words.apply(ADMIN, "zone.rename", edge.code, {"name": "braggart"}))
    assert house.zone.tree.resolve("braggart") == edge.code


def test_a_code_that_comes_later_than_the_name_takes_over_no_name(house: Household) -> None:
    """A zone draws its own code: a false one may draw what it likes."""
    edge = reported(house, "edge0001")
    false = house.stranger("false")
    false.code = ZoneCode(parse_code("edge0001"))
    house.run(house._admit(false))
    with pytest.raises(Conflict, match=r"top/edge0001.*top/false \(code:edge0001\)"):
        house.zone.tree.resolve("edge0001")
    assert house.zone.tree.resolve("top/edge0001") == edge.code
    assert house.zone.tree.resolve("code:edge0001") == false.code
