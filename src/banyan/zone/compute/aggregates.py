"""Aggregates: sets of hosts with an operator's notes, as this zone keeps them. Where they send servers: steering.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from banyan.core.compute import MAX_AGGREGATE_HOSTS, MAX_AGGREGATES, Aggregate
from banyan.core.errors import BadInput, Conflict, NotFound, Refused
from banyan.core.permissions import require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.zone.compute.desk import Desk
from banyan.zone.compute.hosts import Hosts, no_host
from banyan.zone.compute.steering import Steering

MAX_METADATA = 256


class Aggregates:
    def __init__(self, desk: Desk, hosts: Hosts, steering: Steering) -> None:
        self._desk = desk
        self._hosts = hosts
        self._steering = steering

    async def all(self, who: Principal) -> Sequence[Aggregate]:
        require(who, "compute:list_aggregates")
        return await self._desk.read(lambda rows: rows.aggregates.all())

    async def show(self, who: Principal, id: int) -> Aggregate:
        """Raises NotFound("no-aggregate")."""
        require(who, "compute:get_aggregate")
        found = await self._desk.read(lambda rows: rows.aggregates.get(id))
        if found is None:
            raise no_aggregate(id)
        return found

    async def create(self, who: Principal, name: str, availability_zone: str) -> Aggregate:
        """Raises Conflict("aggregate-taken"), Refused("too-many-aggregates")."""
        require(who, "compute:create_aggregate")
        metadata = {"availability_zone": availability_zone} if availability_zone else {}
        new = Aggregate(
            0, self._desk.new_uuid(), name, availability_zone, metadata=metadata, created_at=self._desk.now()
        )

        def work(unit: Unit) -> Aggregate:
            if len(unit.compute.aggregates.all()) >= MAX_AGGREGATES:
                raise Refused("too-many-aggregates", f"a zone has at most {MAX_AGGREGATES} aggregates")
            made = unit.compute.aggregates.add(new)
            if made is None:
                raise Conflict("aggregate-taken", f"Aggregate {name} already exists.")
            self._desk.note(unit, who, "aggregate-created", str(made.id), name)
            return made

        return await self._desk.change("aggregate.created", work)

    async def update(self, who: Principal, id: int, name: str | None, availability_zone: str | None) -> Aggregate:
        require(who, "compute:update_aggregate")

        def new(old: Aggregate) -> Aggregate:
            if name is not None:
                old = replace(old, name=name)
            if availability_zone is not None:
                metadata = {**old.metadata, "availability_zone": availability_zone}
                old = replace(old, availability_zone=availability_zone, metadata=metadata)
            return old

        return await self._changed(who, id, new, "changed")

    async def set_metadata(self, who: Principal, id: int, items: Mapping[str, str | None]) -> Aggregate:
        """None drops an item. `availability_zone` among them is the aggregate's. Raises Refused("too-many-items")."""
        require(who, "compute:update_aggregate")

        def new(old: Aggregate) -> Aggregate:
            merged = {**old.metadata, **{key: value for key, value in items.items() if value is not None}}
            kept = {key: value for key, value in merged.items() if items.get(key, "") is not None}
            if len(kept) > MAX_METADATA:
                raise Refused("too-many-items", f"an aggregate has at most {MAX_METADATA} items of metadata")
            return replace(old, metadata=kept, availability_zone=kept.get("availability_zone", ""))

        return await self._changed(who, id, new, "metadata")

    async def add_host(self, who: Principal, id: int, host: str) -> Aggregate:
        """Raises NotFound("no-host"), Conflict("host-there")."""
        require(who, "compute:update_aggregate")
        await self.show(who, id)
        if await self._hosts.named(who, host) is None:
            raise no_host(host)

        def new(old: Aggregate) -> Aggregate:
            if host in old.hosts:
                raise Conflict("host-there", f"Aggregate {id} already has host {host}.")
            if len(old.hosts) >= MAX_AGGREGATE_HOSTS:
                raise Refused("too-many-hosts", f"an aggregate has at most {MAX_AGGREGATE_HOSTS} hosts")
            return replace(old, hosts=(*old.hosts, host))

        return await self._changed(who, id, new, f"with host {host}")

    async def remove_host(self, who: Principal, id: int, host: str) -> Aggregate:
        """Raises NotFound("no-host")."""
        require(who, "compute:update_aggregate")

        def new(old: Aggregate) -> Aggregate:
            if host not in old.hosts:
                raise NotFound("no-host", f"Aggregate {id} has no host {host[:255]}.")
            return replace(old, hosts=tuple(one for one in old.hosts if one != host))

        return await self._changed(who, id, new, f"without host {host}")

    async def delete(self, who: Principal, id: int) -> None:
        require(who, "compute:delete_aggregate")

        def work(unit: Unit) -> None:
            old = unit.compute.aggregates.get(id)
            if old is None:
                raise no_aggregate(id)
            if old.hosts:
                raise BadInput("aggregate-not-empty", f"Cannot remove host aggregate {id}: it is not empty.")
            unit.compute.aggregates.delete(id)
            self._desk.note(unit, who, "aggregate-deleted", str(id), old.name)

        await self._desk.change("aggregate.deleted", work)

    async def _changed(self, who: Principal, id: int, new: Callable[[Aggregate], Aggregate], text: str) -> Aggregate:
        now = self._desk.now()

        def work(unit: Unit) -> Aggregate:
            old = unit.compute.aggregates.get(id)
            if old is None:
                raise no_aggregate(id)
            changed = replace(new(old), updated_at=now)
            unit.compute.aggregates.put(changed)
            self._desk.note(unit, who, "aggregate-changed", str(id), text)
            return changed

        try:
            return await self._desk.change("aggregate.changed", work)
        finally:
            self._steering.forget()


def no_aggregate(id: int) -> NotFound:
    return NotFound("no-aggregate", f"Aggregate {id} could not be found.")
