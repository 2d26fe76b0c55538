"""The network service towards servers: zone.compute.sources.Networks.

A server's ports are found by (server, place of the wish), which no two ports share: allocating again finds what was
made, whoever died in between. A port made here goes with its server; one that the user brought is unplugged. None of
this asks a leaf anything: who has which address is this zone's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from banyan.core import addresses as arithmetic
from banyan.core.errors import BadInput, Broken, Conflict, NotFound, Refused
from banyan.core.network import COMPUTE, FixedIp, Kind, Network, Port, Reach, SecurityGroup, SecurityRule
from banyan.core.network_rows import Listing, NetworkRows
from banyan.core.order import NetworkWish
from banyan.core.permissions import Target, may
from banyan.core.principal import Principal
from banyan.core.quota import UNLIMITED
from banyan.core.records import Unit
from banyan.core.server import Address, Nic, Server
from banyan.zone.compute.hosts import DEFAULT_ZONE
from banyan.zone.compute.sources import Interface, NetworkPlan
from banyan.zone.networks import ports
from banyan.zone.networks.addressing import subnets_of
from banyan.zone.networks.desk import MAX_LIST, Desk, changed, sees
from banyan.zone.networks.groups import DEFAULT, ensure_default, named, rules_of
from banyan.zone.networks.places import Places

# gap: hosts are not told of security groups, routers and DHCP: what is kept here is enforced by nobody below yet
# gap: an order on a network of several named zones is bound to none of them; placed in another it is refused afterwards
OWNER = f"{COMPUTE}{DEFAULT_ZONE}"
# Servers whose ports are looked up in one statement.
_SOME = 200
# Servers and ports that are remembered as going.
MAX_GOING = 10_000


class ServerNetworks:
    """`going`: servers that are being deleted, and ports (else "") that are being detached, with who asked for it: they
    are looked after by upkeep.py, which is woken by `heed`."""

    def __init__(self, desk: Desk) -> None:
        self.going: dict[tuple[str, str], Principal] = {}
        self.heed: Callable[[], None] = lambda: None
        self._desk = desk

    async def plan(
        self,
        who: Principal,
        wishes: Sequence[NetworkWish],
        *,
        automatic: bool,
        groups: Sequence[str],
        count: int,
    ) -> NetworkPlan:
        def work(rows: NetworkRows) -> NetworkPlan:
            asked = list(wishes) or _networks_of(rows, who, automatic)
            found = [self._resolved(rows, who, one, count) for one in asked]
            new = sum(not wish.port for wish, _ in found) * count
            self._room(rows, who.project, new)
            names: dict[str, None] = {}
            ids: list[str] = []
            for group in dict.fromkeys(groups or (DEFAULT,)):
                one = _group(rows, who.project, group)
                names[DEFAULT if one is None else one.name] = None
                if one is not None:
                    ids.append(one.id)
            if not any(network.port_security for _, network in found):
                names, ids = {}, []
            path, together = self._place([network for _, network in found])
            return NetworkPlan(tuple(wish for wish, _ in found), tuple(names), tuple(ids), path, together)

        return await self._desk.read(work)

    def _resolved(
        self, rows: NetworkRows, who: Principal, wish: NetworkWish, count: int
    ) -> tuple[NetworkWish, Network]:
        if wish.port:
            return self._at_port(rows, who, wish, count)
        network = rows.networks.get(wish.network)
        if network is None or not sees(rows, who, Kind.NETWORK, network):
            raise BadInput("bad-network", f"Network {wish.network[:255]} could not be found.")
        if network.external and not network.shared and not may(who, "network:administer_network"):
            text = f"It is not allowed to create an interface on external network {network.id}"
            raise Refused("external-network", text)
        there = subnets_of(rows, network.id)
        if not there:
            raise BadInput("bad-network", f"Network {network.id} requires a subnet in order to boot instances on.")
        for text in wish.addresses:
            address = arithmetic.address(text)
            within = [one for one in there if (cidr := arithmetic.prefix(one.cidr)) is not None and address in cidr]
            if address is None or not within:
                raise BadInput(
                    "bad-address", f"Fixed IP address {text[:64]} is not a valid IP of network {network.id}."
                )
            if count > 1:
                raise BadInput("one-port-many", "Invalid fixed_ips: a fixed address is for one server only.")
            if rows.addresses.of(within[0].id, text) is not None:
                raise Conflict("address-in-use", f"Fixed IP address {text} is already in use.")
        return _wish(wish, network), network

    def _at_port(self, rows: NetworkRows, who: Principal, wish: NetworkWish, count: int) -> tuple[NetworkWish, Network]:
        port = rows.ports.get(wish.port)
        if port is None or not may(who, "network:update_port", Target(project=port.project)):
            raise BadInput("bad-port", f"Port {wish.port[:255]} could not be found.")
        _usable(port, who.project)
        if count > 1:
            raise BadInput("one-port-many", "Invalid input for networks: a port is for one server only.")
        if port.device:
            raise Conflict("port-in-use", f"Port {port.id} is still in use.")
        if not port.addresses:
            raise BadInput("bad-port", f"Port {port.id} requires a FixedIP in order to be used.")
        network = rows.networks.get(port.network)
        if network is None:
            raise Broken("no-network", "a port has no network", detail=port.id)
        return _wish(wish, network), network

    def _place(self, networks: Sequence[Network]) -> tuple[str, bool]:
        """Where servers on all of these must be: a zone's path from here, "" for any; and whether all of one order must
        be in one. Raises Conflict("out-of-reach") if no zone has them all."""
        places = self._desk.places
        settled = {code: network for network in networks if network.reach is Reach.ZONE for code in network.zones}
        wide = [network for network in networks if network.reach is Reach.PROVIDER]
        for code, network in settled.items():
            for other in (*settled.values(), *wide):
                if other is not network and not _reaches(places, other, code):
                    raise _apart(places, other, network.name or network.id)
        if settled:
            return places.way(next(iter(settled))), False
        if len(wide) == 1 and len(wide[0].zones) == 1:
            return places.way(wide[0].zones[0]), False
        return "", places.several and any(network.reach is Reach.ZONE for network in networks)

    def _settle(self, rows: NetworkRows, network: Network, servers: Sequence[str]) -> Network:
        """The network, in a zone from its first server on. Raises Conflict("out-of-reach") for a server elsewhere."""
        places = self._desk.places
        for server in servers:
            code = places.of_server(server)
            if not code or (network.zones and not _reaches(places, network, code)):
                raise _apart(places, network, f"server {server}")
            if not network.zones:
                network = changed(rows.networks, network, replace(network, zones=(code,)), self._desk.now())
        return network

    def _room(self, rows: NetworkRows, project: str, more: int) -> None:
        most = self._desk.limits(rows, project)[Kind.PORT]
        if more and most != UNLIMITED and rows.counted(project).get(Kind.PORT, 0) + more > most:
            raise Refused("quota-exceeded", "Maximum number of ports exceeded")

    # --- ports of servers -------------------------------------------------------------------------

    async def allocate(
        self, who: Principal, plan: NetworkPlan, servers: Sequence[str]
    ) -> Mapping[str, tuple[Nic, ...]]:
        def work(unit: Unit) -> Mapping[str, tuple[Nic, ...]]:
            rows = unit.networks
            made = {(port.device, port.place): port for port in _ports_of(rows, servers, who.project)}
            chosen = self._groups(unit, who.project, plan)
            networks: dict[str, Network] = {}
            for place, wish in enumerate(plan.wishes):
                network = self._settle(rows, _network(rows, wish), servers)
                networks[network.id] = network
                wanting = [one for one in servers if (one, place) not in made]
                for port in self._plugged(unit, who, network, wish, place, wanting, chosen):
                    made[port.device, port.place] = port
            return {
                server: tuple(
                    _nic(made[server, place], networks[made[server, place].network])
                    for place in range(len(plan.wishes))
                )
                for server in servers
            }

        return await self._desk.change("network.allocated", work)

    def _plugged(
        self,
        unit: Unit,
        who: Principal,
        network: Network,
        wish: NetworkWish,
        place: int,
        servers: Sequence[str],
        chosen: tuple[str, ...],
    ) -> list[Port]:
        if not servers:
            return []
        if wish.port:
            return [self._bound(unit, who, wish, servers[0], place)]
        new = [self._new(who.project, network, wish, server, place, chosen) for server in servers]
        if not wish.addresses:
            return ports.make_many(self._desk, unit, network, new)
        wanted = tuple(FixedIp("", one) for one in wish.addresses)
        return [ports.make(self._desk, unit, network, port, wanted) for port in new]

    def _new(
        self, project: str, network: Network, wish: NetworkWish, server: str, place: int, chosen: tuple[str, ...]
    ) -> Port:
        now = self._desk.now()
        return Port(
            self._desk.new_uuid(),
            project,
            network.id,
            "",
            wish.mac,
            now,
            now,
            device=server,
            owner=OWNER,
            groups=chosen if network.port_security else (),
            port_security=network.port_security,
            place=place,
            ours=True,
            tag=wish.tag,
        )

    def _bound(self, unit: Unit, who: Principal, wish: NetworkWish, server: str, place: int) -> Port:
        rows = unit.networks
        port = rows.ports.get(wish.port)
        if port is None or not may(who, "network:update_port", Target(project=port.project)):
            raise BadInput("bad-port", f"Port {wish.port[:255]} could not be found.")
        _usable(port, who.project)
        if port.device:
            raise Conflict("port-in-use", f"Port {port.id} is still in use.")
        new = replace(port, device=server, owner=OWNER, place=place, tag=wish.tag, ours=False)
        return ports.store(rows, port, replace(new, status=ports.status_of(new)), self._desk.now())

    def _groups(self, unit: Unit, project: str, plan: NetworkPlan) -> tuple[str, ...]:
        if not plan.groups:
            return ()
        default = ensure_default(self._desk, unit, project)
        if not plan.group_ids:
            # As a specification has it: by name.
            found = [named(unit.networks, project, name) for name in plan.groups if name != DEFAULT]
            ids = [one.id for one in found if one is not None]
            return (*((default.id,) if DEFAULT in plan.groups else ()), *ids) or (default.id,)
        there = unit.networks.groups.some(plan.group_ids)
        for id in plan.group_ids:
            if id not in there:
                raise BadInput("bad-security-group", f"Security group {id} not found for project {project}.")
        # The default group is made with the first port; no id of it was known before.
        mine = (default.id,) if DEFAULT in plan.groups else ()
        return tuple(dict.fromkeys((*plan.group_ids, *mine)))

    async def attach(self, who: Principal, server: Server, wish: NetworkWish) -> Nic:
        who = replace(who, project=server.project)
        wishes = [wish] if wish.network or wish.port else []
        plan = await self.plan(who, wishes, automatic=False, groups=(), count=1)
        if not plan.wishes:
            raise BadInput("bad-network", "No network was named, and the project has none of its own.")
        chosen = _tagged(plan.wishes[0], wish.tag)

        def work(unit: Unit) -> Nic:
            network = self._settle(unit.networks, _network(unit.networks, chosen), [server.id])
            mine = self._groups(unit, who.project, plan)
            port = self._plugged(unit, who, network, chosen, -1, [server.id], mine)[0]
            return _nic(port, network)

        return await self._desk.change("network.attached", work)

    async def detach(self, who: Principal, server: Server, port: str) -> None:
        def work(unit: Unit) -> None:
            found = unit.networks.ports.get(port)
            if found is None or (found.device, found.project) != (server.id, server.project):
                raise NotFound("no-port", f"Port {port[:255]} could not be found.")
            self._unplug(unit.networks, found)

        await self._desk.change("network.detached", work)

    async def release(self, who: Principal, server: str) -> None:
        await self.released([server])

    async def released(self, servers: Sequence[str]) -> int:
        """The ports of servers that are gone, given back; how many it were. Safe to repeat."""

        def work(unit: Unit) -> int:
            found = _ports_of(unit.networks, servers)
            for port in found:
                self._unplug(unit.networks, port)
            return len(found)

        return await self._desk.change("network.released", work)

    def leaving(self, who: Principal, server: str, port: str = "") -> None:
        while len(self.going) >= MAX_GOING:
            # It is found by the walk, later.
            self.going.pop(next(iter(self.going)))
        self.going[server, port] = who
        self.heed()

    async def detached(self, who: Principal, server: Server, port: str) -> int:
        """A port that the guest has no more, given back; 1 if it was there."""
        found = await self._desk.read(lambda rows: rows.ports.get(port))
        try:
            await self.detach(who, server, port)
        except NotFound:
            return 0
        await self._desk.news.tell(who, [found])
        return 1

    async def plugged(self, servers: Sequence[str]) -> bool:
        """True if any of them has a port."""
        return await self._desk.read(lambda rows: bool(_ports_of(rows, servers)))

    def _unplug(self, rows: NetworkRows, port: Port) -> None:
        if port.ours:
            ports.remove(rows, port, self._desk.now())
            return
        new = replace(port, device="", owner="", place=-1, tag="", host="")
        changed(rows.ports, port, replace(new, status=ports.status_of(new)), self._desk.now())

    # --- shown, and security groups ---------------------------------------------------------------

    async def interfaces(self, who: Principal, server: Server) -> Sequence[Interface]:
        def work(rows: NetworkRows) -> Sequence[Interface]:
            found = []
            for port in _ports_of(rows, [server.id], server.project):
                network = rows.networks.get(port.network)
                if network is not None:
                    subnets = {one.address: one.subnet for one in port.addresses}
                    leading = rows.floating_ips.listed(Listing({"port": (port.id,)}, limit=MAX_LIST))
                    nic = _nic(port, network, [one.address for one in leading])
                    found.append(Interface(nic, port.status, subnets))
            return found

        return await self._desk.read(work)

    async def groups(self, who: Principal, server: Server) -> Sequence[tuple[SecurityGroup, tuple[SecurityRule, ...]]]:
        def work(rows: NetworkRows) -> Sequence[tuple[SecurityGroup, tuple[SecurityRule, ...]]]:
            mine = _ports_of(rows, [server.id], server.project)
            found = rows.groups.some([id for port in mine for id in port.groups])
            by_name = sorted(found.values(), key=lambda one: (one.name, one.id))
            return [(group, tuple(rules_of(rows, group.id))) for group in by_name]

        return await self._desk.read(work)

    async def join_group(self, who: Principal, server: Server, group: str) -> tuple[str, ...]:
        def work(unit: Unit) -> tuple[str, ...]:
            rows, found = unit.networks, _known(unit.networks, server.project, group)
            mine = [port for port in _ports_of(rows, [server.id], server.project) if ports.grouped(port)]
            if mine and all(found.id in port.groups for port in mine):
                text = f"Security group {found.id} is already associated with the instance {server.id}"
                raise Conflict("in-group", text)
            for port in mine:
                if found.id not in port.groups:
                    ports.store(rows, port, replace(port, groups=(*port.groups, found.id)), self._desk.now())
            return _names(rows, server)

        return await self._desk.change("network.group-joined", work)

    async def leave_group(self, who: Principal, server: Server, group: str) -> tuple[str, ...]:
        def work(unit: Unit) -> tuple[str, ...]:
            rows, found = unit.networks, _known(unit.networks, server.project, group)
            mine = [port for port in _ports_of(rows, [server.id], server.project) if found.id in port.groups]
            if not mine:
                text = f"Security group {found.id} not associated with the instance {server.id}"
                raise NotFound("not-in-group", text)
            for port in mine:
                left = tuple(one for one in port.groups if one != found.id)
                ports.store(rows, port, replace(port, groups=left), self._desk.now())
            return _names(rows, server)

        return await self._desk.change("network.group-left", work)


def _reaches(places: Places, network: Network, code: str) -> bool:
    if network.reach is Reach.ZONE:
        return code in network.zones
    return any(places.within(code, area) for area in network.zones)


def _apart(places: Places, network: Network, what: str) -> Conflict:
    there = ", ".join(map(places.path, network.zones)) or "no zone yet"
    return Conflict(
        "out-of-reach",
        f"Network {network.name or network.id} is in {there}, and does not reach {what}; use a network of that zone, "
        "or one that an operator says is in both (banyan:reach).",
    )


def _networks_of(rows: NetworkRows, who: Principal, automatic: bool) -> list[NetworkWish]:
    """The network that a server gets whose order names none: the project's own, else one that is shared."""
    own = rows.networks.listed(Listing({"project": (who.project,), "external": (False,)}, limit=2))
    found = own or rows.networks.listed(Listing({"shared": (True,), "external": (False,)}, limit=2))
    if len(found) > 1:
        raise Conflict("ambiguous-network", "Multiple possible networks found, use a Network ID to be more specific.")
    if not found and automatic:
        text = "Unable to automatically allocate a network: the project has none, and this zone makes none by itself"
        raise BadInput("no-auto-network", text)
    return [NetworkWish(network=one.id) for one in found]


