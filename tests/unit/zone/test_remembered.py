"""What orders ask for again and again is kept for a moment, and forgotten before anyone is told of a change."""

from __future__ import annotations

from banyan.zone.remembered import MAX_REMEMBERED, REMEMBERED, Remembered
from tests.api.serving import StillClock


def test_it_is_kept_for_a_moment() -> None:
    clock = StillClock()
    known = Remembered[str, int](clock)
    known.put("a", 1, known.as_of)
    assert known.get("a") == 1 and known.get("b") is None
    clock.at += REMEMBERED
    assert known.get("a") is None


def test_what_was_read_before_a_change_came_to_its_end_is_not_kept() -> None:
    known = Remembered[str, int](StillClock())
    as_of = known.as_of
    known.forget()
    known.put("a", 1, as_of)
    assert known.get("a") is None
    known.put("a", 2, known.as_of)
    assert known.get("a") == 2
    known.forget()
    assert known.get("a") is None


def test_no_more_are_kept_than_there_is_room_for() -> None:
    known = Remembered[int, int](StillClock())
    for number in range(MAX_REMEMBERED + 5):
        known.put(number, number, known.as_of)
    assert known.get(4) is None and known.get(5) == 5
    known.put(5, 0, known.as_of)
    assert known.get(5) == 0 and known.get(6) == 6, "a key that is put again makes no room"
