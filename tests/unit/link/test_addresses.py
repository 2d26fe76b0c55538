"""Who counts as one at the door, and how addresses are read and written."""

from __future__ import annotations

import pytest

from banyan.core.errors import BadInput
from banyan.core.origin import origin
from banyan.link.door import Door
from banyan.link.sockets import join_address, plain_host, split_address


@pytest.mark.parametrize(
    ("address", "one"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("somewhere", "somewhere"),
    ],
)
def test_an_origin_is_an_address_or_a_host_of_ipv6(address: str, one: str) -> None:
    assert origin(address) == one


def test_a_door_is_bounded_in_total_and_per_origin() -> None:
    door = Door(limit=4, per_origin=2)
    inside = [door.enter("192.0.2.1"), door.enter("192.0.2.1")]
    assert not door.may_enter("192.0.2.1")
    assert door.may_enter("192.0.2.2")
    inside += [door.enter("2001:db8::1"), door.enter("192.0.2.2")]
    assert not door.may_enter("192.0.2.3")
    for where in inside:
        door.leave(where)
    assert door.count == 0
    assert door.may_enter("192.0.2.1")
    assert not door._inside  # nothing is kept of who came once


def test_one_host_of_ipv6_is_one_whatever_it_calls_itself() -> None:
    door = Door(limit=100, per_origin=3)
    for n in range(3):
        door.enter(f"2001:db8::{n}")
    assert not door.may_enter("2001:db8::dead:beef")
    assert door.may_enter("2001:db8:0:1::1")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("top.example.org:8781", "top.example.org", 8781),
        ("192.0.2.1:1", "192.0.2.1", 1),
        ("[2001:db8::1]:65535", "2001:db8::1", 65535),
    ],
)
def test_addresses_are_read_and_written_alike(text: str, host: str, port: int) -> None:
    assert split_address(text) == (host, port)
    assert join_address(host, port) == text


@pytest.mark.parametrize("text", ["", "top", "top:", ":1", "top:x", "top:65536", "top:-1", "2001:db8::1:8781", "[]:1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        split_address(text)
    assert caught.value.code == "bad-address"


def test_people_write_addresses_without_technicalities() -> None:
    assert plain_host("::ffff:192.0.2.1") == "192.0.2.1"
    assert plain_host("fe80::1%eth0") == "fe80::1"
    assert plain_host("192.0.2.1") == "192.0.2.1"
