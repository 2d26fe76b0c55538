"""One child's streams as they come in: what fits, what is out of bounds, what a failed commit leaves behind."""

from __future__ import annotations

import pytest

from banyan.core.digest import MAX_SHAPES
from banyan.core.errors import BadInput
from banyan.core.ids import ZoneCode
from banyan.core.lineage import Delta, Ledger, Row, UseRow
from banyan.core.messages import DigestPart, Generations
from banyan.core.resources import shape_id
from banyan.core.time import BUILD_DATE, Wall
from banyan.zone.feed import FIRST_BOOKMARK
from banyan.zone.inbox import Inbox, use_changes
from banyan.zone.streams import gone

CHILD = ZoneCode(7)
NOW = Wall(BUILD_DATE)


def row(code: int) -> Row:
    return Row(ZoneCode(code), CHILD, f"z{code}", b"e", b"s", "ready", "alive", "enabled", "", 5)


def use(name: str, guests: int) -> UseRow:
    return UseRow(9, name, "", guests, 0, 0, 0)


def test_a_whole_digest_then_a_change() -> None:
    inbox = Inbox(CHILD)
    step = inbox.digest(DigestPart(0, 5, {"lh": 1, "lhu": 1}), {}, NOW)
    assert step is not None
    assert step.whole
    inbox.accept_digest(step)
    change = inbox.digest(DigestPart(5, 6, {"lh": 2, "lhu": 0}), step.counters, NOW)
    assert change is not None
    assert not change.whole
    assert change.counters == {"lh": 2, "lhu": 0}
    inbox.accept_digest(change)
    assert inbox.known == Generations(6, 0, 0)


def test_a_digest_of_another_generation_does_not_fit() -> None:
    inbox = Inbox(CHILD, digest=5)
    assert inbox.digest(DigestPart(4, 6, {"lh": 2}), {}, NOW) is None
    assert inbox.known.digest == 5


ONE = shape_id("vcpu=1")


@pytest.mark.parametrize(
    ("held", "part"),
    [
        ({}, DigestPart(0, 4, {"lh": 5, f"lk:{ONE}": 6})),
        ({"lh": 5}, DigestPart(3, 4, {f"lk:{ONE}": 6})),
        ({"lh": 5, f"lk:{ONE}": 5}, DigestPart(3, 4, {f"lk:{ONE}": 6})),
        ({"lh": 5, f"lk:{ONE}": 5}, DigestPart(3, 4, {"lh": 4})),
    ],
)
def test_a_child_can_not_say_that_it_counted_for_others(held: dict[str, int], part: DigestPart) -> None:
    """Counted on more hosts than it has, a shape would look counted on hosts of its siblings."""
    with pytest.raises(BadInput, match="counted on"):
        Inbox(CHILD, digest=3).digest(part, held, NOW)


def test_nothing_is_as_of_later_than_now() -> None:
    step = Inbox(CHILD).digest(DigestPart(0, 1, {"at": round(NOW * 1000) + 60_000}), {}, NOW)
    assert step is not None
    assert step.counters == {"at": round(NOW * 1000)}


@pytest.mark.parametrize(
    "part",
    [
        DigestPart(0, 1, {"lh": -1}),
        DigestPart(0, 0, {"lh": 1}),
        DigestPart(0, 1, {f"lf:vcpu={n}": 1 for n in range(1, MAX_SHAPES + 2)}),
        DigestPart(3, 4, {f"lf:vcpu={n}": 1 for n in range(2, MAX_SHAPES + 2)}),
    ],
)
def test_a_digest_out_of_bounds_is_refused(part: DigestPart) -> None:
    with pytest.raises(BadInput) as refusal:
        Inbox(CHILD, digest=3).digest(part, {"lf:vcpu=1": 1}, NOW)
    assert refusal.value.code == "bad-digest"


def test_a_whole_in_pages_drops_at_its_end_what_it_did_not_name() -> None:
    inbox = Inbox(CHILD, lineage=3)
    held = {ZoneCode(1), ZoneCode(2), ZoneCode(3)}
    mark = FIRST_BOOKMARK + 1
    first = inbox.lineage(Delta(0, mark, (row(1),), True), held)
    assert first is not None
    assert (first.put, first.drop, first.stored, first.settled) == ((row(1),), (), 0, False)
    inbox.accept_lineage(first)
    assert inbox.known.lineage == mark
    assert not inbox.whole
    last = inbox.lineage(Delta(mark, 90, (row(4),), False), held)
    assert last is not None
    assert set(last.drop) == {2, 3}
    assert (last.put, last.stored, last.settled) == ((row(4),), 90, True)
    inbox.accept_lineage(last)
    assert inbox.known.lineage == 90


