"""Roles, and what they imply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from banyan.core.directory import Role
from banyan.core.directory_rows import DirectoryRows, Filters
from banyan.core.errors import BadInput, NotFound, Refused
from banyan.core.permissions import ADMIN_ROLE, MANAGER_ROLE, MEMBER_ROLE, READER_ROLE, require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.trust import roles as rules
from banyan.zone.identity.desk import Asked, Changes, Desk, Listed, Touched, known, listed, missing
from banyan.zone.identity.people import check_domain, put_named, taken

# The policy asks for these by name: they stay, and keep their names.
BUILT_IN = frozenset({ADMIN_ROLE, MANAGER_ROLE, MEMBER_ROLE, READER_ROLE})
# All roles and implications are read at each login that is not remembered.
MAX_ROLES = 1_000


class Roles:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, who: Principal, role: Role) -> Role:
        require(who, f"identity:create_{_noun(role)}")
        made = replace(role, id=self._desk.new_id())

        def work(unit: Unit) -> Role:
            rows = unit.directory
            if made.domain is not None:
                check_domain(rows, made.domain)
            if rows.roles.count({}) >= MAX_ROLES:
                raise Refused("too-many-roles", f"a zone has at most {MAX_ROLES} roles; delete some first")
            if not rows.roles.add(made):
                raise taken("role", made.name)
            self._desk.note(unit, who, "role-created", made.id, made.name, domain=made.domain or "")
            return made

        return await self._desk.change("role.created", work)

    async def role(self, who: Principal, id: str) -> Role:
        role = known(await self._desk.read(lambda rows: rows.roles.get(id)), who, "identity:get_role", "role", id)
        require(who, f"identity:get_{_noun(role)}")
        return role

    async def roles(self, who: Principal, filters: Filters, asked: Asked) -> Listed[Role]:
        """Without a domain among the filters, the roles that belong to none."""
        wanted: dict[str, str | bool | None] = {"domain": None, **filters}
        require(who, "identity:list_roles" if wanted["domain"] is None else "identity:list_domain_roles")
        return listed(await self._desk.read(lambda rows: rows.roles.page(wanted, asked.after, asked.limit + 1)), asked)

    async def update(self, who: Principal, id: str, changes: Changes) -> Role:
        def work(unit: Unit) -> Role:
            rows = unit.directory
            held = known(rows.roles.get(id), who, "identity:update_role", "role", id)
            require(who, f"identity:update_{_noun(held)}")
            wanted = changes.apply(held)
            if wanted.domain != held.domain:
                raise BadInput("domain-fixed", "a role stays in its domain; make another one in the other domain")
            if wanted.name != held.name:
                _check_not_built_in(held, "renamed")
            put_named(rows.roles.put, wanted, "role", wanted.name)
            self._desk.note(unit, who, "role-updated", id, wanted.name, fields=changes.names())
            return wanted

        return await self._desk.change("role.updated", work, Touched(all_of_them=True))

    async def delete(self, who: Principal, id: str) -> None:
        """With all grants of it."""

        def work(unit: Unit) -> None:
            rows = unit.directory
            held = known(rows.roles.get(id), who, "identity:delete_role", "role", id)
            require(who, f"identity:delete_{_noun(held)}")
            _check_not_built_in(held, "deleted")
            rows.roles.delete(id)
            self._desk.note(unit, who, "role-deleted", id, held.name)

        await self._desk.change("role.deleted", work, Touched(all_of_them=True))

    # --- implication ----------------------------------------------------------------------------

    async def imply(self, who: Principal, prior: str, implied: str) -> tuple[Role, Role]:
        """Who has `prior` has `implied` as well, from now on. Repeating it is well."""
        require(who, "identity:create_implied_role")

        def work(unit: Unit) -> tuple[Role, Role]:
            rows = unit.directory
            pair = _pair(rows, prior, implied)
            if pair[0].domain is None and pair[1].domain is not None:
                raise Refused("global-implies", "a role of no domain can not imply a domain's own role")
            if pair[1].name == ADMIN_ROLE and pair[1].domain is None:
                raise Refused("implies-admin", "no role may imply admin: whoever has it would become one unawares")
            known_pairs = rules.implied_by(rows.implications.all())
            if rules.would_ring(prior, implied, known_pairs):
                raise BadInput("ring", f"role {pair[1].name} implies {pair[0].name} already: both would be the same")
            if rows.implications.add(prior, implied):
                self._desk.note(unit, who, "role-implied", prior, f"{pair[0].name} implies {pair[1].name}")
            return pair

        return await self._desk.change("role.implied", work, Touched(all_of_them=True))

    async def imply_no_more(self, who: Principal, prior: str, implied: str) -> None:
        require(who, "identity:delete_implied_role")

        def work(unit: Unit) -> None:
            rows = unit.directory
            pair = _pair(rows, prior, implied)
            if not rows.implications.remove(prior, implied):
                raise _no_implication(prior, implied)
            text = f"{pair[0].name} no longer implies {pair[1].name}"
            self._desk.note(unit, who, "role-implied", prior, text)

        await self._desk.change("role.implied", work, Touched(all_of_them=True))

    async def implication(self, who: Principal, prior: str, implied: str) -> tuple[Role, Role]:
        """Raises NotFound unless the one implies the other directly."""
        require(who, "identity:get_implied_role")

        def look(rows: DirectoryRows) -> tuple[Role, Role]:
            pair = _pair(rows, prior, implied)
            if (prior, implied) not in rows.implications.all():
                raise _no_implication(prior, implied)
            return pair

        return await self._desk.read(look)

    async def implications(self, who: Principal) -> Sequence[tuple[Role, Sequence[Role]]]:
        """Each role that implies others directly, with those; by id."""
        require(who, "identity:list_role_inference_rules")

        def look(rows: DirectoryRows) -> Sequence[tuple[Role, Sequence[Role]]]:
            pairs = rows.implications.all()
            roles = rows.roles.some({id for pair in pairs for id in pair})
            return [
                (roles[prior], [roles[id] for id in sorted(implied)])
                for prior, implied in sorted(rules.implied_by(pairs).items())
            ]

        return await self._desk.read(look)

    async def implied_by(self, who: Principal, prior: str) -> tuple[Role, Sequence[Role]]:
        require(who, "identity:list_implied_roles")

        def look(rows: DirectoryRows) -> tuple[Role, Sequence[Role]]:
            ids = [implied for one, implied in rows.implications.all() if one == prior]
            roles: Mapping[str, Role] = rows.roles.some([prior, *ids])
            if prior not in roles:
                raise missing("role", prior)
            return roles[prior], [roles[id] for id in ids]

        return await self._desk.read(look)


def _pair(rows: DirectoryRows, prior: str, implied: str) -> tuple[Role, Role]:
    found = rows.roles.some([prior, implied])
    for id in (prior, implied):
        if id not in found:
            raise missing("role", id)
    return found[prior], found[implied]


def _noun(role: Role) -> str:
    return "role" if role.domain is None else "domain_role"


def _check_not_built_in(role: Role, what: str) -> None:
    if role.domain is None and role.name in BUILT_IN:
        raise Refused("built-in-role", f"the role {role.name} can not be {what}: the policy asks for it by name")


def _no_implication(prior: str, implied: str) -> NotFound:
    return NotFound("no-implication", f"role {prior[:255]} does not imply role {implied[:255]}")
