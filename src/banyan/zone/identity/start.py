"""The first start of a zone's identity: the domain `default`, the four roles, and one administrator.

One unit of work makes all of it or none; a zone that has it is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from banyan.core.directory import DEFAULT_DOMAIN, ActorKind, Grant, Project, Region, Role, User
from banyan.core.permissions import ADMIN_ROLE, MANAGER_ROLE, MEMBER_ROLE, READER_ROLE
from banyan.core.principal import ScopeKind
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.zone.identity.desk import Desk

ADMIN_NAME = "admin"
ROLES = (ADMIN_ROLE, MANAGER_ROLE, MEMBER_ROLE, READER_ROLE)
_SAYS = {
    ADMIN_ROLE: "of the whole cloud",
    MANAGER_ROLE: "runs the users and projects of a domain",
    MEMBER_ROLE: "uses a project",
    READER_ROLE: "looks, and changes nothing",
}


@dataclass(frozen=True, slots=True)
class _Ids:
    project: str
    user: str
    roles: tuple[str, ...]


async def first_start(desk: Desk, password: Callable[[], Secret], region: str) -> bool:
    """True if the administrator was made now, with `password()`, which is asked only then.

    `region` is made if it is not there, at each start: its name is a setting.
    """
    there = await desk.read(lambda rows: (rows.projects.get(DEFAULT_DOMAIN), rows.regions.get(region)))
    if there[0] is not None and there[1] is not None:
        return False
    ids = _Ids(desk.new_id(), desk.new_id(), tuple(desk.new_id() for _ in ROLES))
    kept = await desk.passwords.hashed(password(), "") if there[0] is None else ""

    def work(unit: Unit) -> bool:
        unit.directory.regions.add(Region(region))
        if unit.directory.projects.get(DEFAULT_DOMAIN) is not None:
            return False
        _make(desk, unit, ids, kept)
        event = desk.own.event("directory-created", ADMIN_NAME, "the first administrator of this zone's cloud")
        desk.own.write(unit, event)
        return True

    return await desk.change("directory.created", work)


def _make(desk: Desk, unit: Unit, ids: _Ids, password: str) -> None:
    rows = unit.directory
    rows.projects.add(Project(DEFAULT_DOMAIN, "Default", None, None, True, description="The default domain"))
    rows.projects.add(
        Project(ids.project, ADMIN_NAME, DEFAULT_DOMAIN, DEFAULT_DOMAIN, description="The administrator's own project")
    )
    for id, name in zip(ids.roles, ROLES, strict=True):
        rows.roles.add(Role(id, name, description=_SAYS[name]))
    for prior, implied in zip(ids.roles, ids.roles[1:], strict=False):
        rows.implications.add(prior, implied)
    rows.users.add(
        User(
            ids.user,
            ADMIN_NAME,
            DEFAULT_DOMAIN,
            password=password,
            password_at=desk.own.wall(),
            default_project=ids.project,
        )
    )
    for kind, target in (
        (ScopeKind.PROJECT, ids.project),
        (ScopeKind.DOMAIN, DEFAULT_DOMAIN),
        (ScopeKind.SYSTEM, ""),
    ):
        rows.grants.add(Grant(ActorKind.USER, ids.user, kind, target, ids.roles[0]))
