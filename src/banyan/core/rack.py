"""A rack: the unit of ownership. Hosts claimed together by one owner; one driver, one failure domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from banyan.core.catalogue import Flavor, Image, Network, Project
from banyan.core.guest import Guest
from banyan.core.host import Host
from banyan.core.ids import RackCode
from banyan.core.time import Wall


class Capacity(StrEnum):
    """`exclusive`: only Banyan claims there, claims are exact. `shared`: others do as well, claims are best effort."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"


class Basis(StrEnum):
    """What a rack's totals are made of: hosts seen one by one, or only a project's quota."""

    HOSTS = "hosts"
    QUOTA = "quota"


class RackHealth(StrEnum):
    """`unavailable` is said by the rack's own side (credentials refused, API down); the link is another matter."""

    UNKNOWN = "unknown"
    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Rack:
    """One row. `epoch` is raised by every new owner; `owner` is the controller or zone that owns it now.

    `scanned_at` is None before the first complete scan.
    """

    code: RackCode
    name: str
    driver: str
    options: Mapping[str, object]
    epoch: int = 1
    owner: str = ""
    health: RackHealth = RackHealth.UNKNOWN
    reason: str = ""
    capacity: Capacity = Capacity.EXCLUSIVE
    basis: Basis = Basis.HOSTS
    generation: int = 0
    scanned_at: Wall | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scan:
    """The end of one complete scan: everything but the hosts and guests, which came in batches before it.

    `facts` are short texts for people: versions, region, "capacity: quota". `requests` counts what
    the scan asked of the bottom.
    """

    started_at: Wall
    finished_at: Wall
    basis: Basis = Basis.HOSTS
    flavors: tuple[Flavor, ...] = ()
    images: tuple[Image, ...] = ()
    networks: tuple[Network, ...] = ()
    projects: tuple[Project, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    requests: int = 0


@dataclass(frozen=True, slots=True)
class HostBatch:
    """Some hosts of a scan; at most 1,000."""

    hosts: tuple[Host, ...]

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts)


@dataclass(frozen=True, slots=True)
class GuestBatch:
    """Some guests of a scan; at most 1,000."""

    guests: tuple[Guest, ...]

    def __iter__(self) -> Iterator[Guest]:
        return iter(self.guests)


ScanItem = HostBatch | GuestBatch | Scan
