"""Who has a name, who has a key: exact comparison, among those not retired, decided by the database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from banyan.core.errors import Conflict
from banyan.core.ids import ZoneCode
from banyan.core.records import Unit
from banyan.core.zone import Child, ChildState
from tests.contract.store.conftest import Kept

EAST = Child(ZoneCode(1), "east", b"key-1")
WEST = Child(ZoneCode(2), "west", b"key-2")


def test_a_taken_name_is_refused_and_the_first_stays_untouched(kept: Kept) -> None:
    kept.write(lambda u: u.children.put(EAST))
    with pytest.raises(Conflict, match="'east'.*00000001") as refused:
        kept.write(lambda u: u.children.put(replace(WEST, name="east")))
    assert refused.value.code == "name-taken"
    assert kept.read(lambda u: u.children.page(None, 10)) == [EAST]


def test_a_taken_key_is_refused(kept: Kept) -> None:
    kept.write(lambda u: u.children.put(EAST))
    with pytest.raises(Conflict) as refused:
        kept.write(lambda u: u.children.put(replace(WEST, fingerprint=EAST.fingerprint)))
    assert refused.value.code == "key-taken"


def test_renaming_onto_a_taken_name_is_refused(kept: Kept) -> None:
    kept.write(lambda u: (u.children.put(EAST), u.children.put(WEST)))
    with pytest.raises(Conflict) as refused:
        kept.write(lambda u: u.children.put(replace(WEST, name="east")))
    assert refused.value.code == "name-taken"
    assert kept.read(lambda u: u.children.get(WEST.code)) == WEST


def test_a_unit_may_go_on_after_such_a_refusal(kept: Kept) -> None:
    def work(u: Unit) -> None:
        u.children.put(EAST)
        with pytest.raises(Conflict):
            u.children.put(replace(WEST, name="east"))
        u.children.put(WEST)

    kept.write(work)
    assert kept.read(lambda u: u.children.page(None, 10)) == [EAST, WEST]


def test_a_retired_child_leaves_its_name_and_key_but_keeps_its_code(kept: Kept) -> None:
    retired = replace(EAST, state=ChildState.RETIRED)
    kept.write(lambda u: u.children.put(retired))
    successor = replace(WEST, name="east", fingerprint=EAST.fingerprint)
    kept.write(lambda u: u.children.put(successor))
    assert kept.read(lambda u: u.children.by_name("east")) == successor
    assert kept.read(lambda u: u.children.by_fingerprint(EAST.fingerprint)) == successor
    assert kept.read(lambda u: u.children.get(EAST.code)) == retired
    with pytest.raises(Conflict):
        kept.write(lambda u: u.children.put(EAST))


def test_two_retired_children_may_have_had_one_name(kept: Kept) -> None:
    kept.write(lambda u: u.children.put(replace(EAST, state=ChildState.RETIRED)))
    kept.write(lambda u: u.children.put(replace(EAST, code=ZoneCode(3), state=ChildState.RETIRED)))
    assert kept.read(lambda u: u.children.by_name("east")) is None


@pytest.mark.parametrize("other", ["East", "EAST", "east ", "еast", "east1", "e_st", "eas%"])
def test_names_that_look_alike_are_different_names(kept: Kept, other: str) -> None:
    kept.write(lambda u: u.children.put(EAST))
    assert kept.read(lambda u: u.children.by_name(other)) is None
    kept.write(lambda u: u.children.put(replace(WEST, name=other)))
    assert kept.read(lambda u: u.children.by_name("east")) == EAST


def test_counts_by_state(kept: Kept) -> None:
    kept.write(lambda u: (u.children.put(EAST), u.children.put(replace(WEST, state=ChildState.READY))))
    kept.write(lambda u: u.children.put(Child(ZoneCode(3), "old", b"3", ChildState.RETIRED)))
    assert kept.read(
        lambda u: (u.children.count(), *(u.children.count(s) for s in (ChildState.READY, ChildState.SCANNING)))
    ) == (3, 1, 0)
