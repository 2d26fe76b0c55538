"""Groups and named hosts: many at once go where one after the other would, and no hard rule is ever broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.core.host import Host
from banyan.core.order import Claim, GroupPolicy, Refusal
from banyan.placement import index
from banyan.placement.claims import Claims
from banyan.placement.columns import Columns
from banyan.placement.filters import Around, Ask
from tests.property.placement.paper import HOSTS, Paper, plain_asks, plain_hosts, racks


@pytest.fixture(autouse=True, scope="module")
def _few_at_hand() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "NEAR", 2)
        yield


some_hosts = st.frozensets(st.sampled_from([*HOSTS, "elsewhere"]), max_size=4)
arounds = st.builds(
    Around,
    st.just("group"),
    st.sampled_from([*GroupPolicy, None]),
    st.integers(1, 2),
    st.dictionaries(st.sampled_from([*HOSTS, "elsewhere"]), st.integers(0, 3), max_size=4),
    st.one_of(st.none(), st.none(), some_hosts),
    st.one_of(st.just(frozenset()), some_hosts),
)


@settings(max_examples=200)
@given(st.integers(0, 9), racks(plain_hosts), plain_asks, arounds, st.integers(1, 8))
def test_one_after_the_other_goes_where_it_goes_on_paper(
    seed: int, rack: list[Host], ask: Ask, near: Around, n: int
) -> None:
    """Pending members of the group count as the stored ones do."""
    claims, paper = Claims(Columns.build([rack]), seed=seed), Paper(seed, {host.id: host for host in rack})
    members = dict(near.members)
    for number in range(n):
        by_hand = paper.best(ask, near, members)
        got = claims.claim(str(number), ask, near=near)
        if by_hand is None:
            assert isinstance(got, Refusal)
            assert got.looked == sum(got.counts.values()) == len(rack)
            continue
        assert isinstance(got, Claim)
        assert (got.hosts, got.counts) == ((by_hand,), (1,))
        paper.hold(str(number), ask, by_hand)
        members[by_hand] = members.get(by_hand, 0) + 1


@settings(max_examples=300)
@given(st.integers(0, 9), racks(plain_hosts), plain_asks, arounds, st.integers(1, 8), st.integers(1, 8))
def test_many_at_once_go_where_one_after_the_other_would(
    seed: int, rack: list[Host], ask: Ask, near: Around, least: int, more: int
) -> None:
    most = least + more - 1
    claims, paper = Claims(Columns.build([rack]), seed=seed), Paper(seed, {host.id: host for host in rack})
    by_hand = paper.one_by_one(ask, most, near)
    got = claims.claim("o", ask, least, most, near)
    if near.policy is GroupPolicy.AFFINITY and not any(near.members.values()) and most > 1:
        # One host must take them all. The first of them alone might have gone where there is room for no other.
        room = [
            paper.fits(ask, id)
            for id in paper.hosts
            if id not in near.different and (near.same is None or id in near.same)
        ]
        best = min(max(room, default=0), most)
        assert isinstance(got, Claim) == (best >= least)
        assert not isinstance(got, Claim) or (len(got.hosts), got.count) == (1, best)
        assert sum(by_hand.values()) <= best
    elif sum(by_hand.values()) < least:
        assert isinstance(got, Refusal) and got.fits == sum(by_hand.values())
        assert got.looked == sum(got.counts.values()) == len(rack)
    else:
        assert isinstance(got, Claim) and dict(zip(got.hosts, got.counts, strict=True)) == by_hand


@given(racks(plain_hosts), plain_asks, arounds, st.integers(1, 6))
def test_a_group_counts_what_is_pending_until_it_is_stored(rack: list[Host], ask: Ask, near: Around, n: int) -> None:
    near = replace(near, policy=GroupPolicy.ANTI_AFFINITY, per_host=1, members={}, same=None)
    claims = Claims(Columns.build([rack]))
    first = claims.claim("a", ask, 1, n, near)
    if not isinstance(first, Claim):
        return
    second = claims.claim("b", ask, 1, n, near)
    if isinstance(second, Claim):
        assert not set(first.hosts) & set(second.hosts)
    claims.cancel("b")
    claims.commit("a")
    stored = replace(near, members=dict.fromkeys(first.hosts, 1))
    third = claims.claim("c", ask, 1, n, stored)
    assert isinstance(third, Claim) == isinstance(second, Claim)
    if isinstance(third, Claim):
        assert set(third.hosts).isdisjoint(first.hosts)
