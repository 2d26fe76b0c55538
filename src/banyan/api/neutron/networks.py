"""Networks, and how many addresses each has."""

from __future__ import annotations

from dataclasses import replace

from banyan.api.neutron import fields
from banyan.api.neutron.fields import Attributes, inner, several
from banyan.api.neutron.resource import Attribute, Shape, common, expected, flag, number
from banyan.api.openstack.call import Answer, Call
from banyan.core.network import Network, Reach
from banyan.core.time import Wall
from banyan.zone.networks.networks import Availability, SeenNetwork, capacity

_A = Attribute[SeenNetwork]
_TYPES = ("flat", "vlan", "vxlan", "gre", "geneve", "local")
_PROVIDER = ("provider:network_type", "provider:physical_network", "provider:segmentation_id")


def _network(one: SeenNetwork) -> Network:
    return one.network


SHAPE: Shape[SeenNetwork] = Shape(
    "network",
    "networks",
    (
        *common(_network),
        _A("name", lambda one: one.network.name, "name"),
        _A("status", lambda one: "ACTIVE"),
        _A("admin_state_up", lambda one: one.network.admin_up, "admin_up", flag),
        _A("shared", lambda one: one.network.shared, "shared", flag),
        _A("router:external", lambda one: one.network.external, "external", flag),
        _A("is_default", lambda one: one.network.default, "default", flag),
        _A("mtu", lambda one: one.network.mtu, "mtu", number),
        _A("port_security_enabled", lambda one: one.network.port_security, "port_security", flag),
        _A("subnets", lambda one: list(one.subnets)),
        _A("availability_zone_hints", lambda one: list(one.network.zone_hints)),
        _A("availability_zones", lambda one: []),
        _A("provider:network_type", lambda one: one.network.network_type or None, "network_type"),
        _A("provider:physical_network", lambda one: one.network.physical or None, "physical"),
        _A("provider:segmentation_id", lambda one: one.network.segment, "segment", number, sorts=False),
        _A("banyan:reach", lambda one: one.network.reach.value, "reach"),
        _A("banyan:zones", lambda one: list(one.zones)),
        _A("tags", lambda one: list(one.network.tags)),
    ),
    admin=frozenset(_PROVIDER),
)
_FIXED = ("id", "status", "subnets", "created_at", "updated_at", "revision_number", "availability_zones", "tags")


def _reach(value: object, name: str) -> Reach:
    return Reach(fields.one_of(*(one.value for one in Reach))(value, name))


_SAID: tuple[tuple[str, str, fields.Check[object]], ...] = (
    ("name", "name", fields.text()),
    ("description", "description", fields.text()),
    ("admin_state_up", "admin_up", fields.truth),
    ("shared", "shared", fields.truth),
    ("router:external", "external", fields.truth),
    ("is_default", "default", fields.truth),
    ("mtu", "mtu", fields.whole(68, 65_535)),
    ("port_security_enabled", "port_security", fields.truth),
    ("provider:network_type", "network_type", fields.or_empty(fields.one_of(*_TYPES))),
    ("provider:physical_network", "physical", fields.or_empty(fields.text(1, 64))),
    ("provider:segmentation_id", "segment", fields.or_none(fields.whole(1, 2**32 - 1))),
    ("banyan:reach", "reach", _reach),
    ("banyan:zones", "zones", fields.distinct(fields.text(1, 255), 1_000)),
)


def _new(given: Attributes) -> Network:
    changes, project = given.changes(_SAID), given.project()
    hints = given.take("availability_zone_hints", fields.distinct(fields.text(1, 255), 10), ())
    given.done(_FIXED)
    empty = Network("", project, "", Wall(0.0), Wall(0.0), zone_hints=hints)
    return replace(empty, **changes)  # type: ignore[arg-type]  # of the fields' own types


async def create(call: Call, body: object) -> Answer:
    """Makes a network, or several."""
    wanted, many = several(body, SHAPE.one, SHAPE.many)
    made = await call.network.networks.create(call.principal, [_new(given) for given in wanted])
    return SHAPE.made(call, made, many)


async def listed(call: Call) -> Answer:
    """Networks of the caller's project, and those that are shared or external."""
    service, who = call.network.networks, call.principal
    return await SHAPE.listed(
        call, lambda listing, after: service.page(who, listing, after), lambda one: one.network.id
    )


async def show(call: Call) -> Answer:
    """One network."""
    found = await call.network.networks.show(call.principal, call.params["id"])
    return {SHAPE.one: SHAPE.view(call, found)}


async def update(call: Call, body: object) -> Answer:
    """Changes a network."""
    given = inner(body, SHAPE.one)
    changes = given.changes(_SAID)
    given.done((*_FIXED, "project_id", "tenant_id", "availability_zone_hints"))
    found = await call.network.networks.update(call.principal, call.params["id"], changes, expected(call))
    return {SHAPE.one: SHAPE.view(call, found)}


async def delete(call: Call) -> Answer:
    """Deletes a network that no port is on, with its subnets."""
    await call.network.networks.delete(call.principal, call.params["id"], expected(call))
    return None


# --- how many addresses there are -----------------------------------------------------------------

_B = Attribute[Availability]
AVAILABILITY: Shape[Availability] = Shape(
    "network_ip_availability",
    "network_ip_availabilities",
    (
        _B("network_id", lambda one: one.network.id, "id"),
        _B("network_name", lambda one: one.network.name, "name"),
        _B("project_id", lambda one: one.network.project, "project"),
        _B("tenant_id", lambda one: one.network.project, "project"),
        _B("total_ips", lambda one: one.total),
        _B("used_ips", lambda one: one.used),
        _B(
            "subnet_ip_availability",
            lambda one: [
                {
                    "subnet_id": subnet.id,
                    "subnet_name": subnet.name,
                    "cidr": subnet.cidr,
                    "ip_version": subnet.version,
                    "total_ips": capacity(subnet),
                    "used_ips": subnet.used,
                }
                for subnet in one.subnets
            ],
        ),
    ),
    tagged=False,
)


async def availabilities(call: Call) -> Answer:
    """How many addresses each network has, and gave out."""
    service, who = call.network.networks, call.principal
    return await AVAILABILITY.listed(
        call, lambda listing, after: service.availability(who, listing, after), lambda one: one.network.id
    )


async def availability(call: Call) -> Answer:
    """How many addresses one network has, and gave out."""
    found = await call.network.networks.availability_of(call.principal, call.params["id"])
    return {AVAILABILITY.one: AVAILABILITY.view(call, found)}
