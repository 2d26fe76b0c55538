"""Server groups: rules of placement that servers name."""

from __future__ import annotations

from banyan.api.nova import fields, server_query
from banyan.api.nova.fields import Fields, inner
from banyan.api.openstack.call import Answer, Call
from banyan.core.errors import BadInput
from banyan.core.order import GroupPolicy
from banyan.zone.compute.groups import Grouped

_HARD = ("anti-affinity", "affinity")
_ALL = (*_HARD, "soft-anti-affinity", "soft-affinity")
MAX_OFFSET = 100_000


async def create(call: Call, body: object) -> Answer:
    """Makes a server group."""
    minor = call.version.minor
    given = inner(body, "server_group")
    name = given.need("name", fields.name)
    per_host: int | None = None
    if minor >= 64:
        policy = given.need("policy", fields.one_of(*_ALL))
        rules = Fields(given.take("rules", fields.anything, {}), "rules")
        per_host = rules.take("max_server_per_host", fields.whole(1, 2_147_483_647), None)
        rules.done()
        if per_host is not None and policy != "anti-affinity":
            raise BadInput("bad-rules", "Only anti-affinity policy supports rules.")
    else:
        policies = given.need("policies", fields.items)
        if len(policies) != 1:
            raise fields.bad("policies", "It has exactly one policy.", policies)
        policy = fields.one_of(*(_ALL if minor >= 15 else _HARD))(policies[0], "policies")
    given.done()
    made = await call.compute.groups.create(call.principal, name, GroupPolicy(policy), per_host)
    return {"server_group": _view(made, minor)}


def _view(one: Grouped, minor: int) -> dict[str, object]:
    group = one.group
    view: dict[str, object] = {"id": group.id, "name": group.name, "members": list(one.members)}
    if minor >= 64:
        view["policy"] = group.policy.value
        view["rules"] = {} if group.per_host is None else {"max_server_per_host": group.per_host}
    else:
        view["policies"] = [group.policy.value]
        view["metadata"] = {}
    if minor >= 13:
        view["project_id"] = group.project
        view["user_id"] = group.user
    return view


async def listed(call: Call) -> Answer:
    """The project's server groups, or all for an administrator who asks."""
    limit = server_query.limit(call)
    text = call.query.get("offset", ("",))[-1]
    offset = fields.digits(text) if text else 0
    if offset is None or offset > MAX_OFFSET:
        raise BadInput("bad-offset", f"offset must be a whole number from 0 to {MAX_OFFSET}, got {text[:40]!r}")
    every = "all_projects" in call.query
    found = await call.compute.groups.page(call.principal, every_project=every, offset=offset, limit=limit)
    return {"server_groups": [_view(one, call.version.minor) for one in found]}


async def show(call: Call) -> Answer:
    """One server group."""
    found = await call.compute.groups.show(call.principal, call.params["group_id"])
    return {"server_group": _view(found, call.version.minor)}


async def delete(call: Call) -> Answer:
    """Deletes a server group; its servers stay where they are."""
    await call.compute.groups.delete(call.principal, call.params["group_id"])
    return None
