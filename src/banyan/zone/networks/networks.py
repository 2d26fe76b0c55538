"""Networks themselves, and how many addresses each has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from banyan.core import addresses as arithmetic
from banyan.core.errors import BadInput, Conflict, NotFound
from banyan.core.network import COMPUTE, FLOATING, Kind, Network, Reach, Subnet
from banyan.core.network_rows import Listing, NetworkRows
from banyan.core.permissions import Target, may, require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.zone.networks import ports
from banyan.zone.networks.addressing import subnets_of
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
from banyan.zone.networks.floating_ips import drop_floating_ip
from banyan.zone.networks.groups import ensure_default

LEAST_MTU = 68
# Networks whose subnets are looked up in one statement.
_SOME = 100
# What only an administrator says of a network.
_OPERATORS = ("shared", "external", "default", "network_type", "physical", "segment", "reach", "zones")


@dataclass(frozen=True, slots=True)
class SeenNetwork:
    """A network, the ids of its subnets, the paths of the zones that it is in."""

    network: Network
    subnets: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Availability:
    """Of one network: addresses in its pools and elsewhere in its subnets' hosts, and those that ports have."""

    network: Network
    subnets: Sequence[Subnet]

    @property
    def total(self) -> int:
        return sum(map(capacity, self.subnets))

    @property
    def used(self) -> int:
        return sum(one.used for one in self.subnets)


def capacity(subnet: Subnet) -> int:
    return arithmetic.size(subnet.pools)


class Networks:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, who: Principal, wanted: Sequence[Network]) -> list[SeenNetwork]:
        """All or none. `id` and instants are given here. Raises Refused, BadInput, Conflict("over-quota"),
        ("segment-in-use")."""
        check_bulk(wanted)
        now = self._desk.now()
        made = []
        for one in wanted:
            project = for_project(who, Kind.NETWORK, one.project)
            one = self._placed(one)
            _check(one)
            if _operators(one, Network("", "", "", now, now)):
                require(who, "network:administer_network")
            made.append(replace(one, id=self._desk.new_uuid(), project=project, created_at=now, updated_at=now))

        def work(unit: Unit) -> list[SeenNetwork]:
            for one in made:
                self._desk.take(unit.networks, one.project, Kind.NETWORK)
                ensure_default(self._desk, unit, one.project)
                if not unit.networks.networks.add(one):
                    raise _segment_in_use(one)
                self._desk.note(unit, who, "network-created", one.id, one.name, project=one.project)
            return [self._seen(one) for one in made]

        return await self._desk.change("network.created", work)

    async def show(self, who: Principal, id: str) -> SeenNetwork:
        return await self._desk.read(
            lambda rows: self._shown(rows, who, [seen(rows, who, Kind.NETWORK, rows.networks, id)])[0]
        )

    async def page(self, who: Principal, listing: Listing, marker: str = "") -> list[SeenNetwork]:
        return await self._desk.read(
            lambda rows: self._shown(rows, who, page(rows, who, Kind.NETWORK, rows.networks, listing, marker))
        )

    async def update(self, who: Principal, id: str, changes: Changes, expected: int | None = None) -> SeenNetwork:
        """Raises NotFound, Refused, BadInput, Conflict("network-in-use") for one that others use still, Changed."""

        def work(unit: Unit) -> SeenNetwork:
            rows = unit.networks
            old = changeable(rows, who, "update", Kind.NETWORK, rows.networks, id, expected)
            new = replace(old, **changes)  # type: ignore[arg-type]  # of the fields' own types
            if "zones" in changes:
                new = self._placed(new)
            _check(new)
            if _operators(new, old):
                require(who, "network:administer_network")
            if (new.reach, new.zones) != (old.reach, old.zones):
                _check_moved(rows, old)
            if old.shared and not new.shared:
                self._unshared(rows, old)
            if old.external and not new.external:
                self._inward(rows, old)
            try:
                new = changed(rows.networks, old, new, self._desk.now())
            except Conflict as error:
                raise _segment_in_use(new) if error.code == "name-taken" else error from error
            self._desk.note(unit, who, "network-changed", id, ", ".join(sorted(changes)))
            return self._shown(rows, who, [new])[0]

        return await self._desk.change("network.changed", work)

    async def delete(self, who: Principal, id: str, expected: int | None = None) -> None:
        """With its subnets, and with floating IPs that lead nowhere. Raises NotFound, Refused,
        Conflict("network-in-use") if it has other ports."""

        def work(unit: Unit) -> None:
            rows = unit.networks
            network = changeable(rows, who, "delete", Kind.NETWORK, rows.networks, id, expected)
            self._drop_unled(rows, id)
            if rows.ports.find({"network": id}) is not None:
                raise Conflict(
                    "network-in-use",
                    f"Unable to complete operation on network {id}. There are one or more ports still in use on the "
                    "network.",
                )
            for subnet in subnets_of(rows, id):
                ports.drop_subnet(rows, subnet)
            rows.networks.delete(id)
            rows.uncount(network.project, Kind.NETWORK, 1)
            self._desk.note(unit, who, "network-deleted", id, network.name, project=network.project)

        await self._desk.change("network.deleted", work)

    def _drop_unled(self, rows: NetworkRows, network: str) -> None:
        """Floating IPs of an external network that is to go. Where one leads somewhere all stay, and it too."""
        if rows.floating_ips.find({"network": network, "port": ""}) is None:
            return
        if any(one.port for one in rows.floating_ips.listed(Listing({"network": (network,)}, limit=MAX_LIST))):
            return
        while unled := rows.floating_ips.listed(Listing({"network": (network,), "port": ("",)}, limit=MAX_LIST)):
            for one in unled:
                drop_floating_ip(rows, one, self._desk.now())

    async def availability(self, who: Principal, listing: Listing, marker: str = "") -> list[Availability]:
        """How many addresses each network has and gave out."""
        require(who, "network:get_network_ip_availability")

        def work(rows: NetworkRows) -> list[Availability]:
            found = page(rows, who, Kind.NETWORK, rows.networks, listing, marker)
            return [Availability(one, subnets_of(rows, one.id)) for one in found]

        return await self._desk.read(work)

    async def availability_of(self, who: Principal, id: str) -> Availability:
        """Raises Refused, NotFound."""
        require(who, "network:get_network_ip_availability")

        def work(rows: NetworkRows) -> Availability:
            return Availability(seen(rows, who, Kind.NETWORK, rows.networks, id), subnets_of(rows, id))

        return await self._desk.read(work)

    def _placed(self, network: Network) -> Network:
        """With the codes of the zones that it names. Raises BadInput("no-zone")."""
        try:
            return replace(network, zones=tuple(dict.fromkeys(map(self._desk.places.named, network.zones))))
        except (NotFound, Conflict) as error:
            raise BadInput(error.code, f"Invalid input for banyan:zones. {error.text}") from error

    def _seen(self, network: Network, subnets: Sequence[str] = ()) -> SeenNetwork:
        return SeenNetwork(network, tuple(subnets), tuple(map(self._desk.places.path, network.zones)))

    def _shown(self, rows: NetworkRows, who: Principal, networks: Sequence[Network]) -> list[SeenNetwork]:
        """With the subnets that the caller may see: of an external network that is not shared, its owner's only."""
        found: dict[str, list[str]] = {one.id: [] for one in networks}
        for begin in range(0, len(networks), _SOME):
            some = tuple(one.id for one in networks[begin : begin + _SOME])
            for subnet in rows.subnets.listed(Listing({"network": some}, limit=10_000)):
                found[subnet.network].append(subnet.id)
        return [self._seen(one, found[one.id] if one.shared or _owned(who, one) else ()) for one in networks]

    def _unshared(self, rows: NetworkRows, network: Network) -> None:
        """Raises if another project has a port on it."""
        others = rows.ports.listed(Listing({"network": (network.id,)}, limit=MAX_LIST))
        if any(port.project not in (network.project, "") for port in others):
            text = f"Unable to reconfigure sharing settings for network {network.id}. Multiple tenants are using it."
            raise Conflict("network-shared", text)

    def _inward(self, rows: NetworkRows, network: Network) -> None:
        floating = rows.ports.find({"network": network.id, "owner": FLOATING})
        if floating is not None or rows.routers.find({"gateway": network.id}) is not None:
            text = f"External network {network.id} cannot be updated to be made non-external, since it has existing "
            raise Conflict("external-in-use", text + "gateway ports or floating IPs.")


