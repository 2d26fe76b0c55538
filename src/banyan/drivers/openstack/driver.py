"""The `openstack` driver: an OpenStack cloud that stands already, behind the Driver port.

In mode `observe` it reads and never writes (access.Guard); in mode `place` it takes orders (`hands`), and writes what
`writes` lists. Capacity is `shared`: others place there as well, so what a scan found is an estimate by the time it is
used. `reading` says what a scan reads, `asking` how politely, `examine` what `banyan check` looks at;
docs/drivers/openstack.md is for the people who run the cloud.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing

import msgspec

from banyan.core.deed import Deed, DeedFailed, Operation, Sighting
from banyan.core.ports import Finding
from banyan.core.rack import Basis, Capacity, RackHealth, Scan, ScanItem
from banyan.core.records import DriverUnavailable
from banyan.core.server import Server
from banyan.core.time import Wall
from banyan.drivers.openstack.access import Access, Params
from banyan.drivers.openstack.asking import Busy, Cloud, Pace
from banyan.drivers.openstack.endpoints import Service
from banyan.drivers.openstack.examine import examine
from banyan.drivers.openstack.grounds import Grounds
from banyan.drivers.openstack.hands import OPERATIONS, Hands
from banyan.drivers.openstack.nodes import Nodes
from banyan.drivers.openstack.options import Mode, OpenStackOptions, See
from banyan.drivers.openstack.reading import Memory, Order, Reading
from banyan.drivers.registry import DriverContext

# A probe is to notice a cloud that hangs long before a scan does.
PROBE_TIMEOUT = 10.0

# Facts are short texts (duty 15 of docs/contracts/driver.md).
MOST_FACT = 255

# Requests under way beside those of deeds: what sees guests, and consoles.
_SPARE_PLACES = 4

# What a probe asks of the service that failed last: answered from memory or one row, for any role.
_PROBES: Mapping[Service, tuple[str, Params]] = {
    Service.IDENTITY: ("/auth/projects", {}),
    Service.COMPUTE: ("/flavors", {"limit": "1"}),
    Service.PLACEMENT: ("/traits", {"name": "in:COMPUTE_NODE"}),
}


class OpenStackDriver:
    """One cloud. Nothing is opened before the first call; a failure makes the next call read clouds.yaml again."""

    kind = "openstack"
    capacity = Capacity.SHARED

    def __init__(self, options: OpenStackOptions, context: DriverContext) -> None:
        self._options = options
        self._clock = context.clock
        self._order = Order(options.see, context.share, options.quotas_per_scan, context.code)
        self._memory = Memory()
        self._hurt: Service | None = None
        self.operations = OPERATIONS if options.mode is Mode.PLACE else frozenset[Operation]()
        self.at_once = options.at_once if options.mode is Mode.PLACE else 0
        access = Access(context.rack, options)
        self._cloud = Cloud(
            access,
            context.clock,
            context.ids,
            Pace(context.requests_per_second, context.clock),
            page_size=options.page_size,
            timeout=options.timeout,
            name=f"openstack-{context.rack}",
        )
        # Deeds wait for no scan, and a scan for no deed.
        self._workshop = Cloud(
            access,
            context.clock,
            context.ids,
            Pace(options.deed_requests_per_second, context.clock),
            page_size=options.page_size,
            timeout=options.timeout,
            name=f"openstack-{context.rack}-deeds",
            places=options.at_once + _SPARE_PLACES,
        )
        self._grounds = Grounds(self._workshop, options)
        self._nodes = Nodes(self._workshop)
        self._nodes.quota = options.see is See.QUOTA
        self._hands = Hands(self._workshop, context, self._grounds, self._nodes)

    async def scan(self) -> AsyncIterator[ScanItem]:
        cloud = self._cloud
        started_at = Wall(self._clock.wall())
        before = cloud.requests
        cloud.begin()
        try:
            reading = Reading(cloud, await cloud.me(), self._order, self._memory, self._grounds, self._nodes)
            async with aclosing(reading.hosts()) as hosts:
                async for batch in hosts:
                    yield batch
            projects = await reading.projects()
            async with aclosing(reading.guests(projects)) as guests:
                async for part in guests:
                    yield part
            flavors = await reading.flavors()
            images = await reading.images()
            networks = await reading.networks()
            facts = {**await self._facts(reading.basis), **reading.facts}
            facts = {key: text[:MOST_FACT] for key, text in facts.items()}
        except DriverUnavailable:
            self._hurt = cloud.asked_last
            cloud.forget()
            raise
        self._hurt = None
        yield Scan(
            started_at=started_at,
            finished_at=Wall(max(started_at, self._clock.wall())),
            basis=reading.basis,
            flavors=flavors,
            images=images,
            networks=networks,
            projects=projects,
            facts=facts,
            requests=cloud.requests - before,
        )

    async def _facts(self, basis: Basis) -> dict[str, str]:
        facts = {"cloud": self._options.cloud, "region": await self._cloud.region()}
        services = (Service.COMPUTE, Service.PLACEMENT) if basis is Basis.HOSTS else (Service.COMPUTE,)
        for service in services:
            endpoint = await self._cloud.endpoint(service)
            facts[service.value] = f"microversion {endpoint.microversion} (offers {endpoint.offered})"
        return facts

    async def probe(self) -> tuple[RackHealth, str]:
        hurt = self._hurt
        service = hurt if hurt is not None and hurt in _PROBES else Service.COMPUTE
        path, params = _PROBES[service]
        timeout = min(PROBE_TIMEOUT, self._options.timeout)
        try:
            outcome = await self._cloud.once(service, path, msgspec.Raw, params, timeout)
        except DriverUnavailable as error:
            self._cloud.forget()
            return RackHealth.UNAVAILABLE, error.text
        if isinstance(outcome, Busy):
            return RackHealth.UNAVAILABLE, outcome.error.text
        return RackHealth.AVAILABLE, ""

    async def check(self) -> Sequence[Finding]:
        return await examine(self._cloud, self._options)

    async def perform(self, deed: Deed) -> Sighting | None:
        if deed.operation not in self.operations:
            raise DeedFailed(
                "only-observes" if not self.operations else "not-offered",
                f"the openstack driver of this rack (mode {self._options.mode}) cannot {deed.operation} a server",
            )
        return await self._hands.perform(deed)

    async def sight(self, guests: Sequence[str]) -> Mapping[str, Sighting]:
        return await self._hands.sight(guests)

    async def console(self, server: Server, lines: int | None) -> str:
        if not self.operations:
            raise DeedFailed("only-observes", "the driver of this rack only observes: it cannot show a console")
        return await self._hands.console(server, lines)

    async def close(self) -> None:
        self._cloud.close()
        self._workshop.close()
