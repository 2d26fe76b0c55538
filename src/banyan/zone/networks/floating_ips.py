"""Floating IPs: addresses of external networks that lead, through a router, to a port's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from banyan.core import addresses as arithmetic
from banyan.core.errors import BadInput, Conflict, NotFound
from banyan.core.network import FLOATING, ROUTER_INTERFACE, FixedIp, FloatingIp, Kind, Network, Port
from banyan.core.network_rows import Listing, NetworkRows
from banyan.core.permissions import require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.core.time import Wall
from banyan.zone.networks import addressing, ports
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


@dataclass(frozen=True, slots=True)
class Lead:
    """Where a floating IP shall lead: to a port ("" is nowhere), and which of its addresses, "" is its only one."""

    port: str
    fixed: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A new one: `address` and `subnet` narrow down what it may be."""

    floating: FloatingIp
    lead: Lead
    subnet: str = ""


class FloatingIps:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, who: Principal, wanted: Sequence[Wanted]) -> list[FloatingIp]:
        """Raises NotFound (also where no router leads to the port), Refused, BadInput("not-external"), ("bad-port"),
        Conflict("over-quota"), ("no-addresses"), ("address-in-use"), ("has-floating-ip")."""
        check_bulk(wanted)

        def work(unit: Unit) -> list[FloatingIp]:
            return [self._make(unit, who, one) for one in wanted]

        made = await self._desk.change("floating-ip.created", work)
        await self._tell(who, *(one.port for one in made))
        return made

    async def _tell(self, who: Principal, *ports: str) -> None:
        """The servers of these ports; "" is none."""
        named = [one for one in ports if one]
        if named:
            there = await self._desk.read(lambda rows: rows.ports.some(named))
            await self._desk.news.tell(who, there.values())

    def _make(self, unit: Unit, who: Principal, wanted: Wanted) -> FloatingIp:
        rows, one = unit.networks, wanted.floating
        project = for_project(who, Kind.FLOATING_IP, one.project)
        network = seen(rows, who, Kind.NETWORK, rows.networks, one.network)
        if not network.external:
            text = f"Bad floatingip request: Network {network.id} is not a valid external network."
            raise BadInput("not-external", text)
        if one.address:
            require(who, "network:administer_floatingip")
        self._desk.take(rows, project, Kind.FLOATING_IP)
        id = self._desk.new_uuid()
        outer = Port(
            self._desk.new_uuid(), "", network.id, "", "", self._desk.now(), self._desk.now(),
            device=id, owner=FLOATING, port_security=False,
        )  # fmt: skip
        outer = ports.make(self._desk, unit, network, outer, self._asked(rows, network, wanted))
        four = next((fixed.address for fixed in outer.addresses if ":" not in fixed.address), "")
        if not four:
            text = f"Bad floatingip request: External network {network.id} has no IPv4 subnet."
            raise BadInput("not-external", text)
        made = replace(
            one,
            id=id,
            project=project,
            address=four,
            outer_port=outer.id,
            created_at=outer.created_at,
            updated_at=outer.created_at,
        )
        made = self._led(rows, who, made, wanted.lead)
        if not rows.floating_ips.add(made):
            raise self._taken(made)
        self._desk.note(unit, who, "floating-ip-created", id, four, project=project, port=made.port)
        return made

    def _asked(self, rows: NetworkRows, network: Network, wanted: Wanted) -> tuple[FixedIp, ...] | None:
        """Only an IPv4 address; of the first subnet that has one left, if nothing narrower was said."""
        if wanted.subnet or wanted.floating.address:
            return (FixedIp(wanted.subnet, wanted.floating.address),)
        four = [one for one in addressing.subnets_of(rows, network.id) if one.version == 4]
        for subnet in four:
            if rows.addresses.left(subnet.id):
                return (FixedIp(subnet.id, ""),)
        if four:
            raise addressing.full(network)
        return ()

    async def show(self, who: Principal, id: str) -> FloatingIp:
        return await self._desk.read(lambda rows: seen(rows, who, Kind.FLOATING_IP, rows.floating_ips, id))

    async def page(self, who: Principal, listing: Listing, marker: str = "") -> list[FloatingIp]:
        return await self._desk.read(lambda rows: page(rows, who, Kind.FLOATING_IP, rows.floating_ips, listing, marker))

    async def update(
        self, who: Principal, id: str, changes: Changes, lead: Lead | None = None, expected: int | None = None
    ) -> FloatingIp:
        """`lead` None leaves where it leads. Raises as `create`, and Changed."""

        def work(unit: Unit) -> tuple[FloatingIp, FloatingIp]:
            rows = unit.networks
            old = changeable(rows, who, "update", Kind.FLOATING_IP, rows.floating_ips, id, expected)
            new = replace(old, **changes)  # type: ignore[arg-type]  # of the fields' own types
            if lead is not None:
                new = self._led(rows, who, new, lead)
            try:
                new = changed(rows.floating_ips, old, new, self._desk.now())
            except Conflict as error:
                raise self._taken(new) if error.code == "name-taken" else error from error
            self._desk.note(unit, who, "floating-ip-changed", id, new.address, port=new.port)
            return old, new

        before, after = await self._desk.change("floating-ip.changed", work)
        if (before.port, before.fixed) != (after.port, after.fixed):
            await self._tell(who, before.port, after.port)
        return after

    async def delete(self, who: Principal, id: str, expected: int | None = None) -> None:
        """Raises NotFound, Refused, Changed."""

        def work(unit: Unit) -> str:
            rows = unit.networks
            floating = changeable(rows, who, "delete", Kind.FLOATING_IP, rows.floating_ips, id, expected)
            drop_floating_ip(rows, floating, self._desk.now())
            self._desk.note(unit, who, "floating-ip-deleted", id, floating.address, project=floating.project)
            return floating.port

        await self._tell(who, await self._desk.change("floating-ip.deleted", work))

    # --- where it leads ---------------------------------------------------------------------------

    def _led(self, rows: NetworkRows, who: Principal, floating: FloatingIp, lead: Lead) -> FloatingIp:
        if not lead.port:
            if lead.fixed:
                text = "Bad floatingip request: fixed_ip_address cannot be specified without a port_id."
                raise BadInput("bad-port", text)
            return replace(floating, port="", fixed="", router="")
        port = seen(rows, who, Kind.PORT, rows.ports, lead.port)
        own_port(who, port, floating.project, "a floating IP")
        fixed = _inner(port, lead.fixed)
        other = rows.floating_ips.find({"port": port.id, "fixed": fixed.address, "network": floating.network})
        if other is not None and other.id != floating.id:
            raise self._taken(replace(floating, port=port.id, fixed=fixed.address))
        router = self._router(rows, floating.network, port, fixed)
        return replace(floating, port=port.id, fixed=fixed.address, router=router)

    def _router(self, rows: NetworkRows, network: str, port: Port, fixed: FixedIp) -> str:
        """One with an interface in the port's subnet and its gateway in the floating IP's network."""
        listing = Listing({"network": (port.network,), "owner": (ROUTER_INTERFACE,), "ours": (True,)}, limit=MAX_LIST)
        near = [one for one in rows.ports.listed(listing) if any(has.subnet == fixed.subnet for has in one.addresses)]
        for interface in near:
            router = rows.routers.get(interface.device)
            if router is not None and router.gateway == network:
                return router.id
        raise NotFound(
            "not-reachable",
            f"External network {network} is not reachable from subnet {fixed.subnet}. Therefore, cannot associate Port "
            f"{port.id} with a Floating IP.",
        )

    def _taken(self, floating: FloatingIp) -> Conflict:
        return Conflict(
            "has-floating-ip",
            f"Cannot associate floating IP {floating.address} ({floating.id}) with port {floating.port} using fixed IP "
            f"{floating.fixed}, as that fixed IP already has a floating IP on external network {floating.network}.",
        )


