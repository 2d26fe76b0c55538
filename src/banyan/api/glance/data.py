"""The data of an image, sent and handed out piece by piece."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

from banyan.api.glance.views import STORE
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.core.errors import BadInput, Broken

_BYTES: Final = "application/octet-stream"
_RANGE: Final = re.compile(r"bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*\Z")


async def upload(call: Call) -> Answer:
    """Sends an image's data: it is active then."""
    _check_store(call)
    await call.images.data.upload(call.principal, call.params["image_id"], _pieces(call), _declared(call))
    return None


async def stage(call: Call) -> Answer:
    """Sends data that is to be imported."""
    await call.images.data.stage(call.principal, call.params["image_id"], _pieces(call), _declared(call))
    return None


async def download(call: Call) -> Answer:
    """An image's data, or a range of it."""
    span = _span(call.headers.get("range", ""))
    part = await call.images.data.open(call.principal, call.params["image_id"], span)
    if part.pieces is None:
        return Reply(None, 204)
    whole = part.image.size or 0
    headers = {"Accept-Ranges": "bytes"}
    status = 200
    if span is not None:
        status = 206
        headers["Content-Range"] = f"bytes {part.first}-{part.first + part.size - 1}/{whole}"
    elif part.image.checksum:
        # In hex, as OpenStack's clients look for it here.
        headers["Content-MD5"] = part.image.checksum
    return Reply(None, status, headers, _BYTES, part.pieces, part.size)


def _pieces(call: Call) -> AsyncIterator[bytes]:
    if call.chunks is None:
        raise Broken("internal", "a row of data did not stream its body")
    return call.chunks


def _declared(call: Call) -> int | None:
    text = call.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _check_store(call: Call) -> None:
    store = call.headers.get("x-image-meta-store", STORE)
    if store != STORE:
        raise BadInput("bad-store", f"there is no store {store[:64]!r}: this zone has {STORE!r}")


def _span(text: str) -> tuple[int | None, int | None] | None:
    """None where all is to be had: also for a header that is not a single range (RFC 9110, 14.2)."""
    found = _RANGE.match(text)
    if found is None or not (found[1] or found[2]):
        return None
    first, last = (int(found[n]) if found[n] else None for n in (1, 2))
    if first is not None and last is not None and last < first:
        return None
    return first, last
