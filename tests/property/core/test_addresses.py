"""Laws of address arithmetic: what is free and what is taken make up the pools, and what is carved overlaps nothing."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from banyan.core import addresses
from banyan.core.network import Span

BASE = int(IPv4Address("10.0.0.0"))


def span(first: int, last: int) -> Span:
    return Span(str(IPv4Address(BASE + first)), str(IPv4Address(BASE + last)))


@given(
    st.lists(st.integers(0, 60), min_size=2, max_size=8, unique=True).map(sorted),
    st.sets(st.integers(0, 60), max_size=40),
)
def test_free_and_taken_make_up_the_pools(edges: list[int], taken: set[int]) -> None:
    pools = [span(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    inside = {n for a, b in zip(edges[::2], edges[1::2], strict=False) for n in range(a, b + 1)}
    keys = [f"{BASE + n:08x}" for n in taken]
    gaps = addresses.free(pools, keys)
    found = [n for first, last in gaps for n in range(int(first, 16) - BASE, int(last, 16) - BASE + 1)]
    assert found == sorted(inside - taken)
    assert gaps == sorted(gaps)


@given(
    st.lists(st.tuples(st.integers(0, 255), st.integers(24, 30)), max_size=20),
    st.integers(20, 30),
    st.lists(st.tuples(st.integers(0, 3), st.integers(22, 24)), min_size=1, max_size=2, unique_by=lambda one: one[0]),
)
def test_what_is_carved_is_in_the_store_and_overlaps_nothing(
    used: list[tuple[int, int]], length: int, store: list[tuple[int, int]]
) -> None:
    whole = [IPv4Network((BASE + (n << 10), max(bits, 22))) for n, bits in store]
    taken = [ip_network((BASE + (n << 4), bits), strict=False) for n, bits in used]
    found = addresses.carve(whole, taken, length)
    room = [
        sub
        for one in whole
        if length >= one.prefixlen
        for sub in one.subnets(new_prefix=length)
        if not any(sub.overlaps(other) for other in taken)
    ]
    assert (found is None) == (not room)
    assert found is None or found in room


@given(st.integers(0, 2**48 - 1))
def test_an_address_from_a_mac_lies_in_its_prefix_and_tells_the_mac(number: int) -> None:
    mac = ":".join(f"{number:012x}"[n : n + 2] for n in range(0, 12, 2))
    within = ip_network("2001:db8:1:2::/64")
    made = addresses.address(addresses.by_mac(within, mac))
    assert made is not None and made in within
    low = int(made) & (2**64 - 1)
    octets = low.to_bytes(8)
    assert bytes((octets[0] ^ 2, *octets[1:3], *octets[5:])).hex() == mac.replace(":", "")


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**128 - 1))
def test_keys_sort_as_addresses_do_and_lead_back(four: int, six: int) -> None:
    for number, bits in ((four, 32), (six, 128)):
        text = str(IPv4Address(number)) if bits == 32 else str(IPv6Address(number))
        found = addresses.address(text)
        assert found is not None and addresses.text(addresses.key(found)) == text
        assert len(addresses.key(found)) == bits // 4
