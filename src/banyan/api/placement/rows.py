"""Every address of the placement API: method, path, handler, policy, and microversions. All of them read."""

from __future__ import annotations

from banyan.api.openstack.table import OPEN, op
from banyan.api.placement import allocations, providers, versions

_ONE = "/resource_providers/{uuid}"

ROWS = (
    op("GET", "", versions.listed, OPEN),
    op("GET", "/", versions.listed, OPEN),
    op("GET", "/resource_providers", providers.listed, "placement:resource_providers"),
    op("GET", _ONE, providers.show, "placement:resource_providers"),
    op("GET", f"{_ONE}/inventories", providers.inventories, "placement:resource_providers"),
    op("GET", f"{_ONE}/inventories/{{resource_class}}", providers.inventory, "placement:resource_providers"),
    op("GET", f"{_ONE}/usages", providers.usages, "placement:resource_providers"),
    op("GET", f"{_ONE}/aggregates", providers.aggregates, "placement:resource_providers", first="1.1"),
    op("GET", f"{_ONE}/traits", providers.traits, "placement:resource_providers", first="1.6"),
    op("GET", f"{_ONE}/allocations", allocations.of_provider, "placement:allocations"),
    op("GET", "/allocations/{consumer_uuid}", allocations.of_consumer, "placement:allocations"),
    op("GET", "/allocation_candidates", allocations.candidates, "placement:allocation_candidates", first="1.10"),
    op("GET", "/usages", allocations.usages, "placement:usages", first="1.9"),
    op("GET", "/resource_classes", providers.classes, "placement:resource_classes", first="1.2"),
    op("GET", "/resource_classes/{name}", providers.one_class, "placement:resource_classes", first="1.2"),
    op("GET", "/traits", providers.all_traits, "placement:traits", first="1.6"),
    op("GET", "/traits/{name}", providers.one_trait, "placement:traits", status=204, first="1.6"),
)
