"""Projects and domains. A domain is a project that holds others; it must be disabled before it can be deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from banyan.core.directory import DEFAULT_DOMAIN, Project
from banyan.core.directory_rows import DirectoryRows, Filters
from banyan.core.errors import BadInput, NotFound, Refused
from banyan.core.permissions import Target, anywhere, require
from banyan.core.principal import Principal, ScopeKind
from banyan.core.records import Unit
from banyan.zone.identity.desk import BATCH, Asked, Changes, Desk, Listed, Touched, known, listed, missing, own_domain
from banyan.zone.identity.people import check_domain, drop_group, drop_user, put_named, taken
from banyan.zone.identity.standing import MAX_DEPTH, ancestors

MAX_TAGS = 80


@dataclass(frozen=True, slots=True)
class Tags:
    """Projects that have all of these, any, not all, none."""

    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    not_all_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()


class Projects:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, who: Principal, project: Project) -> Project:
        """A project, or a domain. `project.id` is drawn here; its domain follows from its parent."""
        if project.is_domain:
            require(who, "identity:create_domain")

        def work(unit: Unit) -> Project:
            rows = unit.directory
            made = replace(self._placed(rows, who, project), id=self._desk.new_id())
            if not rows.projects.add(made):
                raise taken(_what(made), made.name)
            self._desk.note(unit, who, f"{_what(made)}-created", made.id, made.name, domain=made.domain or "")
            return made

        return await self._desk.change("project.created", work)

    def _placed(self, rows: DirectoryRows, who: Principal, project: Project) -> Project:
        """With domain and parent as they must be. Raises BadInput, NotFound, Refused."""
        if project.is_domain:
            if project.parent is not None or project.domain is not None:
                raise BadInput("bad-parent", "a domain has no parent and lies in no other domain")
            return project
        domain = project.domain
        if project.parent is not None:
            parent = rows.projects.get(project.parent)
            if parent is None:
                require(who, "identity:create_project", Target(domain=domain or who.domain))
                raise missing("project", project.parent)
            above = parent.domain or parent.id
            if domain is not None and domain != above:
                raise BadInput("bad-parent", "a project lies in the domain of its parent; leave domain_id away")
            domain = above
            if not parent.is_domain and len(ancestors(rows, parent)) + 2 > MAX_DEPTH:
                raise Refused("too-deep", f"projects lie at most {MAX_DEPTH} deep, and {parent.name} is at the bottom")
            if not parent.enabled and project.enabled:
                raise Refused("parent-disabled", f"project {parent.name} is disabled; enable it, or make this disabled")
        # Nothing named: the domain that the caller acts in.
        domain = domain or who.domain or who.project_domain or DEFAULT_DOMAIN
        require(who, "identity:create_project", Target(domain=domain))
        check_domain(rows, domain)
        return replace(project, domain=domain, parent=project.parent or domain)

    async def project(self, who: Principal, id: str, action: str = "identity:get_project") -> Project:
        project = known(await self._desk.read(lambda rows: rows.projects.get(id)), who, action, "project", id)
        require(who, action, _target(project))
        return project

    async def domain(self, who: Principal, id: str) -> Project:
        action = "identity:get_domain"
        domain = await self._desk.read(lambda rows: rows.projects.get(id))
        found = known(domain if domain is not None and domain.is_domain else None, who, action, "domain", id)
        require(who, action, _target(found))
        return found

    async def projects(self, who: Principal, filters: Filters, tags: Tags, asked: Asked) -> Listed[Project]:
        wanted = dict(filters)
        if not anywhere(who, "identity:list_projects"):
            domain = filters.get("domain")
            wanted["domain"] = own_domain(who, "identity:list_projects", domain if isinstance(domain, str) else None)
        rows = await self._desk.read(
            lambda rows: rows.projects.tagged(
                wanted,
                asked.after,
                asked.limit + 1,
                all_of=tags.all_of,
                any_of=tags.any_of,
                not_all_of=tags.not_all_of,
                none_of=tags.none_of,
            )
        )
        return listed(rows, asked)

    async def domains(self, who: Principal, filters: Filters, asked: Asked) -> Listed[Project]:
        wanted = {**filters, "is_domain": True}
        if not anywhere(who, "identity:list_domains"):
            require(who, "identity:list_domains", Target(domain=who.domain))
            wanted["id"] = who.domain
        return listed(
            await self._desk.read(lambda rows: rows.projects.page(wanted, asked.after, asked.limit + 1)), asked
        )

    async def update(self, who: Principal, id: str, changes: Changes, *, domain: bool = False) -> Project:
        """`domain`: it is to be a domain, or it is not found."""
        action = "identity:update_domain" if domain else "identity:update_project"
        touched = Touched(projects={id})

        def work(unit: Unit) -> Project:
            rows = unit.directory
            held = self._held(rows, who, action, id, domain)
            wanted = changes.apply(held)
            if (wanted.domain, wanted.parent, wanted.is_domain) != (held.domain, held.parent, held.is_domain):
                raise BadInput("place-fixed", f"a {_what(held)} stays where it is; make another one")
            self._check_enabled(rows, held, wanted)
            put_named(rows.projects.put, wanted, _what(held), wanted.name)
            if held.is_domain and held.enabled != wanted.enabled:
                touched.all_of_them = True
            fields = changes.names()
            self._desk.note(unit, who, f"{_what(held)}-updated", id, wanted.name, fields=fields)
            return wanted

        return await self._desk.change("project.updated", work, touched)

    def _held(self, rows: DirectoryRows, who: Principal, action: str, id: str, domain: bool) -> Project:
        found = rows.projects.get(id)
        if domain and found is not None and not found.is_domain:
            found = None
        held = known(found, who, action, "domain" if domain else "project", id)
        if held.is_domain:
            # By whichever address: a domain is for an admin of the whole cloud.
            require(who, action.replace("_project", "_domain"), _target(held))
        else:
            require(who, action, _target(held))
        return held

    def _check_enabled(self, rows: DirectoryRows, held: Project, wanted: Project) -> None:
        if held.is_domain:
            if held.id == DEFAULT_DOMAIN and not wanted.enabled:
                raise Refused("default-domain", "the domain `default` can not be disabled: this cloud's admin is in it")
            return
        if held.enabled and not wanted.enabled and rows.projects.find({"parent": held.id, "enabled": True}) is not None:
            raise Refused("child-enabled", f"project {held.name} has enabled projects below it; disable them first")
        if wanted.enabled and not held.enabled:
            above = rows.projects.some(ancestors(rows, held))
            if any(not project.enabled for project in above.values()):
                raise Refused("parent-disabled", f"a project above {held.name} is disabled; enable that first")

    async def delete(self, who: Principal, id: str) -> None:
        """With its grants and the application credentials for it. Raises Refused if there are projects below.

        A domain that is called a project goes as a domain goes.
        """
        action = "identity:delete_project"
        held = await self._desk.read(lambda rows: rows.projects.get(id))
        if held is not None and held.is_domain:
            await self.delete_domain(who, id)
            return

        def work(unit: Unit) -> None:
            rows = unit.directory
            held = self._held(rows, who, action, id, False)
            if rows.projects.find({"parent": id}) is not None:
                raise Refused("not-a-leaf", f"project {held.name} has projects below it; delete them first")
            drop_project(rows, id)
            self._desk.note(unit, who, "project-deleted", id, held.name, domain=held.domain or "")

        await self._desk.change("project.deleted", work, Touched(projects={id}))

    async def delete_domain(self, who: Principal, id: str) -> None:
        """With all that lies in it, in several units of work: nobody can enter it, since it is disabled.

        May be said again after it broke off. Raises Refused while it is enabled.
        """
        action = "identity:delete_domain"

        def check(rows: DirectoryRows) -> None:
            held = self._held(rows, who, action, id, True)
            if held.id == DEFAULT_DOMAIN:
                raise Refused("default-domain", "the domain `default` can not be deleted: this cloud's admin is in it")
            if held.enabled:
                raise Refused(
                    "domain-enabled", f"Cannot delete a domain that is enabled, please disable it first: {id}"
                )

        def empty(unit: Unit) -> bool:
            """A batch of what lies in the domain; True if nothing is left."""
            rows = unit.directory
            check(rows)
            for user in rows.users.page({"domain": id}, "", BATCH):
                drop_user(rows, user.id)
            for group in rows.groups.page({"domain": id}, "", BATCH):
                drop_group(rows, group.id)
            # The deepest first: a parent's row outlives its children's.
            for project in rows.projects.page({"domain": id}, "", BATCH):
                if rows.projects.find({"parent": project.id}) is None:
                    drop_project(rows, project.id)
            rows.roles.delete_some({"domain": id}, BATCH)
            return all(
                table.find({"domain": id}) is None for table in (rows.users, rows.groups, rows.projects, rows.roles)
            )

        def last(unit: Unit) -> None:
            rows = unit.directory
            check(rows)
            held = rows.projects.get(id)
            drop_project(rows, id)
            self._desk.note(
                unit,
                who,
                "domain-deleted",
                id,
                held.name if held else "",
            )

        await self._desk.read(check)
        while not await self._desk.change("domain.emptied", empty, Touched(all_of_them=True)):
            pass
        await self._desk.change("domain.deleted", last, Touched(all_of_them=True))

    # --- tags -----------------------------------------------------------------------------------

    async def tag(self, who: Principal, id: str, change: Sequence[str], how: str) -> Project:
        """`how`: "set" replaces all tags, "add" and "remove" change one. Raises NotFound for one that is not there."""
        actions = {"set": "update_project_tags", "add": "create_project_tag", "remove": "delete_project_tag"}
        action = f"identity:{actions[how]}"

        def work(unit: Unit) -> Project:
            rows = unit.directory
            held = known(rows.projects.get(id), who, action, "project", id)
            require(who, action, _target(held))
            tags = set(change) if how == "set" else set(held.tags)
            if how == "remove" and not tags >= set(change):
                raise NotFound("no-tag", f"Could not find project tag: {change[0][:255]}.")
            tags = tags - set(change) if how == "remove" else tags | set(change)
            if len(tags) > MAX_TAGS:
                raise BadInput("too-many-tags", f"a project has at most {MAX_TAGS} tags, got {len(tags)}")
            wanted = replace(held, tags=tuple(sorted(tags)))
            rows.projects.put(wanted)
            self._desk.note(unit, who, "project-tagged", id, held.name, tags=", ".join(wanted.tags))
            return wanted

        return await self._desk.change("project.tagged", work)


def drop_project(rows: DirectoryRows, id: str) -> None:
    """With what is granted on it; foreign keys take credentials for it along."""
    for kind in (ScopeKind.PROJECT, ScopeKind.DOMAIN):
        rows.grants.drop({"target_kind": kind.value, "target": id})
    rows.users.forget_project(id)
    rows.projects.delete(id)


def _what(project: Project) -> str:
    return "domain" if project.is_domain else "project"


def _target(project: Project) -> Target:
    return Target(domain=project.domain or project.id, project=project.id)
