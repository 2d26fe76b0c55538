"""Subnets of networks, and the pools of prefixes that they may be cut from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from banyan.core import addresses as arithmetic
from banyan.core.addresses import Prefix
from banyan.core.errors import BadInput, Broken, Conflict
from banyan.core.network import ROUTER_INTERFACE, Kind, Network, Span, Subnet, SubnetPool
from banyan.core.network_rows import Listing, NetworkRows
from banyan.core.permissions import Target, forbidden, may, require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.zone.networks import ports
from banyan.zone.networks.addressing import subnets_of
from banyan.zone.networks.desk import (
    MAX_LIST,
    Changes,
    Desk,
    changeable,
    changed,
    check_bulk,
    page,
    seen,
)

MAX_POOLS, MAX_ROUTES, MAX_DNS = 20, 20, 20
# As a subnet is asked for that takes its prefix from a pool: of which length, 0 is the pool's own choice.
GATEWAY_UNASKED = "?"


class Subnets:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, who: Principal, wanted: Sequence[Subnet], lengths: Sequence[int] = ()) -> list[Subnet]:
        """All or none. `gateway` GATEWAY_UNASKED is the usual one; no `pools`, all addresses; no `cidr`, one cut from
        `pool`, with a prefix of that length (`lengths`, one each; 0: the pool's default).

        Raises NotFound, Refused, BadInput, Conflict("over-quota"), ("overlap"), ("pool-empty")."""
        check_bulk(wanted)
        now = self._desk.now()
        asked = lengths or [0] * len(wanted)

        def work(unit: Unit) -> list[Subnet]:
            rows, made = unit.networks, []
            for one, length in zip(wanted, asked, strict=True):
                network = seen(rows, who, Kind.NETWORK, rows.networks, one.network)
                project = one.project or who.project or network.project
                require(who, "network:create_subnet", Target(project=project))
                if not may(who, "network:create_subnet", Target(project=network.project)):
                    raise forbidden(who, "network:create_subnet")
                subnet = replace(one, id=self._desk.new_uuid(), project=project, created_at=now, updated_at=now)
                subnet = self._fitted(self._cut(rows, who, subnet, length))
                self._alone(rows, network, subnet)
                self._desk.take(rows, project, Kind.SUBNET)
                if not rows.subnets.add(subnet):
                    raise Broken("id-taken", "a new id is taken already")
                rows.addresses.open(subnet.id, subnet.pools)
                self._desk.note(unit, who, "subnet-created", subnet.id, subnet.cidr, network=network.id)
                made.append(subnet)
            return made

        return await self._desk.change("subnet.created", work)

    async def show(self, who: Principal, id: str) -> Subnet:
        return await self._desk.read(lambda rows: seen(rows, who, Kind.SUBNET, rows.subnets, id))

    async def page(self, who: Principal, listing: Listing, marker: str = "") -> list[Subnet]:
        return await self._desk.read(lambda rows: page(rows, who, Kind.SUBNET, rows.subnets, listing, marker))

    async def update(self, who: Principal, id: str, changes: Changes, expected: int | None = None) -> Subnet:
        """Raises NotFound, Refused, BadInput, Conflict("gateway-in-use"), Changed."""

        def work(unit: Unit) -> Subnet:
            rows = unit.networks
            old = changeable(rows, who, "update", Kind.SUBNET, rows.subnets, id, expected)
            new = replace(old, **changes)  # type: ignore[arg-type]  # of the fields' own types
            _check(new)
            if new.gateway != old.gateway and old.gateway:
                self._gateway_free(rows, old)
            # The row first: what is taken meanwhile is seen then.
            rows.addresses.hold(id, 0)
            new = changed(rows.subnets, old, new, self._desk.now())
            if new.pools != old.pools:
                rows.addresses.open(id, new.pools)
            self._desk.note(unit, who, "subnet-changed", id, ", ".join(sorted(changes)))
            return new

        return await self._desk.change("subnet.changed", work)

    async def delete(self, who: Principal, id: str, expected: int | None = None) -> None:
        """Raises NotFound, Refused, Conflict("subnet-in-use") if a port has one of its addresses, Changed."""

        def work(unit: Unit) -> None:
            rows = unit.networks
            subnet = changeable(rows, who, "delete", Kind.SUBNET, rows.subnets, id, expected)
            if rows.addresses.holders(id, 1):
                if not subnet.by_mac:
                    raise _in_use(id)
                ports.strip_automatic(rows, subnet, self._desk.now())
            ports.drop_subnet(rows, subnet)
            self._desk.note(unit, who, "subnet-deleted", id, subnet.cidr, network=subnet.network)

        await self._desk.change("subnet.deleted", work)

    # --- checks -----------------------------------------------------------------------------------

    def _cut(self, rows: NetworkRows, who: Principal, subnet: Subnet, length: int) -> Subnet:
        """With a prefix of its pool, if it asks for one. Raises NotFound, Conflict("pool-empty"), ("over-quota")."""
        if not subnet.pool:
            if not subnet.cidr:
                raise BadInput(
                    "bad-subnet", "Bad subnets request: a subnetpool must be specified in the absence of a cidr."
                )
            return subnet
        pool = seen(rows, who, Kind.POOL, rows.pools, subnet.pool)
        if subnet.version != pool.version:
            raise BadInput("bad-subnet", "Bad subnets request: ip_version must match that of the subnetpool.")
        taken = rows.subnets.listed(Listing({"pool": (pool.id,)}, limit=10_000))
        used = [found for one in taken if (found := arithmetic.prefix(one.cidr)) is not None]
        store = [found for one in pool.prefixes if (found := arithmetic.prefix(one)) is not None]
        asked = arithmetic.prefix(subnet.cidr) if subnet.cidr else None
        if asked is None:
            length = length or pool.default_length
            if not pool.least_length <= length <= pool.most_length:
                text = f"Unable to allocate subnet with prefix length {length}, "
                bound = f"minimum allowed prefix is {pool.least_length}, maximum {pool.most_length}."
                raise BadInput("bad-subnet", text + bound)
            asked = arithmetic.carve(store, used, length)
            if asked is None:
                text = "Failed to allocate subnet: Insufficient prefix space to allocate subnet size "
                raise Conflict("pool-empty", f"{text}/{length}.")
        elif not any(asked.subnet_of(one) for one in store if one.version == asked.version):  # type: ignore[arg-type]  # both are of one version, as the condition says
            raise Conflict(
                "pool-empty",
                "Failed to allocate subnet: Cannot allocate requested subnet from the available set of prefixes.",
            )
        elif any(asked.overlaps(one) for one in used):
            raise Conflict("pool-empty", "Failed to allocate subnet: the requested prefix is in use.")
        if pool.quota is not None:
            mine = [one for one in taken if one.project == subnet.project]
            held = sum(_units(found) for one in mine if (found := arithmetic.prefix(one.cidr)) is not None)
            if held + _units(asked) > pool.quota:
                raise Conflict("over-quota", "Per-tenant subnet pool prefix quota exceeded.")
        return replace(subnet, cidr=str(asked))

    def _fitted(self, subnet: Subnet) -> Subnet:
        """With the gateway and pools that it did not ask for. Raises BadInput."""
        within = prefix_of(subnet)
        if subnet.gateway == GATEWAY_UNASKED:
            one_only = within.prefixlen == within.max_prefixlen
            subnet = replace(subnet, gateway="" if one_only else arithmetic.first_host(within))
        if not subnet.pools:
            subnet = replace(subnet, pools=arithmetic.whole(within, subnet.gateway))
        _check(subnet)
        return subnet

    def _alone(self, rows: NetworkRows, network: Network, subnet: Subnet) -> None:
        """Raises BadInput("overlap") if another subnet of the network has some of its addresses."""
        mine = prefix_of(subnet)
        for other in subnets_of(rows, network.id):
            if mine.overlaps(prefix_of(other)):
                raise BadInput(
                    "overlap",
                    f"Invalid input for operation: Requested subnet with cidr: {subnet.cidr} for network: {network.id} "
                    "overlaps with another subnet.",
                )

    def _gateway_free(self, rows: NetworkRows, subnet: Subnet) -> None:
        port_id = rows.addresses.of(subnet.id, subnet.gateway)
        port = None if port_id is None else rows.ports.get(port_id)
        if port is not None and port.owner == ROUTER_INTERFACE:
            text = f"Current gateway ip {subnet.gateway} already in use by port {port.id}. Unable to update."
            raise Conflict("gateway-in-use", text)


def prefix_of(subnet: Subnet) -> Prefix:
    found = arithmetic.prefix(subnet.cidr)
    if found is None:
        raise Broken("bad-subnet", "a subnet's prefix can not be read", detail=subnet.cidr)
    return found


def _in_use(id: str) -> Conflict:
    text = f"Unable to complete operation on subnet {id}: One or more ports have an IP allocation from this subnet."
    return Conflict("subnet-in-use", text)


def _units(one: Prefix) -> int:
    """As a pool's quota counts: addresses of IPv4, /64 of IPv6."""
    return 1 << (one.max_prefixlen - one.prefixlen if one.version == 4 else max(0, 64 - one.prefixlen))


def _check(subnet: Subnet) -> None:
    """Raises BadInput for what does not fit together."""
    within = prefix_of(subnet)
    if subnet.cidr != str(within):
        raise BadInput("bad-subnet", f"Invalid input for cidr. '{subnet.cidr}' should be '{within}'.")
    if within.version != subnet.version:
        text = f"Invalid input for operation: cidr '{subnet.cidr}' does not match the ip_version '{subnet.version}'"
        raise BadInput("bad-subnet", text)
    if within.prefixlen == 0:
        raise BadInput("bad-subnet", "Invalid input for operation: 0 is not allowed as CIDR prefix length")
    if within.is_multicast:
        raise BadInput("bad-subnet", "Invalid input for operation: a subnet can not be of multicast addresses")
    _check_modes(subnet, within)
    _check_gateway(subnet, within)
    _check_pools(subnet, within)
    _check_rest(subnet)


def _check_modes(subnet: Subnet, within: Prefix) -> None:
    if not (subnet.ra_mode or subnet.address_mode):
        return
    if subnet.version == 4:
        raise BadInput("bad-subnet", "ipv6_ra_mode or ipv6_address_mode are not valid when ip_version is 4")
    if not subnet.dhcp:
        raise BadInput(
            "bad-subnet", "ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False."
        )
    if subnet.ra_mode and subnet.address_mode and subnet.ra_mode != subnet.address_mode:
        raise BadInput(
            "bad-subnet",
            f"Invalid input for operation: ipv6_ra_mode set to '{subnet.ra_mode}' with ipv6_address_mode set to "
            f"'{subnet.address_mode}' is not valid. If both attributes are set, they must be the same value.",
        )
    if subnet.by_mac and within.prefixlen != 64:
        text = f"Invalid CIDR {subnet.cidr} for IPv6 address mode. OpenStack uses the EUI-64 address format, "
        raise BadInput("bad-subnet", text + "which requires the prefix to be /64")


def _check_gateway(subnet: Subnet, within: Prefix) -> None:
    if not subnet.gateway:
        return
    gateway = arithmetic.address(subnet.gateway)
    if gateway is None or gateway.version != subnet.version:
        raise BadInput(
            "bad-gateway", f"Invalid input for gateway_ip. '{subnet.gateway[:64]}' is not a valid IP address."
        )
    inside = gateway in within and arithmetic.is_host(gateway, within)
    # A router on the same link may have any address of IPv6, the link's own above all.
    if not inside and (subnet.version == 4 and gateway in within):
        raise BadInput("bad-gateway", "Invalid input for operation: Gateway is not valid on subnet.")
    if arithmetic.covers(subnet.pools, gateway):
        pool = next(one for one in subnet.pools if arithmetic.covers([one], gateway))
        text = f"Gateway ip {subnet.gateway} conflicts with allocation pool {pool.first}-{pool.last}."
        raise Conflict("gateway-in-pool", text)


def _check_pools(subnet: Subnet, within: Prefix) -> None:
    if len(subnet.pools) > MAX_POOLS:
        raise BadInput(
            "bad-pool", f"a subnet has at most {MAX_POOLS} allocation pools, this one asks for {len(subnet.pools)}"
        )
    ranges = []
    for pool in subnet.pools:
        first, last = arithmetic.address(pool.first), arithmetic.address(pool.last)
        if first is None or last is None or first.version != subnet.version or last.version != subnet.version:
            raise _bad_pool(pool)
        if int(first) > int(last):
            raise _bad_pool(pool)
        if not (arithmetic.is_host(first, within) and arithmetic.is_host(last, within)):
            text = f"The allocation pool {pool.first}-{pool.last} spans beyond the subnet cidr {subnet.cidr}."
            raise BadInput("bad-pool", text)
        ranges.append((int(first), int(last)))
    ranges.sort()
    for (_, last_one), (next_one, _) in pairwise(ranges):
        if next_one <= last_one:
            raise Conflict("bad-pool", f"Found overlapping allocation pools for subnet {subnet.cidr}.")


def _bad_pool(pool: Span) -> BadInput:
    return BadInput("bad-pool", f"The allocation pool {pool.first[:64]}-{pool.last[:64]} is not valid.")


def _check_rest(subnet: Subnet) -> None:
    if len(subnet.routes) > MAX_ROUTES:
        text = (
            f"Unable to complete operation for {subnet.id}. The number of host routes exceeds the limit {MAX_ROUTES}."
        )
        raise BadInput("too-many-routes", text)
    if len(subnet.dns) > MAX_DNS:
        raise BadInput("too-many-dns", f"the number of DNS nameservers exceeds the limit {MAX_DNS}.")
    for route in subnet.routes:
        to, by = arithmetic.prefix(route.destination), arithmetic.address(route.nexthop)
        if to is None or by is None or to.version != subnet.version or by.version != subnet.version:
            text = f"Invalid input for host_routes. '{route.destination[:64]}' by '{route.nexthop[:64]}' is no IPv"
            raise BadInput("bad-route", f"{text}{subnet.version} route.")
    for server in subnet.dns:
        if arithmetic.address(server) is None:
            raise BadInput("bad-dns", f"Invalid input for dns_nameservers. '{server[:64]}' is not a valid IP address.")


class SubnetPools:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, who: Principal, wanted: Sequence[SubnetPool]) -> list[SubnetPool]:
        """Raises Refused, BadInput, Conflict("over-quota")."""
        check_bulk(wanted)
        now, made = self._desk.now(), []
        for one in wanted:
            project = one.project or who.project
            require(who, "network:create_subnetpool", Target(project=project))
            if one.shared or one.default:
                require(who, "network:administer_network")
            one = replace(one, id=self._desk.new_uuid(), project=project, created_at=now, updated_at=now)
            _check_subnet_pool(one)
            made.append(one)

        def work(unit: Unit) -> list[SubnetPool]:
            for one in made:
                self._desk.take(unit.networks, one.project, Kind.POOL)
                if not unit.networks.pools.add(one):
                    raise Broken("id-taken", "a new id is taken already")
                self._desk.note(unit, who, "subnet-pool-created", one.id, one.name, project=one.project)
            return made

        return await self._desk.change("subnet-pool.created", work)

    async def show(self, who: Principal, id: str) -> SubnetPool:
        return await self._desk.read(lambda rows: seen(rows, who, Kind.POOL, rows.pools, id))

    async def page(self, who: Principal, listing: Listing, marker: str = "") -> list[SubnetPool]:
        return await self._desk.read(lambda rows: page(rows, who, Kind.POOL, rows.pools, listing, marker))

    async def update(self, who: Principal, id: str, changes: Changes, expected: int | None = None) -> SubnetPool:
        """Prefixes may be added, none taken away. Raises NotFound, Refused, BadInput, Changed."""

        def work(unit: Unit) -> SubnetPool:
            rows = unit.networks
            old = changeable(rows, who, "update", Kind.POOL, rows.pools, id, expected)
            new = replace(old, **changes)  # type: ignore[arg-type]  # of the fields' own types
            if new.default != old.default:
                require(who, "network:administer_network")
            _check_subnet_pool(new)
            was = [found for one in old.prefixes if (found := arithmetic.prefix(one)) is not None]
            now = [found for one in new.prefixes if (found := arithmetic.prefix(one)) is not None]
            for one in was:
                if not any(one.subnet_of(other) for other in now):  # type: ignore[arg-type]  # of one version
                    text = "Illegal subnetpool prefix update: Existing prefixes must be a subset of the new prefixes"
                    raise BadInput("bad-prefix", text)
            new = changed(rows.pools, old, new, self._desk.now())
            self._desk.note(unit, who, "subnet-pool-changed", id, ", ".join(sorted(changes)))
            return new

        return await self._desk.change("subnet-pool.changed", work)

    async def delete(self, who: Principal, id: str, expected: int | None = None) -> None:
        """Raises NotFound, Refused, Conflict("pool-in-use") while subnets are of it."""

        def work(unit: Unit) -> None:
            rows = unit.networks
            pool = changeable(rows, who, "delete", Kind.POOL, rows.pools, id, expected)
            if rows.subnets.find({"pool": id}) is not None:
                raise Conflict(
                    "pool-in-use", f"Unable to complete operation on subnet pool {id}. This pool has subnets."
                )
            rows.pools.delete(id)
            rows.uncount(pool.project, Kind.POOL, 1)
            self._desk.note(unit, who, "subnet-pool-deleted", id, pool.name, project=pool.project)

        await self._desk.change("subnet-pool.deleted", work)