def _wish(wish: NetworkWish, network: Network) -> NetworkWish:
    return NetworkWish(
        network.id, network.name, network.reach.value, wish.port, wish.mac, tuple(wish.addresses), wish.tag
    )


def _tagged(wish: NetworkWish, tag: str) -> NetworkWish:
    return NetworkWish(wish.network, wish.name, wish.reach, wish.port, wish.mac, wish.addresses, tag)


def _network(rows: NetworkRows, wish: NetworkWish) -> Network:
    found = rows.networks.get(wish.network)
    if found is None:
        raise BadInput("bad-network", f"Network {wish.network[:255]} could not be found.")
    return found


def _usable(port: Port, project: str) -> None:
    """Administrators reach ports of all projects; a server has only its own project's."""
    if port.project != project:
        raise BadInput("bad-port", f"Port {port.id} not usable for a server of project {project}.")


def _group(rows: NetworkRows, project: str, name: str) -> SecurityGroup | None:
    """None for a default group that is not made yet. Raises BadInput("bad-security-group")."""
    found = named(rows, project, name)
    if found is None and name != DEFAULT:
        raise BadInput("bad-security-group", f"Security group {name[:255]} not found for project {project}.")
    return found


def _known(rows: NetworkRows, project: str, name: str) -> SecurityGroup:
    found = named(rows, project, name)
    if found is None:
        raise NotFound("no-security-group", f"Security group {name[:255]} not found for project {project}.")
    return found


