"""Images as compute showed them before 2.36, for clients of long ago: views of the image service's own."""

from __future__ import annotations

from urllib.parse import urlencode

from banyan.api.nova import fields, server_query, words
from banyan.api.openstack.call import Answer, Call
from banyan.core.errors import NotFound
from banyan.zone.compute.sources import ImageDetail

_STATUS = {
    "active": "ACTIVE",
    "queued": "SAVING",
    "saving": "SAVING",
    "importing": "SAVING",
    "deleted": "DELETED",
    "pending_delete": "DELETED",
    "killed": "ERROR",
}
_PROGRESS = {"queued": 25, "saving": 50, "active": 100}


def _links(call: Call, id: str) -> list[dict[str, str]]:
    return [
        {"rel": "self", "href": call.link(f"/v2.1/images/{id}")},
        {"rel": "bookmark", "href": call.link(f"/images/{id}")},
        {"rel": "alternate", "type": "application/vnd.openstack.image", "href": f"{call.base}/image/images/{id}"},
    ]


def _view(image: ImageDetail, call: Call) -> dict[str, object]:
    view: dict[str, object] = {
        "id": image.id,
        "name": image.name,
        "minRam": image.min_memory_mib,
        "minDisk": image.min_disk_gib,
        "metadata": dict(image.properties),
        "created": words.time(image.created),
        "updated": words.time(image.updated),
        "status": _STATUS.get(image.status, "UNKNOWN"),
        "progress": _PROGRESS.get(image.status, 0),
        "OS-EXT-IMG-SIZE:size": image.size_bytes,
        "links": _links(call, image.id),
    }
    server = image.properties.get("instance_uuid")
    if server:
        links = [
            {"rel": "self", "href": call.link(f"/v2.1/servers/{server}")},
            {"rel": "bookmark", "href": call.link(f"/servers/{server}")},
        ]
        view["server"] = {"id": server, "links": links}
    return view


def _id(call: Call) -> str:
    id = call.params["image_id"]
    if not fields.is_uuid(id):
        raise NotFound("no-image", "Image not found.")
    return id


async def show(call: Call) -> Answer:
    """One image."""
    return {"image": _view(await call.compute.images.show(call.principal, _id(call)), call)}


async def delete(call: Call) -> Answer:
    """Deletes an image."""
    await call.compute.images.delete(call.principal, _id(call))
    return None


async def listed(call: Call) -> Answer:
    """Images by id and name."""
    images, links = await _page(call, "/v2.1/images")
    brief = [{"id": one.id, "name": one.name, "links": _links(call, one.id)} for one in images]
    return {"images": brief, **links}


async def detailed(call: Call) -> Answer:
    """Images with all that compute shows of them."""
    images, links = await _page(call, "/v2.1/images/detail")
    return {"images": [_view(one, call) for one in images], **links}


async def _page(call: Call, path: str) -> tuple[list[ImageDetail], dict[str, object]]:
    limit, marker = server_query.limit(call), server_query.marker(call)
    if limit == 0:
        return [], {}
    filters = {name: call.query[name][-1] for name in ("name", "status") if name in call.query}
    if "status" in filters:
        wanted = filters["status"].upper()
        filters["status"] = next((status for status, word in _STATUS.items() if word == wanted), wanted)
    if "type" in call.query:
        filters["image_type"] = call.query["type"][-1]
    if "server" in call.query:
        # An id, or an address that ends with it.
        filters["instance_uuid"] = call.query["server"][-1].rstrip("/").rpartition("/")[2]
    images = list(await call.compute.images.page(call.principal, marker, limit, filters))
    if len(images) < limit:
        return images, {}
    pairs = [(name, value) for name, values in call.query.items() if name != "marker" for value in values]
    pairs.append(("marker", images[-1].id))
    return images, {"images_links": [{"rel": "next", "href": f"{call.link(path)}?{urlencode(pairs)}"}]}
