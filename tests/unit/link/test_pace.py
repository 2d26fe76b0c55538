from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.time import Mono
from banyan.link.pace import Backoff, Bucket, Priority, Toll, Turnstile
from banyan.simulate.ids import SeededIds

H, D, B = Priority.HEARTBEAT, Priority.DELTA, Priority.BULK


def at(seconds: float) -> Mono:
    return Mono(seconds)


class Fixed:
    """Ids that always draw the same share of a range."""

    def __init__(self, share: float) -> None:
        self._share = share

    def token(self, size: int) -> bytes:
        return bytes(size)

    def below(self, bound: int) -> int:
        return 0

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self._share


def test_a_bucket_lets_the_rate_through() -> None:
    bucket = Bucket(1000, 1000, at(0))
    sent, now = 0, 0.0
    for _ in range(5_000):  # a bound, in case that time should stand still
        if now >= 60:
            break
        wait = bucket.wait(100, B, at(now))
        if wait == 0:
            bucket.take(100, at(now))
            sent += 100
        else:
            now += wait
    assert now >= 60
    assert 60_000 <= sent <= 61_000


def test_heartbeats_never_wait_and_others_keep_room_for_them() -> None:
    bucket = Bucket(1000, 1000, at(0))
    bucket.take(600, at(0))
    assert bucket.wait(100, H, at(0)) == 0
    assert bucket.wait(100, D, at(0)) == 0  # 400 are left, a quarter is kept
    assert bucket.wait(100, B, at(0)) == pytest.approx(0.2)  # a half is kept
    bucket.take(1000, at(0))
    assert bucket.wait(10, H, at(0)) == 0


def test_the_order_of_priorities_is_the_order_of_waiting() -> None:
    bucket = Bucket(1000, 1000, at(0))
    bucket.take(1000, at(0))
    assert bucket.wait(50, H, at(0)) < bucket.wait(50, D, at(0)) < bucket.wait(50, B, at(0))


def test_a_message_larger_than_the_bucket_goes_when_it_is_full() -> None:
    bucket = Bucket(1000, 1000, at(0))
    assert bucket.wait(50_000, B, at(0)) == 0
    bucket.take(50_000, at(0))
    # The debt is bounded, so that heartbeats of a minute later do not pay for it.
    assert bucket.wait(1, D, at(0)) == pytest.approx(1.251)
    assert bucket.wait(50_000, B, at(2)) == 0


def test_no_rate_is_no_wait() -> None:
    bucket = Bucket(math.inf, 1000, at(0))
    for _ in range(10):
        bucket.take(1_000_000, at(0))
    assert bucket.wait(1_000_000, B, at(0)) == 0
    assert bucket.allowance(D, at(0)) == 1000


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 3000), st.sampled_from(Priority)), max_size=50))
def test_what_leaves_in_a_window_is_bounded(steps: list[tuple[float, int, Priority]]) -> None:
    rate, burst = 1000.0, 2000.0
    bucket, now, sent, largest = Bucket(rate, burst, at(0)), 0.0, 0, 0
    for pause, size, rank in steps:
        now += pause
        if rank is not H and bucket.wait(size, rank, at(now)) == 0:
            bucket.take(size, at(now))
            sent += size
            largest = max(largest, size)
    assert sent <= now * rate + burst + largest


def test_backing_off_doubles_to_a_ceiling_and_draws_from_the_whole_range() -> None:
    backoff = Backoff(first=1, ceiling=60, spread=5)
    assert [backoff.delay(n, Fixed(1.0)) for n in (0, 1, 2, 5, 6, 1000)] == [1, 2, 4, 32, 60, 60]
    assert backoff.delay(10, Fixed(0.0)) == 0


@pytest.mark.parametrize("retry_after", [None, 0.0], ids=["cut", "an orderly stop"])
def test_a_lost_session_comes_back_spread_out(retry_after: float | None) -> None:
    backoff = Backoff(spread=5)
    everybody = [SeededIds(1, str(n)) for n in range(2000)]
    delays = [backoff.delay(0, ids, lost=True, retry_after=retry_after) for ids in everybody]
    for second in range(5):
        assert 300 < sum(second <= d < second + 1 for d in delays) < 500


