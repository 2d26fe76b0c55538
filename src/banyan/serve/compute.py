"""Compute where this zone is the entry, put together."""

from __future__ import annotations

from banyan.core.compute import Flavor
from banyan.serve.assemble import Assembled
from banyan.serve.config import ComputeTable
from banyan.zone.compute.compute import Compute, make_compute
from banyan.zone.compute.sources import Images, Networks


async def open_compute(settings: ComputeTable, built: Assembled, images: Images, networks: Networks) -> Compute:
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
        networks,
        settings.quota.limits(),
    )
    first = [Flavor(one.id, one.name, one.vcpus, one.memory_mib, one.disk_gib) for one in settings.flavors]
    await compute.load(first)
    return compute
