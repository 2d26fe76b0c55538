"""Ports."""

from __future__ import annotations

from dataclasses import replace

from banyan.api.neutron import fields
from banyan.api.neutron.fields import Attributes, bad, inner, several
from banyan.api.neutron.resource import Attribute, Shape, common, expected, flag
from banyan.api.openstack.call import Answer, Call
from banyan.core.network import COMPUTE, AddressPair, DhcpOption, FixedIp, Port
from banyan.core.network_rows import Listing
from banyan.core.time import Wall
from banyan.zone.networks.ports import UNASKED

_A = Attribute[Port]
_VNICS = ("normal", "direct", "macvtap", "baremetal", "direct-physical", "virtio-forwarder", "smart-nic", "vdpa")
_BINDING = ("binding:host_id", "binding:profile", "binding:vif_type", "binding:vif_details")


def _narrow(query: dict[str, tuple[str, ...]], listing: Listing) -> Listing:
    """`fixed_ips=ip_address=…`, `fixed_ips=subnet_id=…`, `security_groups=…`."""
    found, within = [], []
    for value in query.pop("fixed_ips", ()):
        name, _, wanted = value.partition("=")
        if name == "ip_address" and wanted:
            found.append(fields.address(wanted, "fixed_ips"))
        elif name == "subnet_id" and wanted:
            within.append(wanted)
        else:
            raise bad("fixed_ips", f"'{value[:60]}' is none of ip_address=ADDRESS and subnet_id=ID.")
    groups = query.pop("security_groups", ())
    return replace(listing, addresses=tuple(found), subnets=tuple(within), groups=groups)


def _vif(port: Port) -> str:
    """How a host plugs it in is the host's: that it is plugged in is all that is known."""
    return "other" if port.host or port.owner.startswith(COMPUTE) else "unbound"


SHAPE: Shape[Port] = Shape(
    "port",
    "ports",
    (
        *common(lambda one: one),
        _A("name", lambda one: one.name, "name"),
        _A("network_id", lambda one: one.network, "network"),
        _A("mac_address", lambda one: one.mac, "mac"),
        _A("admin_state_up", lambda one: one.admin_up, "admin_up", flag),
        _A("status", lambda one: one.status, "status"),
        _A("device_id", lambda one: one.device, "device"),
        _A("device_owner", lambda one: one.owner, "owner"),
        _A(
            "fixed_ips",
            lambda one: [{"subnet_id": fixed.subnet, "ip_address": fixed.address} for fixed in one.addresses],
        ),
        _A("security_groups", lambda one: list(one.groups)),
        _A(
            "allowed_address_pairs",
            lambda one: [{"mac_address": pair.mac or one.mac, "ip_address": pair.address} for pair in one.pairs],
        ),
        _A(
            "extra_dhcp_opts",
            lambda one: [
                {"opt_name": opt.name, "opt_value": opt.value, "ip_version": opt.version} for opt in one.options
            ],
        ),
        _A("port_security_enabled", lambda one: one.port_security, "port_security", flag),
        _A("binding:host_id", lambda one: one.host, "host"),
        _A("binding:profile", lambda one: dict(one.profile)),
        _A("binding:vif_type", _vif),
        _A("binding:vif_details", lambda one: {}),
        _A("binding:vnic_type", lambda one: one.vnic, "vnic"),
        _A("tags", lambda one: list(one.tags)),
    ),
    narrow=_narrow,
    admin=frozenset(_BINDING),
)
_FIXED = (
    "id", "status", "created_at", "updated_at", "revision_number", "tags", "binding:vif_type", "binding:vif_details"
)  # fmt: skip


def _fixed(value: object, name: str) -> FixedIp:
    given = Attributes(value, name)
    subnet = given.take("subnet_id", fields.or_empty(fields.uuid), "")
    address = given.take("ip_address", fields.or_empty(fields.address), "")
    given.done()
    if not (subnet or address):
        raise bad(name, "each names a subnet_id, an ip_address, or both.")
    return FixedIp(subnet, address)


