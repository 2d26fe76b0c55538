"""Laws of a simulated rack: whatever its size, churn and script, it adds up, and is the same twice."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU
from banyan.core.share import OFFER_ALL
from banyan.drivers.sim.fleet import Fleet
from banyan.drivers.sim.options import SimOptions
from banyan.drivers.sim.script import Churn, Condition, Fill, Grow, Step, condition

rates = st.floats(0, 50, allow_nan=False)
instants = st.floats(0, 10_000, allow_nan=False)


@st.composite
def racks(draw: st.DrawFn) -> tuple[SimOptions, Condition]:
    hosts = draw(st.integers(1, 12))
    guests = st.integers(0, hosts * 20)
    steps: list[Step] = []
    for at in sorted(draw(st.lists(instants, max_size=4))):
        steps.append(
            draw(
                st.one_of(
                    st.builds(Fill, at=st.just(at), guests=guests),
                    st.builds(Churn, at=st.just(at), rate=rates),
                    st.builds(Grow, at=st.just(at), hosts=st.integers(0, 5)),
                )
            )
        )
    options = SimOptions(
        hosts=hosts, guests=draw(guests), seed=draw(st.integers(0, 9)), churn=draw(rates), script=tuple(steps)
    )
    now = condition(
        options.script,
        elapsed=draw(instants),
        hosts=options.hosts,
        guests=options.guests,
        churn=options.churn,
        latency=options.latency,
    )
    return options, now


@given(racks())
def test_hosts_hold_what_their_guests_take_and_never_more_than_they_have(rack: tuple[SimOptions, Condition]) -> None:
    options, now = rack
    fleet = Fleet(options, "law", OFFER_ALL)
    seen: Counter[str] = Counter()
    for number in range(now.hosts):
        host, count = fleet.host(number, now)
        guests = list(fleet.guests(number, host.offered, now, 1e9))
        assert len(guests) == count
        for resource, takes in ((VCPU, "vcpu"), (MEMORY_MIB, "memory_mib"), (DISK_GIB, "disk_gib")):
            assert host.amounts[resource].used == sum(getattr(guest, takes) for guest in guests)
            assert host.amounts[resource].used <= host.amounts[resource].total
        seen.update(guest.id for guest in guests)
    assert seen.total() == now.guests
    assert set(seen.values()) <= {1}


@given(racks())
def test_a_rack_is_the_same_twice(rack: tuple[SimOptions, Condition]) -> None:
    options, now = rack
    once, again = (Fleet(options, "law", OFFER_ALL) for _ in range(2))
    for number in range(now.hosts):
        assert once.host(number, now) == again.host(number, now)
        assert list(once.guests(number, True, now, 1e9)) == list(again.guests(number, True, now, 1e9))


@given(racks())
def test_replacements_happen_one_after_another_and_never_later_than_now(rack: tuple[SimOptions, Condition]) -> None:
    _, now = rack
    last = min(now.churned, 200)
    instants = [now.replaced_at(event) for event in range(last)]
    assert all(a <= b for a, b in pairwise(instants))
    assert all(0 <= instant <= now.elapsed + 1e-6 for instant in instants)


@given(st.integers(1, 6), st.integers(1, 60), rates, instants, st.floats(0, 100, allow_nan=False))
def test_churn_replaces_as_many_as_it_says(hosts: int, guests: int, rate: float, at: float, more: float) -> None:
    options = SimOptions(hosts=hosts, guests=guests, churn=rate)
    fleet = Fleet(options, "law", OFFER_ALL)

    def ids(elapsed: float) -> tuple[int, set[str]]:
        now = condition((), elapsed=elapsed, hosts=hosts, guests=guests, churn=rate, latency=0)
        return now.churned, {guest.id for number in range(hosts) for guest in fleet.guests(number, True, now, 1e9)}

    before, then = ids(at)
    after, later = ids(at + more)
    assert len(then - later) == min(guests, after - before)
