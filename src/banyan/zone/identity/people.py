"""Users, groups, and who is in which group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from banyan.core.directory import ActorKind, Group, Project, User
from banyan.core.directory_rows import DirectoryRows, Filters
from banyan.core.errors import BadInput, Conflict, NotFound, Refused
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal, ScopeKind
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.zone.identity.desk import (
    Asked,
    Changes,
    Desk,
    Listed,
    Touched,
    check_gives,
    known,
    listed,
    missing,
    own_domain,
    roles_held,
)
from banyan.zone.identity.standing import denied

R = TypeVar("R")

# A user is in at most so many groups: each login reads them all.
MAX_GROUPS = 1_000


class People:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    # --- users ----------------------------------------------------------------------------------

    async def create_user(self, who: Principal, user: User, password: Secret | None) -> User:
        """`user.id` is drawn here. Raises NotFound (its domain), Conflict("name-taken"), Refused."""
        require(who, "identity:create_user", Target(domain=user.domain))
        kept = "" if password is None else await self._desk.passwords.hashed(password, who.address)
        now = self._desk.own.wall()
        made = replace(user, id=self._desk.new_id(), password=kept, password_at=now if kept else None)

        def work(unit: Unit) -> User:
            rows = unit.directory
            check_domain(rows, made.domain)
            check_project(rows, made.default_project)
            if not rows.users.add(made):
                raise taken("user", made.name)
            self._desk.note(unit, who, "user-created", made.id, made.name, domain=made.domain)
            return made

        return await self._desk.change("user.created", work)

    async def user(self, who: Principal, id: str) -> User:
        action = "identity:get_user"
        user = known(await self._desk.read(lambda rows: rows.users.get(id)), who, action, "user", id)
        require(who, action, Target(domain=user.domain, user=user.id))
        return user

    async def users(self, who: Principal, filters: Filters, asked: Asked) -> Listed[User]:
        domain = own_domain(who, "identity:list_users", _text(filters.get("domain")))
        wanted = {**filters, **({"domain": domain} if domain else {})}
        return listed(await self._desk.read(lambda rows: rows.users.page(wanted, asked.after, asked.limit + 1)), asked)

    async def update_user(self, who: Principal, id: str, changes: Changes) -> User:
        """A new password, or `enabled` false, ends all tokens of the user."""
        action = "identity:update_user"
        hashed = changes.password
        kept = None if hashed is None else await self._desk.passwords.hashed(hashed, who.address)
        now = self._desk.own.wall()

        def work(unit: Unit) -> User:
            rows = unit.directory
            held = known(rows.users.get(id), who, action, "user", id)
            require(who, action, Target(domain=held.domain, user=held.id))
            check_gives(rows, who, action, roles_held(rows, ActorKind.USER, id))
            wanted = changes.apply(held)
            if wanted.domain != held.domain:
                raise BadInput("domain-fixed", "a user stays in its domain; make another one in the other domain")
            if wanted.default_project != held.default_project:
                check_project(rows, wanted.default_project)
            if kept is not None:
                wanted = replace(wanted, password=kept, password_at=now, epoch=held.epoch + 1)
            elif held.enabled and not wanted.enabled:
                wanted = replace(wanted, epoch=held.epoch + 1)
            put_named(rows.users.put, wanted, "user", wanted.name)
            self._desk.note(unit, who, "user-updated", id, wanted.name, fields=changes.names())
            return wanted

        return await self._desk.change("user.updated", work, Touched(users={id}))

    async def change_password(self, id: str, old: Secret, new: Secret, address: str, request: str) -> None:
        """A user's own word, who shows the old password: no token is needed for it. Ends all its tokens.

        Raises Unauthenticated for a wrong password and for an unknown user alike.
        """
        user = await self._desk.read(lambda rows: rows.users.get(id))
        kept = user.password if user is not None else ""
        right = await self._desk.passwords.matches(old, kept, address)
        if user is None or not right or not user.enabled:
            raise denied("no such user, or a wrong password")
        fresh = await self._desk.passwords.hashed(new, address)
        now = self._desk.own.wall()
        scope = ScopeKind.NONE
        who = Principal(
            self._desk.own.code, id, user.name, user.domain, scope, frozenset(), now, address=address, request=request
        )

        def work(unit: Unit) -> None:
            held = unit.directory.users.get(id)
            if held is None or held.password != kept:
                raise denied("the password was changed meanwhile")
            unit.directory.users.put(replace(held, password=fresh, password_at=now, epoch=held.epoch + 1))
            self._desk.note(unit, who, "password-changed", id, held.name)

        await self._desk.change("user.password", work, Touched(users={id}))

    async def delete_user(self, who: Principal, id: str) -> None:
        """Its groups, credentials and grants go with it."""
        action = "identity:delete_user"

        def work(unit: Unit) -> None:
            rows = unit.directory
            held = known(rows.users.get(id), who, action, "user", id)
            require(who, action, Target(domain=held.domain, user=held.id))
            check_gives(rows, who, action, roles_held(rows, ActorKind.USER, id))
            drop_user(rows, id)
            self._desk.note(unit, who, "user-deleted", id, held.name, domain=held.domain)

        await self._desk.change("user.deleted", work, Touched(users={id}))

    # --- groups ---------------------------------------------------------------------------------

    async def create_group(self, who: Principal, group: Group) -> Group:
        require(who, "identity:create_group", Target(domain=group.domain))
        made = replace(group, id=self._desk.new_id())

        def work(unit: Unit) -> Group:
            check_domain(unit.directory, made.domain)
            if not unit.directory.groups.add(made):
                raise taken("group", made.name)
            self._desk.note(unit, who, "group-created", made.id, made.name, domain=made.domain)
            return made

        return await self._desk.change("group.created", work)

    async def group(self, who: Principal, id: str) -> Group:
        action = "identity:get_group"
        group = known(await self._desk.read(lambda rows: rows.groups.get(id)), who, action, "group", id)
        require(who, action, Target(domain=group.domain))
        return group

    async def groups(self, who: Principal, filters: Filters, asked: Asked) -> Listed[Group]:
        domain = own_domain(who, "identity:list_groups", _text(filters.get("domain")))
        wanted = {**filters, **({"domain": domain} if domain else {})}
        return listed(await self._desk.read(lambda rows: rows.groups.page(wanted, asked.after, asked.limit + 1)), asked)

    async def update_group(self, who: Principal, id: str, changes: Changes) -> Group:
        action = "identity:update_group"

        def work(unit: Unit) -> Group:
            rows = unit.directory
            held = known(rows.groups.get(id), who, action, "group", id)
            require(who, action, Target(domain=held.domain))
            wanted = changes.apply(held)
            if wanted.domain != held.domain:
                raise BadInput("domain-fixed", "a group stays in its domain; make another one in the other domain")
            put_named(rows.groups.put, wanted, "group", wanted.name)
            self._desk.note(unit, who, "group-updated", id, wanted.name, fields=changes.names())
            return wanted

        return await self._desk.change("group.updated", work)

    async def delete_group(self, who: Principal, id: str) -> None:
        action = "identity:delete_group"

        def work(unit: Unit) -> None:
            rows = unit.directory
            held = known(rows.groups.get(id), who, action, "group", id)
            require(who, action, Target(domain=held.domain))
            check_gives(rows, who, action, roles_held(rows, ActorKind.GROUP, id))
            drop_group(rows, id)
            self._desk.note(unit, who, "group-deleted", id, held.name, domain=held.domain)

        await self._desk.change("group.deleted", work, Touched(all_of_them=True))

    # --- who is in which ------------------------------------------------------------------------

    async def add_to_group(self, who: Principal, group_id: str, user_id: str) -> None:
        """Repeating it is well."""
        action = "identity:add_user_to_group"

        def work(unit: Unit) -> None:
            rows = unit.directory
            group, user = self._pair(rows, who, action, group_id, user_id)
            check_gives(rows, who, action, roles_held(rows, ActorKind.GROUP, group.id))
            if len(rows.memberships.groups(user.id)) >= MAX_GROUPS:
                raise Refused("too-many-groups", f"a user is in at most {MAX_GROUPS} groups")
            if rows.memberships.add(group.id, user.id):
                self._desk.note(unit, who, "group-joined", group.id, group.name, user=user.id, name=user.name)

        await self._desk.change("group.joined", work, Touched(users={user_id}))

    async def remove_from_group(self, who: Principal, group_id: str, user_id: str) -> None:
        action = "identity:remove_user_from_group"

        def work(unit: Unit) -> None:
            rows = unit.directory
            group, user = self._pair(rows, who, action, group_id, user_id)
            check_gives(rows, who, action, roles_held(rows, ActorKind.GROUP, group.id))
            if not rows.memberships.remove(group.id, user.id):
                raise NotFound("no-member", f"User {user.id} is not found in group {group.id}.")
            self._desk.note(unit, who, "group-left", group.id, group.name, user=user.id, name=user.name)

        await self._desk.change("group.left", work, Touched(users={user_id}))

    async def in_group(self, who: Principal, group_id: str, user_id: str) -> None:
        """Raises NotFound if the user is not in the group."""

        def look(rows: DirectoryRows) -> bool:
            group, user = self._pair(rows, who, "identity:check_user_in_group", group_id, user_id)
            return rows.memberships.has(group.id, user.id)

        if not await self._desk.read(look):
            raise NotFound("no-member", f"User {user_id[:255]} is not found in group {group_id[:255]}.")

    async def group_users(self, who: Principal, id: str, asked: Asked) -> Listed[User]:
        action = "identity:list_users_in_group"

        def look(rows: DirectoryRows) -> Listed[User]:
            group = known(rows.groups.get(id), who, action, "group", id)
            require(who, action, Target(domain=group.domain))
            ids = rows.memberships.users(id, asked.after, asked.limit + 1)
            users = rows.users.some(ids)
            return listed([users[one] for one in ids if one in users], asked)

        return await self._desk.read(look)

    async def user_groups(self, who: Principal, id: str) -> Listed[Group]:
        """All of them: there are at most MAX_GROUPS."""
        action = "identity:list_groups_for_user"

        def look(rows: DirectoryRows) -> Listed[Group]:
            user = known(rows.users.get(id), who, action, "user", id)
            require(who, action, Target(domain=user.domain, user=user.id))
            ids = rows.memberships.groups(id)
            groups = rows.groups.some(ids)
            return Listed([groups[one] for one in ids])

        return await self._desk.read(look)

    def _pair(
        self, rows: DirectoryRows, who: Principal, action: str, group_id: str, user_id: str
    ) -> tuple[Group, User]:
        group = known(rows.groups.get(group_id), who, action, "group", group_id)
        require(who, action, Target(domain=group.domain))
        user = known(rows.users.get(user_id), who, action, "user", user_id)
        require(who, action, Target(domain=user.domain))
        return group, user


def drop_user(rows: DirectoryRows, id: str) -> None:
    """A user with all that is its own; foreign keys take memberships and credentials along."""
    rows.grants.drop({"actor_kind": ActorKind.USER.value, "actor": id})
    rows.users.delete(id)


def drop_group(rows: DirectoryRows, id: str) -> None:
    rows.grants.drop({"actor_kind": ActorKind.GROUP.value, "actor": id})
    rows.groups.delete(id)


def check_domain(rows: DirectoryRows, id: str) -> Project:
    """Raises NotFound("no-domain") unless there is such a domain."""
    domain = rows.projects.get(id)
    if domain is None or not domain.is_domain:
        raise missing("domain", id)
    return domain


def check_project(rows: DirectoryRows, id: str | None) -> None:
    """A default project must be one, if it is there at all: clients name projects that they make later."""
    project = None if id is None else rows.projects.get(id)
    if project is not None and project.is_domain:
        raise BadInput("bad-default-project", "a domain can not be a user's default project; name a project")


def taken(what: str, name: str) -> Conflict:
    return Conflict("name-taken", f"There is a {what} named {name[:255]!r} already; choose another name.")


def put_named(put: Callable[[R], None], record: R, what: str, name: str) -> None:
    """Puts a record; a name that is taken is told with the name."""
    try:
        put(record)
    except Conflict as error:
        raise taken(what, name) from error


def _text(value: str | bool | None) -> str | None:
    return value if isinstance(value, str) else None
