"""Routers: their interfaces in subnets, their gateway to an external network, their routes. Wanted state only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from banyan.core import addresses as arithmetic
from banyan.core.errors import BadInput, Broken, Conflict, NotFound
from banyan.core.network import ROUTER_GATEWAY, ROUTER_INTERFACE, FixedIp, Kind, Network, Port, Router, Subnet
from banyan.core.network_rows import Listing, NetworkRows
from banyan.core.permissions import require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.zone.networks import addressing, ports
from banyan.zone.networks.addressing import Plug
from banyan.zone.networks.desk import (
    MAX_LIST,
    Changes,
    Desk,
    changeable,
    changed,
    check_bulk,
    for_project,
    page,
    seen,
)
from banyan.zone.networks.devices import own_port
from banyan.zone.networks.subnets import prefix_of

MAX_ROUTES = 30


@dataclass(frozen=True, slots=True)
class Gateway:
    """As asked for: a network, SNAT (None: as it is, or on), and addresses (None: any)."""

    network: str
    snat: bool | None = None
    addresses: tuple[FixedIp, ...] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A router, and the addresses of its gateway."""

    router: Router
    addresses: tuple[FixedIp, ...] = ()


@dataclass(frozen=True, slots=True)
class Attached:
    """A router's interface, as it was added or taken away."""

    router: Router
    port: Port


