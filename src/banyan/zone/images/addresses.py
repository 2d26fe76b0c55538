"""Which addresses an image may be fetched from. A user names them and this zone's machine asks: it must not be made to
ask for what only it can reach, such as its own services, the link-local metadata of a cloud, or a private network.

Judged twice: the URL when it is given, and every address of the host when it is known, before a connection to it is
made. Pure.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from banyan.core.errors import BadInput

MAX_URL = 2_048
_SCHEMES = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class AddressRules:
    """`private`: also addresses that are not of the public internet. `ports`: to which connections may be made."""

    private: bool = False
    ports: tuple[int, ...] = (80, 443)


@dataclass(frozen=True, slots=True)
class Place:
    """What a URL names. `shown`: the URL without what in it may be a secret."""

    scheme: str
    host: str
    port: int
    shown: str


def judged(url: str, rules: AddressRules) -> Place:
    """Raises BadInput("bad-uri"), whose text says "does not pass filtering" as OpenStack's does."""
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise _bad(f"it is printable ASCII of at most {MAX_URL} characters without spaces")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _bad("it is no URL") from None
    if parts.scheme not in _SCHEMES:
        raise _bad("it must begin with http:// or https://")
    if not host:
        raise _bad("it names no host")
    if parts.username is not None or parts.password is not None:
        raise _bad("it must not hold a name or a password")
    port = _SCHEMES[parts.scheme] if port is None else port
    if port not in rules.ports:
        raise _bad(f"its port must be one of {', '.join(map(str, rules.ports))}")
    literal = _literal(host)
    if literal is not None:
        check_address(str(literal), rules)
    elif host == "localhost" or host.endswith(".localhost") or not _is_name(host):
        raise _bad("its host is not one that images may be fetched from")
    shown_host = f"[{host}]" if ":" in host else host
    return Place(parts.scheme, host, port, f"{parts.scheme}://{shown_host}:{port}{parts.path}"[:MAX_URL])


def check_address(address: str, rules: AddressRules) -> None:
    """Raises BadInput("bad-uri") for an address that images are not fetched from."""
    found = _literal(address)
    if found is None:
        raise _bad("its host has an address that is none")
    # An IPv4 address may be wrapped in an IPv6 one; the machine then speaks to the wrapped one.
    for one in (found, *_wrapped(found)):
        never = one.is_multicast or one.is_unspecified
        if never or not (rules.private or _is_public(one)):
            raise _bad("its host is not one that images may be fetched from")


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Of IPv6 only what is allocated as global unicast (RFC 4291, IANA), and the two forms that stand for an IPv4
    address which is judged by itself: a list of what is not public would lack site-local addresses, NAT64 of one site
    (RFC 8215), IPv4-compatible and IPv4-translated ones, and whatever comes next."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global
    if address.ipv4_mapped is not None or address in _NAT64:
        return True
    return address in _GLOBAL_UNICAST and address.is_global


def _wrapped(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> tuple[ipaddress.IPv4Address, ...]:
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found = [one for one in (address.ipv4_mapped, address.sixtofour) if one is not None]
    if address.teredo is not None:
        found += address.teredo
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    return tuple(found)


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _is_name(host: str) -> bool:
    """A name as DNS has them. Numbers that resolvers take for addresses (0x7f.1, 2130706433) are none."""
    labels = host.rstrip(".").split(".")
    fits = all(0 < len(one) <= 63 and all(c.isalnum() or c in "-_" for c in one) for one in labels)
    last = labels[-1].lower()
    return fits and not (last.isdigit() or last.startswith("0x"))


def _bad(why: str) -> BadInput:
    return BadInput("bad-uri", f"URI for web-download does not pass filtering: {why}")
