"""The schedule: which step holds at which instant, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from banyan.drivers.sim.script import (
    Churn,
    Condition,
    Disable,
    Down,
    Enable,
    Fail,
    Fill,
    Grow,
    Recover,
    Slow,
    Step,
    Up,
    check_script,
    condition,
    parse_hosts,
)


def at(elapsed: float, steps: Sequence[Step], *, churn: float = 0.0) -> Condition:
    return condition(steps, elapsed=elapsed, hosts=10, guests=100, churn=churn, latency=0.5)


def test_nothing_happens_before_its_time() -> None:
    steps = [Down(at=10, hosts="1-3"), Grow(at=10, hosts=5), Fail(at=10), Fill(at=10, guests=7), Slow(at=10, latency=9)]
    before = at(9.999, steps)
    assert (before.hosts, before.guests, before.latency, before.failure) == (10, 100, 0.5, None)
    assert before.host(1) == (True, "")
    after = at(10, steps)
    assert (after.hosts, after.guests, after.latency) == (15, 7, 9)
    assert after.failure is steps[2]
    assert [after.host(n)[0] for n in (1, 3, 4)] == [False, False, True]


def test_a_later_step_replaces_an_earlier_one_for_the_hosts_it_names() -> None:
    steps = [Down(at=1, hosts="1-4"), Up(at=2, hosts="2"), Disable(at=3, reason="fans"), Enable(at=4, hosts="1")]
    now = at(4, steps)
    assert [now.host(n) for n in (1, 2, 3)] == [(False, ""), (True, "fans"), (False, "fans")]


def test_a_failure_ends_when_it_recovers() -> None:
    steps = [Fail(at=1), Recover(at=2)]
    assert at(1.5, steps).failure is not None
    assert at(2, steps).failure is None


def test_churn_is_counted_over_its_stretches() -> None:
    steps = [Churn(at=10, rate=0), Churn(at=20, rate=5)]
    assert at(10, steps, churn=2).churned == 20
    assert at(19, steps, churn=2).churned == 20
    now = at(22, steps, churn=2)
    assert now.churned == 30
    assert now.replaced_at(0) == 0.5
    assert now.replaced_at(19) == 10.0
    assert now.replaced_at(20) == pytest.approx(20.2)
    assert now.replaced_at(29) == pytest.approx(22.0)


@pytest.mark.parametrize(
    ("text", "ranges"),
    [("1", ((1, 1),)), ("1-20,33", ((1, 20), (33, 33))), (" 2 - 4 , 9", ((2, 4), (9, 9))), ("*", ((1, 9_999_999),))],
)
def test_ranges_of_hosts(text: str, ranges: tuple[tuple[int, int], ...]) -> None:
    assert parse_hosts(text) == ranges


@pytest.mark.parametrize("text", ["", "0", "5-3", "a", "1-", "-3", "1,,2", "1-99999999", "²"])
def test_wrong_ranges_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"hosts|range"):
        parse_hosts(text)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([Up(at=2), Up(at=1)], "script step 2: steps come in order"),
        ([Up(at=-1)], "script step 1"),
        ([Up(at=float("nan"))], "script step 1"),
        ([Down(at=1, hosts="x")], r"script step 1 at 1 s: hosts are"),
        ([Grow(at=1, hosts=-1)], "a count is from 0"),
        ([Churn(at=1, rate=-1)], "seconds or a rate"),
        ([Up(at=1)] * 201, "at most 200 steps"),
    ],
)
def test_wrong_scripts_are_refused_with_the_step(steps: list[Step], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_script(steps)
