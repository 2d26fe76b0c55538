"""Imports and their tasks."""

from __future__ import annotations

from banyan.api.glance import bodies, query, views
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.core.errors import BadInput, NotFound
from banyan.zone.images.changing import Change, Way


async def begin(call: Call, body: bodies.ImportBody) -> Answer:
    """Imports what was staged, or what an address names."""
    for store in body.stores or ():
        if store != views.STORE:
            raise BadInput("bad-store", f"there is no store {store[:64]!r}: this zone has {views.STORE!r}")
    id, method = call.params["image_id"], body.method
    await call.images.imports.begin(call.principal, id, method.name, method.uri)
    return Reply(None, 202, {"Location": call.link(f"/v2/images/{id}")})


async def of_image(call: Call) -> Answer:
    """Imports of one image, the newest first."""
    found = await call.images.imports.of_image(call.principal, call.params["image_id"])
    return {"tasks": [views.task(one) for one in found]}


async def listed(call: Call) -> Answer:
    """Imports of all images, the newest first."""
    asked = query.limit(call)
    found = await call.images.imports.page(call.principal, call.one("marker"), asked)
    return query.page(call, "/v2/tasks", "tasks", [views.task(one) for one in found], asked)


async def show(call: Call) -> Answer:
    """One import."""
    task = await call.images.imports.show(call.principal, call.params["task_id"])
    if task is None:
        raise NotFound("no-task", f"No task found with ID {call.params['task_id'][:255]}")
    return views.task(task)


async def create(call: Call, body: bodies.TaskBody) -> Answer:
    """Makes an image and fetches its data: the older way to ask for both."""
    fields = [Change(Way.ADD, name, value) for name, value in body.input.image_properties.items()]
    task = await call.images.imports.create(call.principal, fields, body.input.import_from)
    return Reply({**views.task(task), "type": body.type}, 201, {"Location": call.link(f"/v2/tasks/{task.id}")})
