"""Arithmetic of IP addresses, prefixes and MACs. Pure; texts in, texts out, each in its shortest form (RFC 5952).

A *key* is an address in hexadecimal digits of fixed width (8 for IPv4, 32 for IPv6): it sorts as the address does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from banyan.core.network import Span

Address = IPv4Address | IPv6Address
Prefix = IPv4Network | IPv6Network

# A space between two prefixes: first and last address, as numbers.
Range = tuple[int, int]

_MAC = re.compile(r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}\Z")
# What OpenStack gives to virtual machines: locally administered, not a multicast address.
MAC_BASE = "fa:16:3e"


def address(text: str) -> Address | None:
    """None for what is no address. A scope ("%eth0") is none."""
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None


def prefix(text: str) -> Prefix | None:
    """With the bits below its length cleared; a bare address is one of full length. None for what is none."""
    try:
        return None if "%" in text else ip_network(text, strict=False)
    except ValueError:
        return None


def mac(text: str) -> str | None:
    """In lower case with colons; None for what is no MAC of one machine (a multicast, or all zeros)."""
    if not _MAC.match(text):
        return None
    plain = text.lower().replace("-", ":")
    return None if int(plain[:2], 16) & 1 or plain == "00:00:00:00:00:00" else plain


def random_mac(noise: bytes) -> str:
    """Of three bytes of chance."""
    return f"{MAC_BASE}:{noise[0]:02x}:{noise[1]:02x}:{noise[2]:02x}"


def key(of: Address) -> str:
    return f"{int(of):0{8 if of.version == 4 else 32}x}"


def text(of_key: str) -> str:
    number = int(of_key, 16)
    return str(IPv4Address(number) if len(of_key) == 8 else IPv6Address(number))


def after(of_key: str, by: int = 1) -> str:
    """The key `by` addresses further; the caller knows that there is one."""
    return f"{int(of_key, 16) + by:0{len(of_key)}x}"


def distance(first: str, last: str) -> int:
    """Addresses from one key to another, both included."""
    return int(last, 16) - int(first, 16) + 1


def hosts(of: Prefix) -> Range:
    """The addresses that a machine may have in a prefix: not its network and broadcast address where it has such."""
    first, last = int(of.network_address), int(of.broadcast_address)
    if of.prefixlen >= of.max_prefixlen - 1:
        return first, last
    # IPv6 has no broadcast; its first address is every router's (RFC 4291, 2.6.1).
    return first + 1, last - 1 if of.version == 4 else last


def is_host(of: Address, within: Prefix) -> bool:
    first, last = hosts(within)
    return first <= int(of) <= last and of.version == within.version


def _made(number: int, version: int) -> str:
    return str(IPv4Address(number) if version == 4 else IPv6Address(number))


def first_host(of: Prefix) -> str:
    """The usual gateway."""
    return _made(hosts(of)[0], of.version)


def whole(of: Prefix, gateway: str) -> tuple[Span, ...]:
    """All its hosts but the gateway, as pools."""
    first, last = hosts(of)
    found = address(gateway) if gateway else None
    ranges = [(first, last)] if found is None else _without([(first, last)], [(int(found), int(found))])
    return tuple(Span(_made(low, of.version), _made(high, of.version)) for low, high in ranges)


def ends(span: Span) -> Range:
    return int(ip_address(span.first)), int(ip_address(span.last))


def covers(spans: Iterable[Span], one: Address) -> bool:
    return any(low <= int(one) <= high for low, high in map(ends, spans))


def size(spans: Iterable[Span]) -> int:
    return sum(high - low + 1 for low, high in map(ends, spans))


def by_mac(within: Prefix, of: str) -> str:
    """The address of a machine in a prefix of 64 bits, from its MAC (RFC 4291, appendix A)."""
    octets = bytes.fromhex(of.replace(":", ""))
    identifier = bytes((octets[0] ^ 2, octets[1], octets[2], 0xFF, 0xFE, *octets[3:]))
    return str(IPv6Address(int(within.network_address) + int.from_bytes(identifier)))


def _without(ranges: Sequence[Range], taken: Iterable[Range]) -> list[Range]:
    """Ranges less what is taken; both ascending and free of overlaps within themselves."""
    left: list[Range] = []
    waiting = sorted(taken)
    for low, high in sorted(ranges):
        for begin, end in waiting:
            if end < low or begin > high:
                continue
            if begin > low:
                left.append((low, begin - 1))
            low = end + 1
        if low <= high:
            left.append((low, high))
    return left


def carve(store: Iterable[Prefix], taken: Iterable[Prefix], length: int) -> Prefix | None:
    """The first prefix of that length within `store` that overlaps nothing taken; None if there is none left."""
    used = sorted((int(one.network_address), int(one.broadcast_address)) for one in taken)
    for whole_one in sorted(store, key=lambda one: (int(one.network_address), one.prefixlen)):
        if length < whole_one.prefixlen:
            continue
        step = 1 << (whole_one.max_prefixlen - length)
        at, end = int(whole_one.network_address), int(whole_one.broadcast_address)
        for begin, stop in used:
            if stop < at:
                continue
            if begin >= at + step:
                break
            # Aligned: the next start behind what is taken.
            at = (stop // step + 1) * step
        if at + step - 1 <= end:
            return ip_network((at, length)) if whole_one.version == 4 else IPv6Network((at, length))
    return None


def free(spans: Iterable[Span], taken: Iterable[str]) -> list[tuple[str, str]]:
    """What of the pools is not taken: pairs of keys, ascending. `taken`: keys, of the same family."""
    pools = list(spans)
    width = 32 if pools and ":" in pools[0].first else 8
    numbers = (int(one, 16) for one in taken)
    ranges = _without([ends(span) for span in pools], [(one, one) for one in numbers])
    return [(f"{low:0{width}x}", f"{high:0{width}x}") for low, high in ranges]
