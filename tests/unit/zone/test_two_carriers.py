"""A database of a version before may hold a zone through two children: one of them has it, by rule, and it is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
import pytest

from banyan.core.lineage import MAX_ROWS, Row
from banyan.core.messages import Ack
from banyan.core.records import StoreFull, Unit
from banyan.core.time import Wall
from banyan.zone import two_carriers
from banyan.zone.refused_zones import RefusedZones
from banyan.zone.two_carriers import settle_carriers
from tests.unit.zone.household import ADMIN, Household, Kid, delta
from tests.unit.zone.test_at_once import Siblings, between, carriers, via


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


# --- what lies below ------------------------------------------------------------------------------


def earlier(house: Household, *kept: tuple[Kid, int, Sequence[Row]]) -> None:
    """As an earlier version had kept it, each with its epoch; then a start."""
    house.run(house.store.write("earlier", lambda unit: put(unit, kept)))
    house.restore(house.store.image())


def put(unit: Unit, kept: Sequence[tuple[Kid, int, Sequence[Row]]]) -> None:
    for kid, epoch, rows in kept:
        child = unit.children.get(kid.code)
        assert child is not None
        unit.lineage.put(kid.code, rows)
        unit.children.put(replace(child, epoch=epoch, heard_at=Wall(9.0)))
        unit.streams.put_generations(kid.code, 3, 4)


def reached(house: Household) -> None:
    """Each zone is reached through the child on its path, and nowhere else."""
    tree = house.zone.tree
    for path, node in tree.all():
        above = tree.get(node.parent)
        if above is None and node.parent != tree.root:
            continue  # what is above it is still to come
        assert node.via == (node.code if above is None else above.via), path
        if node.via != node.code:
            kept = house.run(house.store.read(lambda unit, code=node.code: unit.lineage.carriers(code)))
            assert list(kept) == [node.via], path


@pytest.mark.parametrize("epoch", [1, 99])
def test_what_is_below_a_child_of_our_own_is_reached_through_it(house: Household, epoch: int) -> None:
    both, own = Siblings(house), house.kid("own")
    first, below, deeper = both.first, both.shared, house.stranger("deeper")
    moved = [own.row(first.code, house.zone.own.code), below.row(own.code), deeper.row(below.code)]
    earlier(house, (first, epoch, moved), (own, 5, moved[1:]))
    assert (via(house, own), via(house, below), via(house, deeper)) == (own.code, own.code, own.code)
    reached(house)
    [line] = house.journal("lineage-settled")
    assert (line.target, line.facts["zones"]) == ("first", "3")
    own.open()
    own.report(lineage=delta([own.itself(), *moved[1:]]))
    assert house.journal("lineage-refused") == []
    # Who lost it is asked for all of its lineage, and told what of it is not its.
    assert first.open().known.lineage == 0
    first.report(lineage=delta([first.itself(), *moved]))
    assert {line.target for line in house.journal("lineage-refused")} == {"own", "shared", "deeper"}
    reached(house)


@pytest.mark.parametrize("epoch", [1, 99])
def test_nobody_has_a_zone_below_one_that_another_has(house: Household, epoch: int) -> None:
    """Of two siblings only one had reported what is below: it stays only with the one that has what is above."""
    both, below, deeper = Siblings(house), house.stranger("below"), house.stranger("deeper")
    first, second = both.first, both.second
    under = [below.row(both.shared.code), deeper.row(below.code)]
    earlier(house, (first, 5, [both.row(first)]), (second, epoch, [both.row(second), *under]))
    keeper = second.code if epoch == 99 else first.code
    rest = keeper if keeper == second.code else None
    assert (via(house, both.shared), via(house, below), via(house, deeper)) == (keeper, rest, rest)
    reached(house)
    [line] = house.journal("lineage-settled")
    assert (line.target, line.facts["zones"]) == (("first", "1") if epoch == 99 else ("second", "3"))
    if rest is None:
        first.open()
        first.report(lineage=delta([first.itself(), both.row(first), *under]))
        assert (via(house, below), via(house, deeper)) == (first.code, first.code)


def test_a_zone_whose_parent_only_another_has_goes_with_that(house: Household) -> None:
    """As a settlement zone by zone would have left it: the row above is gone, what is below stands alone."""
    both, own = Siblings(house), house.kid("own")
    first, second, below, deeper = both.first, both.second, house.stranger("below"), house.stranger("deeper")
    alone = [both.row(first), below.row(own.code), deeper.row(below.code)]
    earlier(house, (first, 99, alone), (second, 5, [both.row(second)]), (own, 5, [below.row(own.code)]))
    assert (via(house, both.shared), via(house, below), via(house, deeper)) == (first.code, own.code, None)
    reached(house)


def test_also_where_nothing_is_twice_any_more_a_zone_is_reached_as_its_parent_is(house: Household) -> None:
    """As it is after a settlement zone by zone, or where the parent was another's before it was reported."""
    both, own = Siblings(house), house.kid("own")
    first, second, below, deeper = both.first, both.second, house.stranger("below"), house.stranger("deeper")
    astray = [below.row(own.code), deeper.row(below.code)]
    waits = house.stranger("waits")
    hole = waits.row(house.stranger("to-come").code)
    earlier(house, (first, 99, [both.row(first), *astray]), (second, 5, [hole]), (own, 5, []))
    assert (via(house, both.shared), via(house, below), via(house, deeper)) == (first.code, None, None)
    assert via(house, waits) == second.code, "its parent may be still to come"
    [line] = house.journal("lineage-settled")
    assert (line.target, line.facts["zones"]) == ("first", "2")
    assert first.open().known.lineage == 0
    house.restore(house.store.image())
    assert len(house.journal("lineage-settled")) == 1
    reached(house)
    own.open()
    own.report(lineage=delta([own.itself(), *astray]))
    assert (via(house, below), via(house, deeper)) == (own.code, own.code)
    assert first.open().known.lineage == 0
    assert second.open().known.lineage == 3


