"""Roles and what they imply; grants of them, and assignments as they are or as they work out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from banyan.api.keystone import render
from banyan.api.keystone.bodies import RoleCreate, RoleUpdate, changed, extra
from banyan.api.keystone.people import filters
from banyan.api.openstack.call import Answer, Call
from banyan.core.directory import ActorKind, Grant, Group, Project, Role, User
from banyan.core.errors import BadInput
from banyan.core.principal import ScopeKind
from banyan.zone.identity.grants import Assignment, Assignments, Wanted

Json = dict[str, object]


async def create(call: Call, body: RoleCreate) -> Answer:
    """Make a role."""
    new = body.role
    role = Role("", new.name, new.domain_id, new.description or "", extra(call, body))
    return {"role": render.role(call, await call.identity.roles.create(call.principal, role))}


async def show(call: Call) -> Answer:
    """One role."""
    return {"role": render.role(call, await call.identity.roles.role(call.principal, call.params["role_id"]))}


async def list_all(call: Call) -> Answer:
    """Roles, by id: those of no domain, or those of the one that is asked for."""
    page = await call.identity.roles.roles(
        call.principal, filters(call, name="name", domain_id="domain"), render.asked(call)
    )
    return render.collection(call, "roles", page, render.role, "/v3/roles", page.items[-1].id if page.items else "")


async def update(call: Call, body: RoleUpdate) -> Answer:
    """Change a role."""
    changes = changed(call, body, domain_id="domain")
    wanted = await call.identity.roles.update(call.principal, call.params["role_id"], changes)
    return {"role": render.role(call, wanted)}


async def delete(call: Call) -> Answer:
    """Delete a role, with all grants of it."""
    await call.identity.roles.delete(call.principal, call.params["role_id"])
    return None


# --- implication --------------------------------------------------------------------------------


async def imply(call: Call) -> Answer:
    """Let a role imply another."""
    prior, implied = await call.identity.roles.imply(call.principal, *_pair(call))
    return _inference(call, prior, implied)


async def imply_no_more(call: Call) -> Answer:
    """Let a role no longer imply another."""
    await call.identity.roles.imply_no_more(call.principal, *_pair(call))
    return None


async def implication(call: Call) -> Answer:
    """That a role implies another."""
    prior, implied = await call.identity.roles.implication(call.principal, *_pair(call))
    return _inference(call, prior, implied)


async def implies(call: Call) -> Answer:
    """Whether a role implies another."""
    await call.identity.roles.implication(call.principal, *_pair(call))
    return None


async def implied_by(call: Call) -> Answer:
    """What a role implies."""
    prior, roles = await call.identity.roles.implied_by(call.principal, call.params["prior_role_id"])
    links = {"self": call.link(f"/v3/roles/{prior.id}/implies")}
    shown = {"prior_role": _short(call, prior), "implies": [_short(call, role) for role in roles]}
    return {"role_inference": shown, "links": links}


async def inferences(call: Call) -> Answer:
    """All implications."""
    rules = await call.identity.roles.implications(call.principal)
    shown = [
        {"prior_role": _short(call, prior), "implies": [_short(call, role) for role in roles]} for prior, roles in rules
    ]
    return {"role_inferences": shown, "links": {"self": call.link("/v3/role_inferences")}}


def _pair(call: Call) -> tuple[str, str]:
    return call.params["prior_role_id"], call.params["implied_role_id"]


def _short(call: Call, role: Role) -> Json:
    return {
        "id": role.id,
        "name": role.name,
        "description": role.description,
        "links": {"self": call.link(f"/v3/roles/{role.id}")},
    }


def _inference(call: Call, prior: Role, implied: Role) -> Json:
    links = {"self": call.link(f"/v3/roles/{prior.id}/implies/{implied.id}")}
    return {"role_inference": {"prior_role": _short(call, prior), "implies": _short(call, implied)}, "links": links}


# --- grants -------------------------------------------------------------------------------------

Run = Callable[[Call], Awaitable[Answer]]


def granting(kind: ScopeKind, actor: ActorKind, *, inherited: bool = False) -> tuple[Run, Run, Run, Run]:
    """The four handlers of one kind of grant: list, check, give, take."""

    def grant(call: Call) -> Grant:
        params = call.params
        target = params.get("project_id") or params.get("domain_id") or ""
        who = params["user_id"] if actor is ActorKind.USER else params["group_id"]
        return Grant(actor, who, kind, target, params.get("role_id", ""), inherited)

    async def list_(call: Call) -> Answer:
        wanted = grant(call)
        page = await call.identity.grants.of(call.principal, wanted)
        where = "system" if kind is ScopeKind.SYSTEM else f"{kind}s/{wanted.target}"
        return render.collection(call, "roles", page, render.role, f"/v3/{where}/{actor}s/{wanted.actor}/roles")

    async def check(call: Call) -> Answer:
        await call.identity.grants.check(call.principal, grant(call))
        return None

    async def give(call: Call) -> Answer:
        await call.identity.grants.give(call.principal, grant(call))
        return None

    async def take(call: Call) -> Answer:
        await call.identity.grants.take(call.principal, grant(call))
        return None

    what = f"a {actor.value}'s roles on " + ("the system" if kind is ScopeKind.SYSTEM else f"a {kind.value}")
    below = ", for what lies below it" if inherited else ""
    list_.__doc__, check.__doc__ = f"List {what}{below}.", f"Look for one of {what}{below}."
    give.__doc__, take.__doc__ = f"Add to {what}{below}.", f"Take from {what}{below}."
    return list_, check, give, take


# --- assignments --------------------------------------------------------------------------------


async def assignments(call: Call) -> Answer:
    """Who has which role where."""
    found = await call.identity.grants.assignments(call.principal, _wanted(call))
    names = bool(call.flag("include_names"))
    body: Json = {
        "role_assignments": [_assignment(call, line, found, names) for line in found.lines],
        "links": {"self": call.link("/v3/role_assignments"), "next": None, "previous": None},
    }
    if found.more:
        body["truncated"] = True
    return body


def _wanted(call: Call) -> Wanted:
    kinds = [
        (kind, call.one(parameter))
        for kind, parameter in (
            (ScopeKind.PROJECT, "scope.project.id"),
            (ScopeKind.DOMAIN, "scope.domain.id"),
            (ScopeKind.SYSTEM, "scope.system"),
        )
        if call.one(parameter)
    ]
    if len(kinds) > 1:
        raise BadInput("bad-filter", "one of scope.project.id, scope.domain.id and scope.system, not several")
    kind, target = kinds[0] if kinds else (None, "")
    inherited = call.maybe("scope.OS-INHERIT:inherited_to")
    if inherited not in (None, "projects"):
        raise BadInput("bad-filter", "scope.OS-INHERIT:inherited_to is projects, or left away")
    return Wanted(
        user=call.one("user.id"),
        group=call.one("group.id"),
        role=call.one("role.id"),
        kind=kind,
        target="" if kind is ScopeKind.SYSTEM else target,
        inherited=None if inherited is None else True,
        effective=bool(call.flag("effective")),
        subtree=bool(call.flag("include_subtree")),
    )


def _assignment(call: Call, line: Assignment, found: Assignments, names: bool) -> Json:
    grant, origin = line.grant, line.origin
    scope: Json
    if grant.target_kind is ScopeKind.SYSTEM:
        scope = {"system": {"all": True}}
    else:
        scope = {grant.target_kind.value: _reference(found, "project", grant.target, names)}
    if grant.inherited:
        scope["OS-INHERIT:inherited_to"] = "projects"
    where = "system" if origin.target_kind is ScopeKind.SYSTEM else f"{origin.target_kind}s/{origin.target}"
    path = f"/v3/{where}/{origin.actor_kind}s/{origin.actor}/roles/{origin.role}"
    links: Json = {
        "assignment": call.link(
            path.replace("/v3/", "/v3/OS-INHERIT/", 1) + "/inherited_to_projects" if origin.inherited else path
        )
    }
    if grant.actor_kind is not origin.actor_kind:
        links["membership"] = call.link(f"/v3/groups/{origin.actor}/users/{grant.actor}")
    if grant.role != origin.role:
        links["prior_role"] = call.link(f"/v3/roles/{origin.role}")
    return {
        "role": _reference(found, "role", grant.role, names),
        grant.actor_kind.value: _reference(found, grant.actor_kind.value, grant.actor, names),
        "scope": scope,
        "links": links,
    }


def _reference(found: Assignments, what: str, id: str, names: bool) -> Json:
    """An id, with the name and the domain of what it names if that was asked for."""
    shown: Json = {"id": id}
    if not names:
        return shown
    one: User | Group | Project | Role | None
    match what:
        case "user":
            one = found.users.get(id)
        case "group":
            one = found.groups.get(id)
        case "project" | "domain":
            one = found.projects.get(id)
        case _:
            one = found.roles.get(id)
    if one is None:
        return shown
    shown["name"] = one.name
    if one.domain is not None:
        domain = found.projects.get(one.domain)
        shown["domain"] = {"id": one.domain, "name": "" if domain is None else domain.name}
    return shown
