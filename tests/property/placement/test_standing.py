"""The running sum of members equals the merge of all of them, whatever happened before."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from banyan.core.digest import diff, flatten, merge, unflatten
from banyan.placement.standing import Standing, Sum, placed

KEYS = (
    *("lh", "lhu", "nh", "uhd", "lr:vcpu:t", "lr:vcpu:u", "nr:vcpu:t", "lg:active", "ng:error", "lf:vcpu=1", "dr"),
    *("z:total", "z:ready", "z:alive", "z:suspect", "z:lost", "z:unavailable", "z:disabled", "uz", "at", "uat"),
)
flats = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 9), max_size=8)
members = st.integers(0, 3)
standings = st.sampled_from(Standing)


@dataclass(frozen=True)
class Stand:
    member: int
    standing: Standing
    alone: int


@dataclass(frozen=True)
class Put:
    member: int
    counters: dict[str, int]
    whole: bool


@dataclass(frozen=True)
class Drop:
    member: int


events = st.lists(
    st.one_of(
        st.builds(Stand, members, standings, st.integers(0, 2)),
        st.builds(Put, members, flats, st.booleans()),
        st.builds(Drop, members),
    ),
    max_size=16,
)


@given(events)
def test_a_sum_that_follows_changes_equals_the_merge_from_scratch(what: list[Stand | Put | Drop]) -> None:
    total: Sum[int] = Sum()
    held: dict[int, tuple[Standing, dict[str, int], int]] = {}
    for event in what:
        match event:
            case Stand(member, standing, alone):
                total.stand(member, standing, {"z:total": alone} if alone else {})
                held[member] = (standing, held[member][1] if member in held else {}, alone)
            case Put(member, counters, whole) if member in held:
                if whole:
                    total.put(member, counters)
                else:
                    total.patch(member, diff(total.held(member), counters))
                held[member] = (held[member][0], counters, held[member][2])
            case Drop(member):
                total.drop(member)
                held.pop(member, None)
            case _:
                continue
        by_hand = merge(
            placed(unflatten(counters), standing) + unflatten({"z:total": alone})
            for standing, counters, alone in held.values()
        )
        assert total.counters() == flatten(by_hand)
    for member in list(held):
        total.drop(member)
    assert total.counters() == {}
