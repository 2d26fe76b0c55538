"""Identity as surfaces meet it: its parts by name, and what concerns several of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from banyan.core.directory import ActorKind, Project
from banyan.core.directory_rows import DirectoryRows
from banyan.core.errors import NotFound, Unauthenticated
from banyan.core.permissions import Target, require
from banyan.core.ports import Ids, Store
from banyan.core.principal import Principal, ScopeKind, UserClaims
from banyan.core.secret import Secret
from banyan.trust import roles as rules
from banyan.zone.identity.catalog import Catalog
from banyan.zone.identity.desk import MAX_LIST, Desk, Listed, Passwords, known
from banyan.zone.identity.gate import Gate
from banyan.zone.identity.grants import Grants
from banyan.zone.identity.keys import Keys
from banyan.zone.identity.logins import Logins
from banyan.zone.identity.people import People
from banyan.zone.identity.projects import Projects
from banyan.zone.identity.roles import Roles
from banyan.zone.identity.signatures import Signatures
from banyan.zone.identity.standing import Standing
from banyan.zone.identity.start import first_start
from banyan.zone.own import Own


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """`token_life`: seconds. `region`: the one that this zone's own services stand in."""

    token_life: float = 3600.0
    region: str = "RegionOne"


class Identity:
    """Parts are public: handlers call them, and each authorises by itself."""

    def __init__(self, own: Own, store: Store, ids: Ids, passwords: Passwords, settings: IdentitySettings) -> None:
        self._desk = Desk(own, store, ids, passwords)
        self._settings = settings
        self.gate = Gate(self._desk)
        self.logins = Logins(self._desk, self.gate, settings.token_life)
        self.signatures = Signatures(self.logins)
        self.people = People(self._desk)
        self.projects = Projects(self._desk)
        self.roles = Roles(self._desk)
        self.grants = Grants(self._desk)
        self.keys = Keys(self._desk)
        self.catalog = Catalog(self._desk, settings.region)

    async def start(self, password: Callable[[], Secret]) -> bool:
        """Makes the first administrator if there is none, with `password()`; True if it did."""
        made = await first_start(self._desk, password, self._settings.region)
        await self.gate.load()
        return made

    # --- tokens ---------------------------------------------------------------------------------

    async def validate(self, who: Principal, token: str) -> tuple[UserClaims, Standing]:
        """What a token is worth now. Raises NotFound("no-token") if nothing."""
        claims, standing = await self._worth(token)
        require(who, "identity:validate_token", Target(user=claims.user))
        return claims, standing

    async def revoke(self, who: Principal, token: str) -> None:
        """Raises NotFound("no-token") for one that is worth nothing any more."""
        claims, _ = await self._worth(token)
        require(who, "identity:revoke_token", Target(user=claims.user))
        await self.gate.revoke(who, claims)

    async def _worth(self, token: str) -> tuple[UserClaims, Standing]:
        try:
            claims = self.gate.verify(token)
            return claims, await self.gate.standing(claims)
        except Unauthenticated as error:
            raise NotFound("no-token", "Could not find token: it has ended, or it is not one of ours.") from error

    # --- what one may choose from ---------------------------------------------------------------

    async def projects_of(self, who: Principal, user_id: str) -> Listed[Project]:
        """The enabled projects on which a user has a role, by id; one's own, or of whom one may see."""
        action = "identity:list_user_projects"

        def look(rows: DirectoryRows) -> Listed[Project]:
            if user_id != who.user:
                user = known(rows.users.get(user_id), who, action, "user", user_id)
                require(who, action, Target(domain=user.domain, user=user.id))
            found = _reached(rows, user_id)
            listed = [project for _, project in sorted(found.items())]
            return Listed(listed[:MAX_LIST], len(listed) > MAX_LIST)

        return await self._desk.read(look)

    async def domains_of(self, who: Principal) -> Listed[Project]:
        def look(rows: DirectoryRows) -> Listed[Project]:
            direct, _ = rules.scopes_of(
                rows.grants.of(_actors(rows, who.user), ScopeKind.DOMAIN, MAX_LIST), ScopeKind.DOMAIN
            )
            found = rows.projects.some(direct)
            return Listed([found[id] for id in sorted(found) if found[id].enabled])

        return await self._desk.read(look)

    async def on_system(self, who: Principal) -> bool:
        """Whether the caller may ask for the system's scope."""
        if not who.user:
            return who.scope is ScopeKind.SYSTEM
        return bool(await self._desk.read(lambda rows: rows.grants.of(_actors(rows, who.user), ScopeKind.SYSTEM, 1)))


def _actors(rows: DirectoryRows, user: str) -> Sequence[tuple[ActorKind, str]]:
    return [(ActorKind.USER, user), *((ActorKind.GROUP, group) for group in rows.memberships.groups(user))]


def _reached(rows: DirectoryRows, user: str) -> dict[str, Project]:
    """Projects with a grant on them, above them, or on their domain for what lies in it. At most about MAX_LIST."""
    actors = _actors(rows, user)
    direct, above = rules.scopes_of(rows.grants.of(actors, ScopeKind.PROJECT, 10 * MAX_LIST), ScopeKind.PROJECT)
    _, domains = rules.scopes_of(rows.grants.of(actors, ScopeKind.DOMAIN, MAX_LIST), ScopeKind.DOMAIN)
    found = {id: project for id, project in rows.projects.some(direct).items() if project.enabled}
    for domain in sorted(domains):
        if len(found) > MAX_LIST:
            break
        within = rows.projects.page({"domain": domain, "enabled": True}, "", MAX_LIST + 1)
        found |= {project.id: project for project in within}
    waiting = sorted(above)
    while waiting and len(found) <= MAX_LIST:
        below = rows.projects.page({"parent": waiting.pop(), "enabled": True}, "", MAX_LIST + 1)
        found |= {project.id: project for project in below}
        waiting += [project.id for project in below]
    return found
