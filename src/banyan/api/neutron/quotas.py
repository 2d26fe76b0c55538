"""What projects may have of networks, and what they have."""

from __future__ import annotations

from banyan.api.neutron import fields
from banyan.api.neutron.fields import inner
from banyan.api.openstack.call import Answer, Call
from banyan.core.network import Kind
from banyan.core.network_quota import NetworkLimits
from banyan.core.quota import MAX_LIMIT
from banyan.zone.networks.desk import MAX_LIST

_LIMIT = fields.whole(-1, MAX_LIMIT)


def _shown(limits: NetworkLimits) -> dict[str, object]:
    return {kind.value: limits[kind] for kind in Kind}


async def show(call: Call) -> Answer:
    """A project's limits."""
    standing = await call.network.quotas.show(call.principal, call.params["project_id"])
    return {"quota": _shown(standing.limits)}


async def details(call: Call) -> Answer:
    """A project's limits, and what it has of each."""
    standing = await call.network.quotas.show(call.principal, call.params["project_id"])
    return {
        "quota": {
            kind.value: {"limit": standing.limits[kind], "used": standing.used.get(kind, 0), "reserved": 0}
            for kind in Kind
        }
    }


async def defaults(call: Call) -> Answer:
    """The limits of a project that has none of its own."""
    return {"quota": _shown(await call.network.quotas.defaults(call.principal, call.params["project_id"]))}


async def mine(call: Call) -> Answer:
    """The project that the caller's own limits are of."""
    project = call.principal.project
    return {"tenant": {"tenant_id": project, "project_id": project}}


async def listed(call: Call) -> Answer:
    """Projects that have limits of their own."""
    limit = call.limit(MAX_LIST)
    found = await call.network.quotas.page(call.principal, call.one("marker"), limit)
    return {"quotas": [{**_shown(limits), "project_id": id, "tenant_id": id} for id, limits in found]}


async def update(call: Call, body: object) -> Answer:
    """Gives a project limits of its own."""
    given = inner(body, "quota")
    wanted: dict[Kind, int] = {}
    for kind in Kind:
        value = given.take(kind.value, fields.or_none(_LIMIT), None)
        if value is not None:
            wanted[kind] = value
    given.take("force", fields.truth, False)
    given.take("check_limit", fields.truth, False)
    given.project()
    given.done()
    return {"quota": _shown(await call.network.quotas.set(call.principal, call.params["project_id"], wanted))}


async def delete(call: Call) -> Answer:
    """Gives a project the limits that all have."""
    await call.network.quotas.clear(call.principal, call.params["project_id"])
    return None
