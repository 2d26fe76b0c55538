"""Security groups and their rules."""

from __future__ import annotations

from dataclasses import replace

from banyan.api.neutron import fields
from banyan.api.neutron.fields import Attributes, bad, inner, several
from banyan.api.neutron.resource import Attribute, Shape, common, expected, flag, number
from banyan.api.openstack.call import Answer, Call
from banyan.core.network import Direction, SecurityGroup, SecurityRule
from banyan.core.time import Wall
from banyan.zone.networks.groups import SeenGroup

_R = Attribute[SecurityRule]
RULE: Shape[SecurityRule] = Shape(
    "security_group_rule",
    "security_group_rules",
    (
        *common(lambda one: one),
        _R("security_group_id", lambda one: one.group, "group"),
        _R("direction", lambda one: one.direction.value, "direction"),
        _R("ethertype", lambda one: one.ethertype, "ethertype"),
        _R("protocol", lambda one: one.protocol or None, "protocol"),
        _R("port_range_min", lambda one: one.least, "least", number, sorts=False),
        _R("port_range_max", lambda one: one.most, "most", number, sorts=False),
        _R("remote_ip_prefix", lambda one: one.prefix or None, "prefix"),
        _R("normalized_cidr", lambda one: one.prefix or None),
        _R("remote_group_id", lambda one: one.remote or None, "remote"),
        _R("remote_address_group_id", lambda one: None),
    ),
    tagged=False,
)
_FIXED = ("id", "created_at", "updated_at", "revision_number", "tags", "normalized_cidr")

_G = Attribute[SeenGroup]


def _group(one: SeenGroup) -> SecurityGroup:
    return one.group


SHAPE: Shape[SeenGroup] = Shape(
    "security_group",
    "security_groups",
    (
        *common(_group),
        _G("name", lambda one: one.group.name, "name"),
        _G("stateful", lambda one: one.group.stateful, "stateful", flag),
        _G("shared", lambda one: False),
        _G(
            "security_group_rules",
            lambda one: [{item.name: item.show(rule) for item in RULE.attributes} for rule in one.rules],
        ),
        _G("tags", lambda one: list(one.group.tags)),
    ),
)

_SAID: tuple[tuple[str, str, fields.Check[object]], ...] = (
    ("name", "name", fields.text()),
    ("description", "description", fields.text()),
    ("stateful", "stateful", fields.truth),
)


def _new(given: Attributes) -> SecurityGroup:
    name = given.need("name", fields.text())
    changes, project = given.changes(_SAID), given.project()
    given.done((*_FIXED, "security_group_rules", "shared"))
    empty = SecurityGroup("", project, name, Wall(0.0), Wall(0.0))
    return replace(empty, **changes)  # type: ignore[arg-type]  # of the fields' own types


async def create(call: Call, body: object) -> Answer:
    """Makes a security group, or several."""
    given, many = several(body, SHAPE.one, SHAPE.many)
    made = await call.network.groups.create(call.principal, [_new(one) for one in given])
    return SHAPE.made(call, made, many)


async def listed(call: Call) -> Answer:
    """Security groups of the caller's project."""
    service, who = call.network.groups, call.principal
    return await SHAPE.listed(call, lambda listing, after: service.page(who, listing, after), lambda one: one.group.id)


async def show(call: Call) -> Answer:
    """One security group, with its rules."""
    found = await call.network.groups.show(call.principal, call.params["id"])
    return {SHAPE.one: SHAPE.view(call, found)}


async def update(call: Call, body: object) -> Answer:
    """Changes a security group's name and description."""
    given = inner(body, SHAPE.one)
    changes = given.changes(_SAID)
    given.done((*_FIXED, "project_id", "tenant_id", "security_group_rules", "shared"))
    found = await call.network.groups.update(call.principal, call.params["id"], changes, expected(call))
    return {SHAPE.one: SHAPE.view(call, found)}


async def delete(call: Call) -> Answer:
    """Deletes a security group that no port has."""
    await call.network.groups.delete(call.principal, call.params["id"], expected(call))
    return None


# --- rules ----------------------------------------------------------------------------------------

_PORT = fields.or_none(fields.whole(-(2**31), 2**31 - 1))


def _protocol(value: object, name: str) -> str:
    """A name, or a number in either form; null and "any" are any."""
    if value is None or value == "any":
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return fields.text(1, 40)(value, name).lower()


def _ethertype(value: object, name: str) -> str:
    found = fields.text(1, 10)(value, name)
    known = {"ipv4": "IPv4", "ipv6": "IPv6"}
    if found.lower() not in known:
        raise bad(name, f"'{found}' is not in ['IPv4', 'IPv6'].")
    return known[found.lower()]


def _remote_prefix(value: object, name: str) -> str:
    return "" if value is None or value == "" else fields.prefix(value, name)


def _new_rule(given: Attributes) -> SecurityRule:
    project = given.project()
    group = given.need("security_group_id", fields.text(1, 255))
    direction = Direction(given.need("direction", fields.one_of(*(one.value for one in Direction))))
    ethertype = given.take("ethertype", _ethertype, "IPv4")
    rule = SecurityRule(
        "",
        project,
        group,
        direction,
        ethertype,
        Wall(0.0),
        Wall(0.0),
        given.take("protocol", _protocol, ""),
        given.take("port_range_min", _PORT, None),
        given.take("port_range_max", _PORT, None),
        given.take("remote_ip_prefix", _remote_prefix, ""),
        given.take("remote_group_id", fields.or_empty(fields.text(1, 255)), ""),
        given.take("description", fields.text(), ""),
    )
    if given.take("remote_address_group_id", fields.or_empty(fields.text()), ""):
        raise bad("remote_address_group_id", "address groups are not offered here.")
    given.done(_FIXED)
    return rule


async def create_rule(call: Call, body: object) -> Answer:
    """Adds a rule to a security group, or several."""
    given, many = several(body, RULE.one, RULE.many)
    made = await call.network.rules.create(call.principal, [_new_rule(one) for one in given])
    return RULE.made(call, made, many)


async def rules(call: Call) -> Answer:
    """Rules of the caller's security groups."""
    service, who = call.network.rules, call.principal
    return await RULE.listed(call, lambda listing, after: service.page(who, listing, after), lambda one: one.id)


async def show_rule(call: Call) -> Answer:
    """One rule."""
    return {RULE.one: RULE.view(call, await call.network.rules.show(call.principal, call.params["id"]))}


async def delete_rule(call: Call) -> Answer:
    """Takes a rule away."""
    await call.network.rules.delete(call.principal, call.params["id"], expected(call))
    return None
