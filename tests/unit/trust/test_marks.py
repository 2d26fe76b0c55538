"""Plays of a child and its copies against one parent: an honest child is never taken for a copy, a copy is found."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from banyan.core.errors import BadInput, Refused
from banyan.trust.marks import EpochVerdict, MarkVerdict, check_epoch, judge_epoch, judge_marks

OK, ROLLED_BACK = MarkVerdict.OK, MarkVerdict.ROLLED_BACK


@dataclass
class Child:
    """What a child stores: see core.zone.Uplink."""

    last: bytes = b""
    fresh: bytes = b""


@dataclass
class Parent:
    held: bytes = b""
    drawn: int = 0

    def meet(self, child: Child, *, answer_lost: bool = False, hello_lost: bool = False) -> MarkVerdict:
        if not child.fresh:
            self.drawn += 1
            child.fresh = self.drawn.to_bytes(16, "big")
        if hello_lost:
            return OK
        verdict = judge_marks(held=self.held, last=child.last, new=child.fresh)
        if verdict is OK:
            self.held = child.fresh
            if not answer_lost:
                child.last, child.fresh = child.fresh, b""
        return verdict


def test_an_honest_child_fits_whatever_is_lost() -> None:
    parent, child = Parent(), Child()
    for lost in ((0, 0), (1, 0), (1, 0), (0, 1), (0, 0), (0, 1), (1, 0), (0, 0)):
        assert parent.meet(child, answer_lost=bool(lost[0]), hello_lost=bool(lost[1])) is OK


@pytest.mark.parametrize("sessions", [1, 2, 5])
def test_a_restored_child_is_found_at_once(sessions: int) -> None:
    parent, child = Parent(), Child()
    parent.meet(child)
    backup = replace(child)
    for _ in range(sessions):
        parent.meet(child)
    assert parent.meet(backup) is ROLLED_BACK
    assert parent.meet(backup) is ROLLED_BACK
    assert parent.meet(child) is OK


def test_of_a_clone_and_its_original_the_second_to_come_is_found() -> None:
    parent, child = Parent(), Child()
    parent.meet(child)
    clone = replace(child)
    assert parent.meet(clone) is OK
    assert parent.meet(child) is ROLLED_BACK


def test_a_clone_that_was_made_between_storing_and_sending_is_found_at_the_next_session() -> None:
    parent, child = Parent(), Child()
    parent.meet(child)
    parent.meet(child, hello_lost=True)
    clone = replace(child)
    assert parent.meet(child) is OK
    assert parent.meet(clone) is OK  # the same two marks: cannot be told apart yet
    assert parent.meet(child) is OK
    assert parent.meet(clone) is ROLLED_BACK


def test_after_an_admission_any_mark_will_do() -> None:
    assert judge_marks(held=b"", last=b"x" * 16, new=b"y" * 16) is OK
    assert judge_marks(held=b"z" * 16, last=b"", new=b"y" * 16) is ROLLED_BACK


@pytest.mark.parametrize(("last", "new"), [(b"", b""), (b"x", b"y" * 16), (b"", b"y" * 17)])
def test_marks_that_are_none(last: bytes, new: bytes) -> None:
    with pytest.raises(BadInput):
        judge_marks(held=b"", last=last, new=new)


def test_epochs() -> None:
    assert judge_epoch(own=3, seen=3) is EpochVerdict.OK
    assert judge_epoch(own=3, seen=4) is EpochVerdict.PARENT_ROLLED_BACK
    check_epoch(known=3, granted=3, parent="top")
    check_epoch(known=3, granted=4, parent="top")
    with pytest.raises(Refused) as error:
        check_epoch(known=3, granted=2, parent="top")
    assert error.value.code == "old-epoch"
