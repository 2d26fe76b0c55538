"""The network service of one entry zone, put together. A surface gets `NetworkService` and speaks to its parts."""

from __future__ import annotations

from dataclasses import dataclass

from banyan.core.network_quota import NETWORK_DEFAULTS, NetworkLimits
from banyan.core.ports import Clock, Ids, Store
from banyan.zone.networks.desk import Desk
from banyan.zone.networks.floating_ips import FloatingIps
from banyan.zone.networks.groups import Groups, Rules
from banyan.zone.networks.networks import Networks
from banyan.zone.networks.places import OnePlace, Places
from banyan.zone.networks.ports import Ports
from banyan.zone.networks.quotas import NetworkQuotas
from banyan.zone.networks.routers import Routers
from banyan.zone.networks.serving import ServerNetworks
from banyan.zone.networks.subnets import SubnetPools, Subnets
from banyan.zone.networks.tags import Tags
from banyan.zone.networks.upkeep import Upkeep
from banyan.zone.own import Own
from banyan.zone.servers.surface import Servers


@dataclass(frozen=True, slots=True)
class NetworkService:
    """`serving`: what ordering servers needs of it."""

    desk: Desk
    networks: Networks
    subnets: Subnets
    pools: SubnetPools
    ports: Ports
    routers: Routers
    floating_ips: FloatingIps
    groups: Groups
    rules: Rules
    quotas: NetworkQuotas
    tags: Tags
    serving: ServerNetworks

    def upkeep(self, clock: Clock) -> Upkeep:
        """Who looks after ports whose servers are gone."""
        return Upkeep(self.desk, clock, self.serving)


def make_networks(
    own: Own,
    store: Store,
    ids: Ids,
    servers: Servers,
    defaults: NetworkLimits = NETWORK_DEFAULTS,
    places: Places | None = None,
) -> NetworkService:
    """`servers`: of the whole tree. `defaults`: what every project may have. `places`: of a zone with others below."""
    desk = Desk(own, store, ids, servers, defaults, places or OnePlace())
    return NetworkService(
        desk,
        Networks(desk),
        Subnets(desk),
        SubnetPools(desk),
        Ports(desk),
        Routers(desk),
        FloatingIps(desk),
        Groups(desk),
        Rules(desk),
        NetworkQuotas(desk),
        Tags(desk),
        ServerNetworks(desk),
    )
