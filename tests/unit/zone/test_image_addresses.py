"""Where images may be fetched from: what only this machine can reach is asked by nobody's wish."""

from __future__ import annotations

import ipaddress
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.errors import BadInput
from banyan.zone.images.addresses import AddressRules, check_address, judged

RULES, TRUSTING = AddressRules(), AddressRules(private=True, ports=(8080,))


@pytest.mark.parametrize(
    "url",
    ["http://images.example/a", "https://images.example/a?b=c#d", "http://1.1.1.1/x", "http://[2606:4700::1111]/",
     "http://[64:ff9b::808:808]/", "http://[::ffff:8.8.8.8]/",
     "HTTP://Images.Example:80/", "https://a.b.c.example.:443/"],
)  # fmt: skip
def test_what_may_be_fetched(url: str) -> None:
    place = judged(url, RULES)
    assert place.host and place.port in (80, 443) and "?" not in place.shown


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/", "http://127.1/", "http://0/", "http://0.0.0.0/", "http://10.1.2.3/", "http://172.16.0.1/",
     "http://192.168.1.1/", "http://169.254.169.254/", "http://100.64.0.1/", "http://224.0.0.1/", "http://[::]/",
     "http://[::1]/", "http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[fc00::1]/", "http://[ff02::1]/",
     "http://[::ffff:10.0.0.1]/", "http://[2002:7f00:1::]/", "http://[64:ff9b::7f00:1]/", "http://localhost/",
     "http://[fec0::1]/", "http://[64:ff9b:1::7f00:1]/", "http://[::127.0.0.1]/", "http://[::8.8.8.8]/",
     "http://[::ffff:0:127.0.0.1]/", "http://[4000::1]/", "http://[1::1]/", "http://[5f00::1]/",
     "http://[2001:db8::1]/", "http://[64:ff9b::a00:1]/", "http://[2001:0:7f00:1::1]/",
     "http://x.localhost/", "http://0x7f000001/", "http://017700000001/", "http://2130706433/", "http://a:8080/",
     "http://a:99999/", "ftp://a/", "file:///etc/passwd", "//a/", "a", "", "http://", "http://u@a/", "http://u:p@a/",
     "http://a b/", "http://a\n/", "http://ä/", "http://a..b/", "http://" + "a" * 64 + "/",
     "http://a/" + "x" * 2_048, "http://[::1"],
)  # fmt: skip
def test_what_may_not(url: str) -> None:
    with pytest.raises(BadInput, match="does not pass filtering"):
        judged(url, RULES)


def test_where_all_users_are_trusted() -> None:
    assert judged("http://10.0.0.1:8080/", TRUSTING).port == 8080
    check_address("127.0.0.1", TRUSTING)
    for never in ("0.0.0.0", "224.0.0.1", "ff02::1", "::", "x"):
        with pytest.raises(BadInput):
            check_address(never, TRUSTING)


@given(st.ip_addresses())
def test_an_address_passes_only_if_the_whole_internet_reaches_it(address: ipaddress.IPv4Address) -> None:
    try:
        check_address(str(address), RULES)
    except BadInput:
        return
    assert address.is_global and not (address.is_multicast or address.is_loopback or address.is_link_local)


@given(st.text(max_size=60) | st.text(max_size=40).map(lambda text: f"http://{text}"))
def test_any_text_is_judged(url: str) -> None:
    with suppress(BadInput):
        assert judged(url, RULES).host
