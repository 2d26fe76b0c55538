"""Compute where this zone is the entry, put together; and what stands in for services that are not there yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from banyan.api.openstack.faults import Unsupported
from banyan.core.compute import Flavor
from banyan.core.errors import BadInput, NotFound
from banyan.core.identity import Caller
from banyan.core.order import ImageSource, NetworkWish, Order, Policy, Specification, order_id
from banyan.core.principal import Principal
from banyan.core.server import (
    Action,
    ActionRecord,
    Arguments,
    Change,
    Created,
    Level,
    Made,
    Nic,
    Server,
    ServerPage,
    ServerQuery,
)
from banyan.serve.assemble import Assembled
from banyan.serve.config import ComputeTable
from banyan.zone.compute.compute import Compute, make_compute
from banyan.zone.compute.sources import BootImage, ImageDetail, Interface, NetworkPlan
from banyan.zone.zone import Zone

Who = Principal | Caller


async def open_compute(settings: ComputeTable, built: Assembled) -> Compute:
    """A new zone gets the flavors of its settings."""
    zone = built.zone
    compute = make_compute(
        zone.own,
        zone.store,
        zone.clock,
        zone.ids,
        OwnServers(zone),
        built.front,
        NoImages(),
        NoNetworks(),
        settings.quota.limits(),
    )
    first = [Flavor(one.id, one.name, one.vcpus, one.memory_mib, one.disk_gib) for one in settings.flavors]
    await compute.load(first)
    return compute


# stand-in: the servers of this zone's own racks, until orders and questions are carried through the tree
class OwnServers:
    """zone.servers.surface.Servers of a zone that has no child."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    async def create(
        self,
        who: Who,
        specification: Specification,
        *,
        least: int = 1,
        most: int = 1,
        policy: Policy = Policy.SPREAD,
        retry_key: str = "",
    ) -> Created:
        if not isinstance(who, Principal):
            raise BadInput("bad-order", "a server belongs to a project: order it as a user")
        id = self._zone.ids.token(16).hex()
        if retry_key:
            id = order_id(who.issuer, who.project, who.user, retry_key)
        order = Order(id, who.issuer, who.project, who.user, specification, least, most, policy)
        taken = await self._zone.servers.order(who, order)
        path, rack = self._zone.tree.path, taken.order.rack
        made = (
            Made(server, path, rack, place.host, place.ground, place.fits)
            for place in taken.order.placed
            for server in place.ids
        )
        return Created(id, tuple(made), taken.again)

    async def show(self, who: Who, id: str) -> Server:
        return await self._zone.servers.show(who, id)

    async def page(self, who: Who, query: ServerQuery) -> ServerPage:
        return await self._zone.servers.page(who, query)

    async def act(self, who: Who, id: str, action: Action, arguments: Arguments | None = None) -> Server:
        return await self._zone.servers.act(who, id, action, arguments)

    async def change(self, who: Who, id: str, change: Change) -> Server:
        return await self._zone.servers.change(who, id, change)

    async def actions(self, who: Who, id: str) -> tuple[ActionRecord, ...]:
        return await self._zone.servers.actions(who, id)

    async def console(self, who: Who, id: str, lines: int | None = None) -> str:
        return await self._zone.servers.console(who, id, lines)

    async def why(self, who: Who, id: str) -> tuple[Level, ...]:
        return await self._zone.servers.why(who, id)

    async def counts(self, who: Who) -> Mapping[str, int]:
        project = who.project if isinstance(who, Principal) else ""
        return self._zone.servers.counts(who.issuer, project)


# stand-in: no image is there, until the image service is
class NoImages:
    """zone.compute.sources.Images of a zone without images."""

    async def find(self, who: Principal, id: str) -> BootImage:
        raise _no_image(id)

    async def show(self, who: Principal, id: str) -> ImageDetail:
        raise _no_image(id)

    async def page(self, who: Principal, after: str, limit: int, filters: Mapping[str, str]) -> Sequence[ImageDetail]:
        return ()

    async def delete(self, who: Principal, id: str) -> None:
        raise _no_image(id)

    async def reserve(
        self, who: Principal, name: str, server: Server, properties: Mapping[str, str], kind: str
    ) -> ImageSource:
        raise Unsupported("not-offered", "this zone keeps no images, so none can be made of a server")

    async def abandon(self, who: Principal, image: ImageSource) -> None: ...

    async def unshelved(self, who: Principal, server: str) -> None: ...

    async def rotate(self, who: Principal, server: str, backup_type: str, keep: int) -> None: ...


def _no_image(id: str) -> NotFound:
    return NotFound("no-image", f"Image {id[:255]} could not be found.")


# stand-in: no network is there, until the network service is
class NoNetworks:
    """zone.compute.sources.Networks of a zone without networks: servers have no interface."""

    async def plan(
        self,
        who: Principal,
        wishes: Sequence[NetworkWish],
        *,
        automatic: bool,
        groups: Sequence[str],
        count: int,
    ) -> NetworkPlan:
        for wish in wishes:
            raise BadInput("bad-network", f"Network {wish.network or wish.port} could not be found.")
        if automatic:
            raise BadInput("no-auto-network", "Unable to automatically allocate a network: this zone has none")
        for group in groups:
            if group != "default":
                text = f"Security group {group[:255]} not found for project {who.project}."
                raise BadInput("bad-security-group", text)
        return NetworkPlan()

    async def allocate(
        self, who: Principal, plan: NetworkPlan, servers: Sequence[str]
    ) -> Mapping[str, tuple[Nic, ...]]:
        return {}

    async def attach(self, who: Principal, server: Server, wish: NetworkWish) -> Nic:
        raise BadInput("bad-network", f"Network {wish.network or wish.port} could not be found.")

    async def detach(self, who: Principal, server: Server, port: str) -> None:
        raise NotFound("no-port", f"Port {port[:255]} could not be found.")

    async def release(self, who: Principal, server: str) -> None: ...

    async def interfaces(self, who: Principal, server: Server) -> Sequence[Interface]:
        return ()

    async def join_group(self, who: Principal, server: Server, group: str) -> tuple[str, ...]:
        raise NotFound("no-security-group", f"Security group {group[:255]} not found for project {who.project}.")

    async def leave_group(self, who: Principal, server: Server, group: str) -> tuple[str, ...]:
        raise NotFound("no-security-group", f"Security group {group[:255]} not found for project {who.project}.")