def test_retry_after_is_a_floor_with_jitter_on_top() -> None:
    backoff = Backoff(first=0.5, longest=300)
    assert backoff.delay(0, Fixed(0.0), retry_after=20) == 20
    assert backoff.delay(0, Fixed(1.0), retry_after=20) == 25
    assert [backoff.delay(n, Fixed(1.0), retry_after=0) for n in (0, 1, 4, 99)] == [0.5, 1, 8, 60]
    assert backoff.delay(0, Fixed(0.0), retry_after=1e9) == 300
    assert backoff.delay(0, Fixed(0.0), retry_after=-1) == 300


def test_a_turnstile_serves_its_rate_and_queues_the_rest() -> None:
    turnstile = Turnstile(10, 5, 300, at(0))
    entered = [turnstile.enter(at(0)) for _ in range(25)]
    assert entered[:5] == [None] * 5
    assert entered[5:] == pytest.approx([n / 10 for n in range(1, 21)])
    assert turnstile.enter(at(0.1)) is None


def test_those_who_obey_a_turnstile_all_get_in_at_its_rate() -> None:
    turnstile = Turnstile(50, 50, 300, at(0))
    waiting = [(0.0, n) for n in range(3000)]
    asked = 0
    end = 0.0
    while waiting:
        waiting.sort()
        now, who = waiting.pop(0)
        asked += 1
        wait = turnstile.enter(at(now))
        if wait is None:
            end = now
        else:
            waiting.append((now + wait, who))
    assert end < 90
    assert asked < 3 * 3000


def test_a_turnstiles_queue_is_bounded() -> None:
    turnstile = Turnstile(1, 1, 300, at(0))
    assert max(turnstile.enter(at(0)) or 0 for _ in range(10_000)) == 300


def test_a_turnstile_that_follows_gives_no_place_twice_and_is_never_quicker_than_it_was_made() -> None:
    turnstile = Turnstile(10, 5, 300, at(0))
    turnstile.follow(2, 2, at(0))
    assert [turnstile.enter(at(0)) for _ in range(5)] == pytest.approx([None, None, 0.5, 1.0, 1.5])
    turnstile.follow(1000, 1000, at(0))
    # Four are before it, and it is their turn as soon as the new rate has it.
    assert turnstile.later(at(0)) == pytest.approx(0.4)
    assert [turnstile.enter(at(10)) for _ in range(6)][:5] == [None] * 5


def test_who_stays_in_line_is_served_at_the_rate() -> None:
    turnstile = Turnstile(10, 2, 300, at(0))
    assert [turnstile.pause(at(0)) for _ in range(4)] == pytest.approx([0, 0, 0.1, 0.2])
    assert turnstile.pause(at(10)) == 0


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (1, 0), (-1, 5)])
def test_nonsense_is_refused(rate: float, burst: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        Bucket(rate, burst, at(0))
    with pytest.raises(ValueError, match="positive"):
        Turnstile(rate, burst, 1, at(0))


def test_a_toll_lets_a_burst_pass_and_then_the_rate() -> None:
    toll = Toll(100, 1000, at(0))
    assert [toll.pay(250, at(0)) for _ in range(4)] == [0, 0, 0, 0]
    assert toll.pay(50, at(0)) == pytest.approx(0.5)
    assert toll.pay(50, at(0.5)) == pytest.approx(0.5)
    assert toll.pay(10, at(100)) == 0, "what was not used is kept up to one burst"
    assert toll.pay(5_000, at(100)) == pytest.approx(40.1), "one word may cost more than all of it"
    assert toll.pay(0, at(50)) == pytest.approx(40.1), "time does not go back"


@given(st.lists(st.floats(0, 500), min_size=1, max_size=200))
def test_who_waits_as_told_never_passes_more_than_burst_and_rate(costs: list[float]) -> None:
    toll, now, paid = Toll(100, 1000, at(0)), 0.0, 0.0
    for cost in costs:
        now += toll.pay(cost, at(now))
        paid += cost
        assert paid <= 1000 + 100 * now + 1e-6


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (1, 0), (-1, 1)])
def test_a_toll_needs_a_rate_and_a_burst(rate: float, burst: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        Toll(rate, burst, at(0))
