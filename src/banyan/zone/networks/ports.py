"""Ports: what is plugged into networks, with MACs, addresses, security groups and bindings.

make and remove are for the other parts too (routers, floating IPs, servers): in the caller's unit of work, with quota
and addresses. A port goes only through `remove`, so no address stays behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from banyan.core import addresses as arithmetic
from banyan.core.errors import BadInput, Broken, Conflict
from banyan.core.network import (
    COMPUTE,
    FLOATING,
    ROUTER_GATEWAY,
    ROUTER_INTERFACE,
    DhcpOption,
    FixedIp,
    Kind,
    Network,
    Port,
    Subnet,
)
from banyan.core.network_rows import Listing, NetworkRows
from banyan.core.permissions import Target, may, require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.core.time import Wall
from banyan.zone.networks import addressing
from banyan.zone.networks.addressing import Plug
from banyan.zone.networks.desk import (
    MAX_LIST,
    Changes,
    Desk,
    changeable,
    changed,
    check_bulk,
    for_project,
    missing,
    page,
    seen,
)
from banyan.zone.networks.devices import check_device, of_service, own_servers
from banyan.zone.networks.groups import check_groups, ensure_default

MAX_ADDRESSES, MAX_PAIRS, MAX_OPTIONS = 32, 10, 32
# Draws of a MAC before a network is said to be full of them.
_DRAWS = 32
_ROUTED = (ROUTER_INTERFACE, ROUTER_GATEWAY)


class Ports:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(
        self, who: Principal, wanted: Sequence[Port], groups_given: Sequence[bool] | None = None
    ) -> list[Port]:
        """All or none. `addresses` None-like is said by UNASKED; `groups_given` False: the default group.

        Raises NotFound, Refused, BadInput, Conflict("over-quota"), ("address-in-use"), ("no-addresses"),
        ("mac-in-use"), ("foreign-device")."""
        check_bulk(wanted)
        given = groups_given or [True] * len(wanted)
        now = self._desk.now()
        projects = [for_project(who, Kind.PORT, one.project) for one in wanted]
        named_ports = [replace(one, project=project) for one, project in zip(wanted, projects, strict=True)]
        servers = await own_servers(self._desk.servers, who, named_ports)

        def work(unit: Unit) -> list[Port]:
            made = []
            for one, project, named in zip(wanted, projects, given, strict=True):
                network = seen(unit.networks, who, Kind.NETWORK, unit.networks.networks, one.network)
                port = replace(one, id=self._desk.new_uuid(), project=project, created_at=now, updated_at=now)
                port = replace(port, port_security=port.port_security and network.port_security)
                check_device(unit.networks, who, port, None, servers)
                self._permit(who, network, port, None)
                if not named and grouped(port):
                    port = replace(port, groups=(ensure_default(self._desk, unit, project).id,))
                check_groups(unit.networks, who, port.groups)
                _check(port)
                asked = None if port.addresses == UNASKED else port.addresses
                done = make(self._desk, unit, network, port, asked)
                self._desk.note(unit, who, "port-created", done.id, done.name, project=project, network=done.network)
                made.append(done)
            return made

        return await self._desk.change("port.created", work)

    async def show(self, who: Principal, id: str) -> Port:
        return await self._desk.read(lambda rows: seen(rows, who, Kind.PORT, rows.ports, id))

    async def page(self, who: Principal, listing: Listing, marker: str = "") -> list[Port]:
        return await self._desk.read(lambda rows: page(rows, who, Kind.PORT, rows.ports, listing, marker))

    async def update(self, who: Principal, id: str, changes: Changes, expected: int | None = None) -> Port:
        """Raises NotFound, Refused, BadInput, Conflict as `create`, ("service-port"), Changed."""
        servers = await self._servers_named(who, id, changes)

        def work(unit: Unit) -> Port:
            rows = unit.networks
            old = changeable(rows, who, "update", Kind.PORT, rows.ports, id, expected)
            network = rows.networks.get(old.network)
            if network is None:
                raise Broken("no-network", "a port has no network", detail=old.network)
            new = replace(old, **changes)  # type: ignore[arg-type]  # of the fields' own types
            if "options" in changes:
                new = replace(new, options=_merged(old, new))
            check_device(rows, who, new, old, servers)
            if new.device != old.device:
                # It answers no wish of the server that it was made for any more, and goes with none.
                new = replace(new, place=-1, tag="", ours=False)
            self._permit(who, network, new, old)
            if new.groups != old.groups:
                check_groups(rows, who, [one for one in new.groups if one not in old.groups])
            _check(new)
            if new.addresses != old.addresses:
                plug = Plug(id, new.mac, new.owner)
                new = replace(new, addresses=addressing.reassign(rows, network, plug, old.addresses, new.addresses))
                _forget_lost(rows, old, new, self._desk.now())
            new = replace(new, status=status_of(new))
            self._desk.note(unit, who, "port-changed", id, ", ".join(sorted(changes)))
            return store(rows, old, new, self._desk.now())

        changed_port = await self._desk.change("port.changed", work)
        await self._desk.news.tell(who, [changed_port])
        return changed_port

    async def delete(self, who: Principal, id: str, expected: int | None = None) -> None:
        """Its addresses are free then. Raises NotFound, Refused, Conflict("service-port"), Changed."""

        def work(unit: Unit) -> Port:
            rows = unit.networks
            port = changeable(rows, who, "delete", Kind.PORT, rows.ports, id, expected)
            if of_service(rows, port):
                raise Conflict(
                    "service-port",
                    f"Port {id} cannot be deleted directly via the port API: has device owner {port.owner}.",
                )
            remove(rows, port, self._desk.now())
            self._desk.note(unit, who, "port-deleted", id, port.name, project=port.project)
            return port

        await self._desk.news.tell(who, [await self._desk.change("port.deleted", work)])

    async def _servers_named(self, who: Principal, id: str, changes: Changes) -> frozenset[tuple[str, str]]:
        if not {"device", "owner"} & set(changes):
            return frozenset()
        old = await self.show(who, id)
        new = replace(old, **changes)  # type: ignore[arg-type]  # of the fields' own types
        if (new.device, new.owner) == (old.device, old.owner):
            return frozenset()
        return await own_servers(self._desk.servers, who, [new])

    def _permit(self, who: Principal, network: Network, new: Port, old: Port | None) -> None:
        """What only administrators, or only who owns the network, may say of a port. Raises Refused."""
        before = old or Port("", "", "", "", "", new.created_at, new.updated_at, port_security=network.port_security)
        if (new.host, new.profile) != (before.host, before.profile) or (old is not None and new.mac != old.mac):
            require(who, "network:bind_port")
        if may(who, "network:create_port", Target(project=network.project)):
            return
        fixed = old is None and new.addresses != UNASKED and any(one.address for one in new.addresses)
        moved = old is not None and new.addresses != old.addresses and any(one.address for one in new.addresses)
        mac = old is None and bool(new.mac)
        if fixed or moved or mac or new.pairs != before.pairs or new.port_security != before.port_security:
            require(who, "network:administer_port")


# As the addresses of a port are asked for that leaves them to us.
UNASKED = (FixedIp("?", "?"),)


def grouped(port: Port) -> bool:
    """True if a port has security groups at all."""
    return port.port_security and not port.owner.startswith("network:")


def status_of(port: Port) -> str:
    """ACTIVE while it is plugged into something and switched on. Nothing below says otherwise: see the guide."""
    plugged = bool(port.device) and (port.owner.startswith(COMPUTE) or port.owner in _ROUTED)
    if port.owner == FLOATING:
        return "N/A"
    return "ACTIVE" if plugged and port.admin_up else "DOWN"


def make(desk: Desk, unit: Unit, network: Network, port: Port, addresses: Sequence[FixedIp] | None) -> Port:
    """A port with its MAC and addresses; its other fields are as they are to be. Raises Conflict, BadInput."""
    rows = unit.networks
    desk.take(rows, port.project, Kind.PORT)
    mac = port.mac or _draw_macs(desk, rows, network, 1)[0]
    port = replace(port, mac=mac)
    port = replace(port, addresses=addressing.assign(rows, network, Plug(port.id, mac, port.owner), addresses))
    port = replace(port, status=status_of(port))
    if rows.add_ports([port]):
        raise _mac_in_use(network, mac)
    return port


def make_many(desk: Desk, unit: Unit, network: Network, ports: Sequence[Port]) -> list[Port]:
    """As `make`, of ports of one project and owner that ask for nothing in particular, in few statements."""
    rows = unit.networks
    if not ports:
        return []
    desk.take(rows, ports[0].project, Kind.PORT, len(ports))
    macs = _draw_macs(desk, rows, network, len(ports))
    made = [replace(port, mac=mac) for port, mac in zip(ports, macs, strict=True)]
    given = addressing.assign_many(rows, network, [Plug(port.id, port.mac, port.owner) for port in made])
    made = [replace(port, addresses=mine) for port, mine in zip(made, given, strict=True)]
    made = [replace(port, status=status_of(port)) for port in made]
    if taken := rows.add_ports(made):
        raise _mac_in_use(network, taken[0])
    return made


def _draw_macs(desk: Desk, rows: NetworkRows, network: Network, count: int) -> list[str]:
    """So many that nobody has in the network. Only those that are taken are drawn again: of a thousand, in a network of
    many, some always are."""
    found: dict[str, None] = {}
    for _ in range(_DRAWS):
        drawn: dict[str, None] = {}
        # As often as not one of these was drawn before; bounded, since there may be none left.
        for _ in range(2 * (count - len(found))):
            drawn[arithmetic.random_mac(desk.ids.token(3))] = None
        fresh = [mac for mac in drawn if mac not in found][: count - len(found)]
        taken = set(rows.macs_taken(network.id, fresh))
        found.update(dict.fromkeys(mac for mac in fresh if mac not in taken))
        if len(found) == count:
            return list(found)
    raise Conflict("no-mac", f"Unable to generate unique mac on network {network.id}.")


def store(rows: NetworkRows, old: Port, new: Port, now: Wall) -> Port:
    """A port's new row, and its groups."""
    try:
        new = changed(rows.ports, old, new, now)
    except Conflict as error:
        if error.code == "name-taken":
            text = f"Unable to complete operation for network {new.network}. The mac address {new.mac} is in use."
            raise Conflict("mac-in-use", text) from error
        raise
    if new.groups != old.groups:
        rows.join(new.id, new.groups)
    return new