def _check_subnet_pool(pool: SubnetPool) -> None:
    if not pool.prefixes or len(pool.prefixes) > MAX_LIST:
        raise BadInput("bad-prefix", f"a subnetpool has 1 to {MAX_LIST} prefixes, this one {len(pool.prefixes)}")
    found = []
    for text in pool.prefixes:
        one = arithmetic.prefix(text)
        if one is None:
            raise BadInput("bad-prefix", f"Invalid input for prefixes. '{text[:64]}' is not a valid IP subnet.")
        if one.version != pool.version:
            raise BadInput("bad-prefix", "Cannot mix IPv4 and IPv6 prefixes in a subnet pool.")
        found.append(one)
    ordered = sorted(found, key=lambda one: (int(one.network_address), one.prefixlen))
    for one, other in pairwise(ordered):
        if one.overlaps(other):
            raise BadInput("bad-prefix", f"prefixes of a subnetpool do not overlap, {one} and {other} do")
    if not 0 < pool.least_length <= pool.default_length <= pool.most_length <= (32 if pool.version == 4 else 128):
        raise BadInput(
            "bad-prefix-length",
            f"Illegal prefix bounds: min_prefixlen={pool.least_length}, default_prefixlen={pool.default_length}, "
            f"max_prefixlen={pool.most_length}; they rise in this order",
        )
