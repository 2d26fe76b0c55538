"""Ids of what is written in the order of time."""

from __future__ import annotations

from banyan.core.ids import RISING_CHANCE, rising_id


def test_they_rise_with_time_and_differ_by_chance() -> None:
    low, high = bytes(RISING_CHANCE), b"\xff" * RISING_CHANCE
    ids = [rising_id(at, chance) for at in (0.0, 1.0, 1.5, 1_800_000_000.0) for chance in (low, high)]
    assert ids == sorted(ids) and len(set(ids)) == len(ids)
    assert all(len(one) == 32 and int(one, 16) >= 0 for one in ids)
