"""Aggregates: sets of hosts with an operator's notes."""

from __future__ import annotations

from banyan.api.nova import fields, words
from banyan.api.nova.fields import Fields, inner
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.core.compute import Aggregate
from banyan.core.errors import BadInput, NotFound


def _view(one: Aggregate, call: Call) -> dict[str, object]:
    view: dict[str, object] = {
        "id": one.id,
        "name": one.name,
        "availability_zone": one.availability_zone or None,
        "hosts": list(one.hosts),
        "metadata": dict(one.metadata),
        "created_at": words.precise(one.created_at),
        "updated_at": words.precise(one.updated_at),
        "deleted": False,
        "deleted_at": None,
    }
    if call.version.minor >= 41:
        view["uuid"] = one.uuid
    return view


def _id(call: Call) -> int:
    """From the path. Raises NotFound for a number that no aggregate can have, BadInput for none."""
    text = call.params["aggregate_id"]
    number = fields.digits(text.removeprefix("-"))
    if number is None:
        raise BadInput("bad-id", f"Invalid aggregate id {text[:80]!r}: it is a whole number")
    if text.startswith("-") or number > 2**31:
        raise NotFound("no-aggregate", f"Aggregate {text} could not be found.")
    return number


async def listed(call: Call) -> Answer:
    """All aggregates."""
    return {"aggregates": [_view(one, call) for one in await call.compute.aggregates.all(call.principal)]}


async def show(call: Call) -> Answer:
    """One aggregate."""
    return {"aggregate": _view(await call.compute.aggregates.show(call.principal, _id(call)), call)}


async def create(call: Call, body: object) -> Answer:
    """Makes an aggregate."""
    given = inner(body, "aggregate")
    name = given.need("name", fields.name)
    zone = given.take("availability_zone", fields.or_none(fields.zone_name), None)
    given.done()
    view = _view(await call.compute.aggregates.create(call.principal, name, zone or ""), call)
    # A new one has neither: clients' schemas know that.
    del view["hosts"], view["metadata"]
    return {"aggregate": view}


async def update(call: Call, body: object) -> Answer:
    """Changes an aggregate's name or availability zone."""
    given = inner(body, "aggregate")
    name = given.take("name", fields.name, None)
    zone = given.take("availability_zone", fields.or_none(fields.zone_name), None)
    given.done()
    if name is None and zone is None:
        raise BadInput("bad-body", "Invalid input for field/attribute aggregate. It has too few properties")
    return {"aggregate": _view(await call.compute.aggregates.update(call.principal, _id(call), name, zone), call)}


async def delete(call: Call) -> Answer:
    """Deletes an aggregate that has no host."""
    await call.compute.aggregates.delete(call.principal, _id(call))
    return None


async def add_host(call: Call, value: object) -> Answer:
    """Puts a host into an aggregate."""
    host = _host(value, "add_host")
    return {"aggregate": _view(await call.compute.aggregates.add_host(call.principal, _id(call), host), call)}


async def remove_host(call: Call, value: object) -> Answer:
    """Takes a host out of an aggregate."""
    host = _host(value, "remove_host")
    return {"aggregate": _view(await call.compute.aggregates.remove_host(call.principal, _id(call), host), call)}


def _host(value: object, name: str) -> str:
    given = Fields(value, name)
    host = given.need("host", fields.fqdn)
    given.done()
    return host


async def set_metadata(call: Call, value: object) -> Answer:
    """Changes items of an aggregate's metadata; null drops one."""
    given = Fields(value, "set_metadata")
    items = Fields(given.need("metadata", fields.anything), "metadata").rest()
    given.done()
    found = {fields.metadata_key(key): fields.or_none(fields.text(0, 255))(item, key) for key, item in items.items()}
    return {"aggregate": _view(await call.compute.aggregates.set_metadata(call.principal, _id(call), found), call)}


async def cache_images(call: Call, body: object) -> Answer:
    """Asks for images to be cached: the tree does that by itself when an order needs them."""
    given = Fields(body, "body")
    images = given.need("cache", fields.items)
    given.done()
    for one in images:
        image = Fields(one, "cache")
        image.need("id", fields.uuid)
        image.done()
    await call.compute.aggregates.show(call.principal, _id(call))
    return Reply(status=202)
