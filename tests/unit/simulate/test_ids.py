"""Seeded chance: the same streams on every machine, and none that shifts another."""

from __future__ import annotations

from banyan.simulate.ids import SeededIds


def test_a_stream_is_named_by_seed_and_zone() -> None:
    assert SeededIds(1, "top").token(16) == SeededIds(1, "top").token(16)
    draws = {SeededIds(seed, zone).token(16) for seed in (1, 2) for zone in ("top", "top/east")}
    assert len(draws) == 4


def test_draws_of_one_zone_do_not_shift_those_of_another() -> None:
    alone = [SeededIds(7, "top/east").below(1 << 40)]
    busy, beside = SeededIds(7, "top/west"), SeededIds(7, "top/east")
    for _ in range(100):
        busy.uniform(0.0, 1.0)
    assert [beside.below(1 << 40)] == alone


def test_the_numbers_are_these_for_ever() -> None:
    # A change here changes every recorded trace and the meaning of every chaos seed.
    assert SeededIds(0, "top").token(4).hex() == "2c2bd315"


def test_bounds() -> None:
    ids = SeededIds(3, "z")
    assert {ids.below(3) for _ in range(100)} == {0, 1, 2}
    assert all(0.5 <= ids.uniform(0.5, 1.0) <= 1.0 for _ in range(100))
