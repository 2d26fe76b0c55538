"""Late, lost, and nobody judged for the judge's own absence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from banyan.core.time import LEASE_DRIFT, Mono, Terms
from banyan.core.zone import Health
from banyan.health.suspicion import AWAY, Heard, Judge, Verdict, Watchlist, habit, slack

TERMS = Terms(lease=15.0, grace=15.0, report=6.0)
START = Mono(100.0)
SUSPECT = START + 6.0 + 3.0
LOST = START + 15.0 * LEASE_DRIFT + 15.0


AWAKE = Judge(Mono(0.0))


def verdict(now: float, judge: Judge = AWAKE, terms: Terms = TERMS) -> Verdict:
    return judge.judge(Heard(START, terms), Mono(now))


@pytest.mark.parametrize(
    ("now", "health"),
    [
        (START, Health.ALIVE),
        (SUSPECT - 0.01, Health.ALIVE),
        (SUSPECT, Health.SUSPECT),
        (LOST - 0.01, Health.SUSPECT),
        (LOST, Health.LOST),
        (LOST + 1e6, Health.LOST),
    ],
)
def test_by_its_own_rhythm(now: float, health: Health) -> None:
    assert verdict(now).health is health


def test_a_verdict_says_until_when_it_holds() -> None:
    assert verdict(START).until == SUSPECT
    assert verdict(SUSPECT).until == LOST
    assert verdict(LOST).until is None


def test_one_missed_report_within_the_slack_is_no_suspicion() -> None:
    assert slack(TERMS) == 3.0
    assert slack(replace(TERMS, report=1.0)) == 1.0
    assert verdict(START + 8.9).health is Health.ALIVE


def test_a_child_is_never_lost_before_its_own_lease_is_over() -> None:
    # It counts from when it sent, we from when we answered, and our clocks drift apart.
    short = Terms(lease=15.0, grace=0.0, report=60.0)
    assert verdict(START + 15.0 * LEASE_DRIFT - 0.01, terms=short).health is Health.ALIVE
    assert verdict(START + 15.0 * LEASE_DRIFT, terms=short).health is Health.LOST


def test_a_restarted_judge_gives_a_full_term() -> None:
    born = Judge(Mono(LOST + 100.0))
    assert verdict(LOST + 100.0, born).health is Health.ALIVE
    assert verdict(LOST + 100.0 + 9.0, born).health is Health.SUSPECT


def test_a_judge_that_slept_gives_a_full_term() -> None:
    # The machine was suspended: boot time jumped, frames of the children lie unread in the sockets.
    judge = Judge(Mono(0.0)).woke(Mono(START + 6.0), Mono(START + 600.0))
    assert verdict(START + 600.0, judge).health is Health.ALIVE
    assert verdict(START + 600.0 + 8.9, judge).health is Health.ALIVE
    # A term, and no more: one that is silent from then on is late in its usual time.
    assert verdict(START + 600.0 + 9.0, judge).health is Health.SUSPECT
    assert verdict(START + 600.0, AWAKE).health is Health.LOST


def test_a_judge_that_lags_widens_its_deadlines() -> None:
    judge = Judge(Mono(0.0)).woke(Mono(START + 6.0), Mono(START + 8.0))
    assert judge.lag == 2.0
    assert verdict(SUSPECT + 1.9, judge).health is Health.ALIVE
    assert verdict(LOST + 1.9, judge).health is Health.SUSPECT
    assert verdict(LOST + 2.1, judge).health is Health.LOST


def test_lag_fades_with_wakes_on_time_and_not_at_once() -> None:
    judge = Judge(Mono(0.0)).woke(Mono(10.0), Mono(12.0))
    judge = judge.woke(Mono(20.0), Mono(20.0))
    assert judge.lag == 1.0
    for _ in range(20):
        judge = judge.woke(None, Mono(30.0))
    assert judge.lag < 0.001
    assert judge.since == 0.0


def test_an_absence_is_not_lag() -> None:
    judge = Judge(Mono(0.0), lag=1.0).woke(Mono(10.0), Mono(10.0 + AWAY))
    assert judge == Judge(Mono(10.0 + AWAY), 0.0)


def test_the_watchlist_gives_who_is_due_in_order_once() -> None:
    watch: Watchlist[str] = Watchlist()
    watch.put("b", Mono(2.0))
    watch.put("a", Mono(1.0))
    watch.put("c", Mono(3.0))
    assert watch.wake() == 1.0
    assert watch.due(Mono(2.0), 10) == ["a", "b"]
    assert watch.due(Mono(2.0), 10) == []
    assert watch.wake() == 3.0


def test_the_watchlist_holds_one_instant_per_child() -> None:
    watch: Watchlist[str] = Watchlist()
    watch.put("a", Mono(1.0))
    watch.put("a", Mono(5.0))
    assert watch.due(Mono(4.0), 10) == []
    assert watch.wake() == 5.0
    watch.put("a", None)
    assert watch.wake() is None
    assert len(watch) == 0


def test_the_watchlist_gives_no_more_than_asked() -> None:
    watch: Watchlist[int] = Watchlist()
    for child in range(10):
        watch.put(child, Mono(1.0))
    assert watch.due(Mono(1.0), 4) == [0, 1, 2, 3]
    assert watch.due(Mono(1.0), 100) == [4, 5, 6, 7, 8, 9]


def test_the_watchlist_stays_as_small_as_its_children() -> None:
    watch: Watchlist[int] = Watchlist()
    for now in range(10_000):
        watch.put(now % 3, Mono(float(now)))
    assert len(watch) == 3
    assert len(watch._heap) < 100
    assert watch.due(Mono(1e9), 10) == [1, 2, 0]


def test_a_child_behind_a_slow_link_is_judged_by_its_habit() -> None:
    late = 0.0
    for _ in range(3):
        late = habit(late, START, TERMS, Mono(START + TERMS.report + 7.0))
    assert late == 7.0
    assert AWAKE.judge(Heard(START, TERMS, late), Mono(SUSPECT + 6.9)).health is Health.ALIVE
    assert AWAKE.judge(Heard(START, TERMS, late), Mono(SUSPECT + 7.0)).health is Health.SUSPECT
    assert AWAKE.judge(Heard(START, TERMS, late), LOST).health is Health.LOST


def test_a_habit_is_forgotten_and_is_never_longer_than_a_lease() -> None:
    late = habit(0.0, START, TERMS, Mono(START + 1e6))
    assert late == TERMS.lease
    for _ in range(12):
        late = habit(late, START, TERMS, Mono(START + TERMS.report))
    assert late < 1.1
    assert habit(0.0, START, TERMS, START) == 0.0