def remove(rows: NetworkRows, port: Port, now: Wall) -> None:
    """The port, its addresses, and what led to it."""
    for floating in rows.floating_ips.listed(Listing({"port": (port.id,)}, limit=MAX_LIST)):
        changed(rows.floating_ips, floating, replace(floating, port="", fixed="", router=""), now)
    addressing.release(rows, port.addresses)
    rows.join(port.id, ())
    if not rows.ports.delete(port.id):
        raise missing(Kind.PORT, port.id)
    if port.project:
        rows.uncount(port.project, Kind.PORT, 1)


def drop_subnet(rows: NetworkRows, subnet: Subnet) -> None:
    """A subnet that no port has an address of."""
    rows.addresses.close(subnet.id)
    rows.subnets.delete(subnet.id)
    rows.uncount(subnet.project, Kind.SUBNET, 1)


def strip_automatic(rows: NetworkRows, subnet: Subnet, now: Wall) -> None:
    """Takes the addresses of a subnet whose addresses follow from MACs off all ports. Raises Conflict("subnet-in-use")
    for a router's, which were asked for."""
    while holders := rows.addresses.holders(subnet.id, MAX_LIST):
        for id in dict.fromkeys(port for port, _ in holders):
            port = rows.ports.get(id)
            if port is None or port.owner in _ROUTED:
                text = f"Unable to complete operation on subnet {subnet.id}: One or more ports have an IP allocation "
                raise Conflict("subnet-in-use", text + "from this subnet.")
            gone = [one for one in port.addresses if one.subnet == subnet.id]
            addressing.release(rows, gone)
            left = tuple(one for one in port.addresses if one.subnet != subnet.id)
            changed(rows.ports, port, replace(port, addresses=left), now)


