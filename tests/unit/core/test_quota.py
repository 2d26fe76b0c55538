"""Limits and the counting against them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from banyan.core.quota import DEFAULTS, NO_USE, UNLIMITED, Limits, Quota, Use, excess, over


def limits(servers: int, vcpu: int, memory: int) -> Limits:
    return {**DEFAULTS, Quota.SERVERS: servers, Quota.VCPU: vcpu, Quota.MEMORY_MIB: memory}


uses = st.builds(Use, st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))


def test_every_quota_has_a_default() -> None:
    assert set(DEFAULTS) == set(Quota)


def test_what_is_passed_is_named() -> None:
    assert over(limits(1, 4, 8), Use(1, 1, 1), Use(1, 2, 3)) == (Quota.SERVERS,)
    assert over(limits(9, 2, 3), Use(1, 1, 1), Use(1, 2, 3)) == (Quota.VCPU, Quota.MEMORY_MIB)
    assert over(limits(UNLIMITED, UNLIMITED, UNLIMITED), Use(9, 9, 9), Use(9, 9, 9)) == ()


def test_who_is_over_a_lowered_limit_may_do_what_costs_nothing_of_it() -> None:
    assert over(limits(0, 0, 0), Use(5, 5, 5), NO_USE) == ()
    assert over(limits(0, 9, 0), Use(5, 5, 5), Use(0, 4, 0)) == ()


@given(uses, uses, uses)
def test_nothing_is_taken_off_that_was_counted_or_may_still_come(stored: Use, counted: Use, unsettled: Use) -> None:
    left = stored - excess(stored, counted, unsettled)
    for quota in (Quota.SERVERS, Quota.VCPU, Quota.MEMORY_MIB):
        assert left.of(quota) >= min(stored.of(quota), counted.of(quota) + unsettled.of(quota))
        assert left.of(quota) <= stored.of(quota)


@given(uses, uses)
def test_what_covers_can_be_taken(held: Use, wanted: Use) -> None:
    assert held.covers(wanted) is ((held - wanted).above_zero() == held - wanted)
