"""What placement holds for each hypervisor, in a few requests whatever their number.

Placement has a request per provider for inventory, usage and traits, and none for all. But
`GET /allocation_candidates` answers with a summary (capacity, used, traits) of every provider that has room: with
one unit of a class asked for, of nearly all. So:

1. one list of providers: which belong to which hypervisor, and at which generation;
2. a few requests for candidates, by classes, until nearly all were summarised;
3. the rest (full in each class, or odd) one by one; what was learnt is kept as long as it must be true.

A generation rises with each change of inventory, traits or allocations, but not when an allocation is removed
(placement/objects/allocation.py, `delete_all`). So a kept usage is true only if the generation is the same *and*
the provider has no room now in any class in which it was full: one filtered list per class tells. Capacity that
hardware has beyond the classes that Nova itself lists comes from inventories, kept while the capacity is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from banyan.core.resources import Amount, ResourceClass
from banyan.drivers.openstack.asking import Asker
from banyan.drivers.openstack.endpoints import Service
from banyan.drivers.openstack.reasons import Missing
from banyan.drivers.openstack.shapes import (
    Candidates,
    Hypervisor,
    Inventory,
    InventoryReply,
    Provider,
    ProviderList,
    ProviderSummary,
    TraitReply,
    UsageReply,
)
from banyan.drivers.openstack.translate import Held, resource_class

# Classes that nearly every hypervisor has some of; others are learnt from what is left over.
FIRST_CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")

# So many providers are cheaper to read one by one than by a further request for all.
FEW = 8

# How many requests for all one scan makes at most, of each kind.
MOST_SWEEPS = 8


@dataclass(slots=True)
class _Known:
    """What was read of one provider by itself, and when (its generation)."""

    generation: int
    inventories: Mapping[str, Inventory]
    traits: frozenset[str] | None = None
    usages: Mapping[str, int] | None = None

    def full(self) -> bool:
        """No room in any class, and over-used in none: then a removal must show as room for one unit."""
        usages = self.usages
        return usages is not None and all(
            usages.get(name, 0) == capacity(i) and i.min_unit == i.step_size == 1
            for name, i in self.inventories.items()
        )


@dataclass(slots=True)
class _Seen:
    """One provider in one scan."""

    capacity: Mapping[str, int]
    used: Mapping[str, int]
    traits: frozenset[str]
    totals: dict[str, int] = field(default_factory=dict)


def capacity(inventory: Inventory) -> int:
    """What may be allocated, as placement itself rounds it."""
    return int((inventory.total - inventory.reserved) * inventory.allocation_ratio)


@dataclass(frozen=True, slots=True)
class Reading:
    """Per hypervisor what it holds; beside it the names of providers that belong to no hypervisor."""

    held: Mapping[str, Held]
    strangers: tuple[str, ...]


class Inventories:
    """Reads placement, scan after scan; keeps what need not be asked again. Not for two scans at once."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    async def read(self, asker: Asker, hypervisors: Mapping[str, Hypervisor]) -> Reading:
        listed = await asker.get(Service.PLACEMENT, "/resource_providers", ProviderList)
        providers = await asker.aside(listed.providers)
        members = {p.uuid: p for p in providers if p.root in hypervisors}
        strangers = sorted(p.name for p in providers if p.root not in hypervisors)
        self._known = {uuid: known for uuid, known in self._known.items() if uuid in members}

        scan = _Scan(asker, members)
        for name in FIRST_CLASSES:
            if len(scan.missing()) <= (FEW if scan.swept else 0):
                break
            await scan.sweep(name)
        await self._leftovers(scan)
        for uuid in await asker.aside(partial(scan.settle_listed, hypervisors)):
            await self._totals(scan, uuid)
        return Reading(await asker.aside(scan.held), tuple(strangers))

    async def _leftovers(self, scan: _Scan) -> None:
        """Providers that no sweep showed: from what is kept, else one by one, with further sweeps as classes show."""
        kept = {p.uuid: known for p in scan.missing() if (known := self._current(p)) is not None and known.full()}
        if len(kept) > FEW:
            full = {name for known in kept.values() for name in known.inventories}
            if len(full) <= MOST_SWEEPS:
                roomy = await scan.roomy(sorted(full))
                for uuid, known in kept.items():
                    if uuid not in roomy and known.usages is not None and known.traits is not None:
                        scan.seen[uuid] = _seen(known.inventories, known.usages, known.traits)
        waiting = scan.missing()
        for done, provider in enumerate(waiting):
            if provider.uuid in scan.seen:
                continue
            try:
                known = await self._single(scan.asker, provider)
            except Missing:
                scan.drop(provider.uuid)
                continue
            usages, traits = known.usages or {}, known.traits or frozenset()
            scan.seen[provider.uuid] = _seen(known.inventories, usages, traits)
            if len(waiting) - done > FEW:
                room = [n for n, i in sorted(known.inventories.items()) if usages.get(n, 0) < capacity(i)]
                fresh = next((name for name in room if name not in scan.swept), None)
                if fresh is not None:
                    await scan.sweep(fresh)

    async def _single(self, asker: Asker, provider: Provider) -> _Known:
        """One provider by itself: its usages, and what its generation says has changed."""
        path = f"/resource_providers/{provider.uuid}"
        known = self._current(provider)
        if known is None or known.traits is None:
            inventories = await asker.get(Service.PLACEMENT, f"{path}/inventories", InventoryReply)
            traits = await asker.get(Service.PLACEMENT, f"{path}/traits", TraitReply)
            known = _Known(provider.generation, inventories.inventories, frozenset(traits.traits))
        usages = await asker.get(Service.PLACEMENT, f"{path}/usages", UsageReply)
        known.usages = usages.usages
        self._known[provider.uuid] = known
        return known

    def _current(self, provider: Provider) -> _Known | None:
        known = self._known.get(provider.uuid)
        return known if known is not None and known.generation == provider.generation else None

    async def _totals(self, scan: _Scan, uuid: str) -> None:
        """What the hardware has beyond the classes that Nova lists: from inventories."""
        seen, provider = scan.seen[uuid], scan.members[uuid]
        known = self._known.get(uuid)
        if known is None or {n: capacity(i) for n, i in known.inventories.items()} != dict(seen.capacity):
            try:
                path = f"/resource_providers/{uuid}/inventories"
                read = await scan.asker.get(Service.PLACEMENT, path, InventoryReply)
            except Missing:
                scan.drop(uuid)
                return
            known = _Known(provider.generation, read.inventories)
            self._known[uuid] = known
        seen.totals.update({n: i.total for n, i in known.inventories.items()})


