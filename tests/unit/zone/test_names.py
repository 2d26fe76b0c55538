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


def test_a_top_whose_name_is_spelled_as_a_code_below_is_told_apart_by_what_the_refusal_says(house: Household) -> None:
    """Its whole path is one word, and nothing can be put in front of it."""
    tree = house.zone.tree
    tree.move(tree.root, "edge0001")
    false = house.stranger("false")
    false.code = ZoneCode(parse_code("edge0001"))
    house.run(house._admit(false))
    with pytest.raises(Conflict, match=r"edge0001, edge0001/false \(code:edge0001\)") as refused:
        tree.resolve("edge0001")
    said = refused.value.text.partition(";")[2]
    assert f"`.` or {coded_text(tree.root)} is edge0001 itself" in said
    assert tree.resolve(".") == tree.resolve(coded_text(tree.root)) == tree.root
    assert tree.resolve("code:edge0001") == tree.resolve("edge0001/false") == false.code


def test_where_this_zone_is_not_meant_the_refusal_does_not_name_it(house: Household) -> None:
    edge, false = reported(house, "edge0001"), house.stranger("false")
    false.code = ZoneCode(parse_code("edge0001"))
    house.run(house._admit(false))
    with pytest.raises(Conflict) as refused:
        house.zone.tree.resolve(edge.name)
    assert refused.value.text.endswith("; give more of the path")
