"""Rows of what stands in core/network.py, as the zone uses them inside a unit of work.

Synchronous, in one transaction, as core/records.py has it. Implemented in store/networks.py and
store/network_addresses.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from banyan.core.directory_rows import Rows
from banyan.core.network import (
    FloatingIp,
    Kind,
    Network,
    Port,
    Router,
    SecurityGroup,
    SecurityRule,
    Span,
    Subnet,
    SubnetPool,
)
from banyan.core.network_quota import NetworkLimits

T = TypeVar("T")
Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Listing:
    """Which rows of one kind, and in what order.

    `where`: field → any of these values; fields of the record that are kept as plain values. `project`: what that
    project may see, None is everything. `sort`: fields with True for descending, ended by "id" in any case. `after`:
    the row that stands before, which need not be there any more. `tags`: all of; `tags_any`: any of; `not_tags`: not
    all of; `not_tags_any`: none of. Of ports: `addresses` and `subnets`, any of what they have; `groups`, any of.
    """

    where: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    project: str | None = None
    sort: tuple[tuple[str, bool], ...] = ()
    after: object | None = None
    limit: int = 1_000
    tags: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_tags_any: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class ThingRows(Rows[T], Protocol[T]):
    def listed(self, listing: Listing) -> Sequence[T]: ...

    def change(self, old: T, new: T) -> bool:
        """Replaces a row that still has the revision of `old`. Raises Conflict("name-taken") if what must be unique is
        taken."""


class AddressRows(Protocol):
    """Who has which address, and which are free in a subnet's pools. Whatever changes either takes the subnet's row
    first, so that two who do it at once come one after the other. An address is given to one port only.

    False, or None, from a call that takes: the subnet is not there (`hold`), or the address is not to be had."""

    def hold(self, subnet: str, more: int) -> bool:
        """Takes the subnet's row, and counts that many more used, or fewer."""

    def open(self, subnet: str, pools: Sequence[Span]) -> None:
        """A new subnet's, or one whose pools are others now: free is what no port has."""

    def close(self, subnet: str) -> None: ...

    def take_next(self, subnet: str, ports: Sequence[str]) -> Sequence[str] | None:
        """One each, the lowest first; None, and nothing taken, if there are not as many."""

    def take(self, subnet: str, address: str, port: str) -> bool: ...

    def give(self, subnet: str, address: str, pools: Sequence[Span]) -> bool:
        """It is free again, if it lies in the pools; False if nobody had it."""

    def of(self, subnet: str, address: str) -> str | None:
        """The port that has it."""

    def holders(self, subnet: str, limit: int) -> Sequence[tuple[str, str]]:
        """(port, address) of a subnet; at most `limit`."""

    def left(self, subnet: str) -> int:
        """How many are free in the pools."""


class NetworkRows(Protocol):
    @property
    def networks(self) -> ThingRows[Network]: ...
    @property
    def subnets(self) -> ThingRows[Subnet]: ...
    @property
    def pools(self) -> ThingRows[SubnetPool]: ...
    @property
    def ports(self) -> ThingRows[Port]: ...
    @property
    def routers(self) -> ThingRows[Router]: ...
    @property
    def floating_ips(self) -> ThingRows[FloatingIp]: ...
    @property
    def groups(self) -> ThingRows[SecurityGroup]: ...
    @property
    def rules(self) -> ThingRows[SecurityRule]: ...
    @property
    def addresses(self) -> AddressRows: ...

    def join(self, port: str, groups: Sequence[str]) -> None:
        """The port has these security groups, and no others."""

    def members(self, group: str) -> int:
        """1 if any port has the group, else 0."""

    def add_ports(self, ports: Sequence[Port]) -> Sequence[str]:
        """Adds all of them, which are of one network. MACs that are taken there are told, and then none is added."""

    def server_ports(self, owner: str, after: str, limit: int) -> Sequence[Port]:
        """Ports of servers, `owner` being their device_owner, by id, after that one."""

    def macs_taken(self, network: str, macs: Sequence[str]) -> Sequence[str]:
        """Those that a port of the network has."""

    def limits(self, project: str) -> NetworkLimits:
        """Only those that were set; of project "" those of every project that has none of its own."""

    def limited(self, after: str, limit: int) -> Sequence[str]:
        """Projects that have limits of their own, by id."""

    def set_limits(self, project: str, limits: NetworkLimits) -> None: ...
    def clear_limits(self, project: str) -> None: ...

    def count(self, project: str, kind: Kind, more: int, most: int) -> bool:
        """Counts that many more; False, and nothing counted, if there would be more than `most` (UNLIMITED: any)."""

    def uncount(self, project: str, kind: Kind, fewer: int) -> None: ...
    def counted(self, project: str) -> Mapping[Kind, int]: ...
