"""Grants: who has which role where. Given, taken back, looked at, and listed as they are or as they work out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from banyan.core.directory import ActorKind, Grant, Group, Project, Role, User
from banyan.core.directory_rows import DirectoryRows
from banyan.core.errors import BadInput, NotFound
from banyan.core.permissions import Target, anywhere, forbidden, require
from banyan.core.principal import Principal, ScopeKind
from banyan.core.records import Unit
from banyan.trust import roles as rules
from banyan.zone.identity.desk import BATCH, MAX_LIST, Desk, Listed, Touched, check_gives, missing
from banyan.zone.identity.standing import ancestors


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which assignments: by actor, role and scope; "" and None are any. `effective`: as they work out for users."""

    user: str = ""
    group: str = ""
    role: str = ""
    kind: ScopeKind | None = None
    target: str = ""
    inherited: bool | None = None
    effective: bool = False
    subtree: bool = False

    @property
    def scoped(self) -> bool:
        return self.kind is not None and (bool(self.target) or self.kind is ScopeKind.SYSTEM)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One line of the answer. `origin` is the grant that it comes from; of a plain list, that itself."""

    grant: Grant
    origin: Grant


@dataclass(frozen=True, slots=True)
class Assignments:
    """The lines with all that they name, by id. `more`: the list was cut."""

    lines: Sequence[Assignment]
    users: Mapping[str, User] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    projects: Mapping[str, Project] = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict)
    more: bool = False


class Grants:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def give(self, who: Principal, grant: Grant) -> None:
        """Repeating it is well. Nobody gives more than they have."""
        action = _action(grant, "create")

        def work(unit: Unit) -> None:
            rows = unit.directory
            role = self._check(rows, who, action, grant)
            check_gives(rows, who, action, {role.id})
            if rows.grants.add(grant):
                self._desk.note(unit, who, "role-granted", grant.actor, _said(grant, role), **_facts(grant, role))

        await self._desk.change("role.granted", work, _touched(grant))

    async def take(self, who: Principal, grant: Grant) -> None:
        """Raises NotFound if it was not given."""
        action = _action(grant, "revoke")

        def work(unit: Unit) -> None:
            rows = unit.directory
            role = self._check(rows, who, action, grant)
            check_gives(rows, who, action, {role.id})
            if not rows.grants.remove(grant):
                raise _no_grant(grant)
            self._desk.note(unit, who, "role-taken", grant.actor, _said(grant, role), **_facts(grant, role))

        await self._desk.change("role.taken", work, _touched(grant))

    async def check(self, who: Principal, grant: Grant) -> Role:
        """The role. Raises NotFound unless it is granted just so."""
        action = _action(grant, "check")

        def look(rows: DirectoryRows) -> Role:
            role = self._check(rows, who, action, grant)
            if not rows.grants.has(grant):
                raise _no_grant(grant)
            return role

        return await self._desk.read(look)

    async def of(self, who: Principal, grant: Grant) -> Listed[Role]:
        """The roles that an actor was given on a target; `grant.role` says nothing here."""
        action = _action(grant, "list")

        def look(rows: DirectoryRows) -> Listed[Role]:
            self._check_ends(rows, who, action, grant)
            held = rows.grants.on([(grant.actor_kind, grant.actor)], [(grant.target_kind, grant.target)])
            known = rows.roles.some({one.role for one in held if one.inherited is grant.inherited})
            return Listed(sorted(known.values(), key=lambda role: role.id))

        return await self._desk.read(look)

    def _check(self, rows: DirectoryRows, who: Principal, action: str, grant: Grant) -> Role:
        domain = self._check_ends(rows, who, action, grant)
        role = rows.roles.get(grant.role)
        if role is None:
            raise missing("role", grant.role)
        if role.domain is not None and role.domain != domain:
            raise BadInput("other-domain", f"role {role.name} is of another domain, and can not be granted here")
        return role

    def _check_ends(self, rows: DirectoryRows, who: Principal, action: str, grant: Grant) -> str:
        """The domain of the target. Whoever acts in one domain sees neither actors nor targets of others."""
        actor: User | Group | None
        actor = rows.users.get(grant.actor) if grant.actor_kind is ActorKind.USER else rows.groups.get(grant.actor)
        if grant.target_kind is ScopeKind.SYSTEM:
            require(who, action)
            if actor is None:
                raise missing(grant.actor_kind.value, grant.actor)
            return ""
        target = rows.projects.get(grant.target)
        if target is not None and grant.target_kind is ScopeKind.DOMAIN and not target.is_domain:
            target = None
        if actor is None or target is None:
            if not anywhere(who, action):
                raise forbidden(who, action)
            raise missing(*(
                (grant.actor_kind.value, grant.actor) if actor is None else (grant.target_kind.value, grant.target)
            ))  # fmt: skip
        domain = target.domain or target.id
        require(who, action, Target(domain=domain))
        require(who, action, Target(domain=actor.domain))
        return domain

    # --- assignments ----------------------------------------------------------------------------

    async def assignments(self, who: Principal, wanted: Wanted) -> Assignments:
        """Raises BadInput for filters that exclude each other."""
        action = "identity:list_role_assignments"
        if wanted.user and wanted.group:
            raise BadInput("bad-filter", "user.id and group.id exclude each other; give one")
        if wanted.effective and wanted.group:
            raise BadInput("bad-filter", "effective assignments are of users; group.id with effective is always empty")
        if wanted.subtree and not (wanted.kind is ScopeKind.PROJECT and wanted.target):
            raise BadInput("bad-filter", "include_subtree needs scope.project.id")

        def look(rows: DirectoryRows) -> Assignments:
            self._check_scope(rows, who, action, wanted)
            finder = _Effective(rows, wanted) if wanted.effective else _Plain(rows, wanted)
            lines: list[Assignment] = []
            more = False
            for line in finder.lines():
                if len(lines) >= MAX_LIST:
                    more = True
                    break
                lines.append(line)
            return _named(rows, lines, more)

        return await self._desk.read(look)

    def _check_scope(self, rows: DirectoryRows, who: Principal, action: str, wanted: Wanted) -> None:
        """Whoever acts in one domain must ask about that, or about a project in it."""
        if anywhere(who, action):
            return
        target = rows.projects.get(wanted.target) if wanted.target else None
        require(who, action, Target(domain=(target.domain or target.id) if target is not None else ""))


class _Plain:
    """Grants as they were given."""

    def __init__(self, rows: DirectoryRows, wanted: Wanted) -> None:
        self._rows = rows
        self._wanted = wanted

    def lines(self) -> Iterator[Assignment]:
        wanted = self._wanted
        filters: dict[str, str | bool | None] = {}
        if wanted.user:
            filters |= {"actor_kind": ActorKind.USER.value, "actor": wanted.user}
        if wanted.group:
            filters |= {"actor_kind": ActorKind.GROUP.value, "actor": wanted.group}
        if wanted.role:
            filters["role"] = wanted.role
        if wanted.inherited is not None:
            filters["inherited"] = wanted.inherited
        if wanted.kind is not None:
            filters["target_kind"] = wanted.kind.value
        targets = [wanted.target, *(_below(self._rows, wanted.target) if wanted.subtree else ())]
        for target in targets:
            narrowed = {**filters, "target": target} if wanted.scoped else filters
            for grant in every(self._rows, narrowed):
                yield Assignment(grant, grant)


class _Effective:
    """What users have in the end: groups opened, inheritance followed, implied roles named."""

    def __init__(self, rows: DirectoryRows, wanted: Wanted) -> None:
        self._rows = rows
        self._wanted = wanted
        self._implied = rules.implied_by(rows.implications.all())
        self._roles: dict[str, Role] = {}

    def lines(self) -> Iterator[Assignment]:
        seen: set[Grant] = set()
        for grant in self._grants():
            for target in self._targets(grant):
                for user in self._users(grant):
                    for role in self._closed(grant.role):
                        line = Grant(ActorKind.USER, user, target[0], target[1], role)
                        if line not in seen and self._fits(line):
                            seen.add(line)
                            yield Assignment(line, grant)

    def _fits(self, line: Grant) -> bool:
        wanted = self._wanted
        if wanted.role and line.role != wanted.role:
            return False
        return wanted.kind is None or line.target_kind is wanted.kind

    def _grants(self) -> Iterator[Grant]:
        wanted, rows = self._wanted, self._rows
        groups = rows.memberships.groups(wanted.user) if wanted.user else ()
        actors = [(ActorKind.USER, wanted.user), *((ActorKind.GROUP, group) for group in groups)] if wanted.user else []
        targets = self._places()
        if targets and actors:
            yield from self._rows.grants.on(actors, targets)
        elif targets:
            for kind, target in targets:
                yield from every(rows, {"target_kind": kind.value, "target": target})
        elif actors:
            for kind_, actor in actors:
                yield from every(rows, {"actor_kind": kind_.value, "actor": actor})
        else:
            yield from every(rows, {})

    def _places(self) -> list[tuple[ScopeKind, str]]:
        """Where grants may stand that count in the wanted scope; empty if no scope is wanted."""
        wanted = self._wanted
        if not wanted.scoped or wanted.kind is None:
            return []
        if wanted.kind is not ScopeKind.PROJECT:
            return [(wanted.kind, wanted.target)]
        found: dict[tuple[ScopeKind, str], None] = {}
        for id in self._scope():
            project = self._rows.projects.get(id)
            if project is not None:
                above = ancestors(self._rows, project)
                found |= dict.fromkeys(rules.targets_of(ScopeKind.PROJECT, id, above, project.domain or ""))
        return list(found)

    def _scope(self) -> list[str]:
        """The wanted project, with those below it if they are wanted."""
        wanted = self._wanted
        return [wanted.target, *(_below(self._rows, wanted.target) if wanted.subtree else ())]

    def _targets(self, grant: Grant) -> Iterator[tuple[ScopeKind, str]]:
        """Where a grant counts: on its target, or on what lies below that."""
        if not grant.inherited:
            if not self._wanted.scoped or grant.target in self._scope() or grant.target_kind is not ScopeKind.PROJECT:
                yield grant.target_kind, grant.target
            return
        if self._wanted.kind is ScopeKind.PROJECT and self._wanted.target:
            for id in self._scope():
                project = self._rows.projects.get(id)
                above = {*ancestors(self._rows, project), project.domain} if project is not None else set()
                if grant.target in above:
                    yield ScopeKind.PROJECT, id
        elif grant.target_kind is ScopeKind.DOMAIN:
            yield from (
                (ScopeKind.PROJECT, project.id)
                for project in pages(lambda after: self._rows.projects.page({"domain": grant.target}, after, BATCH))
            )
        else:
            yield from ((ScopeKind.PROJECT, id) for id in _below(self._rows, grant.target))

    def _users(self, grant: Grant) -> Iterator[str]:
        if grant.actor_kind is ActorKind.USER:
            yield grant.actor
        elif self._wanted.user:
            yield self._wanted.user
        else:
            after = ""
            while page := self._rows.memberships.users(grant.actor, after, BATCH):
                yield from page
                after = page[-1]

    def _closed(self, role: str) -> Iterator[str]:
        """The role and what it implies, without a domain's own."""
        held = rules.closure((role,), self._implied)
        unknown = held - self._roles.keys()
        self._roles |= self._rows.roles.some(unknown)
        yield from (id for id in sorted(held) if id in self._roles and self._roles[id].domain is None)


