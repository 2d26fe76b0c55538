"""What a client that knows only the address can learn: that this is Keystone's API, version 3."""

from __future__ import annotations

from banyan.api.openstack.call import Answer, Call, Reply

# The newest minor version whose calls we know, and when Keystone published it (its api/discovery.py).
VERSION, UPDATED = "v3.14", "2020-04-07T00:00:00Z"


async def versions(call: Call) -> Answer:
    """The versions of the identity API."""
    return Reply({"versions": {"values": [_version(call)]}}, 300, {"Location": call.link("/v3/")})


async def version(call: Call) -> Answer:
    """Version 3 of the identity API."""
    return {"version": _version(call)}


def _version(call: Call) -> dict[str, object]:
    return {
        "id": VERSION,
        "status": "stable",
        "updated": UPDATED,
        "links": [{"rel": "self", "href": call.link("/v3/")}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    }
