"""What a rack offers to its zone, and no more (protocols §3; mission A15). Pure selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from banyan.core.host import Host
from banyan.core.resources import ResourceClass


@dataclass(frozen=True, slots=True)
class Share:
    """Shell patterns, any of which matches; an empty tuple of patterns offers nothing, ("*",) all.

    A host is offered if its availability zone matches and, where `aggregates` is not ("*",), one of
    its aggregates does. `ceiling` bounds the total that is promised per resource class, whatever
    the hosts have; what is over counts as not offered.
    """

    aggregates: tuple[str, ...] = ("*",)
    availability_zones: tuple[str, ...] = ("*",)
    hosts: tuple[str, ...] = ("*",)
    flavors: tuple[str, ...] = ("*",)
    projects: tuple[str, ...] = ("*",)
    ceiling: Mapping[ResourceClass, int] = field(default_factory=dict)

    def offers(self, host: Host) -> bool:
        return (
            matches(self.hosts, host.name)
            and matches(self.availability_zones, host.availability_zone)
            and (self.aggregates == ("*",) or any(matches(self.aggregates, a) for a in host.aggregates))
        )

    def mark(self, host: Host) -> Host:
        offered = self.offers(host)
        return host if host.offered == offered else replace(host, offered=offered)


def matches(patterns: tuple[str, ...], value: str) -> bool:
    return any(pattern == "*" or fnmatchcase(value, pattern) for pattern in patterns)


OFFER_ALL = Share()
