"""The laws of digests: a commutative monoid, nothing lost between parts, a flat form that is total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.digest import (
    MAX_CLASSES,
    MAX_COUNTER,
    MAX_COUNTERS,
    MAX_INSTANT,
    MAX_SHAPES,
    Digest,
    Sums,
    bounded,
    check_counters,
    counter,
    diff,
    flatten,
    merge,
    patch,
    unflatten,
)
from banyan.core.resources import MEMORY_MIB, VCPU, Amount, ResourceClass
from tests.property.core.strategies import digests

flats = digests.map(flatten)

# What a hostile or newer child may send: keys near the right ones, any integers.
heads = st.sampled_from(["lh", "lhu", "nr", "ur", "lg", "lf", "z", "uz", "at", "uat", "dr", "", "x", "l", "lr", "lhx"])
tails = st.one_of(
    st.just(""),
    st.text(max_size=5),
    st.sampled_from([":vcpu:p", ":vcpu:pt", ":vcpu:", "::t", ":active", ":total", ":flying", ":vcpu=1", ":" * 3]),
)
keys = st.one_of(st.builds(lambda a, b: a + b, heads, tails), st.text(max_size=12))
hostile = st.dictionaries(keys, st.one_of(st.integers(), st.integers(0, 100), st.just(10**400)), max_size=30)


@given(digests, digests)
def test_merge_is_commutative(a: Digest, b: Digest) -> None:
    assert a + b == b + a


@given(digests, digests, digests)
def test_merge_is_associative(a: Digest, b: Digest, c: Digest) -> None:
    assert (a + b) + c == a + (b + c)


@given(digests)
def test_the_empty_digest_is_a_zero(a: Digest) -> None:
    assert a + Digest() == a == Digest() + a == merge([a])


def everything(digest: Digest) -> tuple[int, int, int, Mapping[ResourceClass, Amount], Mapping[str, int], int, int]:
    total: Sums = digest.live + digest.not_offered + digest.unknown
    return (
        total.hosts,
        total.hosts_up,
        total.hosts_disabled,
        total.resources,
        total.guests,
        digest.zones.total,
        digest.zones.ready,
    )


@given(digests)
def test_moving_a_member_out_of_live_loses_nothing(a: Digest) -> None:
    assert everything(a.as_unknown()) == everything(a) == everything(a.as_not_offered())


@given(digests)
def test_what_is_not_live_promises_nothing(a: Digest) -> None:
    gone, kept = a.as_unknown(), a.as_not_offered()
    assert gone.live == Sums() == kept.live
    assert gone.not_offered == Sums()
    assert not gone.unknown.fits
    assert not kept.not_offered.fits
    assert (gone.zones.alive, gone.zones.suspect) == (0, 0)
    assert gone.unknown_zones == a.zones.total
    assert gone.as_of is None


@given(digests, digests)
def test_standing_apart_distributes_over_merge(a: Digest, b: Digest) -> None:
    assert (a + b).as_unknown() == a.as_unknown() + b.as_unknown()
    assert (a + b).as_not_offered() == a.as_not_offered() + b.as_not_offered()


@given(digests)
def test_standing_apart_twice_is_once(a: Digest) -> None:
    assert a.as_unknown().as_unknown() == a.as_unknown()
    assert a.as_not_offered().as_not_offered() == a.as_not_offered()


@given(digests)
def test_the_flat_form_comes_back(a: Digest) -> None:
    flat = flatten(a)
    assert flatten(unflatten(flat)) == flat
    # Zeros are not spelled; all else is as it was.
    assert unflatten(flat) == unflatten(flatten(unflatten(flat)))
    assert unflatten(flat).as_of == a.as_of
    assert unflatten(flat).zones == a.zones
    assert unflatten(flat).live.hosts == a.live.hosts


@given(digests, digests)
def test_flattening_keeps_sums(a: Digest, b: Digest) -> None:
    assert flatten(unflatten(flatten(a)) + unflatten(flatten(b))) == flatten(a + b)


@given(flats, flats)
def test_patching_by_the_difference_gives_the_new(old: dict[str, int], new: dict[str, int]) -> None:
    assert patch(old, diff(old, new)) == new
    assert diff(new, new) == {}


@given(flats, flats, flats)
def test_changes_follow_on_changes(a: dict[str, int], b: dict[str, int], c: dict[str, int]) -> None:
    assert patch(patch(a, diff(a, b)), diff(b, c)) == c


@given(hostile)
def test_unflatten_gives_a_digest_or_a_value_error(flat: dict[str, int]) -> None:
    try:
        digest = unflatten(flat)
    except ValueError:
        return
    again = flatten(digest)
    check_counters(again)
    assert flatten(unflatten(again)) == again
    assert digest.live.hosts >= 0


@given(hostile)
def test_whatever_is_summed_may_travel(flat: dict[str, int]) -> None:
    small = bounded({key: abs(value) for key, value in flat.items()})
    check_counters(small)
    assert bounded(small) == small
    assert all(counter(key) is not None for key in small)
    unflatten(small)


@pytest.mark.parametrize(
    "flat",
    [
        {"lh": -1},
        {"lh": MAX_COUNTER + 1},
        {"at": MAX_INSTANT + 1},
        {"unknown-key": -1},
        {f"lf:vcpu={n}": 1 for n in range(MAX_SHAPES + 1)},
        {f"nr:custom_{n}:t": 1 for n in range(MAX_CLASSES + 1)},
        {f"x{n}": 1 for n in range(MAX_COUNTERS + 1)},
    ],
)
def test_out_of_bounds_is_refused(flat: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="digest"):
        unflatten(flat)


def test_what_is_over_the_bounds_is_dropped_by_name_and_counted() -> None:
    classes = {ResourceClass(f"a_custom_{n:03}"): Amount(1, 1, 1) for n in range(MAX_CLASSES)}
    fits = {f"vcpu={n:04}": 1 for n in range(MAX_SHAPES + 5)}
    digest = Digest(Sums(1, resources={**classes, VCPU: Amount(8, 8, 0), MEMORY_MIB: Amount(9, 9, 0)}, fits=fits))
    kept = unflatten(flatten(digest))
    assert len(kept.live.fits) == MAX_SHAPES
    assert "vcpu=0000" in kept.live.fits
    assert f"vcpu={MAX_SHAPES:04}" not in kept.live.fits
    # A child with many odd classes never crowds out what every cloud has.
    assert kept.live.resources[VCPU].total == 8
    assert kept.live.resources[MEMORY_MIB].total == 9
    assert kept.dropped == 2 + 5


def test_sums_saturate_instead_of_breaking_the_frame_above() -> None:
    one = Digest(Sums(hosts=MAX_COUNTER))
    assert unflatten(flatten(one + one)).live.hosts == MAX_COUNTER


def test_words_of_another_version_count_as_far_as_they_are_understood() -> None:
    digest = unflatten({"lg:active": 2, "lg:teleporting": 3, "lg:other": 1, "lh:odd": 9, "zz": 4, "lr:vcpu:pt": 5})
    assert digest == replace(Digest(), live=Sums(guests={"active": 2, "other": 4}))
