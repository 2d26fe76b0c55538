"""How a user stands in a scope now: let in or not, with which roles. One snapshot of the directory, no memory."""

from __future__ import annotations

from dataclasses import dataclass

from banyan.core.directory import AccessRule, ActorKind, ApplicationCredential, Project, Role, User
from banyan.core.directory_rows import DirectoryRows
from banyan.core.errors import Unauthenticated
from banyan.core.principal import AllowedRequest, ScopeKind
from banyan.core.time import Wall
from banyan.trust import roles

# Every failure to be let in says the same to whoever tries; the detail is for the zone's log.
DENIED = "The request you have made requires authentication."
# Keystone's own bound: projects below each other, the top one counted.
MAX_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """`domains` holds those of the user, the project and the scope, by id."""

    user: User
    domains: dict[str, Project]
    project: Project | None
    domain: Project | None
    roles: list[Role]
    credential: ApplicationCredential | None = None
    rules: tuple[AccessRule, ...] = ()

    @property
    def only(self) -> tuple[AllowedRequest, ...] | None:
        """The requests that an application credential is good for; None for all."""
        if self.credential is None or not self.credential.access_rules:
            return None
        return tuple(AllowedRequest(rule.service, rule.method, rule.path) for rule in self.rules)

    @property
    def role_names(self) -> frozenset[str]:
        return frozenset(role.name for role in self.roles)


def denied(detail: str) -> Unauthenticated:
    return Unauthenticated("denied", DENIED, detail=detail)


def stand(rows: DirectoryRows, user_id: str, scope: ScopeKind, target: str, credential_id: str, now: Wall) -> Standing:
    """Raises Unauthenticated("denied") unless the user, what it belongs to and what it asks for are enabled.

    In a scope it must have at least one role. `target`: of a project's or a domain's scope.
    """
    user = rows.users.get(user_id)
    if user is None or not user.enabled:
        raise denied("the user is not there, or disabled")
    project = rows.projects.get(target) if scope in (ScopeKind.PROJECT, ScopeKind.DOMAIN) else None
    wanted = {user.domain}
    if project is not None:
        wanted.add(project.domain or project.id)
    domains = dict(rows.projects.some(wanted))
    if any(id not in domains or not domains[id].enabled for id in wanted):
        raise denied("a domain is disabled")
    if scope in (ScopeKind.PROJECT, ScopeKind.DOMAIN) and (
        project is None or not project.enabled or (scope is ScopeKind.DOMAIN and not project.is_domain)
    ):
        raise denied("the project or domain is not there, or disabled")
    credential = _credential(rows, credential_id, user, scope, target, now) if credential_id else None
    held = _roles(rows, user, scope, project, credential)
    if scope is not ScopeKind.NONE and not held:
        raise denied("the user has no role there")
    domain = project if scope is ScopeKind.DOMAIN else None
    rules = rows.access_rules.some(credential.access_rules) if credential is not None else {}
    return Standing(
        user,
        domains,
        project if scope is ScopeKind.PROJECT else None,
        domain,
        held,
        credential,
        tuple(rules[id] for id in sorted(rules)),
    )


def _credential(
    rows: DirectoryRows, id: str, user: User, scope: ScopeKind, target: str, now: Wall
) -> ApplicationCredential:
    credential = rows.application_credentials.get(id)
    if credential is None or credential.owner != user.id:
        raise denied("the application credential is not there")
    if credential.expires is not None and now >= credential.expires:
        raise denied("the application credential has ended")
    if scope is not ScopeKind.PROJECT or target != credential.project:
        raise denied("the application credential is for another scope")
    return credential


def _roles(
    rows: DirectoryRows,
    user: User,
    scope: ScopeKind,
    project: Project | None,
    credential: ApplicationCredential | None,
) -> list[Role]:
    """The roles in a scope, closed under implication; of an application credential no more than it was given."""
    if scope is ScopeKind.NONE:
        return []
    target, above, domain = "", [], ""
    if project is not None:
        target, domain = project.id, project.domain or project.id
        above = ancestors(rows, project)
    actors = [(ActorKind.USER, user.id), *((ActorKind.GROUP, group) for group in rows.memberships.groups(user.id))]
    grants = rows.grants.on(actors, roles.targets_of(scope, target, above, domain))
    given = roles.granted(grants, scope, target)
    if not given:
        return []
    implied = roles.implied_by(rows.implications.all())
    held = roles.closure(given, implied)
    if credential is not None:
        held &= roles.closure(credential.roles, implied)
    return roles.effective(held, {}, rows.roles.some(held))


def ancestors(rows: DirectoryRows, project: Project) -> list[str]:
    """Ids of the projects above, nearest first, without the domain."""
    found: list[str] = []
    at = project
    while at.parent is not None and at.parent != at.domain and len(found) < MAX_DEPTH:
        parent = rows.projects.get(at.parent)
        if parent is None:
            break
        found.append(parent.id)
        at = parent
    return found