def _pair(value: object, name: str) -> AddressPair:
    given = Attributes(value, name)
    address = given.need("ip_address", _address_or_prefix)
    mac = given.take("mac_address", fields.or_empty(fields.mac), "")
    given.done()
    return AddressPair(mac, address)


def _address_or_prefix(value: object, name: str) -> str:
    if isinstance(value, str) and "/" in value:
        return fields.prefix(value, name)
    return fields.address(value, name)


def _option(value: object, name: str) -> DhcpOption:
    given = Attributes(value, name)
    word = given.need("opt_name", fields.text(1, 64))
    text = given.take("opt_value", fields.or_none(fields.text(0, 255)), None)
    version = given.take("ip_version", fields.whole(4, 6), 4)
    given.done()
    if version == 5:
        raise bad(name, "'5' is not in [4, 6].")
    # null takes an option away.
    return DhcpOption(word, "" if text is None else text, version)


_SAID: tuple[tuple[str, str, fields.Check[object]], ...] = (
    ("name", "name", fields.text()),
    ("description", "description", fields.text()),
    ("admin_state_up", "admin_up", fields.truth),
    ("mac_address", "mac", fields.mac),
    ("device_id", "device", fields.or_empty(fields.text())),
    ("device_owner", "owner", fields.or_empty(fields.text())),
    ("fixed_ips", "addresses", fields.each(_fixed, 100)),
    ("security_groups", "groups", fields.distinct(fields.text(1, 255), 100)),
    ("allowed_address_pairs", "pairs", fields.each(_pair, 100)),
    ("extra_dhcp_opts", "options", fields.each(_option, 100)),
    ("port_security_enabled", "port_security", fields.truth),
    ("binding:host_id", "host", fields.or_empty(fields.text())),
    ("binding:profile", "profile", fields.mapping(4_096)),
    ("binding:vnic_type", "vnic", fields.one_of(*_VNICS)),
)


def _new(given: Attributes) -> tuple[Port, bool]:
    changes, project = given.changes(_SAID), given.project()
    network = given.need("network_id", fields.uuid)
    given.done(_FIXED)
    options = changes.get("options")
    if isinstance(options, tuple):
        changes["options"] = tuple(one for one in options if one.value)
    empty = Port("", project, network, "", "", Wall(0.0), Wall(0.0), addresses=UNASKED)
    return replace(empty, **changes), "groups" in changes  # type: ignore[arg-type]  # of the fields' own types


async def create(call: Call, body: object) -> Answer:
    """Makes a port, or several, with addresses."""
    given, many = several(body, SHAPE.one, SHAPE.many)
    wanted = [_new(one) for one in given]
    made = await call.network.ports.create(call.principal, [port for port, _ in wanted], [named for _, named in wanted])
    return SHAPE.made(call, made, many)


async def listed(call: Call) -> Answer:
    """Ports of the caller's project, and those on its networks."""
    service, who = call.network.ports, call.principal
    return await SHAPE.listed(call, lambda listing, after: service.page(who, listing, after), lambda one: one.id)


async def show(call: Call) -> Answer:
    """One port."""
    found = await call.network.ports.show(call.principal, call.params["id"])
    return {SHAPE.one: SHAPE.view(call, found)}


async def update(call: Call, body: object) -> Answer:
    """Changes a port."""
    given = inner(body, SHAPE.one)
    changes = given.changes(_SAID)
    given.done((*_FIXED, "project_id", "tenant_id", "network_id"))
    found = await call.network.ports.update(call.principal, call.params["id"], changes, expected(call))
    return {SHAPE.one: SHAPE.view(call, found)}


async def delete(call: Call) -> Answer:
    """Deletes a port; its addresses are free then."""
    await call.network.ports.delete(call.principal, call.params["id"], expected(call))
    return None
