"""Routers, their interfaces and gateways."""

from __future__ import annotations

from dataclasses import replace

from banyan.api.neutron import fields
from banyan.api.neutron.fields import Attributes, bad, inner, several
from banyan.api.neutron.resource import Attribute, Shape, common, expected, flag
from banyan.api.openstack.call import Answer, Call
from banyan.core.network import FixedIp, Router
from banyan.core.time import Wall
from banyan.zone.networks.routers import Attached, Gateway, Seen

_A = Attribute[Seen]


def _gateway_view(one: Seen) -> dict[str, object] | None:
    if not one.router.gateway:
        return None
    return {
        "network_id": one.router.gateway,
        "enable_snat": one.router.snat,
        "external_fixed_ips": [{"subnet_id": fixed.subnet, "ip_address": fixed.address} for fixed in one.addresses],
    }


def _router(one: Seen) -> Router:
    return one.router


SHAPE: Shape[Seen] = Shape(
    "router",
    "routers",
    (
        *common(_router),
        _A("name", lambda one: one.router.name, "name"),
        _A("status", lambda one: "ACTIVE"),
        _A("admin_state_up", lambda one: one.router.admin_up, "admin_up", flag),
        _A("external_gateway_info", _gateway_view),
        _A("routes", lambda one: [{"destination": r.destination, "nexthop": r.nexthop} for r in one.router.routes]),
        _A("availability_zone_hints", lambda one: list(one.router.zone_hints)),
        _A("availability_zones", lambda one: []),
        _A("tags", lambda one: list(one.router.tags)),
    ),
)
_FIXED = ("id", "status", "created_at", "updated_at", "revision_number", "tags", "availability_zones")

_SAID: tuple[tuple[str, str, fields.Check[object]], ...] = (
    ("name", "name", fields.text()),
    ("description", "description", fields.text()),
    ("admin_state_up", "admin_up", fields.truth),
    ("routes", "routes", fields.each(fields.route, 100)),
)


def _gateway(value: object, name: str) -> Gateway | None:
    """null, or an empty object, is none."""
    if value is None or value == {}:
        return None
    given = Attributes(value, name)
    network = given.need("network_id", fields.text(1, 255))
    snat = given.take("enable_snat", fields.or_none(fields.truth), None)
    addresses = given.take("external_fixed_ips", fields.each(_outer, 32), ())
    given.take("qos_policy_id", fields.or_none(_no_qos), None)
    given.done()
    return Gateway(network, snat, addresses or None)


def _outer(value: object, name: str) -> FixedIp:
    given = Attributes(value, name)
    found = FixedIp(
        given.take("subnet_id", fields.or_empty(fields.uuid), ""),
        given.take("ip_address", fields.or_empty(fields.address), ""),
    )
    given.done()
    if found == FixedIp("", ""):
        raise bad(name, "each names a subnet_id, an ip_address, or both.")
    return found


def _no_qos(value: object, name: str) -> None:
    raise bad(name, "policies of quality of service are not offered here.")


def _new(given: Attributes) -> tuple[Router, Gateway | None]:
    changes, project = given.changes(_SAID), given.project()
    gateway = given.take("external_gateway_info", _gateway, None)
    hints = given.take("availability_zone_hints", fields.distinct(fields.text(1, 255), 10), ())
    if changes.pop("routes", ()):
        raise bad("routes", "a new router has no interface yet that a route could go by.")
    given.done(_FIXED)
    empty = Router("", project, "", Wall(0.0), Wall(0.0), zone_hints=hints)
    return replace(empty, **changes), gateway  # type: ignore[arg-type]  # of the fields' own types


async def create(call: Call, body: object) -> Answer:
    """Makes a router, or several."""
    given, many = several(body, SHAPE.one, SHAPE.many)
    made = await call.network.routers.create(call.principal, [_new(one) for one in given])
    return SHAPE.made(call, made, many)


async def listed(call: Call) -> Answer:
    """Routers of the caller's project."""
    service, who = call.network.routers, call.principal
    return await SHAPE.listed(call, lambda listing, after: service.page(who, listing, after), lambda one: one.router.id)


async def show(call: Call) -> Answer:
    """One router."""
    found = await call.network.routers.show(call.principal, call.params["id"])
    return {SHAPE.one: SHAPE.view(call, found)}


async def update(call: Call, body: object) -> Answer:
    """Changes a router: its gateway and routes as well."""
    given = inner(body, SHAPE.one)
    changes = given.changes(_SAID)
    told = "external_gateway_info" in given
    gateway = given.take("external_gateway_info", _gateway, None)
    given.done((*_FIXED, "project_id", "tenant_id", "availability_zone_hints"))
    found = await call.network.routers.update(
        call.principal,
        call.params["id"],
        changes,
        gateway,
        clear_gateway=told and gateway is None,
        expected=expected(call),
    )
    return {SHAPE.one: SHAPE.view(call, found)}


async def delete(call: Call) -> Answer:
    """Deletes a router without interfaces."""
    await call.network.routers.delete(call.principal, call.params["id"], expected(call))
    return None


async def add_interface(call: Call, body: object) -> Answer:
    """Connects a router with a subnet."""
    subnet, port = _end(body)
    found = await call.network.routers.add_interface(call.principal, call.params["id"], subnet=subnet, port=port)
    return _interface(found)


async def remove_interface(call: Call, body: object) -> Answer:
    """Disconnects a router from a subnet."""
    subnet, port = _end(body)
    found = await call.network.routers.remove_interface(call.principal, call.params["id"], subnet=subnet, port=port)
    return _interface(found)


def _end(body: object) -> tuple[str, str]:
    given = Attributes(body, "router interface")
    subnet = given.take("subnet_id", fields.or_empty(fields.uuid), "")
    port = given.take("port_id", fields.or_empty(fields.uuid), "")
    given.done()
    return subnet, port


def _interface(found: Attached) -> dict[str, object]:
    subnets = [one.subnet for one in found.port.addresses]
    return {
        "id": found.router.id,
        "tenant_id": found.router.project,
        "project_id": found.router.project,
        "port_id": found.port.id,
        "network_id": found.port.network,
        "subnet_id": subnets[0] if subnets else "",
        "subnet_ids": subnets,
        "tags": list(found.router.tags),
    }