class Routers:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, who: Principal, wanted: Sequence[tuple[Router, Gateway | None]]) -> list[Seen]:
        """Raises NotFound, Refused, BadInput, Conflict("over-quota")."""
        check_bulk(wanted)
        now = self._desk.now()

        def work(unit: Unit) -> list[Seen]:
            rows, made = unit.networks, []
            for one, gateway in wanted:
                project = for_project(who, Kind.ROUTER, one.project)
                router = replace(one, id=self._desk.new_uuid(), project=project, created_at=now, updated_at=now)
                self._desk.take(rows, project, Kind.ROUTER)
                if gateway is not None:
                    router = self._set_gateway(unit, who, router, gateway)
                if not rows.routers.add(router):
                    raise Broken("id-taken", "a new id is taken already")
                self._desk.note(unit, who, "router-created", router.id, router.name, project=project)
                made.append(_shown(rows, router))
            return made

        return await self._desk.change("router.created", work)

    async def show(self, who: Principal, id: str) -> Seen:
        return await self._desk.read(lambda rows: _shown(rows, seen(rows, who, Kind.ROUTER, rows.routers, id)))

    async def page(self, who: Principal, listing: Listing, marker: str = "") -> list[Seen]:
        def work(rows: NetworkRows) -> list[Seen]:
            found = page(rows, who, Kind.ROUTER, rows.routers, listing, marker)
            gateways = rows.ports.some([one.gateway_port for one in found if one.gateway_port])
            return [Seen(one, _addresses(gateways, one)) for one in found]

        return await self._desk.read(work)

    async def update(
        self,
        who: Principal,
        id: str,
        changes: Changes,
        gateway: Gateway | None = None,
        *,
        clear_gateway: bool = False,
        expected: int | None = None,
    ) -> Seen:
        """Raises NotFound, Refused, BadInput, Conflict("gateway-used"), Changed."""

        def work(unit: Unit) -> Seen:
            rows = unit.networks
            old = changeable(rows, who, "update", Kind.ROUTER, rows.routers, id, expected)
            new = replace(old, **changes)  # type: ignore[arg-type]  # of the fields' own types
            if clear_gateway:
                new = self._drop_gateway(rows, new)
            elif gateway is not None:
                new = self._set_gateway(unit, who, new, gateway)
            if new.routes != old.routes:
                self._check_routes(rows, new)
            new = changed(rows.routers, old, new, self._desk.now())
            self._desk.note(unit, who, "router-changed", id, ", ".join(sorted(changes)) or "gateway")
            return _shown(rows, new)

        return await self._desk.change("router.changed", work)

    async def delete(self, who: Principal, id: str, expected: int | None = None) -> None:
        """Raises NotFound, Refused, Conflict("router-in-use") while it has interfaces, Changed."""

        def work(unit: Unit) -> None:
            rows = unit.networks
            router = changeable(rows, who, "delete", Kind.ROUTER, rows.routers, id, expected)
            if interfaces_of(rows, id):
                raise Conflict("router-in-use", f"Router {id} still has ports.")
            self._drop_gateway(rows, router)
            rows.routers.delete(id)
            rows.uncount(router.project, Kind.ROUTER, 1)
            self._desk.note(unit, who, "router-deleted", id, router.name, project=router.project)

        await self._desk.change("router.deleted", work)

    # --- interfaces -------------------------------------------------------------------------------

    async def add_interface(self, who: Principal, id: str, *, subnet: str = "", port: str = "") -> Attached:
        """At a subnet's gateway address, or with a port. Raises NotFound, Refused, BadInput("bad-interface"),
        ("overlap"), Conflict("port-in-use"), ("address-in-use")."""
        if bool(subnet) == bool(port):
            both = (
                "Cannot specify both subnet-id and port-id."
                if subnet
                else "Either subnet_id or port_id must be specified."
            )
            raise BadInput("bad-interface", f"Bad router request: {both}")

        def work(unit: Unit) -> Attached:
            rows = unit.networks
            router = changeable(rows, who, "update", Kind.ROUTER, rows.routers, id)
            made = self._with_port(rows, who, router, port) if port else self._at(unit, who, router, subnet)
            # Counted as a change of the router: two who add overlapping subnets do not both succeed.
            router = changed(rows.routers, router, router, self._desk.now())
            self._desk.note(unit, who, "router-interface-added", id, made.id, network=made.network)
            return Attached(router, made)

        return await self._desk.change("router.interface-added", work)

    async def remove_interface(self, who: Principal, id: str, *, subnet: str = "", port: str = "") -> Attached:
        """The port goes. Raises NotFound, Refused, BadInput, Conflict("interface-in-use")."""
        if not (subnet or port):
            raise BadInput("bad-interface", "Bad router request: Either subnet_id or port_id must be specified.")

        def work(unit: Unit) -> Attached:
            rows = unit.networks
            router = changeable(rows, who, "update", Kind.ROUTER, rows.routers, id)
            there = interfaces_of(rows, id)
            found = next((one for one in there if _is(one, subnet, port)), None)
            if found is None:
                if subnet:
                    seen(rows, who, Kind.SUBNET, rows.subnets, subnet)
                    text = f"Router {id} has no interface on subnet {subnet[:255]}"
                else:
                    text = f"Router {id} does not have an interface with id {port[:255]}"
                raise NotFound("no-interface", text)
            self._unused(rows, router, found)
            ports.remove(rows, found, self._desk.now())
            router = changed(rows.routers, router, router, self._desk.now())
            self._desk.note(unit, who, "router-interface-removed", id, found.id, network=found.network)
            return Attached(router, found)

        return await self._desk.change("router.interface-removed", work)

    def _at(self, unit: Unit, who: Principal, router: Router, subnet_id: str) -> Port:
        rows = unit.networks
        subnet = seen(rows, who, Kind.SUBNET, rows.subnets, subnet_id)
        network = seen(rows, who, Kind.NETWORK, rows.networks, subnet.network)
        if not subnet.gateway:
            raise BadInput("bad-interface", "Bad router request: Subnet for router interface must have a gateway IP.")
        self._apart(rows, router, [subnet])
        now = self._desk.now()
        port = Port(
            self._desk.new_uuid(),
            router.project,
            network.id,
            "",
            "",
            now,
            now,
            device=router.id,
            owner=ROUTER_INTERFACE,
            port_security=False,
            ours=True,
        )
        return ports.make(self._desk, unit, network, port, (FixedIp(subnet.id, subnet.gateway),))

    def _with_port(self, rows: NetworkRows, who: Principal, router: Router, port_id: str) -> Port:
        port = changeable(rows, who, "update", Kind.PORT, rows.ports, port_id)
        if port.device:
            text = f"Unable to complete operation on port {port.id} for network {port.network}. Port already has an "
            raise Conflict("port-in-use", f"{text}attached device {port.device}.")
        own_port(who, port, router.project, "a router")
        if not port.addresses:
            raise BadInput("bad-interface", "Bad router request: Port has no fixed IP addresses.")
        subnets = [rows.subnets.get(one.subnet) for one in port.addresses]
        self._apart(rows, router, [one for one in subnets if one is not None])
        new = replace(
            port, device=router.id, owner=ROUTER_INTERFACE, groups=(), pairs=(), port_security=False, ours=True
        )
        return ports.store(rows, port, replace(new, status=ports.status_of(new)), self._desk.now())

    def _apart(self, rows: NetworkRows, router: Router, new: Sequence[Subnet]) -> None:
        """Raises BadInput("overlap") if the router has a way to some of these addresses already."""
        for subnet in connected(rows, router):
            for one in new:
                if one.id == subnet.id:
                    raise BadInput("overlap", f"Bad router request: Router already has a port on subnet {one.id}.")
                if prefix_of(one).overlaps(prefix_of(subnet)):
                    text = f"Cidr {one.cidr} of subnet {one.id} overlaps with cidr {subnet.cidr} of subnet {subnet.id}."
                    raise BadInput("overlap", f"Bad router request: {text}")

    def _unused(self, rows: NetworkRows, router: Router, port: Port) -> None:
        within = {one.subnet for one in port.addresses}
        for route in router.routes:
            hop = arithmetic.address(route.nexthop)
            for id in within:
                subnet = rows.subnets.get(id)
                if subnet is not None and hop is not None and hop in prefix_of(subnet):
                    text = f"Router interface for subnet {id} on router {router.id} cannot be deleted, as it is "
                    raise Conflict("interface-in-use", text + "required by one or more routes.")
        for floating in rows.floating_ips.listed(Listing({"router": (router.id,)}, limit=MAX_LIST)):
            inner = rows.ports.get(floating.port)
            if inner is not None and any(
                one.subnet in within for one in inner.addresses if one.address == floating.fixed
            ):
                text = f"Router interface for subnet {min(within)} on router {router.id} cannot be deleted, as it is "
                raise Conflict("interface-in-use", text + "required by one or more floating IPs.")

    # --- gateway ----------------------------------------------------------------------------------

    def _set_gateway(self, unit: Unit, who: Principal, router: Router, wanted: Gateway) -> Router:
        rows = unit.networks
        network = seen(rows, who, Kind.NETWORK, rows.networks, wanted.network)
        if not network.external:
            raise BadInput("not-external", f"Bad router request: Network {network.id} is not an external network.")
        if wanted.snat is not None and wanted.snat != router.snat:
            require(who, "network:administer_router")
        if wanted.addresses is not None:
            require(who, "network:administer_router")
        router = replace(router, snat=router.snat if wanted.snat is None else wanted.snat)
        if router.gateway == network.id and wanted.addresses is None:
            return router
        if router.gateway == network.id:
            return self._readdress(rows, router, network, wanted.addresses or ())
        router = self._drop_gateway(rows, router)
        self._apart(rows, router, _inward(rows, network))
        now = self._desk.now()
        port = Port(
            self._desk.new_uuid(), "", network.id, "", "", now, now,
            device=router.id, owner=ROUTER_GATEWAY, port_security=False,
        )  # fmt: skip
        made = ports.make(self._desk, unit, network, port, wanted.addresses)
        return replace(router, gateway=network.id, gateway_port=made.id)

    def _readdress(self, rows: NetworkRows, router: Router, network: Network, wanted: tuple[FixedIp, ...]) -> Router:
        port = rows.ports.get(router.gateway_port)
        if port is None:
            raise Broken("no-port", "a router's gateway has no port", detail=router.id)
        plug = Plug(port.id, port.mac, port.owner)
        addresses = addressing.reassign(rows, network, plug, port.addresses, wanted)
        ports.store(rows, port, replace(port, addresses=addresses), self._desk.now())
        return router

    def _drop_gateway(self, rows: NetworkRows, router: Router) -> Router:
        if not router.gateway:
            return router
        if rows.floating_ips.find({"router": router.id}) is not None:
            text = f"Gateway cannot be updated for router {router.id}, since a gateway to external network "
            raise Conflict("gateway-used", f"{text}{router.gateway} is required by one or more floating IPs.")
        port = rows.ports.get(router.gateway_port)
        if port is not None:
            ports.remove(rows, port, self._desk.now())
        return replace(router, gateway="", gateway_port="")

    # --- routes -----------------------------------------------------------------------------------

    def _check_routes(self, rows: NetworkRows, router: Router) -> None:
        if len(router.routes) > MAX_ROUTES:
            text = (
                f"Unable to complete operation for {router.id}. The number of routes exceeds the maximum {MAX_ROUTES}."
            )
            raise BadInput("too-many-routes", text)
        if len(set(router.routes)) < len(router.routes):
            raise BadInput("bad-route", "Invalid format for routes: it has the same route twice.")
        near = [prefix_of(one) for one in connected(rows, router)]
        held = {one.address for port in interfaces_of(rows, router.id) for one in port.addresses}
        for route in router.routes:
            to, hop = arithmetic.prefix(route.destination), arithmetic.address(route.nexthop)
            if to is None or hop is None or to.version != hop.version:
                text = f"Invalid input for routes. '{route.destination[:64]}' by '{route.nexthop[:64]}' is no route."
                raise BadInput("bad-route", text)
            if not any(hop in one for one in near):
                text = f"Invalid format for routes: {route.destination}, the nexthop {hop} is not connected with router"
                raise BadInput("bad-route", text)
            if route.nexthop in held:
                text = f"Invalid format for routes: {route.destination}, the nexthop {hop} is used by router"
                raise BadInput("bad-route", text)


