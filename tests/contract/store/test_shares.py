"""Shares of orders stay until they are dropped, each once; keys are counted, and swept by age a page at a time."""

from __future__ import annotations

from banyan.core.ids import RackCode, ZoneCode
from banyan.core.order import Ground
from banyan.core.server import Created, Made
from banyan.core.shares import HERE, RetryRow, ShareRow, ShareState
from banyan.core.time import Wall
from tests.contract.store.conftest import Kept

A, B, TOP = 7, 9, ZoneCode(1)
ASKED, HELD, CONFIRM, CANCEL = ShareState.ASKED, ShareState.HELD, ShareState.CONFIRM, ShareState.CANCEL


def row(member: int, id: str, state: ShareState = CANCEL, order: str = "o", at: float = 1.0) -> ShareRow:
    return ShareRow(member, id, order, state, Wall(at))


def test_a_share_is_one_row_whatever_becomes_of_it(kept: Kept) -> None:
    kept.write(lambda u: u.shares.put([row(A, "s1", ASKED), row(B, "s1", ASKED), row(A, "s1", CONFIRM)]))
    kept.again()
    assert kept.read(lambda u: u.shares.get(A, "s1")) == row(A, "s1", CONFIRM)
    assert kept.read(lambda u: u.shares.get(A, "s2")) is None
    kept.write(lambda u: u.shares.put([row(HERE, "o", CONFIRM)]))
    assert list(kept.read(lambda u: u.shares.of_order("o"))) == [row(A, "s1", CONFIRM), row(B, "s1", ASKED)]
    assert not kept.read(lambda u: u.shares.of_order("s1"))


def test_words_are_owed_until_they_are_dropped(kept: Kept) -> None:
    rows = [row(A, "s2"), row(A, "s1", CONFIRM), row(B, "s1"), row(A, "s3", ASKED), row(7_000, "s1", HELD)]
    kept.write(lambda u: u.shares.put([*rows, row(HERE, "gone")]))
    assert list(kept.read(lambda u: u.shares.owing())) == [A, B]
    assert list(kept.read(lambda u: u.shares.owed(A, "", 10))) == [row(A, "s1", CONFIRM), row(A, "s2")]
    assert list(kept.read(lambda u: u.shares.owed(A, "s1", 1))) == [row(A, "s2")]
    assert list(kept.read(lambda u: u.shares.owed(HERE, "", 10))) == [row(HERE, "gone")]
    kept.write(lambda u: u.shares.drop([(A, "s1"), (A, "s2"), (B, "s9")]))
    kept.write(lambda u: u.shares.drop([]))
    assert list(kept.read(lambda u: u.shares.owing())) == [B]


def test_what_is_not_decided_is_found_by_who_decides(kept: Kept) -> None:
    rows = [row(A, f"s{n}", ASKED, f"o{n % 3}") for n in range(9)]
    kept.write(lambda u: u.shares.put([*rows, row(A, "h1", HELD, "o9", 5.0), row(B, "h1", HELD, "o9", 4.0)]))
    assert list(kept.read(lambda u: u.shares.asked("", 2))) == ["o0", "o1"]
    assert list(kept.read(lambda u: u.shares.asked("o1", 2))) == ["o2"]
    assert kept.read(lambda u: u.shares.held()) == (2, 4.0)
    kept.write(lambda u: u.shares.drop([(A, "h1"), (B, "h1")]))
    assert kept.read(lambda u: u.shares.held()) == (0, None)


def test_what_is_owed_about_a_group_is_found_by_it(kept: Kept) -> None:
    rows = [ShareRow(A, f"s{n}", "o", state, Wall(1.0), "g1") for n, state in enumerate((ASKED, CONFIRM, CANCEL, HELD))]
    kept.write(lambda u: u.shares.put([*rows, row(A, "s9"), ShareRow(HERE, "o", "o", CONFIRM, Wall(1.0), "g1")]))
    assert list(kept.read(lambda u: u.shares.of_group("g1"))) == rows[1:3]
    assert not kept.read(lambda u: [*u.shares.of_group(""), *u.shares.of_group("g2")])


def test_marks_are_swept_by_age_and_nothing_else_is(kept: Kept) -> None:
    marks = [row(HERE, f"m{n}", at=float(n)) for n in range(5)]
    kept.write(lambda u: u.shares.put([*marks, row(A, "m0", at=0.0)]))
    assert kept.write(lambda u: u.shares.sweep(Wall(4.0), 3)) == 3
    assert kept.write(lambda u: u.shares.sweep(Wall(4.0), 3)) == 1
    assert [mark.id for mark in kept.read(lambda u: u.shares.owed(HERE, "", 10))] == ["m4"]
    assert list(kept.read(lambda u: u.shares.owing())) == [A]


def test_keys_are_kept_whole_counted_by_project_and_swept_by_age(kept: Kept) -> None:
    made = Created("o1", (Made("g1", "top/a", RackCode(3), "h1", Ground.MOST_ROOM, 4),))
    one = RetryRow("k1", TOP, "p1", Wall(1.0), "o1", {"name": b"12345678"})
    kept.write(lambda u: u.retries.put(one))
    answered = RetryRow("k1", TOP, "p1", Wall(1.0), "o1", {"name": b"12345678"}, made)
    kept.write(lambda u: u.retries.put(answered))
    kept.again()
    assert kept.read(lambda u: u.retries.get("k1")) == answered
    assert kept.read(lambda u: u.retries.get("k2")) is None

    def more(n: int) -> None:
        key = RetryRow(f"x{n}", TOP, "p2", Wall(float(n)), "o", {})
        kept.write(lambda u: u.retries.put(key))

    for n in range(5):
        more(n)
    assert kept.read(
        lambda u: [u.retries.count(TOP, "p2", Wall(since), limit) for since, limit in ((0.0, 10), (0.0, 3), (3.0, 10))]
    ) == [5, 3, 2]
    assert kept.write(lambda u: u.retries.sweep(Wall(4.0), 3)) == 3
    assert kept.write(lambda u: u.retries.sweep(Wall(4.0), 3)) == 2
    assert kept.read(lambda u: u.retries.count(TOP, "p2", Wall(0.0), 10)) == 1
    kept.write(lambda u: u.retries.drop("x4"))
    assert kept.read(lambda u: u.retries.count(TOP, "p2", Wall(0.0), 10)) == 0
