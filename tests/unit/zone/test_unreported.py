"""Of which children a ledger may not tell all, for how long that is remembered, and what is said of it further up."""

from __future__ import annotations

from banyan.core.ids import RackCode, ZoneCode
from banyan.core.time import Mono
from banyan.zone.unreported import LATE, SILENT, Unreported

A, B, C = ZoneCode(1), ZoneCode(2), ZoneCode(3)
P, Q = (9, "p"), (9, "q")


def told(*children: ZoneCode, limit: int = 100) -> Unreported:
    unreported = Unreported(limit)
    for child in children:
        unreported.began(child)
        unreported.reported(child, Mono(0.0), partial=False)
    return unreported


def test_who_said_nothing_since_the_start_may_have_anything() -> None:
    unreported = Unreported()
    unreported.began(A)
    unreported.again(A, Mono(1.0))
    assert unreported.may_hold(P) == {A} and unreported.partial(Mono(1.0))
    unreported.reported(A, Mono(2.0), partial=True)
    unreported.again(A, Mono(3.0))
    assert unreported.may_hold(P) == {A} and unreported.partial(Mono(3.0))
    unreported.reported(A, Mono(4.0), partial=False)
    assert unreported.may_hold(P) == set() and not unreported.partial(Mono(4.0))


def test_where_an_order_went_is_remembered_until_it_is_surely_in_the_ledger() -> None:
    unreported = told(A, B)
    unreported.sent(A, P, Mono(10.0))
    unreported.reported(A, Mono(9.0 + LATE), partial=False)
    assert (unreported.may_hold(P), unreported.may_hold(Q)) == ({A}, set())
    unreported.again(A, Mono(10.0 + LATE))
    assert unreported.may_hold(P) == set()


def test_a_child_that_falls_silent_after_an_order_is_said_further_up() -> None:
    unreported = told(A, B)
    unreported.sent(A, P, Mono(10.0))
    unreported.reported(A, Mono(11.0), partial=False)
    assert not unreported.partial(Mono(11.0 + SILENT))
    assert unreported.partial(Mono(12.0 + SILENT))
    assert unreported.may_hold(P) == {A}, "however long it takes"
    unreported.again(A, Mono(10.0 + LATE))
    assert not unreported.partial(Mono(10_000.0)), "it took nothing since"


def test_of_what_is_over_the_bound_a_child_may_have_anything() -> None:
    unreported = told(A, B, C, limit=2)
    unreported.sent(A, P, Mono(1.0))
    unreported.sent(B, P, Mono(2.0))
    unreported.sent(C, Q, Mono(3.0))
    assert unreported.may_hold(P) == {A, B} and unreported.may_hold(Q) == {A, B, C}
    unreported.reported(A, Mono(2.0 + LATE), partial=False)
    assert unreported.may_hold((9, "r")) == {B}


def test_what_own_racks_hold_unconfirmed_is_said_further_up() -> None:
    unreported = told(A)
    unreported.waits(RackCode(7), waits=True)
    assert unreported.partial(Mono(1.0)) and unreported.may_hold(P) == set()
    unreported.waits(RackCode(7), waits=False)
    assert not unreported.partial(Mono(1.0))


def test_a_child_that_is_gone_is_gone() -> None:
    unreported = told(A)
    unreported.sent(A, P, Mono(1.0))
    unreported.dropped(A)
    unreported.sent(A, Q, Mono(2.0))
    assert not unreported.partial(Mono(1_000.0))
