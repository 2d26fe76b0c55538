"""A database of a version before may hold a zone through two children: one of them has it, by rule, and it is said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from banyan.core.messages import Ack
from banyan.core.records import Unit
from banyan.core.time import Wall
from tests.unit.zone.household import ADMIN, Household, Kid, delta
from tests.unit.zone.test_at_once import Siblings, carriers, via


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def twice(house: Household, both: Siblings, shared: Kid, **rows: dict[str, object]) -> None:
    """As an earlier version had kept it; `rows`: what differs in the row of a child."""

    def earlier(unit: Unit) -> None:
        for kid in (both.first, both.second):
            unit.lineage.put(kid.code, [shared.row(kid.code, both.first.code, both.second.code)])
            child = unit.children.get(kid.code)
            assert child is not None
            unit.children.put(replace(child, **{"epoch": 5, "heard_at": Wall(9.0), **rows.get(kid.name, {})}))
            unit.streams.put_generations(kid.code, 3, 4)

    house.run(house.store.write("earlier", earlier))
    house.restore(house.store.image())


@pytest.mark.parametrize("keeper", ["first", "second"])
@pytest.mark.parametrize("by", [{"epoch": 6, "heard_at": Wall(1.0)}, {"heard_at": Wall(10.0)}])
def test_the_higher_epoch_has_it_then_who_was_heard_last(house: Household, keeper: str, by: dict[str, object]) -> None:
    both = Siblings(house)
    kept, lost = (both.first, both.second) if keeper == "first" else (both.second, both.first)
    twice(house, both, both.shared, **{keeper: by})
    assert via(house, both.shared) == kept.code
    assert carriers(house, both.shared) == [kept.code]
    [line] = house.journal("lineage-settled")
    assert (line.target, line.facts["zones"]) == (lost.name, "1")
    assert f"through {kept.name}" in line.text
    house.restore(house.store.image())
    assert len(house.journal("lineage-settled")) == 1
    # Who lost it is asked for all of its lineage, and hears then what is refused.
    assert lost.open().known.lineage == 0
    lost.report(lineage=delta([lost.itself(), both.row(lost)]))
    assert house.journal("lineage-refused")[-1].facts["code"] == "diamond"


def test_else_the_lower_code_has_it(house: Household) -> None:
    both = Siblings(house)
    twice(house, both, both.shared)
    assert via(house, both.shared) == min(both.first.code, both.second.code)


def test_a_child_of_our_own_is_nobodys_else(house: Household) -> None:
    both, own = Siblings(house), house.kid("own")
    twice(house, both, own, first={"epoch": 99})
    assert via(house, own) == own.code
    assert carriers(house, own) == []
    assert {line.target for line in house.journal("lineage-settled")} == {"first", "second"}


def test_what_a_retired_child_had_reported_is_no_second_place(house: Household) -> None:
    both = Siblings(house)
    house.run(both.say(both.first))
    house.run(house.zone.words.apply(ADMIN, "zone.retire", both.first.code, {}))
    ack = house.run(both.say(both.second))
    assert isinstance(ack, Ack)
    house.restore(house.store.image())
    assert via(house, both.shared) == both.second.code
    assert house.journal("lineage-settled") == []