def _owned(who: Principal, network: Network) -> bool:
    return may(who, "network:get_network", Target(project=network.project))


def _check_moved(rows: NetworkRows, network: Network) -> None:
    """Raises Conflict("network-in-use") if servers are on it: they would not reach each other any more."""
    for port in rows.ports.listed(Listing({"network": (network.id,)}, limit=MAX_LIST)):
        if port.owner.startswith(COMPUTE):
            text = f"Unable to complete operation on network {network.id}. Servers are on it, where it is now."
            raise Conflict("network-in-use", text)


def _operators(new: Network, old: Network) -> bool:
    return any(getattr(new, name) != getattr(old, name) for name in _OPERATORS)


def _check(network: Network) -> None:
    if network.mtu < LEAST_MTU or network.mtu > 65_535:
        raise BadInput("bad-field", f"Invalid input for mtu. '{network.mtu}' is not in range {LEAST_MTU} to 65535.")
    if network.segment is not None and not network.network_type:
        raise BadInput("bad-field", "Invalid input for provider:segmentation_id: it needs provider:network_type.")
    if network.physical and not network.network_type:
        raise BadInput("bad-field", "Invalid input for provider:physical_network: it needs provider:network_type.")
    if network.network_type == "vlan" and not (network.segment is not None and 1 <= network.segment <= 4094):
        raise BadInput("bad-field", "Invalid input for provider:segmentation_id: of a vlan it is 1 to 4094.")
    if network.reach is Reach.PROVIDER and not network.zones:
        raise BadInput("bad-field", "Invalid input for banyan:zones: a provider network names the zones that it is in.")
    if network.reach is Reach.ZONE and len(network.zones) > 1:
        raise BadInput("bad-field", "Invalid input for banyan:zones: a network of reach zone is in one.")


def _segment_in_use(network: Network) -> Conflict:
    return Conflict(
        "segment-in-use",
        f"Unable to create the network. The {network.network_type} segment {network.segment} on physical network "
        f"{network.physical or '-'} is in use.",
    )
