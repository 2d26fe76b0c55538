"""The compute service of one entry zone, put together. A surface gets `Compute` and speaks to its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from banyan.core.compute import Flavor
from banyan.core.ports import Clock, Ids, Store
from banyan.core.quota import DEFAULTS, Limits
from banyan.zone.compute.aggregates import Aggregates
from banyan.zone.compute.ceilings import Ceilings
from banyan.zone.compute.desk import Desk
from banyan.zone.compute.flavors import FIRST, Flavors
from banyan.zone.compute.groups import ServerGroups
from banyan.zone.compute.hosts import Hosts, Inventory
from banyan.zone.compute.key_pairs import KeyPairs
from banyan.zone.compute.life import Life
from banyan.zone.compute.lists import ServerLists
from banyan.zone.compute.ordering import Ordering
from banyan.zone.compute.quotas import Quotas
from banyan.zone.compute.sources import Images, Networks
from banyan.zone.compute.steering import Steering
from banyan.zone.compute.usage import Usage
from banyan.zone.own import Own
from banyan.zone.servers.surface import Servers


@dataclass(frozen=True, slots=True)
class Compute:
    """`servers`: those of the whole tree; the rest is this zone's own."""

    desk: Desk
    servers: Servers
    lists: ServerLists
    flavors: Flavors
    key_pairs: KeyPairs
    groups: ServerGroups
    quotas: Quotas
    hosts: Hosts
    aggregates: Aggregates
    steering: Steering
    ordering: Ordering
    life: Life
    usage: Usage
    images: Images
    networks: Networks

    async def load(self, first: Sequence[Flavor] = FIRST) -> None:
        """At the start: a new zone gets its first flavors."""
        await self.flavors.seed(first)


def make_compute(
    own: Own,
    store: Store,
    clock: Clock,
    ids: Ids,
    servers: Servers,
    inventory: Inventory,
    images: Images,
    networks: Networks,
    limits: Limits = DEFAULTS,
) -> Compute:
    """`limits`: what the settings give to every project."""
    desk = Desk(own, store, clock, ids, limits)
    usage = Usage(servers)
    ceilings = Ceilings(desk, usage.held)
    flavors, key_pairs = Flavors(desk), KeyPairs(desk)
    groups, quotas = ServerGroups(desk, servers), Quotas(desk, ceilings, usage.shown)
    hosts = Hosts(desk, inventory, servers)
    steering = Steering(desk, hosts)
    ordering = Ordering(servers, flavors, key_pairs, groups, quotas, ceilings, steering, images, networks)
    life = Life(desk, servers, ordering, flavors, key_pairs, quotas, ceilings, images, networks, steering)
    return Compute(
        desk,
        servers,
        ServerLists(servers),
        flavors,
        key_pairs,
        groups,
        quotas,
        hosts,
        Aggregates(desk, hosts, steering),
        steering,
        ordering,
        life,
        usage,
        images,
        networks,
    )
