"""Images: made, shown, listed, changed, tagged, put out of use, deleted."""

from __future__ import annotations

from banyan.api.glance import bodies, query, views
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.core.errors import BadInput
from banyan.zone.images.changing import Change, Way


async def listed(call: Call) -> Answer:
    """Images that the caller sees."""
    asked = query.limit(call)
    found = await call.images.catalogue.page(call.principal, query.images(call), call.one("marker"), asked)
    return query.page(call, "/v2/images", "images", [views.image(one) for one in found], asked)


async def create(call: Call, body: bodies.Fields) -> Answer:
    """Makes an image without data."""
    id = body.pop("id", None)
    if id is not None and not isinstance(id, str):
        raise BadInput("bad-id", "Invalid image id format: it must be a UUID")
    changes = [Change(Way.ADD, name, value) for name, value in body.items()]
    made = await call.images.catalogue.create(call.principal, id, changes)
    headers = {
        "Location": call.link(f"/v2/images/{made.id}"),
        "OpenStack-image-import-methods": ",".join(call.images.imports.methods),
        "OpenStack-image-store-ids": views.STORE,
    }
    return Reply(views.image(made), 201, headers)


async def show(call: Call) -> Answer:
    """One image."""
    return views.image(await call.images.catalogue.show(call.principal, call.params["image_id"]))


async def update(call: Call) -> Answer:
    """Changes fields and properties of an image."""
    kind = call.headers.get("content-type", "").partition(";")[0].strip().lower()
    changes = bodies.changes(call.content, kind)
    return views.image(await call.images.catalogue.update(call.principal, call.params["image_id"], changes))


async def delete(call: Call) -> Answer:
    """Deletes an image and its data."""
    await call.images.catalogue.delete(call.principal, call.params["image_id"])
    return None


async def deactivate(call: Call) -> Answer:
    """Lets nobody but admins have an image's data."""
    await call.images.catalogue.deactivate(call.principal, call.params["image_id"])
    return None


async def reactivate(call: Call) -> Answer:
    """Lets an image's data be had again."""
    await call.images.catalogue.reactivate(call.principal, call.params["image_id"])
    return None


async def tag(call: Call) -> Answer:
    """Puts a tag on an image."""
    await call.images.catalogue.tag(call.principal, call.params["image_id"], call.params["tag"])
    return None


async def untag(call: Call) -> Answer:
    """Takes a tag off an image."""
    await call.images.catalogue.untag(call.principal, call.params["image_id"], call.params["tag"])
    return None