def interfaces_of(rows: NetworkRows, router: str) -> list[Port]:
    """Those that this service plugged in, not what only says so. At most 1,000."""
    listing = Listing({"device": (router,), "owner": (ROUTER_INTERFACE,), "ours": (True,)}, limit=MAX_LIST)
    return list(rows.ports.listed(listing))


def connected(rows: NetworkRows, router: Router) -> list[Subnet]:
    """Subnets that a router has an interface in, or its gateway."""
    there = interfaces_of(rows, router.id)
    gateway = rows.ports.get(router.gateway_port) if router.gateway_port else None
    if gateway is not None:
        there.append(gateway)
    return list(rows.subnets.some([one.subnet for port in there for one in port.addresses]).values())


def _inward(rows: NetworkRows, network: Network) -> list[Subnet]:
    return list(rows.subnets.listed(Listing({"network": (network.id,)}, limit=MAX_LIST)))


def _is(port: Port, subnet: str, wanted: str) -> bool:
    return (not wanted or port.id == wanted) and (not subnet or any(one.subnet == subnet for one in port.addresses))


def _addresses(gateways: Mapping[str, Port], router: Router) -> tuple[FixedIp, ...]:
    port = gateways.get(router.gateway_port)
    return () if port is None else port.addresses


def _shown(rows: NetworkRows, router: Router) -> Seen:
    port = rows.ports.get(router.gateway_port) if router.gateway_port else None
    return Seen(router, () if port is None else port.addresses)
