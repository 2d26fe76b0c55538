"""What this zone can do with images, and how much of it a project may."""

from __future__ import annotations

from banyan.api.glance.views import STORE
from banyan.api.openstack.call import Answer, Call
from banyan.zone.images.desk import MIB, UNLIMITED


async def methods(call: Call) -> Answer:
    """The ways in which images are imported."""
    value = list(call.images.imports.methods)
    return {"import-methods": {"description": "Import methods available.", "type": "array", "value": value}}


async def stores(call: Call) -> Answer:
    """The one store that there is."""
    return {"stores": [{"id": STORE, "default": "true", "description": "files of this zone"}]}


async def usage(call: Call) -> Answer:
    """What the caller's project has of images, and may have."""
    found = await call.images.catalogue.usage(call.principal)
    most = UNLIMITED if found.bytes_limit == UNLIMITED else found.bytes_limit // MIB
    return {
        "usage": {
            "image_count_total": {"limit": found.images_limit, "usage": found.images},
            "image_size_total": {"limit": most, "usage": -(-found.bytes // MIB)},
        }
    }
