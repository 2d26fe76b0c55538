"""JSON schemas of what the image API shows, for clients that ask which fields there are."""

from __future__ import annotations

from banyan.api.openstack.call import Answer, Call
from banyan.core.errors import NotFound
from banyan.core.image import (
    CONTAINER_FORMATS,
    DISK_FORMATS,
    MAX_TEXT,
    ImageStatus,
    MemberStatus,
    TaskState,
    Visibility,
)
from banyan.zone.images.changing import MAX_NUMBER, READ_ONLY

Json = dict[str, object]
_TEXT: Json = {"type": ["null", "string"], "maxLength": MAX_TEXT}
_STRING: Json = {"type": "string"}
_UUID: Json = {"type": "string", "pattern": "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-"
               "([0-9a-fA-F]){12}$"}  # fmt: skip
_SIZE: Json = {"type": ["null", "integer"]}
_NUMBER: Json = {"type": "integer", "minimum": 0, "maximum": MAX_NUMBER}


def _one_of(values: object) -> Json:
    return {"type": "string", "enum": list(values)}  # type: ignore[call-overload]  # the literals of a type are texts


_FIELDS: dict[str, Json] = {
    "id": _UUID,
    "name": _TEXT,
    "status": _one_of(ImageStatus),
    "visibility": _one_of(Visibility),
    "protected": {"type": "boolean"},
    "os_hidden": {"type": "boolean"},
    "owner": _TEXT,
    "container_format": {"type": ["null", "string"], "enum": [None, *CONTAINER_FORMATS]},
    "disk_format": {"type": ["null", "string"], "enum": [None, *DISK_FORMATS]},
    "min_disk": _NUMBER,
    "min_ram": _NUMBER,
    "size": _SIZE,
    "virtual_size": _SIZE,
    "checksum": {"type": ["null", "string"], "maxLength": 32},
    "os_hash_algo": _TEXT,
    "os_hash_value": _TEXT,
    "tags": {"type": "array", "items": {"type": "string", "maxLength": MAX_TEXT}},
    "created_at": _STRING,
    "updated_at": _STRING,
    "self": _STRING,
    "file": _STRING,
    "schema": _STRING,
    "stores": _STRING,
}
_IMAGE: Json = {
    "name": "image",
    "properties": {
        name: {**kind, "readOnly": True} if name in READ_ONLY else kind for name, kind in sorted(_FIELDS.items())
    },
    "additionalProperties": {"type": "string"},
    "links": [
        {"rel": "self", "href": "{self}"},
        {"rel": "enclosure", "href": "{file}"},
        {"rel": "describedby", "href": "{schema}"},
    ],
}
_MEMBER: Json = {
    "name": "member",
    "properties": {
        "image_id": _UUID,
        "member_id": _STRING,
        "status": _one_of(MemberStatus),
        "created_at": _STRING,
        "updated_at": _STRING,
        "schema": {**_STRING, "readOnly": True},
    },
}
_TASK: Json = {
    "name": "task",
    "properties": {
        "id": _UUID,
        "type": _one_of(["import", "api_image_import"]),
        "status": _one_of(TaskState),
        "input": {"type": ["null", "object"]},
        "result": {"type": ["null", "object"]},
        **dict.fromkeys(("owner", "image_id", "user_id", "request_id", "message"), _TEXT),
        **dict.fromkeys(("created_at", "updated_at", "expires_at", "self", "schema"), _STRING),
    },
}


def _many(one: Json, *, paged: bool) -> Json:
    name = f"{one['name']}s"
    links = [{"rel": "first", "href": "{first}"}, {"rel": "next", "href": "{next}"}] if paged else []
    properties: Json = {name: {"type": "array", "items": one}, "schema": _STRING}
    if paged:
        properties |= {"first": _STRING, "next": _STRING}
    return {"name": name, "properties": properties, "links": [*links, {"rel": "describedby", "href": "{schema}"}]}


SCHEMAS: dict[str, Json] = {
    "image": _IMAGE,
    "images": _many(_IMAGE, paged=True),
    "member": _MEMBER,
    "members": _many(_MEMBER, paged=False),
    "task": _TASK,
    "tasks": _many(_TASK, paged=True),
}


async def show(call: Call) -> Answer:
    """What an image, a member or a task shows, as a JSON schema."""
    found = SCHEMAS.get(call.params["name"])
    if found is None:
        raise NotFound("no-schema", f"there is no schema {call.params['name'][:64]!r}: {', '.join(SCHEMAS)}")
    return found
