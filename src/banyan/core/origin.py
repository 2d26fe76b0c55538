"""Whom an address stands for, where something is shared out among those that ask. Pure."""

from __future__ import annotations

import ipaddress


def origin(address: str) -> str:
    """What is counted as one: an IPv4 address, or the /64 that one host of IPv6 may choose from.

    A text that is no IP address stands for itself.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(ip) >> 64 << 64, 64)))
    return str(ip)
