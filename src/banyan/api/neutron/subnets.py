"""Subnets, and the pools that they may be cut from."""

from __future__ import annotations

from dataclasses import replace

from banyan.api.neutron import fields
from banyan.api.neutron.fields import Attributes, bad, inner, several
from banyan.api.neutron.resource import Attribute, Shape, common, expected, flag, number
from banyan.api.openstack.call import Answer, Call
from banyan.core import addresses
from banyan.core.network import Subnet, SubnetPool
from banyan.core.time import Wall
from banyan.zone.networks.subnets import GATEWAY_UNASKED

_A = Attribute[Subnet]
_MODES = fields.or_empty(fields.one_of("dhcpv6-stateful", "dhcpv6-stateless", "slaac"))
# A body may say that a subnet has none, or has the usual.
_GATEWAY = fields.or_empty(fields.address)

SHAPE: Shape[Subnet] = Shape(
    "subnet",
    "subnets",
    (
        *common(lambda one: one),
        _A("name", lambda one: one.name, "name"),
        _A("network_id", lambda one: one.network, "network"),
        _A("ip_version", lambda one: one.version, "version", number),
        _A("cidr", lambda one: one.cidr, "cidr"),
        _A("gateway_ip", lambda one: one.gateway or None, "gateway"),
        _A("enable_dhcp", lambda one: one.dhcp, "dhcp", flag),
        _A("allocation_pools", lambda one: [{"start": span.first, "end": span.last} for span in one.pools]),
        _A("dns_nameservers", lambda one: list(one.dns)),
        _A(
            "host_routes",
            lambda one: [{"destination": route.destination, "nexthop": route.nexthop} for route in one.routes],
        ),
        _A("ipv6_ra_mode", lambda one: one.ra_mode or None, "ra_mode"),
        _A("ipv6_address_mode", lambda one: one.address_mode or None, "address_mode"),
        _A("subnetpool_id", lambda one: one.pool or None, "pool"),
        _A("service_types", lambda one: list(one.service_types)),
        _A("tags", lambda one: list(one.tags)),
    ),
)
_FIXED = ("id", "created_at", "updated_at", "revision_number", "tags")

_SAID: tuple[tuple[str, str, fields.Check[object]], ...] = (
    ("name", "name", fields.text()),
    ("description", "description", fields.text()),
    ("gateway_ip", "gateway", _GATEWAY),
    ("enable_dhcp", "dhcp", fields.truth),
    ("allocation_pools", "pools", fields.each(fields.span, 100)),
    ("dns_nameservers", "dns", fields.distinct(fields.address, 100)),
    ("host_routes", "routes", fields.distinct(fields.route, 100)),
    ("service_types", "service_types", fields.distinct(fields.text(1, 255), 100)),
)


def _new(given: Attributes) -> tuple[Subnet, int]:
    changes, project = given.changes(_SAID), given.project()
    network = given.need("network_id", fields.uuid)
    cidr = given.take("cidr", fields.or_empty(fields.cidr), "")
    pool = given.take("subnetpool_id", fields.or_empty(fields.text(1, 255)), "")
    length = given.take("prefixlen", fields.or_none(fields.whole(0, 128)), None) or 0
    found = addresses.prefix(cidr) if cidr else None
    version = given.take("ip_version", fields.whole(4, 6), found.version if found is not None else 4)
    modes = given.take("ipv6_ra_mode", _MODES, ""), given.take("ipv6_address_mode", _MODES, "")
    given.done((*_FIXED, "segment_id", "use_default_subnetpool"))
    if version == 5:
        raise bad("ip_version", "'5' is not in [4, 6].")
    empty = Subnet(
        "",
        project,
        network,
        "",
        version,
        cidr,
        Wall(0.0),
        Wall(0.0),
        gateway=GATEWAY_UNASKED,
        pool=pool,
        ra_mode=modes[0],
        address_mode=modes[1],
    )
    return replace(empty, **changes), length  # type: ignore[arg-type]  # of the fields' own types


async def create(call: Call, body: object) -> Answer:
    """Makes a subnet, or several."""
    given, many = several(body, SHAPE.one, SHAPE.many)
    wanted = [_new(one) for one in given]
    made = await call.network.subnets.create(
        call.principal, [subnet for subnet, _ in wanted], [length for _, length in wanted]
    )
    return SHAPE.made(call, made, many)


async def listed(call: Call) -> Answer:
    """Subnets of the caller's project, and those of shared networks."""
    service, who = call.network.subnets, call.principal
    return await SHAPE.listed(call, lambda listing, after: service.page(who, listing, after), lambda one: one.id)


async def show(call: Call) -> Answer:
    """One subnet."""
    found = await call.network.subnets.show(call.principal, call.params["id"])
    return {SHAPE.one: SHAPE.view(call, found)}


