"""Who is asked again when a refused zone leaves its place; and that no carrier takes the memory of the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from banyan.core.errors import BanyanError
from banyan.core.ids import ZoneCode
from banyan.core.zone import ChildState
from banyan.zone.refused_zones import RefusedZones
from tests.unit.zone.household import ADMIN, Household, delta
from tests.unit.zone.test_at_once import Siblings

A, B, C = ZoneCode(1), ZoneCode(2), ZoneCode(3)


def codes(first: int, count: int) -> list[ZoneCode]:
    return [ZoneCode(number) for number in range(first, first + count)]


def test_whoever_reported_a_zone_is_named_once_when_it_is_free() -> None:
    refused = RefusedZones()
    refused.put(B, codes(100, 2))
    refused.put(A, codes(100, 1))
    refused.put(A, codes(100, 1))
    assert len(refused) == 3
    assert refused.free(ZoneCode(100)) == [A, B]
    assert refused.free(ZoneCode(100)) == []
    assert refused.free(ZoneCode(101)) == [B]
    assert len(refused) == 0


def test_of_many_zones_of_one_carrier_each_is_asked_for_again() -> None:
    refused = RefusedZones()
    refused.put(A, codes(100, 5_000))
    assert all(refused.free(code) == [A] for code in codes(100, 5_000))
    assert len(refused) == 0


def test_what_is_taken_meanwhile_makes_room_for_others() -> None:
    refused = RefusedZones(most=30)
    refused.put(A, codes(100, 20))
    refused.forget(A, codes(100, 18))
    refused.put(B, codes(1_000, 20))
    refused.put(C, codes(2_000, 20))
    assert len(refused) == 30
    assert refused.of(A) == set(codes(118, 2)), "it has fewest"
    assert abs(len(refused.of(B)) - len(refused.of(C))) <= 1
    refused.leave(B)
    refused.leave(C)
    refused.put(B, codes(1_000, 40))
    assert len(refused) == 30 and refused.of(A) == set(codes(118, 2))


def test_a_carrier_that_reports_without_end_pushes_out_its_own_only() -> None:
    refused = RefusedZones(most=13)
    refused.put(A, codes(100, 3))
    for number in range(200):
        refused.put(B, codes(1_000 + number * 64, 64))
    assert len(refused) == 13
    assert [refused.free(code) for code in codes(100, 3)] == [[A]] * 3
    newest = codes(1_000 + 199 * 64 + 54, 10)
    assert [refused.free(code) for code in newest] == [[B]] * 10


def test_a_crowd_of_carriers_leaves_room_for_one_zone_of_each() -> None:
    refused = RefusedZones(most=20)
    for number in range(2):
        refused.put(ZoneCode(10 + number), codes(1_000 + number * 10, 10))
    assert len(refused) == 20
    refused.put(A, codes(100, 5))
    refused.put(B, codes(200, 5))
    assert len(refused) == 20
    assert refused.free(ZoneCode(104)) == [A]
    assert refused.free(ZoneCode(204)) == [B]
    alone = RefusedZones(most=2)
    for carrier in (A, B, C):
        alone.put(carrier, codes(100 * carrier, 2))
    assert [alone.free(ZoneCode(100 * carrier + 1)) for carrier in (A, B, C)] == [[A], [B], [C]]


def test_what_is_reported_no_more_is_forgotten() -> None:
    refused = RefusedZones()
    refused.put(A, codes(100, 3))
    refused.put(B, codes(100, 3))
    refused.forget(A, codes(100, 1))
    refused.forget(C, codes(100, 1))
    assert refused.free(ZoneCode(100)) == [B]
    refused.leave(B)
    assert refused.free(ZoneCode(101)) == [A]
    refused.leave(A)
    refused.leave(C)
    assert len(refused) == 0


# --- in a zone --------------------------------------------------------------------------------------


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def test_a_child_that_invents_codes_leaves_nothing_behind(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    kid = house.kid("east")
    kid.open()
    own, waited = kid.code, []
    lock = house.zone.roster.lock
    monkeypatch.setattr(house.zone.roster, "lock", lambda code: waited.append(code) or lock(code))
    for code in codes(1_000, 50):
        kid.code = code
        with pytest.raises(BanyanError) as error:
            kid.open()
        assert error.value.code == "wrong-zone"
    assert not waited, "nor does it wait for another's row, or hold it up"
    kid.code = own
    kid.beat()
    assert not list(house.zone.roster._locks)


def test_a_row_that_is_not_being_written_has_no_lock(house: Household) -> None:
    kid = house.kid("east")
    kid.open()
    lock = house.zone.roster.lock(kid.code)
    assert house.zone.roster.lock(kid.code) is lock, "whoever waits for it waits for the same"
    del lock
    house.run(house.zone.words.apply(ADMIN, "zone.retire", kid.code, {}))
    assert kid.code not in house.zone.roster.live
    assert not list(house.zone.roster._locks)


def test_a_retired_carrier_is_remembered_no_more(house: Household) -> None:
    first, second, shared = house.kid("first"), house.kid("second"), house.stranger("shared")
    for kid in (first, second):
        kid.open()
        kid.report(lineage=delta([kid.itself(), shared.row(kid.code, first.code, second.code)]))
    assert len(house.zone.roster._refused) == 1
    house.run(house.zone.words.apply(ADMIN, "zone.retire", second.code, {}))
    assert len(house.zone.roster._refused) == 0
    assert house.zone.roster.get(first.code).child.state is not ChildState.RETIRED


def test_after_a_restart_a_child_with_refused_zones_is_asked_for_all_it_has(house: Household) -> None:
    both = Siblings(house)
    house.run(both.say(both.first))
    house.run(both.say(both.second))
    house.restore(house.store.image())
    assert both.second.open().known.lineage == 0
    assert both.first.open().known.lineage == 2, "nothing of it was refused"
