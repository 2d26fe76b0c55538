"""A zone named as another's code: refused wherever a name is given, and never taken for that other zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from banyan.core.errors import BadInput
from banyan.core.ids import code_text
from banyan.core.messages import HelloAck
from banyan.core.records import Unit
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
    impostor, honest = house.stranger(code_text(east.code)), house.stranger("lab")
    rows = [impostor.row(west.code), honest.row(west.code)]
    west.report(lineage=delta(rows, since=1, until=2))
    assert house.zone.tree.resolve(code_text(east.code)) == east.code
    assert house.zone.tree.get(impostor.code) is None
    assert house.zone.tree.get(honest.code) is not None
    assert "banyan zone rename" in house.journal("lineage-refused")[0].text


def test_no_zone_is_renamed_so_and_one_that_is_called_so_can_be_renamed(house: Household) -> None:
    east, west = reported(house, "east"), reported(house, "west")
    taken = code_text(east.code)
    with pytest.raises(BadInput, match="reads as the code"):
        house.run(house.zone.words.apply(ADMIN, "zone.rename", west.code, {"name": taken}))

    def earlier(unit: Unit) -> None:
        row = unit.children.get(west.code)
        assert row is not None
        unit.children.put(replace(row, name=taken))

    house.run(house.store.write("earlier", earlier))
    house.restore(house.store.image())
    answer = west.open()
    assert isinstance(answer, HelloAck)
    assert answer.name == taken
    west.report(lineage=delta([west.itself()]))
    house.run(house.zone.words.apply(ADMIN, "zone.rename", west.code, {"name": "west"}))
    assert house.zone.tree.resolve("west") == west.code
    assert house.zone.tree.resolve(taken) == east.code
