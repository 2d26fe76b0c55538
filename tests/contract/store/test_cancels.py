"""Cancels are owed until they are dropped, each once, to each member in turn; what was cancelled here is apart."""

from __future__ import annotations

from banyan.core.ids import ZoneCode
from banyan.core.time import Wall
from tests.contract.store.conftest import Kept

A, B, HERE = ZoneCode(7), ZoneCode(9), ZoneCode(0)


def test_a_cancel_stays_until_it_is_dropped(kept: Kept) -> None:
    kept.write(lambda u: u.cancels.put([A, B, A], "o1", Wall(1.0)))
    kept.write(lambda u: u.cancels.put([A], "o1", Wall(2.0)))
    kept.write(lambda u: u.cancels.put([A], "o2", Wall(2.0)))
    kept.again()
    assert kept.read(lambda u: list(u.cancels.members())) == [A, B]
    assert kept.read(lambda u: list(u.cancels.of(A, "", 10))) == ["o1", "o2"]
    assert kept.read(lambda u: list(u.cancels.of(A, "o1", 10))) == ["o2"]
    kept.write(lambda u: u.cancels.drop(A, "o1"))
    kept.write(lambda u: u.cancels.drop(B, "o1"))
    assert kept.read(lambda u: (list(u.cancels.members()), list(u.cancels.of(A, "", 10)))) == ([A], ["o2"])


def test_marks_of_this_zone_are_no_members_and_are_swept_by_age(kept: Kept) -> None:
    kept.write(lambda u: u.cancels.put([HERE], "old", Wall(1.0)))
    kept.write(lambda u: u.cancels.put([HERE], "new", Wall(5.0)))
    kept.write(lambda u: u.cancels.put([A], "old", Wall(1.0)))
    kept.write(lambda u: u.cancels.forget(HERE, Wall(5.0)))
    assert kept.read(lambda u: list(u.cancels.of(HERE, "", 10))) == ["new"]
    assert kept.read(lambda u: list(u.cancels.members())) == [A]