class _Scan:
    """One reading under way: what was seen, which providers are still missing, which classes were swept."""

    def __init__(self, asker: Asker, members: dict[str, Provider]) -> None:
        self.asker = asker
        self.members = members
        self.seen: dict[str, _Seen] = {}
        self.swept: set[str] = set()
        self._traits: dict[frozenset[str], frozenset[str]] = {}

    def missing(self) -> list[Provider]:
        return [p for uuid, p in self.members.items() if uuid not in self.seen]

    def drop(self, uuid: str) -> None:
        """It went away since it was listed."""
        self.members.pop(uuid, None)
        self.seen.pop(uuid, None)

    async def sweep(self, name: str) -> None:
        """Summaries of all providers in whose tree one unit of class `name` is free."""
        self.swept.add(name)
        if len(self.swept) > MOST_SWEEPS:
            return
        # A hypervisor with NUMA nodes as providers of their own is a candidate once for each.
        params = {"resources": f"{name}:1", "limit": str(max(1_000, 4 * len(self.members)))}
        found = await self.asker.get(Service.PLACEMENT, "/allocation_candidates", Candidates, params)
        await self.asker.aside(partial(self._summarise, found))

    def _summarise(self, found: Candidates) -> None:
        for uuid, summary in found.summaries(self.members):
            self.seen[uuid] = self._summarised(summary)

    def settle_listed(self, hypervisors: Mapping[str, Hypervisor]) -> list[str]:
        """Takes what the hardware has from Nova's list where that tells all; the providers for which it does not."""
        left = []
        for uuid, seen in self.seen.items():
            if seen.totals:
                continue
            root = self.members[uuid].root
            listed = _listed(hypervisors[uuid]) if uuid == root else {}
            if all(listed.get(name) or not promised for name, promised in seen.capacity.items()):
                seen.totals.update({name: listed.get(name, 0) for name in seen.capacity})
            else:
                left.append(uuid)
        return left

    def held(self) -> dict[str, Held]:
        """Per hypervisor, its tree summed."""
        trees: dict[str, list[_Seen]] = {}
        for uuid, seen in self.seen.items():
            trees.setdefault(self.members[uuid].root, []).append(seen)
        return {root: _held(tree) for root, tree in trees.items()}

    async def roomy(self, names: Sequence[str]) -> set[str]:
        """The providers with a free unit of any of these classes, each looked at by itself."""
        found: set[str] = set()
        for name in names:
            params = {"resources": f"{name}:1"}
            listed = await self.asker.get(Service.PLACEMENT, "/resource_providers", ProviderList, params)
            found.update(p.uuid for p in await self.asker.aside(listed.providers))
        return found

    def _summarised(self, summary: ProviderSummary) -> _Seen:
        traits = frozenset(summary.traits)
        return _Seen(
            {name: c.capacity for name, c in summary.resources.items()},
            {name: c.used for name, c in summary.resources.items()},
            # Hosts of one kind share one set in memory.
            self._traits.setdefault(traits, traits),
        )


def _seen(inventories: Mapping[str, Inventory], usages: Mapping[str, int], traits: frozenset[str]) -> _Seen:
    return _Seen(
        {name: capacity(i) for name, i in inventories.items()},
        {name: usages.get(name, 0) for name in inventories},
        traits,
        {name: i.total for name, i in inventories.items()},
    )


def _listed(hypervisor: Hypervisor) -> dict[str, int]:
    return {"VCPU": hypervisor.vcpus, "MEMORY_MB": hypervisor.memory_mb, "DISK_GB": hypervisor.local_gb}


def _held(tree: Iterable[_Seen]) -> Held:
    amounts: dict[ResourceClass, Amount] = {}
    traits: frozenset[str] = frozenset()
    for seen in tree:
        traits = traits | seen.traits if traits else seen.traits
        for name, promised in seen.capacity.items():
            cls = resource_class(name)
            amount = Amount(seen.totals.get(name, 0), max(0, promised), seen.used.get(name, 0))
            amounts[cls] = amounts.get(cls, Amount()) + amount
    return Held(dict(sorted(amounts.items())), traits)
