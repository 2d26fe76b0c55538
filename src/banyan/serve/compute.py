"""Compute where this zone is the entry, put together; and what stands in for services that are not there yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from banyan.api.openstack.faults import Unsupported
from banyan.core.compute import Flavor
from banyan.core.errors import BadInput, NotFound
from banyan.core.order import ImageSource, NetworkWish
from banyan.core.principal import Principal
from banyan.core.server import Nic, Server
from banyan.serve.assemble import Assembled
from banyan.serve.config import ComputeTable
from banyan.zone.compute.compute import Compute, make_compute
from banyan.zone.compute.sources import BootImage, ImageDetail, Interface, NetworkPlan


async def open_compute(settings: ComputeTable, built: Assembled) -> Compute:
    """A new zone gets the flavors of its settings."""
    zone = built.zone
    compute = make_compute(
        zone.own,
        zone.store,
        zone.clock,
        zone.ids,
        zone.tree_servers,
        built.front,
        NoImages(),
        NoNetworks(),
        settings.quota.limits(),
    )
    first = [Flavor(one.id, one.name, one.vcpus, one.memory_mib, one.disk_gib) for one in settings.flavors]
    await compute.load(first)
    return compute


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
