"""Tags of networks, subnets, ports, routers, floating IPs, security groups, subnet pools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from banyan.api.neutron import fields
from banyan.api.neutron.fields import Attributes
from banyan.api.openstack.call import Answer, Call
from banyan.core.network import Kind

_TAGS = fields.distinct(fields.text(1, 255), 1_000)


def listed(kind: Kind) -> Callable[[Call], Awaitable[Answer]]:
    async def run(call: Call) -> Answer:
        """Tags of one."""
        return {"tags": list(await call.network.tags.show(call.principal, kind, call.params["id"]))}

    return run


def check(kind: Kind) -> Callable[[Call], Awaitable[Answer]]:
    async def run(call: Call) -> Answer:
        """Whether it has a tag."""
        await call.network.tags.has(call.principal, kind, call.params["id"], call.params["tag"])
        return None

    return run


def add(kind: Kind) -> Callable[[Call], Awaitable[Answer]]:
    async def run(call: Call) -> Answer:
        """Adds a tag."""
        await call.network.tags.add(call.principal, kind, call.params["id"], [call.params["tag"]])
        return None

    return run


def remove(kind: Kind) -> Callable[[Call], Awaitable[Answer]]:
    async def run(call: Call) -> Answer:
        """Takes a tag away."""
        await call.network.tags.remove(call.principal, kind, call.params["id"], call.params["tag"])
        return None

    return run


def clear(kind: Kind) -> Callable[[Call], Awaitable[Answer]]:
    async def run(call: Call) -> Answer:
        """Takes all tags away."""
        await call.network.tags.set(call.principal, kind, call.params["id"], [])
        return None

    return run


def replace(kind: Kind) -> Callable[[Call, object], Awaitable[Answer]]:
    async def run(call: Call, body: object) -> Answer:
        """Replaces all tags."""
        given = Attributes(body, "body")
        wanted = given.need("tags", _TAGS)
        given.done()
        return {"tags": list(await call.network.tags.set(call.principal, kind, call.params["id"], wanted))}

    return run