def drop_floating_ip(rows: NetworkRows, floating: FloatingIp, now: Wall) -> None:
    """It, and the port of the external network that holds its address."""
    outer = rows.ports.get(floating.outer_port)
    if outer is not None:
        ports.remove(rows, outer, now)
    rows.floating_ips.delete(floating.id)
    rows.uncount(floating.project, Kind.FLOATING_IP, 1)


def _inner(port: Port, wanted: str) -> FixedIp:
    """Which of a port's addresses is meant. Raises BadInput("bad-port")."""
    four = [one for one in port.addresses if ":" not in one.address]
    if wanted:
        found = next((one for one in four if one.address == wanted), None)
        if found is None or arithmetic.address(wanted) is None:
            text = f"Bad floatingip request: Port {port.id} does not have fixed ip {wanted[:64]}."
            raise BadInput("bad-port", text)
        return found
    if not four:
        raise BadInput(
            "bad-port",
            f"Bad floatingip request: Cannot add floating IP to port {port.id} that has no fixed IPv4 addresses.",
        )
    if len(four) > 1:
        text = f"Bad floatingip request: Port {port.id} has multiple fixed IPv4 addresses. Must provide a specific "
        raise BadInput("bad-port", text + "IPv4 address when assigning a floating IP.")
    return four[0]
