"""Every address of the image API, one row each (api/openstack/table.py)."""

from __future__ import annotations

from typing import Final

from banyan.api.glance import bodies, data, discovery, images, imports, info, members, schemas
from banyan.api.openstack.table import OPEN, Operation, op, op_with

# How long one image may take to be sent, seconds; each piece of it comes within the listener's `body_wait`.
_SENDING: Final = 21_600.0
# More than any image: what one may have is a setting, and the zone holds to it.
_ANY_SIZE: Final = 1 << 60
_BYTES: Final = ("application/octet-stream",)
# Properties of an image may be long together.
_LARGE: Final = 262_144

_IMAGE, _MEMBERS, _TAG = "/v2/images/{image_id}", "/v2/images/{image_id}/members", "/v2/images/{image_id}/tags/{tag}"
_MEMBER = _MEMBERS + "/{member_id}"

# not-offered: metadata definitions (`/v2/metadefs`) and the image cache (`/v2/cache`) answer 404, as a Glance without
# not-offered: image locations are neither shown nor taken: data is sent, staged or fetched
# not-offered: the import methods glance-download and copy-image: there is one store, and it is this zone's
ROWS: tuple[Operation, ...] = (
    op("GET", "", discovery.choices, OPEN, status=300),
    op("GET", "/", discovery.choices, OPEN, status=300),
    op("GET", "/versions", discovery.versions, OPEN),
    # Images.
    op("GET", "/v2/images", images.listed, "image:get_images"),
    op_with("POST", "/v2/images", images.create, "image:add_image", body=bodies.Fields, status=201, most=_LARGE),
    op("GET", _IMAGE, images.show, "image:get_image"),
    op("PATCH", _IMAGE, images.update, "image:modify_image", kinds=bodies.PATCHES, most=_LARGE),
    op("DELETE", _IMAGE, images.delete, "image:delete_image", status=204),
    op("POST", _IMAGE + "/actions/deactivate", images.deactivate, "image:deactivate", status=204),
    op("POST", _IMAGE + "/actions/reactivate", images.reactivate, "image:reactivate", status=204),
    op("PUT", _TAG, images.tag, "image:modify_image", status=204),
    op("DELETE", _TAG, images.untag, "image:modify_image", status=204),
    # Their data.
    op("PUT", _IMAGE + "/file", data.upload, "image:upload_image", status=204, kinds=_BYTES, most=_ANY_SIZE,
       streamed=True, deadline=_SENDING),
    op("GET", _IMAGE + "/file", data.download, "image:download_image"),
    op("PUT", _IMAGE + "/stage", data.stage, "image:upload_image", status=204, kinds=_BYTES, most=_ANY_SIZE,
       streamed=True, deadline=_SENDING),
    op_with("POST", _IMAGE + "/import", imports.begin, "image:import_image", body=bodies.ImportBody, status=202),
    op("GET", _IMAGE + "/tasks", imports.of_image, "image:get_image_tasks"),
    op("GET", "/v2/tasks", imports.listed, "image:get_tasks"),
    op_with("POST", "/v2/tasks", imports.create, "image:add_task", body=bodies.TaskBody, status=201),
    op("GET", "/v2/tasks/{task_id}", imports.show, "image:get_task"),
    # Whom they are shared with.
    op("GET", _MEMBERS, members.listed, "image:get_members"),
    op_with("POST", _MEMBERS, members.add, "image:add_member", body=bodies.MemberBody),
    op("GET", _MEMBER, members.show, "image:get_member"),
    op_with("PUT", _MEMBER, members.answer, "image:modify_member", body=bodies.AnswerBody),
    op("DELETE", _MEMBER, members.remove, "image:delete_member", status=204),
    # What there is.
    op("GET", "/v2/info/import", info.methods, "image:get_info"),
    op("GET", "/v2/info/stores", info.stores, "image:get_info"),
    op("GET", "/v2/info/usage", info.usage, "image:get_usage"),
    op("GET", "/v2/schemas/{name}", schemas.show, "image:get_schema"),
)  # fmt: skip
