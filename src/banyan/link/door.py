"""How many strangers may stand at the door at a time, in total and from one origin. Pure counting."""

from __future__ import annotations

import ipaddress
from collections import Counter


class Door:
    """Counts who is inside. `limit` in total, `per_origin` for one IPv4 address or one /64 of IPv6."""

    def __init__(self, limit: int, per_origin: int) -> None:
        self._limit = limit
        self._per_origin = per_origin
        self._inside: Counter[str] = Counter()
        self.count = 0

    def may_enter(self, address: str) -> bool:
        return self.count < self._limit and self._inside[origin(address)] < self._per_origin

    def enter(self, address: str) -> str:
        """The origin, to be given back to `leave`."""
        where = origin(address)
        self._inside[where] += 1
        self.count += 1
        return where

    def leave(self, where: str) -> None:
        self.count -= 1
        self._inside[where] -= 1
        if self._inside[where] <= 0:
            del self._inside[where]


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
