"""Floating IPs."""

from __future__ import annotations

from dataclasses import replace

from banyan.api.neutron import fields
from banyan.api.neutron.fields import Attributes, inner, several
from banyan.api.neutron.resource import Attribute, Shape, common, expected
from banyan.api.openstack.call import Answer, Call
from banyan.core.network import FloatingIp
from banyan.core.time import Wall
from banyan.zone.networks.floating_ips import Lead, Wanted

_A = Attribute[FloatingIp]

SHAPE: Shape[FloatingIp] = Shape(
    "floatingip",
    "floatingips",
    (
        *common(lambda one: one),
        _A("floating_network_id", lambda one: one.network, "network"),
        _A("floating_ip_address", lambda one: one.address, "address"),
        _A("port_id", lambda one: one.port or None, "port"),
        _A("fixed_ip_address", lambda one: one.fixed or None, "fixed"),
        _A("router_id", lambda one: one.router or None, "router"),
        _A("status", lambda one: "ACTIVE" if one.port else "DOWN"),
        _A("tags", lambda one: list(one.tags)),
    ),
)
_FIXED = ("id", "status", "created_at", "updated_at", "revision_number", "tags", "router_id")


def _new(given: Attributes) -> Wanted:
    project = given.project()
    network = given.need("floating_network_id", fields.text(1, 255))
    address = given.take("floating_ip_address", fields.or_empty(fields.address), "")
    subnet = given.take("subnet_id", fields.or_empty(fields.uuid), "")
    description = given.take("description", fields.text(), "")
    lead = _lead(given)
    given.done(_FIXED)
    empty = FloatingIp("", project, network, address, "", Wall(0.0), Wall(0.0), description)
    return Wanted(empty, lead, subnet)


def _lead(given: Attributes) -> Lead:
    port = given.take("port_id", fields.or_empty(fields.text(1, 255)), "")
    return Lead(port, given.take("fixed_ip_address", fields.or_empty(fields.address), ""))


async def create(call: Call, body: object) -> Answer:
    """Takes an address of an external network, or several; it may lead to a port at once."""
    given, many = several(body, SHAPE.one, SHAPE.many)
    made = await call.network.floating_ips.create(call.principal, [_new(one) for one in given])
    return SHAPE.made(call, made, many)


async def listed(call: Call) -> Answer:
    """Floating IPs of the caller's project."""
    service, who = call.network.floating_ips, call.principal
    return await SHAPE.listed(call, lambda listing, after: service.page(who, listing, after), lambda one: one.id)


async def show(call: Call) -> Answer:
    """One floating IP."""
    found = await call.network.floating_ips.show(call.principal, call.params["id"])
    return {SHAPE.one: SHAPE.view(call, found)}


async def update(call: Call, body: object) -> Answer:
    """Lets a floating IP lead elsewhere, or nowhere."""
    given = inner(body, SHAPE.one)
    changes = given.changes((("description", "description", fields.text()),))
    lead = _lead(given) if "port_id" in given else None
    if lead is None and "fixed_ip_address" in given:
        lead = replace(_lead(given), port="")
    given.done((*_FIXED, "project_id", "tenant_id", "floating_network_id", "floating_ip_address", "subnet_id"))
    # What does not say where it shall lead, leads nowhere from then on, as clients expect.
    if lead is None and not changes:
        lead = Lead("")
    found = await call.network.floating_ips.update(call.principal, call.params["id"], changes, lead, expected(call))
    return {SHAPE.one: SHAPE.view(call, found)}


async def delete(call: Call) -> Answer:
    """Gives the address back."""
    await call.network.floating_ips.delete(call.principal, call.params["id"], expected(call))
    return None
