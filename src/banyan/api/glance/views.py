"""Images, members and tasks as the image API shows them. Properties lie beside an image's own fields, which win."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from banyan.core.image import Image, ImageMember, ImageStatus, ImageTask, TaskState

Json = dict[str, object]
# The one store that there is, by the name that images and imports know it by.
STORE: Final = "files"


def time(instant: float) -> str:
    return datetime.fromtimestamp(int(instant), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def image(one: Image) -> Json:
    view: Json = {
        **one.properties,
        "id": one.id,
        "name": one.name,
        "status": one.status,
        "visibility": one.visibility,
        "protected": one.protected,
        "os_hidden": one.hidden,
        "owner": one.owner or None,
        "container_format": one.container_format,
        "disk_format": one.disk_format,
        "min_disk": one.min_disk,
        "min_ram": one.min_ram,
        "size": one.size,
        "virtual_size": one.virtual_size,
        "checksum": one.checksum,
        "os_hash_algo": one.hash_algo,
        "os_hash_value": one.hash_value,
        "tags": list(one.tags),
        "created_at": time(one.created_at),
        "updated_at": time(one.updated_at),
        "self": f"/v2/images/{one.id}",
        "file": f"/v2/images/{one.id}/file",
        "schema": "/v2/schemas/image",
    }
    if one.status in (ImageStatus.ACTIVE, ImageStatus.DEACTIVATED):
        view["stores"] = STORE
    if one.import_failed or one.status is ImageStatus.IMPORTING:
        view["os_glance_importing_to_stores"] = STORE if one.status is ImageStatus.IMPORTING else ""
        view["os_glance_failed_import"] = STORE if one.import_failed else ""
    return view


def member(one: ImageMember) -> Json:
    return {
        "image_id": one.image,
        "member_id": one.member,
        "status": one.status,
        "created_at": time(one.created_at),
        "updated_at": time(one.updated_at),
        "schema": "/v2/schemas/member",
    }


def task(one: ImageTask) -> Json:
    method: Json = {"name": one.method, **({"uri": one.uri} if one.uri else {})}
    return {
        "id": one.id,
        "type": "api_image_import",
        "status": one.state,
        "owner": one.owner or None,
        "image_id": one.image,
        "user_id": one.user,
        "request_id": one.request,
        "input": {"image_id": one.image, "import_req": {"method": method, "all_stores": False}},
        "result": {"image_id": one.image} if one.state is TaskState.SUCCESS else None,
        "message": one.message,
        "created_at": time(one.created_at),
        "updated_at": time(one.updated_at),
        "expires_at": time(one.expires),
        "self": f"/v2/tasks/{one.id}",
        "schema": "/v2/schemas/task",
    }
