"""Columns and folds: repaired after changes they equal the count on paper; nothing is promised that no host holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from banyan.core.digest import flatten, unflatten
from banyan.core.host import Host
from banyan.core.resources import VCPU, Amount, ResourceClass, Shape, add_amounts, shape
from banyan.placement.columns import Columns
from banyan.placement.fold import Fold
from tests.property.core.strategies import shapes
from tests.property.placement.strategies import Used, ceilings, events, fits_by_hand, hosts

ONE_CORE = shape({VCPU: 1})


def happen(columns: Columns, rack: dict[str, Host], event: Host | str | Used) -> None:
    match event:
        case Host():
            columns.upsert(event)
            rack[event.id] = event
        case str():
            assert columns.remove(event) == (rack.pop(event, None) is not None)
        case Used(id, used):
            host = rack.get(id)
            if host is None:
                return
            known = {cls: n for cls, n in used.items() if cls in host.amounts}
            columns.set_used(id, known)
            rack[id] = replace(
                host, amounts={**host.amounts, **{c: replace(host.amounts[c], used=n) for c, n in known.items()}}
            )


def total(rack: Mapping[str, Host], offered: bool) -> dict[ResourceClass, Amount]:
    result: dict[ResourceClass, Amount] = {}
    for host in rack.values():
        if host.offered == offered:
            result = add_amounts(result, host.amounts)
    return {cls: amount for cls, amount in result.items() if amount != Amount()}


@given(st.lists(shapes, max_size=4), events, st.integers(1, 5))
def test_a_repaired_fold_equals_the_count_on_paper(
    wanted: list[Shape], what: list[Host | str | Used], every: int
) -> None:
    columns, rack = Columns(), {}
    wanted = [*wanted, ONE_CORE]
    fold = Fold(columns, wanted)
    for number, event in enumerate(what):
        happen(columns, rack, event)
        if number % every == 0:
            fold.refresh()
            assert fold.fits().get(ONE_CORE.key, 0) == fits_by_hand(rack.values(), ONE_CORE)
    offered, rest = fold.sums()
    by_hand = {one.key: fits_by_hand(rack.values(), one) for one in wanted}
    assert offered.fits == {key: n for key, n in sorted(by_hand.items()) if n}
    # Counted on every host that is offered, also where none fits.
    assert offered.counted == ({one.id: offered.hosts for one in wanted} if offered.hosts else {})
    assert offered.resources == total(rack, True)
    assert rest.resources == total(rack, False)
    assert offered.hosts + rest.hosts == len(rack) == len(columns)
    assert offered.hosts_up == sum(h.up for h in rack.values() if h.offered)
    assert offered.hosts_disabled == sum(h.disabled for h in rack.values() if h.offered)
    assert not rest.fits


@given(st.lists(shapes, max_size=4), st.lists(shapes, max_size=4), events)
def test_shapes_may_change_at_any_time(before: list[Shape], after: list[Shape], what: list[Host | str | Used]) -> None:
    columns, rack = Columns(), {}
    fold = Fold(columns, before)
    for event in what:
        happen(columns, rack, event)
    fold.watch(after)
    assert fold.sums() == Fold(Columns.build([rack.values()]), after).sums()


@given(st.lists(hosts, max_size=8), st.lists(shapes, max_size=3), ceilings)
def test_a_ceiling_moves_what_is_over_and_loses_nothing(
    rack: list[Host], wanted: list[Shape], ceiling: dict[ResourceClass, int]
) -> None:
    columns = Columns.build([rack])
    free, bound = Fold(columns, wanted), Fold(columns, wanted, ceiling)
    all_offered, all_rest = free.sums()
    offered, rest = bound.sums()
    merged = add_amounts(offered.resources, rest.resources)
    assert {c: a for c, a in merged.items() if a != Amount()} == {
        c: a for c, a in add_amounts(all_offered.resources, all_rest.resources).items() if a != Amount()
    }
    for cls, most in ceiling.items():
        held = offered.resources.get(cls, Amount())
        assert held.total <= max(most, 0) or held == all_offered.resources.get(cls)
        assert held.total <= most
        assert held.used <= max(held.total, all_offered.resources.get(cls, Amount()).used)
    for one in wanted:
        promised = offered.fits.get(one.key, 0)
        assert promised <= all_offered.fits.get(one.key, 0)
        for cls, need in one.needs:
            assert promised * need <= offered.resources.get(cls, Amount()).free


@given(st.lists(hosts, max_size=8), st.lists(shapes, max_size=3))
def test_a_rack_promises_no_more_than_it_holds(rack: list[Host], wanted: list[Shape]) -> None:
    fold = Fold(Columns.build([rack]), wanted)
    last = {host.id: host for host in rack}
    for key, count in fold.fits().items():
        for cls, need in Shape.parse(key).needs:
            assert count * need <= sum(
                h.amounts.get(cls, Amount()).free for h in last.values() if h.offered and h.up and not h.disabled
            )


@given(st.lists(hosts, max_size=8), st.lists(shapes, max_size=3))
def test_a_racks_digest_comes_back_from_the_wire(rack: list[Host], wanted: list[Shape]) -> None:
    digest = Fold(Columns.build([rack]), wanted).digest({("active", True): 3, ("error", False): 2}, None)
    assert unflatten(flatten(digest)) == digest