def _ports_of(rows: NetworkRows, servers: Sequence[str], project: str | None = None) -> list[Port]:
    """In the order of the wishes that they answer. `project`: the servers'; what another's port says is not so. None
    only of servers that are gone, whose name is taken off all ports."""
    found: list[Port] = []
    mine = {} if project is None else {"project": (project,)}
    for begin in range(0, len(servers), _SOME):
        some = tuple(servers[begin : begin + _SOME])
        listing = Listing({"device": some, **mine}, sort=(("place", False),), limit=10 * MAX_LIST)
        found.extend(rows.ports.listed(listing))
    return [port for port in found if port.owner.startswith(COMPUTE)]


def _nic(port: Port, network: Network, floating: Sequence[str] = ()) -> Nic:
    addresses = [Address(one.address, 6 if ":" in one.address else 4) for one in port.addresses]
    addresses += [Address(one, kind="floating") for one in floating]
    return Nic(port.id, port.mac, network.id, tuple(addresses), network.name, port.tag, port.ours)


def _names(rows: NetworkRows, server: Server) -> tuple[str, ...]:
    ids = [id for port in _ports_of(rows, [server.id], server.project) for id in port.groups]
    there = rows.groups.some(ids)
    return tuple(dict.fromkeys(there[id].name for id in ids if id in there))
