"""Networks' rows on every store: addresses given once, lists by key, MACs and default groups that are unique, use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from banyan.core import addresses as arithmetic
from banyan.core.network import FixedIp, Kind, Network, Port, SecurityGroup, Span, Subnet
from banyan.core.network_rows import Listing
from banyan.core.time import Wall
from tests.contract.store.conftest import Kept

T0 = Wall(1_000.0)
POOLS = (Span("10.0.0.2", "10.0.0.6"), Span("10.0.0.7", "10.0.0.9"))


def network(id: str, project: str = "p1", **more: Any) -> Network:
    return Network(id, project, f"name {id}", T0, T0, **more)


def subnet(id: str = "s1", net: str = "n1", pools: tuple[Span, ...] = POOLS) -> Subnet:
    return Subnet(id, "p1", net, "", 4, "10.0.0.0/24", T0, T0, pools=pools)


def port(id: str, net: str = "n1", mac: str = "", **more: Any) -> Port:
    return Port(id, "p1", net, "", mac or f"fa:16:3e:00:00:{int(id[1:]):02x}", T0, T0, **more)


def opened(kept: Kept, pools: tuple[Span, ...] = POOLS) -> None:
    def work(unit: Any) -> None:
        unit.networks.networks.add(network("n1"))
        unit.networks.subnets.add(subnet(pools=pools))
        unit.networks.addresses.open("s1", pools)

    kept.write(work)


def test_what_is_written_is_read(kept: Kept) -> None:
    one = replace(network("n1", tags=("a", "b"), zones=("top/x",), network_type="vlan", segment=7), revision=3)
    many = port("p1", groups=("g1", "g2"), addresses=(FixedIp("s1", "10.0.0.2"),), profile={"a": [1]})

    def work(unit: Any) -> None:
        assert unit.networks.networks.add(one) and unit.networks.subnets.add(subnet())
        assert unit.networks.add_ports([many]) == ()

    kept.write(work)
    kept.again()
    assert kept.read(lambda unit: unit.networks.networks.get("n1")) == one
    assert kept.read(lambda unit: unit.networks.subnets.get("s1")) == subnet()
    assert kept.read(lambda unit: unit.networks.ports.get("p1")) == many
    assert kept.read(lambda unit: (unit.networks.members("g2"), unit.networks.members("g3"))) == (1, 0)


def test_addresses_are_taken_in_order_and_never_twice(kept: Kept) -> None:
    opened(kept)

    def work(unit: Any) -> tuple[Any, ...]:
        rows = unit.networks.addresses
        return (
            rows.take("s1", "10.0.0.4", "a"),
            rows.take("s1", "10.0.0.4", "b"),
            rows.take_next("s1", ["c", "d", "e"]),
            rows.left("s1"),
            rows.take_next("s1", ["f"] * 5),
            rows.take_next("s1", ["g", "h", "i", "j"]),
            rows.take_next("s1", ["k"]),
            rows.of("s1", "10.0.0.5"),
        )

    found = kept.write(work)
    assert found == (
        True,
        False,
        ["10.0.0.2", "10.0.0.3", "10.0.0.5"],
        4,
        None,
        ["10.0.0.6", "10.0.0.7", "10.0.0.8", "10.0.0.9"],
        None,
        "e",
    )


def test_an_address_is_given_back_once_and_joins_the_gaps_beside_it(kept: Kept) -> None:
    opened(kept)

    def work(unit: Any) -> None:
        rows = unit.networks.addresses
        rows.take_next("s1", list("abcdefgh"))
        assert rows.left("s1") == 0
        for address in ("10.0.0.3", "10.0.0.5", "10.0.0.4", "10.0.0.7", "10.0.0.6"):
            assert rows.give("s1", address, POOLS)
            assert not rows.give("s1", address, POOLS)
        assert rows.left("s1") == 5
        # Pools that touch stay apart: the next taker sees the same addresses.
        assert rows.take_next("s1", list("klmno")) == [f"10.0.0.{n}" for n in (3, 4, 5, 6, 7)]

    kept.write(work)


def test_what_lies_outside_of_the_pools_is_taken_by_name_only(kept: Kept) -> None:
    opened(kept)

    def work(unit: Any) -> None:
        rows = unit.networks.addresses
        assert rows.take("s1", "10.0.0.200", "a") and not rows.take("s1", "10.0.0.200", "b")
        assert rows.left("s1") == 8
        assert rows.give("s1", "10.0.0.200", POOLS) and rows.left("s1") == 8

    kept.write(work)


def test_new_pools_are_free_of_what_is_taken(kept: Kept) -> None:
    opened(kept)

    def work(unit: Any) -> None:
        rows = unit.networks.addresses
        rows.take_next("s1", ["a", "b"])
        rows.take("s1", "10.0.0.20", "c")
        rows.open("s1", (Span("10.0.0.3", "10.0.0.4"), Span("10.0.0.19", "10.0.0.21")))
        assert rows.take_next("s1", list("efg")) == ["10.0.0.4", "10.0.0.19", "10.0.0.21"]

    kept.write(work)


def test_use_is_counted_with_the_row_and_never_below_zero(kept: Kept) -> None:
    opened(kept)

    def work(unit: Any) -> tuple[Any, ...]:
        rows = unit.networks
        held = rows.addresses.hold("s1", 3), rows.addresses.hold("s1", -4), rows.addresses.hold("nobody", 1)
        return (*held, rows.subnets.get("s1").used)

    assert kept.write(work) == (True, False, False, 3)
    # A change of the row leaves the count alone.
    old = kept.read(lambda unit: unit.networks.subnets.get("s1"))
    kept.write(lambda unit: unit.networks.addresses.hold("s1", 2))
    assert kept.write(lambda unit: unit.networks.subnets.change(old, replace(old, name="x", revision=2)))
    assert kept.read(lambda unit: unit.networks.subnets.get("s1").used) == 5


@pytest.mark.parametrize(("first", "last"), [("10.0.0.0", "10.0.255.255"), ("2001:db8::", "2001:db8::ffff:ffff")])
def test_a_wide_pool_is_one_row(kept: Kept, first: str, last: str) -> None:
    pools = (Span(first, last),)
    opened(kept, pools)

    def work(unit: Any) -> int:
        rows = unit.networks.addresses
        assert rows.take_next("s1", [f"p{n}" for n in range(300)])[-1] == arithmetic.text(
            arithmetic.after(arithmetic.key(arithmetic.address(first)), 299)
        )
        return int(rows.left("s1"))

    assert kept.write(work) == arithmetic.size(pools) - 300


MOVES = st.lists(st.tuples(st.sampled_from(["next", "take", "give"]), st.integers(0, 15)), min_size=1, max_size=40)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(moves=MOVES, cut=st.integers(1, 8))
def test_whatever_happens_each_address_is_free_or_somebody_s(
    kept: Kept, moves: list[tuple[str, int]], cut: int
) -> None:
    """Against a set: a taken address is never handed out, one that is given back is, and gaps and rows agree."""
    pools = (Span("10.0.0.1", f"10.0.0.{cut}"), Span(f"10.0.0.{cut + 1}", "10.0.0.9"))
    inside = {f"10.0.0.{n}" for n in range(1, 10)}

    def work(unit: Any) -> None:
        rows, held = unit.networks, set[str]()
        rows.addresses.close("s1")
        rows.addresses.open("s1", pools)
        for move, n in moves:
            address = f"10.0.0.{n}"
            if move == "next":
                got = rows.addresses.take_next("s1", ["p"])
                if got is None:
                    assert inside <= held
                else:
                    assert got[0] in inside - held
                    held.add(got[0])
            elif move == "take":
                assert rows.addresses.take("s1", address, "p") == (address not in held)
                held.add(address)
            else:
                assert rows.addresses.give("s1", address, pools) == (address in held)
                held.discard(address)
            assert rows.addresses.left("s1") == len(inside - held)
            assert {one for _, one in rows.addresses.holders("s1", 100)} == held

    kept.write(work)


def test_a_mac_is_one_port_s_of_a_network(kept: Kept) -> None:
    def work(unit: Any) -> tuple[Any, ...]:
        rows = unit.networks
        return (
            rows.add_ports([port("p1"), port("p2")]),
            rows.add_ports([port("p3"), port("p4", mac=port("p2").mac)]),
            rows.add_ports([port("p5", "n2", port("p2").mac)]),
            rows.ports.get("p3"),
        )

    assert kept.write(work) == ((), [port("p2").mac], (), None)


def test_a_place_in_a_server_is_one_port_s(kept: Kept) -> None:
    kept.write(lambda unit: unit.networks.add_ports([port("p1", device="v", place=0)]))
    with pytest.raises(Exception, match=r".+"):
        kept.write(lambda unit: unit.networks.add_ports([port("p2", device="v", place=0)]))
    # Those that answer no wish have none.
    kept.write(lambda unit: unit.networks.add_ports([port("p3", device="v"), port("p4", device="v")]))


def test_a_project_has_one_default_group(kept: Kept) -> None:
    def group(id: str, project: str, name: str) -> SecurityGroup:
        return SecurityGroup(id, project, name, T0, T0)

    def work(unit: Any) -> tuple[bool, ...]:
        rows = unit.networks.groups
        return (
            rows.add(group("g1", "p1", "default")),
            rows.add(group("g2", "p1", "default")),
            rows.add(group("g3", "p2", "default")),
            rows.add(group("g4", "p1", "web")),
            rows.add(group("g5", "p1", "web")),
        )

    assert kept.write(work) == (True, False, True, True, True)


def test_a_change_meets_the_revision_that_was_read(kept: Kept) -> None:
    kept.write(lambda unit: unit.networks.networks.add(network("n1")))
    old = network("n1")
    assert kept.write(lambda unit: unit.networks.networks.change(old, replace(old, name="x", revision=2)))
    assert not kept.write(lambda unit: unit.networks.networks.change(old, replace(old, name="y", revision=2)))
    assert kept.read(lambda unit: unit.networks.networks.get("n1").name) == "x"


def test_lists_are_filtered_sorted_and_continued(kept: Kept) -> None:
    def work(unit: Any) -> None:
        rows = unit.networks
        for n in range(6):
            project, mtu = f"p{n % 2}", 1400 + n // 2
            tags = ("red",) if n < 2 else ("red", "blue") if n < 4 else ()
            rows.networks.add(network(f"n{n}", project, mtu=mtu, tags=tags, shared=n == 5, external=n == 4))

    kept.write(work)

    def ids(**more: Any) -> list[str]:
        return [one.id for one in kept.read(lambda unit: unit.networks.networks.listed(Listing(**more)))]

    assert ids() == ["n0", "n1", "n2", "n3", "n4", "n5"]
    assert ids(where={"project": ("p0",)}) == ["n0", "n2", "n4"]
    assert ids(where={"mtu": (1400, 1402), "shared": (False,)}) == ["n0", "n1", "n4"]
    assert ids(where={"segment": (None,)}, limit=2) == ["n0", "n1"]
    assert ids(where={"id": ()}) == []
    # What is shared or external is everybody's.
    assert ids(project="p0") == ["n0", "n2", "n4", "n5"] and ids(project="p9") == ["n4", "n5"]
    assert ids(sort=(("mtu", True),)) == ["n4", "n5", "n2", "n3", "n0", "n1"]
    middle = kept.read(lambda unit: unit.networks.networks.get("n3"))
    assert ids(sort=(("mtu", True),), after=middle) == ["n0", "n1"]
    assert ids(sort=(("mtu", True), ("id", True)), after=middle) == ["n2", "n1", "n0"]
    assert ids(tags=("red", "blue")) == ["n2", "n3"] and ids(tags_any=("blue",)) == ["n2", "n3"]
    assert ids(not_tags=("red", "blue")) == ["n0", "n1", "n4", "n5"] and ids(not_tags_any=("red",)) == ["n4", "n5"]
    assert ids(tags=("re",)) == []


def test_ports_are_found_by_what_they_have(kept: Kept) -> None:
    opened(kept)

    def work(unit: Any) -> None:
        rows = unit.networks
        rows.networks.add(network("n2", "p2"))
        for n, owner in ((1, "p1"), (2, "p2")):
            fixed = (FixedIp("s1", f"10.0.0.{n + 1}"),)
            one = replace(port(f"p{n}", f"n{n}", addresses=fixed, groups=(f"g{n}",)), project=owner)
            rows.addresses.take("s1", fixed[0].address, one.id)
            rows.add_ports([one])
        # On the other's network.
        rows.add_ports([port("p3", "n2")])

    kept.write(work)

    def ids(**more: Any) -> list[str]:
        return [one.id for one in kept.read(lambda unit: unit.networks.ports.listed(Listing(**more)))]

    assert ids(addresses=("10.0.0.2",)) == ["p1"] and ids(addresses=("10.0.0.9",)) == []
    assert ids(subnets=("s1",)) == ["p1", "p2"] and ids(subnets=("s2",), addresses=("10.0.0.2",)) == []
    assert ids(groups=("g2", "g9")) == ["p2"]
    assert ids(project="p1") == ["p1", "p3"] and ids(project="p2") == ["p2", "p3"]


def test_limits_hold_in_the_row(kept: Kept) -> None:
    def work(unit: Any) -> tuple[Any, ...]:
        rows = unit.networks
        return (
            rows.count("p1", Kind.PORT, 3, 5),
            rows.count("p1", Kind.PORT, 3, 5),
            rows.count("p1", Kind.PORT, 2, 5),
            rows.count("p1", Kind.NETWORK, 900, -1),
            dict(rows.counted("p1")),
        )

    counted = {Kind.PORT: 5, Kind.NETWORK: 900}
    assert kept.write(work) == (True, False, True, True, counted)

    def back(unit: Any) -> Any:
        unit.networks.uncount("p1", Kind.PORT, 4)
        # More than there is: something was counted twice, and is not made worse.
        unit.networks.uncount("p1", Kind.PORT, 4)
        unit.networks.set_limits("p1", {Kind.PORT: 7})
        unit.networks.set_limits("p2", {Kind.PORT: 8, Kind.RULE: 1})
        return (
            dict(unit.networks.counted("p1"))[Kind.PORT],
            unit.networks.limited("", 10),
            dict(unit.networks.limits("p2")),
        )

    assert kept.write(back) == (1, ["p1", "p2"], {Kind.PORT: 8, Kind.RULE: 1})
    kept.write(lambda unit: unit.networks.clear_limits("p2"))
    assert kept.read(lambda unit: (unit.networks.limited("", 10), dict(unit.networks.limits("p2")))) == (["p1"], {})
