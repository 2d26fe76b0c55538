"""Users, groups, and who is in which group."""

from __future__ import annotations

from banyan.api.keystone import render
from banyan.api.keystone.bodies import (
    GroupCreate,
    GroupUpdate,
    PasswordUpdate,
    UserCreate,
    UserUpdate,
    changed,
    extra,
)
from banyan.api.openstack.call import Answer, Call
from banyan.core.directory import DEFAULT_DOMAIN, Group, User
from banyan.core.directory_rows import Filters
from banyan.core.principal import Principal
from banyan.core.secret import Secret


def home(who: Principal) -> str:
    """The domain of what is made without one: the one that the caller acts in."""
    return who.domain or who.project_domain or DEFAULT_DOMAIN


async def create_user(call: Call, body: UserCreate) -> Answer:
    """Make a user."""
    new = body.user
    user = User(
        id="",
        name=new.name,
        domain=new.domain_id if isinstance(new.domain_id, str) else home(call.principal),
        enabled=new.enabled,
        default_project=new.default_project_id,
        description=new.description or "",
        extra=extra(call, body),
    )
    password = None if new.password is None else Secret(new.password.encode())
    return {"user": render.user(call, await call.identity.people.create_user(call.principal, user, password))}


async def show_user(call: Call) -> Answer:
    """One user."""
    return {"user": render.user(call, await call.identity.people.user(call.principal, call.params["user_id"]))}


async def list_users(call: Call) -> Answer:
    """Users, by id."""
    page = await call.identity.people.users(
        call.principal, filters(call, domain_id="domain", name="name", enabled="enabled"), render.asked(call)
    )
    return render.collection(call, "users", page, render.user, "/v3/users", page.items[-1].id if page.items else "")


async def update_user(call: Call, body: UserUpdate) -> Answer:
    """Change a user."""
    changes = changed(call, body, domain_id="domain", default_project_id="default_project")
    wanted = await call.identity.people.update_user(call.principal, call.params["user_id"], changes)
    return {"user": render.user(call, wanted)}


async def delete_user(call: Call) -> Answer:
    """Delete a user."""
    await call.identity.people.delete_user(call.principal, call.params["user_id"])
    return None


async def change_password(call: Call, body: PasswordUpdate) -> Answer:
    """Change one's own password."""
    old, new = body.user.original_password, body.user.password
    await call.identity.people.change_password(
        call.params["user_id"], Secret(old.encode()), Secret(new.encode()), call.address, call.request
    )
    return None


async def user_groups(call: Call) -> Answer:
    """The groups that a user is in."""
    page = await call.identity.people.user_groups(call.principal, call.params["user_id"])
    return render.collection(call, "groups", page, render.group, f"/v3/users/{call.params['user_id']}/groups")


async def user_projects(call: Call) -> Answer:
    """The projects on which a user has a role."""
    page = await call.identity.projects_of(call.principal, call.params["user_id"])
    return render.collection(call, "projects", page, render.project, f"/v3/users/{call.params['user_id']}/projects")


async def create_group(call: Call, body: GroupCreate) -> Answer:
    """Make a group."""
    new = body.group
    domain = new.domain_id if isinstance(new.domain_id, str) else home(call.principal)
    group = Group("", new.name, domain, new.description or "", extra(call, body))
    return {"group": render.group(call, await call.identity.people.create_group(call.principal, group))}


async def show_group(call: Call) -> Answer:
    """One group."""
    return {"group": render.group(call, await call.identity.people.group(call.principal, call.params["group_id"]))}


async def list_groups(call: Call) -> Answer:
    """Groups, by id."""
    wanted = filters(call, domain_id="domain", name="name")
    page = await call.identity.people.groups(call.principal, wanted, render.asked(call))
    last = page.items[-1].id if page.items else ""
    return render.collection(call, "groups", page, render.group, "/v3/groups", last)


async def update_group(call: Call, body: GroupUpdate) -> Answer:
    """Change a group."""
    changes = changed(call, body, domain_id="domain")
    wanted = await call.identity.people.update_group(call.principal, call.params["group_id"], changes)
    return {"group": render.group(call, wanted)}


async def delete_group(call: Call) -> Answer:
    """Delete a group."""
    await call.identity.people.delete_group(call.principal, call.params["group_id"])
    return None


async def group_users(call: Call) -> Answer:
    """The users in a group."""
    id = call.params["group_id"]
    page = await call.identity.people.group_users(call.principal, id, render.asked(call))
    last = page.items[-1].id if page.items else ""
    return render.collection(call, "users", page, render.user, f"/v3/groups/{id}/users", last)


async def join_group(call: Call) -> Answer:
    """Put a user into a group."""
    await call.identity.people.add_to_group(call.principal, call.params["group_id"], call.params["user_id"])
    return None


async def leave_group(call: Call) -> Answer:
    """Take a user out of a group."""
    await call.identity.people.remove_from_group(call.principal, call.params["group_id"], call.params["user_id"])
    return None


async def in_group(call: Call) -> Answer:
    """Whether a user is in a group."""
    await call.identity.people.in_group(call.principal, call.params["group_id"], call.params["user_id"])
    return None


def filters(call: Call, **fields: str) -> Filters:
    """The filters among the query's parameters: parameter → field. `enabled` and `is_domain` are truths."""
    found: dict[str, str | bool | None] = {}
    for parameter, name in fields.items():
        if parameter in ("enabled", "is_domain"):
            value = call.flag(parameter)
            if value is not None:
                found[name] = value
        elif parameter in call.query:
            found[name] = call.one(parameter)
    return found
