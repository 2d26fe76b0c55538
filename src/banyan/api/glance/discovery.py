"""What a client that knows only the address can learn: which versions of the image API there are."""

from __future__ import annotations

from banyan.api.openstack.call import Answer, Call, Reply

# Versions of Glance's API whose calls we know. They are told, never negotiated.
_MINORS = (*range(10), 12, 13)


async def choices(call: Call) -> Answer:
    """The versions of the image API."""
    return Reply(_versions(call), 300)


async def versions(call: Call) -> Answer:
    """The versions of the image API, for who asks for them."""
    return _versions(call)


def _versions(call: Call) -> dict[str, object]:
    links = [{"rel": "self", "href": call.link("/v2/")}]
    return {
        "versions": [
            {"id": f"v2.{minor}", "status": "CURRENT" if minor == _MINORS[-1] else "SUPPORTED", "links": links}
            for minor in reversed(_MINORS)
        ]
    }
