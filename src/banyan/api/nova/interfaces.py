"""A server's addresses and interfaces, and the parts of a server that this cloud does not have."""

from __future__ import annotations

from collections.abc import Mapping

from banyan.api.nova import fields
from banyan.api.nova.fields import inner
from banyan.api.nova.server_view import addresses as by_network
from banyan.api.nova.servers import found, server_id
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.api.openstack.faults import Unsupported
from banyan.core.errors import BadInput, NotFound
from banyan.core.network import Direction, SecurityGroup, SecurityRule
from banyan.core.order import NetworkWish
from banyan.core.permissions import Target, require
from banyan.core.server import Nic
from banyan.zone.compute.sources import Interface


async def addresses(call: Call) -> Answer:
    """A server's addresses, by network."""
    return {"addresses": by_network((await found(call)).nics, extended=False)}


async def network_addresses(call: Call) -> Answer:
    """A server's addresses in one network, by its name."""
    networks = by_network((await found(call)).nics, extended=False)
    name = call.params["network"]
    if name not in networks:
        raise NotFound("no-network", "Instance is not a member of specified network")
    return {name: networks[name]}


async def index(call: Call) -> Answer:
    """A server's interfaces."""
    server = await found(call)
    interfaces = await call.compute.networks.interfaces(call.principal, server)
    return {"interfaceAttachments": [_view(one, call) for one in interfaces]}


async def show(call: Call) -> Answer:
    """One interface of a server, by its port."""
    server = await found(call)
    port = call.params["port_id"]
    for one in await call.compute.networks.interfaces(call.principal, server):
        if one.nic.port == port:
            return {"interfaceAttachment": _view(one, call)}
    raise NotFound("no-port", f"Instance {server.id} does not have a port with id {port[:255]}")


async def security_groups(call: Call) -> Answer:
    """The security groups of a server's interfaces, each with its rules for what comes in."""
    found_groups = await call.compute.networks.groups(call.principal, await found(call))
    names = {group.id: group for group, _ in found_groups}
    return {
        "security_groups": [
            {
                "id": group.id,
                "name": group.name,
                "description": group.description,
                "tenant_id": group.project,
                "rules": [_rule(rule, names) for rule in rules if rule.direction is Direction.INGRESS],
            }
            for group, rules in found_groups
        ]
    }


def _rule(rule: SecurityRule, names: Mapping[str, SecurityGroup]) -> dict[str, object]:
    """As networks of old had it: ports are from 1 where none is named, and -1 of ICMP is any type and code."""
    least, most = rule.least, rule.most
    if rule.protocol and most is None:
        least, most = (-1, -1) if rule.protocol.startswith(("icmp", "ipv6-icmp")) else (1, 65535)
    remote, anybody = names.get(rule.remote), "::/0" if rule.ethertype == "IPv6" else "0.0.0.0/0"
    return {
        "id": rule.id,
        "parent_group_id": rule.group,
        "ip_protocol": rule.protocol or None,
        "from_port": least,
        "to_port": most,
        "group": {"name": remote.name, "tenant_id": remote.project} if remote is not None else {},
        "ip_range": {} if rule.remote else {"cidr": rule.prefix or anybody},
    }


async def attach(call: Call, body: object) -> Answer:
    """Adds an interface, in a network or at a port."""
    given = inner(body, "interfaceAttachment")
    network = given.take("net_id", fields.uuid, "")
    port = given.take("port_id", fields.uuid, "")
    fixed = given.take("fixed_ips", fields.items, [])
    tag = given.take("tag", fields.tag, "") if call.version.minor >= 49 else ""
    given.done()
    if network and port:
        raise BadInput("bad-network", "Must not input both network_id and port_id")
    if fixed and not network:
        raise BadInput("bad-network", "Must input network_id when request IP address")
    if len(fixed) > 1:
        raise BadInput("bad-network", "fixed_ips has at most one address")
    found_addresses: list[str] = []
    for one in fixed:
        address = fields.Fields(one, "fixed_ips")
        found_addresses.append(address.need("ip_address", fields.address()))
        address.done()
    wish = NetworkWish(network=network, port=port, addresses=tuple(found_addresses), tag=tag)
    nic = await call.compute.life.attach(call.principal, server_id(call), wish)
    return {"interfaceAttachment": _view(Interface(nic), call)}


async def detach(call: Call) -> Answer:
    """Takes an interface away."""
    await call.compute.life.detach(call.principal, server_id(call), call.params["port_id"])
    return Reply(status=202)


def _view(one: Interface, call: Call) -> dict[str, object]:
    nic: Nic = one.nic
    view: dict[str, object] = {
        "net_id": nic.network,
        "port_id": nic.port,
        "mac_addr": nic.mac,
        "port_state": one.state,
        "fixed_ips": [
            {"ip_address": address.address, "subnet_id": one.subnets.get(address.address, "")}
            for address in nic.addresses
            if address.kind == "fixed"
        ],
    }
    if call.version.minor >= 70:
        view["tag"] = nic.tag or None
    return view


# --- what is not there ----------------------------------------------------------------------------


async def password(call: Call) -> Answer:
    """The encrypted password that the guest posted: none ever does here."""
    await found(call)
    return {"password": ""}


async def drop_password(call: Call) -> Answer:
    """Forgets that password."""
    server = await found(call)
    require(call.principal, "compute:server_set_password", Target(project=server.project))
    return None


async def no_volumes(call: Call) -> Answer:
    """Volumes attached to a server: there are none."""
    await found(call)
    return {"volumeAttachments": []}


async def no_volume(call: Call) -> Answer:
    """One attached volume: it is not there."""
    await found(call)
    raise NotFound("no-volume", f"Volume {call.params['volume_id'][:255]} could not be found.")


async def attach_volume(call: Call, body: object) -> Answer:
    """Attaching a volume: no volume is there to be attached."""
    given = inner(body, "volumeAttachment")
    volume = given.need("volumeId", fields.uuid)
    await found(call)
    raise NotFound("no-volume", f"Volume {volume} could not be found.")


async def no_migrations(call: Call) -> Answer:
    """Live migrations of a server: none is ever under way."""
    await found(call)
    return {"migrations": []}


async def no_migration(call: Call) -> Answer:
    """One live migration of a server: it is not there."""
    await found(call)
    raise NotFound("no-migration", f"Migration {call.params['migration_id'][:40]} is not found for this server")


async def no_migration_action(call: Call, value: object) -> Answer:
    """Forcing a live migration: it is not there."""
    return await no_migration(call)


async def not_offered(call: Call) -> Answer:
    """Diagnostics, topology, consoles: not offered."""
    await found(call)
    raise Unsupported("not-offered", "this cloud does not offer that of a server")


async def not_offered_with(call: Call, body: object) -> Answer:
    """A remote console: not offered."""
    return await not_offered(call)


async def topology(call: Call) -> Answer:
    """A server's NUMA topology: hosts tell none."""
    await found(call)
    return {"nodes": [], "pagesize_kb": None}


async def no_volume_with(call: Call, body: object) -> Answer:
    """Changing an attached volume: it is not there."""
    return await no_volume(call)
