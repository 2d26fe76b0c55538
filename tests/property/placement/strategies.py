"""Small racks and what happens to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from banyan.core.host import Host
from banyan.core.resources import VCPU, Amount, ResourceClass, Shape
from tests.property.core.strategies import CLASSES, TRAITS

small = st.integers(0, 40)
ids = st.sampled_from([f"h{n}" for n in range(8)])
mostly = st.sampled_from([True, True, True, False])
amounts = st.builds(Amount, small, st.integers(20, 40), small)
hosts = st.builds(
    Host,
    ids,
    st.just("host"),
    st.builds(
        lambda cores, others: {VCPU: cores, **others},
        amounts,
        st.dictionaries(st.sampled_from(CLASSES), amounts, max_size=3),
    ),
    up=mostly,
    disabled=mostly.map(lambda usual: not usual),
    traits=st.frozensets(st.sampled_from(TRAITS)),
    offered=mostly,
)
ceilings: st.SearchStrategy[Mapping[ResourceClass, int]] = st.dictionaries(st.sampled_from(CLASSES), small, max_size=2)


@dataclass(frozen=True)
class Used:
    id: str
    used: dict[ResourceClass, int]


events = st.lists(
    st.one_of(hosts, ids, st.builds(Used, ids, st.dictionaries(st.sampled_from(CLASSES), small, max_size=2))),
    min_size=4,
    max_size=30,
)


def fits_by_hand(rack: Iterable[Host], one: Shape) -> int:
    """How many guests of the shape fit, counted as one would on paper."""
    total = 0
    for host in rack:
        if host.offered and host.up and not host.disabled and host.traits.issuperset(one.traits):
            total += min(host.amounts.get(cls, Amount()).free // need for cls, need in one.needs)
    return total
