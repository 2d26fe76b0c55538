"""Debits end when the member's own word holds what it answered for; before that, its bare word can be asked for."""

from __future__ import annotations

from banyan.core.resources import ResourceClass, shape
from banyan.placement.candidates import Candidates, Key, Member

KEY: Key = ("child", 1)
SMALL = shape({ResourceClass("vcpu"): 1}, ())


def candidates(fits: int) -> Candidates:
    known = Candidates(lambda key: {"lh": 1, f"lk:{SMALL.id}": 1, f"lf:{SMALL.key}": fits})
    known.put(Member(KEY, "north"))
    return known


def test_a_new_digest_holds_what_was_answered_and_nothing_else() -> None:
    known = candidates(10)
    known.sent(KEY, "o1", SMALL, 3)
    known.sent(KEY, "o2", SMALL, 2)
    assert known.room(SMALL).tolist() == [5]
    known.answered(KEY, "o1", 3)
    assert known.room(SMALL).tolist() == [5]
    known.settled(KEY)
    assert known.room(SMALL).tolist() == [8]


def test_the_bare_word_of_a_member_leaves_debits_out_and_changes_nothing() -> None:
    known = candidates(4)
    known.sent(KEY, "o1", SMALL, 4)
    assert known.room(SMALL).tolist() == [0]
    assert known.said(SMALL).tolist() == [4]
    assert known.room(SMALL).tolist() == [0]