def test_two_that_each_have_the_others_zone_at_the_top_agree(house: Household) -> None:
    """One says that x is above y, the other that y is above x."""
    both, x, y = Siblings(house), house.stranger("x"), house.stranger("y")
    first, second = both.first, both.second
    over_y = [x.row(first.code, y.code), y.row(x.code, second.code)]
    over_x = [y.row(second.code, x.code), x.row(y.code, first.code)]
    earlier(house, (first, 5, over_y), (second, 6, over_x))
    assert (via(house, x), via(house, y)) == (second.code, second.code)
    assert house.zone.tree.path_of(x.code) == "top/second/y/x"
    reached(house)


def test_a_settlement_that_was_cut_short_is_ended_by_the_next(
    house: Household, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_carriers, "PAGE", 2)
    both = Siblings(house)
    first, second, line = both.first, both.second, [house.stranger(f"z{number}") for number in range(5)]
    rows = [one.row(above.code) for above, one in zip([both.shared, *line], line, strict=False)]
    kept = [(first, 6, [both.row(first)]), (second, 5, [both.row(second), *rows])]
    house.run(house.store.write("earlier", lambda unit: put(unit, kept)))
    house.store.fail(None, StoreFull)
    with pytest.raises(StoreFull):
        house.run(settle_carriers(house.zone.own, house.store))
    assert house.journal("lineage-settled") == []
    house.restore(house.store.image())
    assert [via(house, one) for one in (both.shared, *line)] == [first.code, *[None] * 5]
    assert second.open().known.lineage == 0
    [said] = house.journal("lineage-settled")
    assert (said.target, said.facts["zones"]) == ("second", "4"), "two of six were gone before"


# --- while it runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [True, False])
def test_what_came_before_its_parent_goes_when_that_is_anothers(house: Household, stored: bool) -> None:
    """Of a child's two pages the first has what is below, and between them another child reports what is above."""
    both, below, deeper = Siblings(house), house.stranger("below"), house.stranger("deeper")
    first, second = both.first, both.second
    page = [below.row(both.shared.code), deeper.row(below.code)]
    first.report(lineage=delta(page, since=1, until=2, more=True))
    late = house.stranger("late")
    last = first.words(lineage=delta([late.row(deeper.code), both.row(first)], since=2, until=3))
    if stored:
        house.run(both.say(second))
        house.run(first.say(last))
    else:
        between(house, "parent.lineage", lambda: both.say(second), lambda: first.say(last))
    assert (via(house, both.shared), via(house, below), via(house, deeper)) == (second.code, None, None)
    assert [carriers(house, one) for one in (below, deeper, late)] == [[], [], []]
    assert via(house, late) is None
    said = {line.target: line.facts["code"] for line in house.journal("lineage-refused")}
    assert said == {"shared": "diamond"} | dict.fromkeys(("below", "deeper", "late"), "parent-refused")
    second.report(lineage=delta(page, since=2, until=3))
    reached(house)
    assert via(house, deeper) == second.code
    # And the first is asked for all of it once the place is free.
    gone = [msgspec.structs.replace(row, gone=True) for row in (both.row(second), *page)]
    second.report(lineage=delta(gone, since=3, until=4))
    assert first.open().known.lineage == 0
    first.report(lineage=delta([first.itself(), both.row(first), *page]))
    assert via(house, deeper) == first.code


def test_however_many_go_with_it_the_refused_one_is_asked_for_again(house: Household) -> None:
    both = Siblings(house)
    first, second = both.first, both.second
    # Of which there may be fewer than go with it.
    house.zone.roster._refused = RefusedZones(most=100)
    crowd = [house.stranger(f"z{number}").row(both.shared.code) for number in range(101)]
    half = MAX_ROWS
    first.report(lineage=delta(crowd[:half], since=1, until=2, more=True))
    first.report(lineage=delta(crowd[half:], since=2, until=3, more=True))
    house.run(both.say(second))
    first.report(lineage=delta([both.row(first)], since=3, until=4))
    assert house.zone.tree.get(crowd[-1].code) is None
    second.report(lineage=delta([msgspec.structs.replace(both.row(second), gone=True)], since=2, until=3))
    ack = first.beat()
    assert isinstance(ack, Ack) and (ack.resend, ack.known.lineage) == (True, 0)
