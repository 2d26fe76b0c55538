"""Flavors of this zone: who sees which, who makes them, and the ones that orders are made with.

A private flavor is there for the projects that it was opened to, and for nobody else. Those that orders ask for are
remembered for a moment (zone/remembered.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from banyan.core.compute import MAX_FLAVORS, Flavor, FlavorQuery
from banyan.core.compute_rows import ComputeRows, Tally
from banyan.core.errors import BadInput, Conflict, NotFound, Refused
from banyan.core.permissions import Target, may, require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.zone.compute.desk import MAX_LIST, Desk
from banyan.zone.remembered import Remembered

T = TypeVar("T")

MAX_SPECS: Final = 256
# What a new zone has unless its settings say otherwise.
FIRST: Final = (
    Flavor("1", "m1.tiny", 1, 512, 1),
    Flavor("2", "m1.small", 1, 2_048, 20),
    Flavor("3", "m1.medium", 2, 4_096, 40),
    Flavor("4", "m1.large", 4, 8_192, 80),
    Flavor("5", "m1.xlarge", 8, 16_384, 160),
)


class Flavors:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        # By flavor and the project that may use it; "" of one that is for all.
        self._known = Remembered[tuple[str, str], Flavor](desk.clock)

    async def seed(self, first: Sequence[Flavor]) -> None:
        """Gives a zone that never had a flavor its first ones. Safe to repeat."""
        now = self._desk.now()

        def work(unit: Unit) -> None:
            rows, own = unit.compute, self._desk.own
            if rows.quotas.tally(Tally.SEEDED, "flavors", 1) and not rows.flavors.count({}):
                for flavor in first:
                    rows.flavors.add(replace(flavor, created_at=now))
                own.write(unit, own.event("flavors-made", own.name, ", ".join(flavor.name for flavor in first)))

        if not await self._desk.read(lambda rows: rows.quotas.tallied(Tally.SEEDED, "flavors")):
            await self._desk.change("flavors.seeded", work)

    async def page(self, who: Principal, query: FlavorQuery, after: str, limit: int) -> Sequence[Flavor]:
        """`after`: the id of the last one before. Who may not see private ones sees public and opened ones, whatever
        the query says. Raises BadInput("bad-marker")."""
        require(who, "compute:list_flavors")
        if not may(who, "compute:create_flavor"):
            query = replace(query, public=True)
        query = replace(query, project=who.project)

        def work(rows: ComputeRows) -> Sequence[Flavor]:
            last = rows.flavors.get(after) if after else None
            if after and last is None:
                raise BadInput("bad-marker", f"marker [{after[:255]}] not found: it must be the id of a flavor")
            return rows.flavors.query(query, last, max(1, min(limit, MAX_LIST))) if limit else ()

        return await self._desk.read(work)

    async def show(self, who: Principal, id: str) -> Flavor:
        """Raises NotFound("no-flavor")."""
        require(who, "compute:get_flavor")
        return await self._desk.read(lambda rows: visible(rows, who, id))

    async def remembered(self, who: Principal, id: str) -> Flavor:
        """As `show`, for orders: what was read within the last moment may be gone by now."""
        require(who, "compute:get_flavor")
        known = self._known.get((id, "")) or self._known.get((id, who.project))
        if known is not None:
            return known
        as_of = self._known.as_of
        flavor = await self.show(who, id)
        if flavor.public or not may(who, "compute:create_flavor"):
            # An administrator sees private ones everywhere: that is not to be remembered for the project.
            self._known.put((id, "" if flavor.public else who.project), flavor, as_of)
        return flavor

    async def create(self, who: Principal, flavor: Flavor) -> Flavor:
        """With an id of its own if it has none. Raises Conflict("flavor-taken"), Refused("too-many-flavors")."""
        require(who, "compute:create_flavor")
        flavor = replace(flavor, id=flavor.id or self._desk.new_uuid(), created_at=self._desk.now())

        def work(unit: Unit) -> None:
            rows = unit.compute.flavors
            if rows.count({}) >= MAX_FLAVORS:
                raise Refused("too-many-flavors", f"a zone has at most {MAX_FLAVORS} flavors; delete some first")
            if not rows.add(flavor):
                if rows.get(flavor.id) is not None:
                    raise Conflict("flavor-taken", f"Flavor with ID {flavor.id} already exists.")
                raise Conflict("flavor-taken", f"Flavor with name {flavor.name} already exists.")
            sizes = f"{flavor.vcpu} vCPU, {flavor.memory_mib} MiB, {flavor.disk_gib} GiB"
            self._desk.note(unit, who, "flavor-created", flavor.id, f"{flavor.name}: {sizes}")

        await self._desk.change("flavor.created", work)
        return flavor

    async def describe(self, who: Principal, id: str, description: str | None) -> Flavor:
        require(who, "compute:update_flavor")

        def work(unit: Unit) -> Flavor:
            flavor = replace(existing(unit.compute, id), description=description)
            unit.compute.flavors.put(flavor)
            self._desk.note(unit, who, "flavor-changed", id, "described anew")
            return flavor

        return await self._change("flavor.changed", work)

    async def delete(self, who: Principal, id: str) -> None:
        """Servers that were made with it keep what they were sold."""
        require(who, "compute:delete_flavor")

        def work(unit: Unit) -> Flavor:
            flavor = existing(unit.compute, id)
            unit.compute.flavors.delete(id)
            self._desk.note(unit, who, "flavor-deleted", id, flavor.name)
            return flavor

        await self._change("flavor.deleted", work)

    async def specs(self, who: Principal, id: str) -> Mapping[str, str]:
        require(who, "compute:get_flavor")
        if not may_see_specs(who):
            require(who, "compute:get_flavor_extra_specs")
        return (await self._desk.read(lambda rows: visible(rows, who, id))).extra_specs

    async def set_specs(self, who: Principal, id: str, specs: Mapping[str, str]) -> Mapping[str, str]:
        """Adds or replaces these; all that it has then. Raises Refused("too-many-specs")."""
        require(who, "compute:update_flavor_extra_specs")

        def work(unit: Unit) -> Flavor:
            flavor = existing(unit.compute, id)
            merged = {**flavor.extra_specs, **specs}
            if len(merged) > MAX_SPECS:
                raise Refused(
                    "too-many-specs", f"a flavor has at most {MAX_SPECS} extra specs, this makes {len(merged)}"
                )
            flavor = replace(flavor, extra_specs=merged)
            unit.compute.flavors.put(flavor)
            self._desk.note(unit, who, "flavor-changed", id, "extra specs", **dict(list(specs.items())[:20]))
            return flavor

        return (await self._change("flavor.changed", work)).extra_specs

    async def unset_spec(self, who: Principal, id: str, key: str) -> None:
        """Raises NotFound("no-spec")."""
        require(who, "compute:update_flavor_extra_specs")

        def work(unit: Unit) -> Flavor:
            flavor = existing(unit.compute, id)
            if key not in flavor.extra_specs:
                raise no_spec(id, key)
            flavor = replace(flavor, extra_specs={k: v for k, v in flavor.extra_specs.items() if k != key})
            unit.compute.flavors.put(flavor)
            self._desk.note(unit, who, "flavor-changed", id, f"without extra spec {key}")
            return flavor

        await self._change("flavor.changed", work)

    # --- who may use a private one ---------------------------------------------------------------

    async def access(self, who: Principal, id: str) -> Sequence[str]:
        """The projects that it is open to. Raises NotFound("public-flavor") for one that is for all."""
        require(who, "compute:list_flavor_access")

        def work(rows: ComputeRows) -> Sequence[str]:
            if existing(rows, id).public:
                raise NotFound("public-flavor", "Access list not available for public flavors.")
            return rows.flavors.projects(id)

        return await self._desk.read(work)

    async def open(self, who: Principal, id: str, project: str, *, public_too: bool = False) -> Sequence[str]:
        """Raises Conflict("open-already"), ("public-flavor") unless `public_too`."""
        require(who, "compute:add_flavor_access")

        def work(unit: Unit) -> Sequence[str]:
            flavor, rows = existing(unit.compute, id), unit.compute.flavors
            if flavor.public and not public_too:
                raise Conflict("public-flavor", "Can not add access to a public flavor.")
            if not rows.open(id, project):
                text = f"Flavor access already exists for flavor {id} and project {project} combination."
                raise Conflict("open-already", text)
            self._desk.note(unit, who, "flavor-opened", id, f"to project {project}")
            return rows.projects(id)

        return await self._change("flavor.opened", work)

    async def close(self, who: Principal, id: str, project: str) -> Sequence[str]:
        """Raises NotFound("not-open"), Conflict("public-flavor")."""
        require(who, "compute:remove_flavor_access")

        def work(unit: Unit) -> Sequence[str]:
            flavor, rows = existing(unit.compute, id), unit.compute.flavors
            if flavor.public:
                raise Conflict("public-flavor", "Can not remove access to a public flavor.")
            if not rows.close(id, project):
                text = f"Flavor access not found for {id} / {project} combination."
                raise NotFound("not-open", text)
            self._desk.note(unit, who, "flavor-closed", id, f"to project {project}")
            return rows.projects(id)

        return await self._change("flavor.closed", work)

    async def _change(self, name: str, work: Callable[[Unit], T]) -> T:
        try:
            return await self._desk.change(name, work)
        finally:
            self._known.forget()


def no_flavor(id: str) -> NotFound:
    return NotFound("no-flavor", f"Flavor {id[:255]} could not be found.")


def no_spec(id: str, key: str) -> NotFound:
    return NotFound("no-spec", f"Flavor {id[:255]} has no extra specs with key {key[:255]}.")


def existing(rows: ComputeRows, id: str) -> Flavor:
    flavor = rows.flavors.get(id)
    if flavor is None:
        raise no_flavor(id)
    return flavor


def visible(rows: ComputeRows, who: Principal, id: str) -> Flavor:
    flavor = existing(rows, id)
    if flavor.public or may(who, "compute:create_flavor") or (who.project and rows.flavors.is_open(id, who.project)):
        return flavor
    raise no_flavor(id)


def may_see_specs(who: Principal) -> bool:
    return may(who, "compute:get_flavor_extra_specs", Target(project=who.project))
