"""The catalogue's rows that people add: regions, services, endpoints. This zone's own stand in it by themselves."""

from __future__ import annotations

from dataclasses import replace

from banyan.core.directory import Endpoint, Region, Service
from banyan.core.directory_rows import DirectoryRows, Filters
from banyan.core.errors import BadInput, Conflict, Refused
from banyan.core.permissions import require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.zone.identity.desk import MAX_LIST, Asked, Changes, Desk, Listed, found, listed, missing

# All of them are in every token's answer.
MAX_ROWS = 1_000


class Catalog:
    """`region`: the one that this zone's own rows are in; it stays."""

    def __init__(self, desk: Desk, region: str) -> None:
        self._desk = desk
        self._region = region

    async def all(self) -> tuple[list[Service], list[Endpoint]]:
        """What people added and enabled, by id."""

        def look(rows: DirectoryRows) -> tuple[list[Service], list[Endpoint]]:
            services = rows.services.page({"enabled": True}, "", MAX_ROWS)
            endpoints = rows.endpoints.page({"enabled": True}, "", MAX_ROWS)
            return list(services), list(endpoints)

        return await self._desk.read(look)

    # --- regions --------------------------------------------------------------------------------

    async def create_region(self, who: Principal, region: Region) -> Region:
        """One without an id gets one."""
        require(who, "identity:create_region")
        made = replace(region, id=region.id or self._desk.new_id())

        def work(unit: Unit) -> Region:
            rows = unit.directory
            if made.parent is not None and rows.regions.get(made.parent) is None:
                raise missing("region", made.parent)
            self._check_room(rows.regions.count({}), "regions")
            if not rows.regions.add(made):
                raise Conflict("name-taken", f"There is a region {made.id[:255]!r} already; choose another id.")
            self._desk.note(unit, who, "region-created", made.id, made.description)
            return made

        return await self._desk.change("region.created", work)

    async def region(self, who: Principal, id: str) -> Region:
        require(who, "identity:get_region")
        return found(await self._desk.read(lambda rows: rows.regions.get(id)), "region", id)

    async def regions(self, who: Principal, filters: Filters, asked: Asked) -> Listed[Region]:
        require(who, "identity:list_regions")
        return listed(
            await self._desk.read(lambda rows: rows.regions.page(filters, asked.after, asked.limit + 1)), asked
        )

    async def update_region(self, who: Principal, id: str, changes: Changes) -> Region:
        require(who, "identity:update_region")

        def work(unit: Unit) -> Region:
            rows = unit.directory
            held = found(rows.regions.get(id), "region", id)
            wanted = changes.apply(held)
            if wanted.parent is not None:
                parent = rows.regions.get(wanted.parent)
                if parent is None:
                    raise missing("region", wanted.parent)
                self._check_no_ring(rows, id, parent)
            rows.regions.put(wanted)
            self._desk.note(unit, who, "region-updated", id, wanted.description)
            return wanted

        return await self._desk.change("region.updated", work)

    def _check_no_ring(self, rows: DirectoryRows, id: str, parent: Region) -> None:
        at: Region | None = parent
        for _ in range(MAX_ROWS):
            if at is None:
                return
            if at.id == id:
                raise BadInput("ring", f"region {parent.id} lies below {id}, and can not be above it as well")
            at = None if at.parent is None else rows.regions.get(at.parent)

    async def delete_region(self, who: Principal, id: str) -> None:
        require(who, "identity:delete_region")

        def work(unit: Unit) -> None:
            rows = unit.directory
            found(rows.regions.get(id), "region", id)
            if id == self._region:
                raise Refused("own-region", f"region {id} is the one that this cloud's own services are in")
            if rows.endpoints.find({"region": id}) or rows.regions.find({"parent": id}):
                raise Refused("region-in-use", f"region {id} has endpoints or regions below it; delete them first")
            rows.regions.delete(id)
            self._desk.note(unit, who, "region-deleted", id, "")

        await self._desk.change("region.deleted", work)

    # --- services -------------------------------------------------------------------------------

    async def create_service(self, who: Principal, service: Service) -> Service:
        require(who, "identity:create_service")
        made = replace(service, id=self._desk.new_id())

        def work(unit: Unit) -> Service:
            self._check_room(unit.directory.services.count({}), "services")
            unit.directory.services.add(made)
            self._desk.note(unit, who, "service-created", made.id, made.name, type=made.type)
            return made

        return await self._desk.change("service.created", work)

    async def service(self, who: Principal, id: str) -> Service:
        require(who, "identity:get_service")
        return found(await self._desk.read(lambda rows: rows.services.get(id)), "service", id)

    async def services(self, who: Principal, filters: Filters) -> Listed[Service]:
        require(who, "identity:list_services")
        return Listed(await self._desk.read(lambda rows: rows.services.page(filters, "", MAX_LIST)))

    async def update_service(self, who: Principal, id: str, changes: Changes) -> Service:
        require(who, "identity:update_service")

        def work(unit: Unit) -> Service:
            held = found(unit.directory.services.get(id), "service", id)
            wanted = changes.apply(held)
            unit.directory.services.put(wanted)
            self._desk.note(unit, who, "service-updated", id, wanted.name)
            return wanted

        return await self._desk.change("service.updated", work)

    async def delete_service(self, who: Principal, id: str) -> None:
        """With its endpoints."""
        require(who, "identity:delete_service")

        def work(unit: Unit) -> None:
            held = found(unit.directory.services.get(id), "service", id)
            unit.directory.services.delete(id)
            self._desk.note(unit, who, "service-deleted", id, held.name)

        await self._desk.change("service.deleted", work)

    # --- endpoints ------------------------------------------------------------------------------

    async def create_endpoint(self, who: Principal, endpoint: Endpoint) -> Endpoint:
        require(who, "identity:create_endpoint")
        made = replace(endpoint, id=self._desk.new_id())

        def work(unit: Unit) -> Endpoint:
            rows = unit.directory
            self._check_endpoint(rows, made)
            self._check_room(rows.endpoints.count({}), "endpoints")
            rows.endpoints.add(made)
            self._desk.note(unit, who, "endpoint-created", made.id, made.url, service=made.service)
            return made

        return await self._desk.change("endpoint.created", work)

    def _check_endpoint(self, rows: DirectoryRows, endpoint: Endpoint) -> None:
        """What an endpoint names must be there: here that is a fault of the request, not of its address."""
        if rows.services.get(endpoint.service) is None:
            raise BadInput("no-service", f"Could not find service: {endpoint.service[:255]}.")
        if endpoint.region is not None and rows.regions.get(endpoint.region) is None:
            raise BadInput("no-region", f"Could not find region: {endpoint.region[:255]}.")

    async def endpoint(self, who: Principal, id: str) -> Endpoint:
        require(who, "identity:get_endpoint")
        return found(await self._desk.read(lambda rows: rows.endpoints.get(id)), "endpoint", id)

    async def endpoints(self, who: Principal, filters: Filters) -> Listed[Endpoint]:
        require(who, "identity:list_endpoints")
        return Listed(await self._desk.read(lambda rows: rows.endpoints.page(filters, "", MAX_LIST)))

    async def update_endpoint(self, who: Principal, id: str, changes: Changes) -> Endpoint:
        require(who, "identity:update_endpoint")

        def work(unit: Unit) -> Endpoint:
            rows = unit.directory
            held = found(rows.endpoints.get(id), "endpoint", id)
            wanted = changes.apply(held)
            self._check_endpoint(rows, wanted)
            rows.endpoints.put(wanted)
            self._desk.note(unit, who, "endpoint-updated", id, wanted.url)
            return wanted

        return await self._desk.change("endpoint.updated", work)

    async def delete_endpoint(self, who: Principal, id: str) -> None:
        require(who, "identity:delete_endpoint")

        def work(unit: Unit) -> None:
            held = found(unit.directory.endpoints.get(id), "endpoint", id)
            unit.directory.endpoints.delete(id)
            self._desk.note(unit, who, "endpoint-deleted", id, held.url)

        await self._desk.change("endpoint.deleted", work)

    def _check_room(self, count: int, what: str) -> None:
        if count >= MAX_ROWS:
            raise Refused("catalogue-full", f"the catalogue holds at most {MAX_ROWS} {what}; delete some first")