def every(rows: DirectoryRows, filters: Mapping[str, str | bool | None]) -> Iterator[Grant]:
    """All grants that fit, read a page at a time."""
    after: Grant | None = None
    while page := rows.grants.page(filters, after, BATCH):
        yield from page
        after = page[-1]


def pages(read: Callable[[str], Sequence[Project]]) -> Iterator[Project]:
    after = ""
    while page := read(after):
        yield from page
        after = page[-1].id


def _below(rows: DirectoryRows, id: str) -> list[str]:
    """The projects below a project, at any depth."""
    found: list[str] = []
    waiting = [id]
    while waiting:
        parent = waiting.pop()
        ids = [p.id for p in pages(lambda after, parent=parent: rows.projects.page({"parent": parent}, after, BATCH))]  # type: ignore[misc]  # mypy infers no type beside a default
        found += ids
        waiting += ids
    return found


def _named(rows: DirectoryRows, lines: Sequence[Assignment], more: bool) -> Assignments:
    """The lines with what they and their origins name."""
    all_of = [grant for line in lines for grant in (line.grant, line.origin)]
    users = rows.users.some({g.actor for g in all_of if g.actor_kind is ActorKind.USER})
    groups = rows.groups.some({g.actor for g in all_of if g.actor_kind is ActorKind.GROUP})
    projects = dict(rows.projects.some({g.target for g in all_of if g.target}))
    roles = rows.roles.some({g.role for g in all_of})
    domains = {one.domain for table in (users, groups, projects, roles) for one in table.values()}
    projects |= rows.projects.some({id for id in domains if id is not None})
    return Assignments(lines, users, groups, projects, roles, more)


def _action(grant: Grant, verb: str) -> str:
    if grant.target_kind is ScopeKind.SYSTEM:
        return f"identity:{verb}_system_grant" + ("s" if verb == "list" else "")
    return f"identity:{verb}_grant" + ("s" if verb == "list" else "")


def _touched(grant: Grant) -> Touched:
    if grant.actor_kind is ActorKind.USER:
        return Touched(users={grant.actor})
    return Touched(all_of_them=True)


def _said(grant: Grant, role: Role) -> str:
    where = "the system" if grant.target_kind is ScopeKind.SYSTEM else f"{grant.target_kind} {grant.target}"
    return f"{role.name} on {where}" + (" for what lies below" if grant.inherited else "")


def _facts(grant: Grant, role: Role) -> dict[str, str]:
    return {"actor_kind": grant.actor_kind.value, "role": role.id, "on": grant.target or "system"}


def _no_grant(grant: Grant) -> NotFound:
    where = "the system" if grant.target_kind is ScopeKind.SYSTEM else f"{grant.target_kind} {grant.target[:255]}"
    return NotFound(
        "no-grant",
        f"Could not find role assignment with role: {grant.role[:255]}, {grant.actor_kind}: {grant.actor[:255]}, "
        f"on {where}.",
    )
