"""Columns: rows come and go, amounts that no hardware has are cut, the log forgets rather than grows."""

from __future__ import annotations

import numpy as np
import pytest

from banyan.core.digest import Sums
from banyan.core.host import Host
from banyan.core.resources import MEMORY_MIB, VCPU, Amount, ResourceClass, Shape, shape
from banyan.placement.columns import MAX_AMOUNT, USED, Columns, Place
from banyan.placement.fold import Fold, watchable

SMALL = shape({VCPU: 1})


def host(number: int, cores: int = 4, used: int = 0, **more: bool) -> Host:
    return Host(f"h{number}", f"h{number}", {VCPU: Amount(cores, cores, used)}, **more)


def test_a_thousand_hosts_come_and_go() -> None:
    columns = Columns.build([[host(n) for n in range(1_000)], [host(n, 8) for n in range(500)]])
    assert len(columns) == 1_000
    assert columns.sums(True).resources[VCPU].total == 500 * 8 + 500 * 4
    for number in range(1_000):
        assert columns.remove(f"h{number}")
    assert not columns.remove("h1")
    assert columns.sums(True) == Sums()
    assert not columns.amounts.any()


def test_down_and_disabled_hosts_are_in_the_totals_but_promise_nothing() -> None:
    columns = Columns.build([[host(1), host(2, up=False), host(3, disabled=True)]])
    offered, rest = Fold(columns, [SMALL]).sums()
    assert (offered.hosts, offered.hosts_up, offered.hosts_disabled) == (3, 2, 1)
    assert offered.resources[VCPU].total == 12
    assert offered.fits == {"vcpu=1": 4}
    assert rest == Sums()


def test_a_host_goes_out_of_service_and_comes_back_with_what_it_holds() -> None:
    columns = Columns.build([[host(1, used=1), host(2)]])
    fold = Fold(columns, [SMALL])
    columns.set_state("h1", up=True, disabled=True)
    assert fold.fits() == {"vcpu=1": 4}
    offered, _ = fold.sums()
    assert (offered.hosts, offered.hosts_up, offered.hosts_disabled) == (2, 2, 1)
    assert offered.resources[VCPU] == Amount(8, 8, 1)
    columns.set_state("h2", up=False, disabled=False)
    assert fold.fits() == {} and fold.sums()[0].hosts_up == 1
    columns.set_state("h1", up=True, disabled=False)
    columns.set_state("none", up=True, disabled=False)
    assert fold.fits() == {"vcpu=1": 3}


def test_a_host_that_is_over_used_takes_nothing_from_others() -> None:
    columns = Columns.build([[host(1, cores=4, used=6), host(2)]])
    assert Fold(columns, [SMALL]).fits() == {"vcpu=1": 4}


def test_cores_without_memory_fit_nothing() -> None:
    columns = Columns.build([[Host("a", "a", {VCPU: Amount(100, 100, 0), MEMORY_MIB: Amount(1_024, 1_024, 0)})]])
    wanted = shape({VCPU: 1, MEMORY_MIB: 2_048})
    assert Fold(columns, [wanted, shape({VCPU: 1, ResourceClass("custom_gpu"): 1})]).fits() == {}


@pytest.mark.parametrize("silly", [-5, 2**63, 2**200])
def test_amounts_that_no_hardware_has_are_cut(silly: int) -> None:
    columns = Columns.build([[Host("a", "a", {VCPU: Amount(silly, silly, 0)}), host(2)]])
    assert columns.sums(True).resources[VCPU].total == (MAX_AMOUNT if silly > 0 else 0) + 4
    assert Fold(columns, [SMALL]).fits()["vcpu=1"] == (MAX_AMOUNT if silly > 0 else 0) + 4


def test_the_log_names_changed_rows_once_and_forgets_when_it_is_long() -> None:
    columns = Columns.build([[host(n) for n in range(4)]])
    at = columns.position
    assert columns.changes(at) == []
    columns.set_used("h2", {VCPU: 1})
    columns.set_used("h2", {VCPU: 2})
    assert columns.changes(at) == [2]
    for used in range(200):
        columns.set_used("h1", {VCPU: used % 4})
    assert columns.changes(at) is None
    assert len(columns._log) < 100


def test_a_fold_that_was_behind_looks_at_all_again() -> None:
    columns = Columns.build([[host(n) for n in range(4)]])
    fold = Fold(columns, [SMALL])
    for used in range(201):
        columns.set_used("h1", {VCPU: used % 4})
    assert fold.fits() == {"vcpu=1": 16}


def test_what_is_used_on_an_unknown_host_or_class_is_an_error() -> None:
    columns = Columns.build([[host(1)]])
    with pytest.raises(KeyError):
        columns.set_used("h9", {VCPU: 1})
    with pytest.raises(KeyError):
        columns.set_used("h1", {MEMORY_MIB: 1})


def test_what_is_promised_may_be_shifted_on_one_row_or_on_many() -> None:
    columns = Columns.build([[host(1), host(2, offered=False), host(3, used=1)]])
    at = columns.position
    index = columns.class_index(VCPU)
    assert index == 0
    columns.use(0, index, 3)
    columns.use_many(np.array([1, 2]), index, np.array([2, -9]))
    assert columns.changes(at) == [0, 1, 2]
    assert columns.amounts[USED, index, :3].tolist() == [3, 2, 0]
    assert columns.offered_amount(VCPU) == Amount(8, 8, 3) == columns.sums(True).resources[VCPU]
    assert columns.sums(False).resources[VCPU] == Amount(4, 4, 2)
    assert columns.offered_amount(MEMORY_MIB) == Amount() and columns.class_index(MEMORY_MIB) is None


def test_a_place_goes_with_its_host() -> None:
    columns = Columns.build(
        [
            [
                Host(f"h{n}", f"h{n}", {}, availability_zone=f"az{n % 2}", aggregates=(("ssd",) if n == 4 else ()))
                for n in range(40)
            ]
        ]
    )
    columns.remove("h3")
    columns.remove("h0")
    for row in range(len(columns)):
        number = int(columns.id(row)[1:])
        place = columns.places[columns.stands[row]]
        assert place == Place(f"az{number % 2}", frozenset({"ssd"} if number == 4 else ()))
    assert len(columns.places) == 4  # nowhere, az0, az1, and az0 with ssd


def test_a_ceiling_counts_what_is_over_as_not_offered() -> None:
    columns = Columns.build([[Host("a", "a", {VCPU: Amount(100, 400, 30)}), host(2, offered=False)]])
    offered, rest = Fold(columns, [SMALL], {VCPU: 40}).sums()
    assert offered.resources[VCPU] == Amount(10, 40, 30)
    assert rest.resources[VCPU] == Amount(94, 364, 0)
    assert offered.fits == {"vcpu=1": 10}
    assert (offered.hosts, rest.hosts) == (1, 1)


def test_shapes_that_can_not_stand_in_a_digest_are_not_counted() -> None:
    long = Shape(((VCPU, 1),), tuple(f"CUSTOM_TRAIT_WITH_A_LONG_NAME_{n}" for n in range(20)))
    many = [shape({VCPU: n + 1}) for n in range(400)]
    kept = watchable([Shape(()), long, *many, many[0]])
    assert long not in kept
    assert Shape(()) not in kept
    assert len(kept) == 300
