"""Compute where this zone is the entry, put together; and what stands in for services that are not there yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from banyan.core.compute import Flavor
from banyan.core.errors import BadInput, NotFound
from banyan.core.order import NetworkWish
from banyan.core.principal import Principal
from banyan.core.server import Nic, Server
from banyan.serve.assemble import Assembled
from banyan.serve.config import ComputeTable
from banyan.zone.compute.compute import Compute, make_compute
from banyan.zone.compute.sources import Images, Interface, NetworkPlan


async def open_compute(settings: ComputeTable, built: Assembled, images: Images) -> Compute:
    """A new zone gets the flavors of its settings."""
    zone = built.zone
    compute = make_compute(
        zone.own,
        zone.store,
        zone.clock,
        zone.ids,
        zone.tree_servers,
        built.front,
        images,
        NoNetworks(),
        settings.quota.limits(),
    )
    first = [Flavor(one.id, one.name, one.vcpus, one.memory_mib, one.disk_gib) for one in settings.flavors]
    await compute.load(first)
    return compute


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
