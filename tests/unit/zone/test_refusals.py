"""What strangers may write into the journal: a few lines each, a bounded number in all."""

from __future__ import annotations

from banyan.core.time import Mono
from banyan.zone.reconcile.refusals import IN_ALL, OF_A_NETWORK, REFUSALS_PER_MINUTE, Refusals

NOW = Mono(600.0)


def test_one_stranger_silences_no_other() -> None:
    refusals = Refusals("link")
    assert sum(refusals.may_write(NOW, "192.0.2.7") for _ in range(1_000)) == REFUSALS_PER_MINUTE
    assert refusals.may_write(NOW, "198.51.100.9")
    assert refusals.may_write(NOW, "zone:east")
    assert refusals.unwritten == refusals.left_out()[0] == 1_000 - REFUSALS_PER_MINUTE
    assert refusals.may_write(Mono(NOW + 60.0), "192.0.2.7")


def test_who_has_many_addresses_of_one_network_silences_no_other_network() -> None:
    for crowd in ((f"2001:db8:1:{n:x}::1" for n in range(500)), (f"192.0.2.{n % 256}" for n in range(500))):
        refusals = Refusals("link")
        assert sum(refusals.may_write(NOW, address) for address in crowd) == OF_A_NETWORK
        assert refusals.may_write(NOW, "2001:db8:2::1")
        assert refusals.may_write(NOW, "198.51.100.9")


def test_one_host_of_ipv6_is_one_stranger_and_a_mapped_address_is_the_one_it_maps() -> None:
    refusals = Refusals("link")
    assert sum(refusals.may_write(NOW, f"2001:db8::{n:x}") for n in range(1, 500)) == REFUSALS_PER_MINUTE
    assert sum(refusals.may_write(NOW, at) for at in ["192.0.2.7", "::ffff:192.0.2.7"] * 50) == REFUSALS_PER_MINUTE
    assert refusals.may_write(NOW, "::1"), "which is no IPv4 address"


def test_a_crowd_from_everywhere_costs_a_bounded_number_of_lines_and_bytes() -> None:
    refusals = Refusals("link")
    crowd = [f"{a}.{b}.0.1" for a in range(1, 101) for b in range(100)]
    assert sum(refusals.may_write(NOW, address) for address in crowd) == IN_ALL
    assert len(refusals._of) <= 2 * IN_ALL
