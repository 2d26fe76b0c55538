"""One scan of one cloud, from the first request to the last: which lists are read, in which order, at what bounds.

Identity and compute must answer, and placement where hypervisors are seen; else the scan fails with the reason.
Images and networks are a catalogue beside the count: when their service fails, what was last read stands, and the
scan's facts say so. Everything is paged and bounded; no request is made per server, and none per hypervisor where
one for all will do (`inventory`). What is kept from scan to scan is in `Memory`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeVar

import msgspec

from banyan.core.catalogue import Flavor, Image, Network, Project
from banyan.core.guest import Guest
from banyan.core.host import Host
from banyan.core.ids import RackCode
from banyan.core.rack import Basis, GuestBatch, HostBatch
from banyan.core.records import DriverUnavailable
from banyan.core.share import Share, matches
from banyan.drivers.openstack import shapes, translate
from banyan.drivers.openstack.access import Me
from banyan.drivers.openstack.asking import Asker
from banyan.drivers.openstack.endpoints import Service
from banyan.drivers.openstack.grounds import Grounds
from banyan.drivers.openstack.inventory import Inventories
from banyan.drivers.openstack.marks import PREFIX, read
from banyan.drivers.openstack.nodes import Nodes
from banyan.drivers.openstack.options import See
from banyan.drivers.openstack.reasons import Denied, Missing

# Bounds of what one rack's catalogue may hold; beyond them a list is cut, and the facts say so.
MOST_FLAVORS = 2_000
MOST_IMAGES = 10_000
MOST_NETWORKS = 10_000
MOST_PROJECTS = 50_000

# What there may be thousands of is translated off the event loop (`Asker.aside`). Hosts and servers, of which there are
# most, so many at a time: the loop waits some milliseconds for a thread that computes, however long that would go on.
ROWS_AT_ONCE = 250

T = TypeVar("T")

_SERVER_PARAMS = {"sort_key": "created_at", "sort_dir": "asc"}
_NETWORK_PARAMS = {"fields": ("id", "name", "shared", "router:external", "project_id")}
_SUBNET_PARAMS = {"fields": ("id", "network_id", "cidr")}


@dataclass(slots=True)
class Memory:
    """What is kept between scans. `basis` is settled by the first one, so that a lost role is noticed."""

    basis: Basis | None = None
    hypervisors: Mapping[str, shapes.Hypervisor] = field(default_factory=dict)
    inventories: Inventories = field(default_factory=Inventories)
    images: tuple[Image, ...] = ()
    networks: tuple[Network, ...] = ()
    limits: dict[str, shapes.QuotaSet] = field(default_factory=dict)
    limits_read: dict[str, int] = field(default_factory=dict)
    scans: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """What a scan is told: the settings that matter here."""

    see: See
    share: Share
    quotas: int
    rack: RackCode


class Reading:
    """One scan under way. `hosts`, then `guests`, then the catalogue; each may be read once."""

    def __init__(self, asker: Asker, me: Me, order: Order, memory: Memory, grounds: Grounds, nodes: Nodes) -> None:
        self._asker = asker
        self._grounds = grounds
        self._nodes = nodes
        self._ours: set[str] = set()
        self._told: dict[str, int] = {}
        self._me = me
        self._order = order
        self._memory = memory
        self._places: dict[tuple[str, str], str] = {}
        self._withheld: set[str] = set()
        self._names: dict[str, str] = {}
        self.basis = Basis.HOSTS
        self.facts: dict[str, str] = {}

    # --- hosts ----------------------------------------------------------------------------------

    async def hosts(self) -> AsyncGenerator[HostBatch, None]:
        hypervisors = await self._hypervisors()
        if hypervisors is None:
            self.basis = self._memory.basis = Basis.QUOTA
            self._nodes.quota = True
            yield HostBatch((await self._quota(),))
            return
        self._memory.basis = Basis.HOSTS
        self._nodes.learn(hypervisors.values())
        self.facts["capacity"] = "hosts"
        around, silent = await self._around()
        hypervisors = self._with_silent(hypervisors, silent)
        reading = await self._memory.inventories.read(self._asker, hypervisors)
        absent = len(hypervisors.keys() - reading.held.keys())
        if absent:
            self.facts["without inventory"] = f"{absent} hypervisors that placement does not know"
        if reading.strangers:
            self.facts["not counted"] = _named(reading.strangers, "providers of no hypervisor")
        nothing = translate.Held()
        left = iter(hypervisors.values())
        while some := list(islice(left, ROWS_AT_ONCE)):
            held = [reading.held.get(h.id, nothing) for h in some]
            batch = await self._asker.aside(partial(self._translated, some, held, around))
            self._remember(some, batch)
            yield HostBatch(batch)

    def _translated(
        self,
        hypervisors: Sequence[shapes.Hypervisor],
        held: Sequence[translate.Held],
        around: translate.Neighbourhood,
    ) -> tuple[Host, ...]:
        share = self._order.share
        return tuple(translate.host(h, has, around, share) for h, has in zip(hypervisors, held, strict=True))

    def _remember(self, hypervisors: Sequence[shapes.Hypervisor], hosts: Sequence[Host]) -> None:
        for hypervisor, host in zip(hypervisors, hosts, strict=True):
            self._places[hypervisor.service.host, hypervisor.hypervisor_hostname] = host.id
            if not host.offered:
                self._withheld.add(host.id)

    async def _hypervisors(self) -> Mapping[str, shapes.Hypervisor] | None:
        """By id; None if these credentials see a project's quota only, and that is wanted."""
        if self._order.see is See.QUOTA:
            return None
        found: dict[str, shapes.Hypervisor] = {}
        try:
            async for page in self._asker.pages(Service.COMPUTE, "/os-hypervisors/detail", shapes.HypervisorPage):
                found.update((h.id, h) for h in page.hypervisors)
        except Denied:
            # A role that was there before and is gone must not pass for a small cloud.
            if self._order.see is See.HOSTS or self._memory.basis is Basis.HOSTS:
                raise
            return None
        return found

    def _with_silent(
        self, listed: Mapping[str, shapes.Hypervisor], silent: Sequence[str]
    ) -> Mapping[str, shapes.Hypervisor]:
        """With the hosts of a cell that does not answer: Nova leaves them out, but they have not gone; they are down.

        What they hold placement knows as before, as it is one for all cells.
        """
        missing = set(silent)
        kept = {
            id: msgspec.structs.replace(h, state="down")
            for id, h in self._memory.hypervisors.items()
            if id not in listed and h.service.host in missing
        }
        self._memory.hypervisors = {**listed, **kept}
        return self._memory.hypervisors

    async def _around(self) -> tuple[translate.Neighbourhood, Sequence[str]]:
        """What Nova says beside its hypervisors, and the compute services of cells that do not answer."""
        services = await self._asker.get(
            Service.COMPUTE, "/os-services", shapes.ServiceList, {"binary": "nova-compute"}
        )
        aggregates = await self._asker.get(Service.COMPUTE, "/os-aggregates", shapes.AggregateList)
        silent = sorted(s.host for s in services.services if s.status.upper() == "UNKNOWN")
        if silent:
            self.facts["cell down"] = _named(silent, "compute services in a cell that does not answer Nova")
        around = partial(translate.neighbourhood, services.services, aggregates.aggregates)
        return await self._asker.aside(around), silent

    async def _quota(self) -> Host:
        reply = await self._asker.get(Service.COMPUTE, "/limits", shapes.LimitsReply)
        limits = reply.limits.absolute
        self.facts |= translate.quota_facts(limits)
        self.facts["project"] = self._me.project_name
        self._memory.limits = {self._me.project: shapes.QuotaSet(limits.cores, limits.ram, limits.instances)}
        host = translate.quota_host(limits, self._order.share)
        if not host.offered:
            self._withheld.add(host.id)
        return host

    # --- guests ---------------------------------------------------------------------------------

    async def guests(self, projects: Sequence[Project]) -> AsyncGenerator[GuestBatch, None]:
        """Servers of all projects, or of our own where only its quota is seen."""
        self._names = {project.id: project.name for project in projects}
        for project in projects:
            if project.name.startswith(PREFIX) and await self._grounds.is_ours(project.name, project.domain):
                self._ours.add(project.id)
        if not self._grounds.own:
            self._ours.add(self._me.project)
        params: dict[str, str] = dict(_SERVER_PARAMS)
        if self.basis is Basis.HOSTS:
            params["all_tenants"] = "True"
        before: set[str] = set()
        async for page in self._asker.pages(Service.COMPUTE, "/servers/detail", shapes.ServerPage, params):
            fresh = [server for server in page.servers if server.id not in before]
            before = {server.id for server in page.servers}
            for start in range(0, len(fresh), ROWS_AT_ONCE):
                some = fresh[start : start + ROWS_AT_ONCE]
                guests = await self._asker.aside(partial(self._guests, some))
                if guests:
                    yield GuestBatch(guests)

    def _guests(self, servers: Sequence[shapes.Server]) -> tuple[Guest, ...]:
        return tuple(guest for server in servers if (guest := self._guest(server)) is not None)

    def _guest(self, server: shapes.Server) -> Guest | None:
        """None for a second server of one of ours: what is left of a move or of an answer that was lost."""
        mark = read(server.metadata, self._order.rack) if server.tenant_id in self._ours else None
        if mark is not None:
            if mark.guest in self._told:
                self._told[mark.guest] += 1
                self.facts["twice"] = f"{sum(self._told.values())} servers of Banyan's are there more than once"
                return None
            self._told[mark.guest] = 0
        share = self._order.share
        offered = matches(share.projects, server.tenant_id) or matches(
            share.projects, self._names.get(server.tenant_id, "")
        )
        host = self._places.get((server.host or "", server.hypervisor_hostname or ""), "")
        if self.basis is Basis.QUOTA:
            host = translate.QUOTA_HOST
        return translate.guest(server, host, offered and host not in self._withheld, mark)

    # --- the catalogue --------------------------------------------------------------------------

    async def projects(self) -> tuple[Project, ...]:
        share = self._order.share
        if self.basis is Basis.QUOTA:
            own = shapes.Project(self._me.project, self._me.project_name, self._me.domain)
            return (translate.project(own, self._memory.limits.get(own.id), share),)
        path = "/projects"
        try:
            listed = await self._asker.get(Service.IDENTITY, path, shapes.ProjectList)
        except Denied:
            self.facts["projects"] = "only our own: listing all needs a role in Keystone"
            listed = await self._asker.get(Service.IDENTITY, "/auth/projects", shapes.ProjectList)
        if listed.truncated:
            self.facts["projects"] = "cut by Keystone's own list_limit"
        found = self._bounded("projects", await self._asker.aside(listed.by_id), MOST_PROJECTS)
        await self._limits([p.id for p in found])
        limits = self._memory.limits
        return await self._asker.aside(lambda: tuple(translate.project(p, limits.get(p.id), share) for p in found))

    async def _limits(self, projects: Sequence[str]) -> None:
        """Reads some projects' limits: Nova has a request for each, so those longest unread come first."""
        memory = self._memory
        memory.scans += 1
        known = set(projects)
        memory.limits = {id: limits for id, limits in memory.limits.items() if id in known}
        memory.limits_read = {id: scan for id, scan in memory.limits_read.items() if id in known}
        due = sorted(projects, key=lambda id: (memory.limits_read.get(id, 0), id))[: self._order.quotas]
        for id in due:
            try:
                reply = await self._asker.get(Service.COMPUTE, f"/os-quota-sets/{id}", shapes.QuotaReply)
            except Denied:
                self.facts["limits"] = "not read: showing quotas needs a role in Nova"
                return
            except Missing:
                continue
            memory.limits[id] = reply.quota_set
            memory.limits_read[id] = memory.scans
        if len(projects) > self._order.quotas:
            self.facts["limits"] = f"of {len(memory.limits)} of {len(projects)} projects read so far"

    async def flavors(self) -> tuple[Flavor, ...]:
        found: dict[str, shapes.Flavor] = {}
        params = {"is_public": "None"} if self.basis is Basis.HOSTS else {}
        async for page in self._asker.pages(Service.COMPUTE, "/flavors/detail", shapes.FlavorPage, params):
            found.update((flavor.id, flavor) for flavor in page.flavors)
            if len(found) > MOST_FLAVORS:
                break
        bounded, share = self._bounded("flavors", list(found.values()), MOST_FLAVORS), self._order.share
        return await self._asker.aside(lambda: tuple(translate.flavor(f, share) for f in bounded))

    async def images(self) -> tuple[Image, ...]:
        found: dict[str, shapes.Image] = {}
        try:
            async for page in self._asker.pages(Service.IMAGE, "/images", shapes.ImagePage):
                found.update((image.id, image) for image in page.images)
                if len(found) > MOST_IMAGES:
                    break
            bounded = self._bounded("images", list(found.values()), MOST_IMAGES)
            self._memory.images = await self._asker.aside(lambda: tuple(map(translate.image, bounded)))
        except DriverUnavailable as error:
            self._stale("images", error)
        return self._memory.images

    async def networks(self) -> tuple[Network, ...]:
        found: dict[str, shapes.Network] = {}
        subnets: dict[str, shapes.Subnet] = {}
        try:
            async for page in self._asker.pages(Service.NETWORK, "/networks", shapes.NetworkPage, _NETWORK_PARAMS):
                found.update((network.id, network) for network in page.networks)
                if len(found) > MOST_NETWORKS:
                    break
            async for part in self._asker.pages(Service.NETWORK, "/subnets", shapes.SubnetPage, _SUBNET_PARAMS):
                subnets.update((subnet.id, subnet) for subnet in part.subnets)
                if len(subnets) > MOST_NETWORKS:
                    break
            bounded = self._bounded("networks", list(found.values()), MOST_NETWORKS)
            self._memory.networks = await self._asker.aside(partial(translate.networks, bounded, subnets.values()))
        except DriverUnavailable as error:
            self._stale("networks", error)
        return self._memory.networks

    def _stale(self, what: str, error: DriverUnavailable) -> None:
        """A service beside the count fails: its list stays as it was, and people are told."""
        if error.code == "driver-closed":
            raise error
        self.facts[what] = (
            error.text if error.code == "openstack-no-service" else f"as of an earlier scan: {error.text}"
        )

    def _bounded(self, what: str, found: Sequence[T], most: int) -> Sequence[T]:
        if len(found) > most:
            self.facts[what] = f"the first {most:,} of more"
        return found[:most]


def _named(names: Sequence[str], what: str) -> str:
    shown = ", ".join(names[:5])
    return f"{len(names)} {what}: {shown}{', …' if len(names) > 5 else ''}"