def _forget_lost(rows: NetworkRows, old: Port, new: Port, now: Wall) -> None:
    """Floating IPs that led to an address which the port has no more lead nowhere."""
    kept = {one.address for one in new.addresses}
    if all(one.address in kept for one in old.addresses):
        return
    for floating in rows.floating_ips.listed(Listing({"port": (new.id,)}, limit=MAX_LIST)):
        if floating.fixed not in kept:
            changed(rows.floating_ips, floating, replace(floating, port="", fixed="", router=""), now)


def _merged(old: Port, new: Port) -> tuple[DhcpOption, ...]:
    """Options are changed one by one; one without a value is taken away."""
    found = {(one.name, one.version): one for one in (*old.options, *new.options)}
    return tuple(one for one in found.values() if one.value)


def _mac_in_use(network: Network, mac: str) -> Conflict:
    text = f"Unable to complete operation for network {network.id}. The mac address {mac} is in use."
    return Conflict("mac-in-use", text)


def _check(port: Port) -> None:
    """Raises BadInput, Conflict for what does not fit together."""
    for field, most, many in (
        ("fixed_ips", MAX_ADDRESSES, len(port.addresses)),
        ("allowed_address_pairs", MAX_PAIRS, len(port.pairs)),
        ("extra_dhcp_opts", MAX_OPTIONS, len(port.options)),
    ):
        if many > most:
            raise BadInput("too-many", f"Exceeded maximum amount of {field}: {most}.")
    if len(set(port.pairs)) < len(port.pairs):
        raise BadInput("bad-pair", "Request contains duplicate address pair.")
    if len({one for one in port.addresses if one.address}) < sum(bool(one.address) for one in port.addresses):
        raise BadInput("bad-address", "Invalid input for fixed_ips. It has the same address twice.")
    if not port.port_security:
        if port.groups:
            text = "Port security must be enabled and port must have an IP address in order to use security groups."
            raise BadInput("no-port-security", text)
        if port.pairs:
            text = "Port Security must be enabled in order to have allowed address pairs on a port."
            raise Conflict("pairs-no-port-security", text)
