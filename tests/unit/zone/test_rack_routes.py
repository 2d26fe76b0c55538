"""Ids find their way by the rack that is in them; nobody takes another's."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import pytest

from banyan.core.errors import BanyanError
from banyan.core.ids import RackCode, ZoneCode, code_text
from banyan.core.lineage import Entry, RackEntry, Row
from banyan.core.records import StoreFull
from banyan.trust.lineage import sign_entry
from banyan.zone.metrics import measured
from banyan.zone.rack_owners import LINES_PER_MINUTE
from banyan.zone.rack_routes import RackRoutes
from banyan.zone.reconcile.refusals import REFUSALS_PER_MINUTE
from tests.unit.zone.household import ADMIN, Household, Kid, delta

A, B = ZoneCode(1), ZoneCode(2)
R, S = RackCode(10), RackCode(11)


def test_a_rack_is_its_zones_until_that_names_it_no_more() -> None:
    routes = RackRoutes()
    routes.put(A, [R, S])
    assert (routes.owner(R), routes.owner(S), routes.owner(RackCode(12))) == (A, A, None)
    routes.put(A, [S])
    assert (routes.owner(R), routes.owner(S), len(routes)) == (None, A, 1)
    routes.drop(A)
    assert len(routes) == 0


def test_who_names_a_rack_of_another_gets_it_only_when_that_lets_it_go() -> None:
    routes = RackRoutes()
    routes.put(A, [R])
    routes.put(B, [R])
    assert routes.owner(R) == A
    routes.drop(A)
    assert routes.owner(R) == B
    routes.drop(B)
    assert (routes.owner(R), len(routes)) == (None, 0)


def test_any_number_of_zones_may_name_one_rack_and_leave() -> None:
    """All come through one child, which may be retired: the loop that serves the others must not stand for minutes."""
    routes, rack = RackRoutes(), RackCode(7)
    zones = [ZoneCode(number) for number in range(1, 30_001)]
    began = time.process_time()
    for zone in zones:
        routes.put(zone, [rack])
    for zone in zones:
        routes.drop(zone)
    assert time.process_time() - began < 3.0
    assert len(routes) == 0


def test_whose_a_contested_rack_was_is_whose_it_is_after_a_start() -> None:
    first = RackRoutes()
    first.put(B, [R, S])
    first.put(A, [R])
    assert first.unkept() == {R: B}
    first.keep(first.unkept())
    assert first.unkept() == {}
    second = RackRoutes()
    second.put(A, [R])
    second.put(B, [R, S])
    second.decide({R: B})
    assert (second.owner(R), second.waiting(R), second.unkept()) == (B, [A], {})
    second.drop(B)
    assert (second.owner(R), second.unkept()) == (A, {R: None})
    third = RackRoutes()
    third.put(A, [R])
    third.decide({R: B})
    assert (third.owner(R), third.unkept()) == (A, {R: None})


def naming(kid: Kid, *racks: RackCode) -> Row:
    """Its own row, which names these racks."""
    entry = msgspec.msgpack.decode(kid.itself().entry, type=Entry)
    named = tuple(RackEntry(rack, f"r{rack}", "sim") for rack in racks)
    body = msgspec.msgpack.encode(msgspec.structs.replace(entry, racks=named))
    return msgspec.structs.replace(kid.itself(), entry=body, signature=sign_entry(kid.seed, body))


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def contested(house: Household) -> tuple[Kid, Kid]:
    """Two children; the one with the higher code named the rack first."""
    low, high = sorted((house.kid("a"), house.kid("b")), key=lambda kid: kid.code)
    for kid in (high, low):
        kid.open()
        kid.report(lineage=delta([naming(kid, R)]))
    assert house.zone.roster.routes.owner(R) == high.code
    return low, high


def test_the_owner_of_a_contested_rack_outlives_a_restart(house: Household) -> None:
    _, high = contested(house)
    house.restore(house.store.image())
    assert house.zone.roster.routes.owner(R) == high.code


def test_a_contested_rack_is_in_the_journal_with_both(house: Household) -> None:
    low, high = contested(house)
    [line] = house.journal("rack-contested")
    assert line.target == f"rack {code_text(R)}"
    assert f"is top/{high.name}'s, and top/{low.name} names it as well" in line.text
    low.report(lineage=delta([naming(low, R)], since=1, until=2))
    assert len(house.journal("rack-contested")) == 1


def test_contested_racks_are_told_within_a_budget_of_their_own_and_nobody_was_refused(house: Household) -> None:
    low, high = contested(house)
    house.start()
    for turn in range(1, 2 * LINES_PER_MINUTE + 1):
        house.go(0.1)  # each entry of a zone has an instant of its own
        for kid in (high, low):
            kid.report(lineage=delta([naming(kid, R, RackCode(1_000 * turn))], since=turn, until=turn + 1))
    assert len(house.journal("rack-contested")) == LINES_PER_MINUTE
    metrics = measured(house.zone)
    assert metrics["banyan_rack_contests_total"] == 2 * LINES_PER_MINUTE + 1
    assert metrics["banyan_strangers_refused_total"] == metrics["banyan_refusals_left_out_total"] == 0
    stranger = house.stranger("c")
    stranger.code = low.code
    for _ in range(REFUSALS_PER_MINUTE):
        with pytest.raises(BanyanError):
            stranger.open()
    assert len(house.journal("session-refused")) == REFUSALS_PER_MINUTE
    house.go(61.0)
    assert not house.journal("refusals-left-out")
    [*_, last] = house.journal("rack-contested")
    assert last.text.startswith(f"{LINES_PER_MINUTE + 1} times more ")
    house.go(200.0)
    assert len(house.journal("rack-contested")) == LINES_PER_MINUTE + 1


def test_a_flood_of_contested_racks_is_told_each_minute_while_it_goes_on(house: Household) -> None:
    """Also where each minute begins with another one."""
    owners, routes = house.zone.roster.owners, house.zone.roster.routes
    for turn in range(1, 400):
        for zone in (A, B):
            routes.put(zone, [RackCode(turn)])
        house.run(owners.activate(house.clock.now()))
        house.go(0.5)
    lines = house.journal("rack-contested")
    told = [int(line.facts["count"]) for line in lines if line.target == "racks"]
    assert len(told) == 3
    house.go(61.0)
    house.run(owners.activate(house.clock.now()))
    written = sum(line.target != "racks" for line in lines)
    told += [int(line.facts["count"]) for line in house.journal("rack-contested")[len(lines) :]]
    assert written + sum(told) == owners.contests == measured(house.zone)["banyan_rack_contests_total"] == 399


@pytest.mark.parametrize("retired", [False, True])
def test_of_a_rack_that_the_owner_lets_go_nothing_is_remembered(house: Household, retired: bool) -> None:
    low, high = contested(house)
    house.start()
    house.go(1.0)
    if retired:
        house.run(house.zone.words.apply(ADMIN, "zone.retire", high.code, {}))
    else:
        high.report(lineage=delta([naming(high)], since=1, until=2))
    house.go(1.0)
    assert house.run(house.store.read(lambda unit: unit.lineage.rack_owners(None, 10))) == []
    assert house.zone.roster.routes.owner(R) == low.code


def test_an_owner_that_was_not_stored_is_stored_later(house: Household) -> None:
    low, high = sorted((house.kid("a"), house.kid("b")), key=lambda kid: kid.code)
    for kid in (high, low):
        kid.open()
    high.report(lineage=delta([naming(high, R)]))
    house.store.fail(None, StoreFull)
    with pytest.raises(StoreFull):
        low.report(lineage=delta([naming(low, R)]))
    house.start()
    house.go(5.0)
    house.restore(house.store.image())
    assert house.zone.roster.routes.owner(R) == high.code
    assert len(house.journal("rack-contested")) == 1


def test_a_database_of_before_gets_its_rows_at_the_start(house: Household) -> None:
    low, _ = contested(house)
    house.run(house.store.write("earlier", lambda unit: unit.lineage.put_rack_owners({R: None})))
    house.restore(house.store.image())
    house.start()
    house.go(1.0)
    assert house.run(house.store.read(lambda unit: unit.lineage.rack_owners(None, 10))) == [(R, low.code)]
    assert len(house.journal("rack-contested")) == 2