def test_a_parent_that_restarted_within_a_whole_starts_it_again() -> None:
    inbox = Inbox(CHILD)
    first = inbox.lineage(Delta(0, FIRST_BOOKMARK + 1, (row(1),), True), {ZoneCode(9)})
    assert first is not None
    assert first.stored == 0


def test_a_zone_that_went_within_a_whole_is_not_kept() -> None:
    inbox = Inbox(CHILD)
    held = {ZoneCode(1)}
    for delta in (
        Delta(0, FIRST_BOOKMARK + 1, (row(1), row(2)), True),
        Delta(FIRST_BOOKMARK + 1, FIRST_BOOKMARK + 2, (gone(ZoneCode(1), CHILD),), True),
    ):
        step = inbox.lineage(delta, held)
        assert step is not None
        inbox.accept_lineage(step)
    last = inbox.lineage(Delta(FIRST_BOOKMARK + 2, 50, (), False), {ZoneCode(1), ZoneCode(2)})
    assert last is not None
    assert last.drop == (1,)


def test_a_page_that_does_not_follow_is_not_taken() -> None:
    inbox = Inbox(CHILD, lineage=10, ledger=10)
    assert inbox.lineage(Delta(9, 12, (row(1),)), set()) is None
    assert inbox.ledger(Ledger(11, 12, (use("a", 1),)), set()) is None
    assert inbox.known == Generations(0, 10, 10)


def test_a_step_that_was_not_stored_leaves_the_inbox_as_it_was() -> None:
    inbox = Inbox(CHILD)
    delta = Delta(0, 5, (row(1),))
    assert inbox.lineage(delta, set()) is not None
    assert inbox.known.lineage == 0
    again = inbox.lineage(delta, set())
    assert again is not None
    inbox.accept_lineage(again)
    assert inbox.known.lineage == 5


def test_too_many_rows_are_refused_however_they_come() -> None:
    inbox = Inbox(CHILD)
    inbox._lineage._limit = 3
    with pytest.raises(BadInput) as refusal:
        inbox.lineage(Delta(0, 5, tuple(row(n) for n in range(4))), set())
    assert refusal.value.code == "too-much-lineage"
    first = inbox.lineage(Delta(0, FIRST_BOOKMARK + 1, (row(1), row(2)), True), set())
    assert first is not None
    inbox.accept_lineage(first)
    with pytest.raises(BadInput):
        inbox.lineage(Delta(FIRST_BOOKMARK + 1, 5, (row(3), row(4))), {ZoneCode(1), ZoneCode(2)})
    grown = Inbox(CHILD, lineage=5)
    grown._lineage._limit = 3
    with pytest.raises(BadInput):
        grown.lineage(Delta(5, 6, (row(4),)), {ZoneCode(1), ZoneCode(2), ZoneCode(3)})
    # A zone that goes makes room for another.
    assert grown.lineage(Delta(5, 6, (row(4), gone(ZoneCode(1), CHILD))), {ZoneCode(1), ZoneCode(2), ZoneCode(3)})


def test_the_whole_of_another_tree_takes_the_place_of_the_old_one() -> None:
    inbox = Inbox(CHILD, lineage=5)
    inbox._lineage._limit = 2
    step = inbox.lineage(Delta(0, 6, (row(3), row(4))), {ZoneCode(1), ZoneCode(2)})
    assert step is not None
    assert set(step.drop) == {1, 2}


def test_a_project_without_guests_is_dropped() -> None:
    inbox = Inbox(CHILD, ledger=1)
    step = inbox.ledger(Ledger(1, 2, (use("a", 0), use("b", 4))), {(9, "a")})
    assert step is not None
    assert step.drop == ((9, "a"),)
    assert use_changes(step) == [use("a", 0), use("b", 4)]


def test_whole_is_only_when_all_three_streams_are_here() -> None:
    inbox = Inbox(CHILD)
    step = inbox.digest(DigestPart(0, 5, {}), {}, NOW)
    assert step is not None
    inbox.accept_digest(step)
    lineage = inbox.lineage(Delta(0, 5, (row(1),)), set())
    assert lineage is not None
    inbox.accept_lineage(lineage)
    assert not inbox.whole
    ledger = inbox.ledger(Ledger(0, 5, ()), set())
    assert ledger is not None
    inbox.accept_ledger(ledger)
    assert inbox.whole
    inbox.forget()
    assert inbox.known == Generations()
    assert not inbox.whole
