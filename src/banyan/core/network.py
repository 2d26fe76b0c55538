"""Networks of a cloud, as its users and administrators know them: records without rules.

A network belongs to the zone that was asked for it. Its *reach* says where servers on it can reach each other: `zone`
(within one zone: the first server settles which) or `provider` (the operator says that one segment is in all the
zones named). Addresses are texts in their shortest form, instants seconds since 1970. The rules are zone/networks'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from banyan.core.time import Wall


class Kind(StrEnum):
    """What the network service keeps, by the word that stands in addresses, lists and refusals."""

    NETWORK = "network"
    SUBNET = "subnet"
    PORT = "port"
    ROUTER = "router"
    FLOATING_IP = "floatingip"
    GROUP = "security_group"
    RULE = "security_group_rule"
    POOL = "subnetpool"


class Reach(StrEnum):
    ZONE = "zone"
    PROVIDER = "provider"


class Direction(StrEnum):
    INGRESS = "ingress"
    EGRESS = "egress"


@dataclass(frozen=True, slots=True)
class Network:
    """`zones`: paths of the zones in which it is: of reach `provider` as the operator said, of reach `zone` the one
    that the first server settled, or none yet. `segment`, `network_type` and `physical` are the operator's; "" and None
    where none was said. `mtu` in bytes."""

    id: str
    project: str
    name: str
    created_at: Wall
    updated_at: Wall
    description: str = ""
    admin_up: bool = True
    shared: bool = False
    external: bool = False
    default: bool = False
    mtu: int = 1450
    port_security: bool = True
    reach: Reach = Reach.ZONE
    zones: tuple[str, ...] = ()
    network_type: str = ""
    physical: str = ""
    segment: int | None = None
    zone_hints: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    revision: int = 1


@dataclass(frozen=True, slots=True)
class Span:
    """Addresses from `first` to `last`, both included."""

    first: str
    last: str


@dataclass(frozen=True, slots=True)
class Route:
    destination: str
    nexthop: str


@dataclass(frozen=True, slots=True)
class Subnet:
    """`gateway` "" is none; `ra_mode` and `address_mode` of IPv6, "" where unset. `pools`: of which addresses are given
    out unasked. `used`: addresses that ports have, counted where they are given."""

    id: str
    project: str
    network: str
    name: str
    version: int
    cidr: str
    created_at: Wall
    updated_at: Wall
    description: str = ""
    gateway: str = ""
    dhcp: bool = True
    pools: tuple[Span, ...] = ()
    dns: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    ra_mode: str = ""
    address_mode: str = ""
    pool: str = ""
    service_types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    used: int = 0
    revision: int = 1

    @property
    def by_mac(self) -> bool:
        """Addresses follow from the MAC (SLAAC, or DHCPv6 without state)."""
        return self.address_mode in ("slaac", "dhcpv6-stateless")


@dataclass(frozen=True, slots=True)
class SubnetPool:
    """Prefixes from which subnets are cut. `quota`: addresses (IPv4) or /64 (IPv6) per project, None: any number."""

    id: str
    project: str
    name: str
    version: int
    prefixes: tuple[str, ...]
    created_at: Wall
    updated_at: Wall
    description: str = ""
    shared: bool = False
    default: bool = False
    least_length: int = 8
    most_length: int = 32
    default_length: int = 8
    quota: int | None = None
    tags: tuple[str, ...] = ()
    revision: int = 1


@dataclass(frozen=True, slots=True)
class FixedIp:
    subnet: str
    address: str


@dataclass(frozen=True, slots=True)
class AddressPair:
    mac: str
    address: str


@dataclass(frozen=True, slots=True)
class DhcpOption:
    name: str
    value: str
    version: int = 4


# Whom a port serves, as `device_owner` has it.
COMPUTE = "compute:"
ROUTER_INTERFACE = "network:router_interface"
ROUTER_GATEWAY = "network:router_gateway"
FLOATING = "network:floatingip"


@dataclass(frozen=True, slots=True)
class Port:
    """`device` is the id of what it is plugged into, `owner` what kind of thing that is ("compute:az1", a word from
    above). `place`: of a server's port, the number of the wish that it answers; `ours`: made for a server, and to go
    with it, or plugged into a router by the router's own calls. `host`, `profile` and `vnic` are of the binding; `tag`
    is the interface's in its server."""

    id: str
    project: str
    network: str
    name: str
    mac: str
    created_at: Wall
    updated_at: Wall
    description: str = ""
    admin_up: bool = True
    status: str = "DOWN"
    device: str = ""
    owner: str = ""
    addresses: tuple[FixedIp, ...] = ()
    groups: tuple[str, ...] = ()
    pairs: tuple[AddressPair, ...] = ()
    options: tuple[DhcpOption, ...] = ()
    port_security: bool = True
    host: str = ""
    vnic: str = "normal"
    profile: Mapping[str, object] = field(default_factory=dict)
    place: int = -1
    ours: bool = False
    tag: str = ""
    tags: tuple[str, ...] = ()
    revision: int = 1


@dataclass(frozen=True, slots=True)
class Router:
    """`gateway`: the id of the external network, "" is none; `gateway_port` has its addresses. `snat`: as asked."""

    id: str
    project: str
    name: str
    created_at: Wall
    updated_at: Wall
    description: str = ""
    admin_up: bool = True
    gateway: str = ""
    gateway_port: str = ""
    snat: bool = True
    routes: tuple[Route, ...] = ()
    zone_hints: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    revision: int = 1


@dataclass(frozen=True, slots=True)
class FloatingIp:
    """`outer_port`: the port of the external network that holds `address`. `port`, `fixed`, `router`: what it leads
    to, "" while it leads nowhere."""

    id: str
    project: str
    network: str
    address: str
    outer_port: str
    created_at: Wall
    updated_at: Wall
    description: str = ""
    port: str = ""
    fixed: str = ""
    router: str = ""
    tags: tuple[str, ...] = ()
    revision: int = 1


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    id: str
    project: str
    name: str
    created_at: Wall
    updated_at: Wall
    description: str = ""
    stateful: bool = True
    tags: tuple[str, ...] = ()
    revision: int = 1


@dataclass(frozen=True, slots=True)
class SecurityRule:
    """`ethertype` "IPv4" or "IPv6". `protocol` "" is any, else a name or a number. `least`, `most`: ports, or type and
    code of ICMP. `prefix` and `remote`: from or to whom, "" is anybody. `same`: what no other rule of its group has."""

    id: str
    project: str
    group: str
    direction: Direction
    ethertype: str
    created_at: Wall
    updated_at: Wall
    protocol: str = ""
    least: int | None = None
    most: int | None = None
    prefix: str = ""
    remote: str = ""
    description: str = ""
    same: str = ""
    revision: int = 1


Thing = Network | Subnet | SubnetPool | Port | Router | FloatingIp | SecurityGroup | SecurityRule