async def update(call: Call, body: object) -> Answer:
    """Changes a subnet; its prefix stays."""
    given = inner(body, SHAPE.one)
    changes = given.changes(_SAID)
    given.done(
        (*_FIXED, "project_id", "tenant_id", "network_id", "cidr", "ip_version", "subnetpool_id", "prefixlen",
         "ipv6_ra_mode", "ipv6_address_mode", "segment_id")
    )  # fmt: skip
    found = await call.network.subnets.update(call.principal, call.params["id"], changes, expected(call))
    return {SHAPE.one: SHAPE.view(call, found)}


async def delete(call: Call) -> Answer:
    """Deletes a subnet of which no port has an address."""
    await call.network.subnets.delete(call.principal, call.params["id"], expected(call))
    return None


# --- pools ----------------------------------------------------------------------------------------

_B = Attribute[SubnetPool]
POOL: Shape[SubnetPool] = Shape(
    "subnetpool",
    "subnetpools",
    (
        *common(lambda one: one),
        _B("name", lambda one: one.name, "name"),
        _B("ip_version", lambda one: one.version, "version", number),
        _B("prefixes", lambda one: list(one.prefixes)),
        _B("min_prefixlen", lambda one: str(one.least_length), "least_length", number),
        _B("max_prefixlen", lambda one: str(one.most_length), "most_length", number),
        _B("default_prefixlen", lambda one: str(one.default_length), "default_length", number),
        _B("default_quota", lambda one: one.quota, "quota", number, sorts=False),
        _B("shared", lambda one: one.shared, "shared", flag),
        _B("is_default", lambda one: one.default, "default", flag),
        _B("address_scope_id", lambda one: None),
        _B("tags", lambda one: list(one.tags)),
    ),
)
_LENGTH = fields.whole(0, 128)
_POOL_SAID: tuple[tuple[str, str, fields.Check[object]], ...] = (
    ("name", "name", fields.text()),
    ("description", "description", fields.text()),
    ("prefixes", "prefixes", fields.distinct(fields.prefix, 1_000)),
    ("min_prefixlen", "least_length", _LENGTH),
    ("max_prefixlen", "most_length", _LENGTH),
    ("default_prefixlen", "default_length", _LENGTH),
    ("default_quota", "quota", fields.or_none(fields.whole(0, 2**62))),
    ("is_default", "default", fields.truth),
)


def _new_pool(given: Attributes) -> SubnetPool:
    changes, project = given.changes(_POOL_SAID), given.project()
    changes.setdefault("name", given.need("name", fields.text()) if "name" not in changes else "")
    shared = given.take("shared", fields.truth, False)
    given.take("address_scope_id", fields.or_none(_no_scope), None)
    given.done((*_FIXED, "ip_version"))
    prefixes = changes.get("prefixes")
    first = prefixes[0] if isinstance(prefixes, tuple) and prefixes else ""
    version = 6 if ":" in first else 4
    least = changes.get("least_length", 8 if version == 4 else 64)
    most = 32 if version == 4 else 128
    empty = SubnetPool("", project, "", version, (), Wall(0.0), Wall(0.0), shared=shared)
    plain = {"least_length": least, "most_length": most, "default_length": least, **changes}
    return replace(empty, **plain)  # type: ignore[arg-type]  # of the fields' own types


def _no_scope(value: object, name: str) -> None:
    raise bad(name, "address scopes are not offered here.")


async def create_pool(call: Call, body: object) -> Answer:
    """Makes a pool of prefixes, or several."""
    given, many = several(body, POOL.one, POOL.many)
    made = await call.network.pools.create(call.principal, [_new_pool(one) for one in given])
    return POOL.made(call, made, many)


async def pools(call: Call) -> Answer:
    """Pools of the caller's project, and those that are shared."""
    service, who = call.network.pools, call.principal
    return await POOL.listed(call, lambda listing, after: service.page(who, listing, after), lambda one: one.id)


async def show_pool(call: Call) -> Answer:
    """One pool."""
    found = await call.network.pools.show(call.principal, call.params["id"])
    return {POOL.one: POOL.view(call, found)}


async def update_pool(call: Call, body: object) -> Answer:
    """Changes a pool; prefixes may be added, none taken away."""
    given = inner(body, POOL.one)
    changes = given.changes(_POOL_SAID)
    given.take("address_scope_id", fields.or_none(_no_scope), None)
    given.done((*_FIXED, "project_id", "tenant_id", "ip_version", "shared"))
    found = await call.network.pools.update(call.principal, call.params["id"], changes, expected(call))
    return {POOL.one: POOL.view(call, found)}


async def delete_pool(call: Call) -> Answer:
    """Deletes a pool that no subnet is of."""
    await call.network.pools.delete(call.principal, call.params["id"], expected(call))
    return None
