"""Known keys: fingerprints listed beforehand, as ownership vouchers, each with what it becomes."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody, NoQuery
from banyan.api.paging import PageQuery
from banyan.core.errors import BadInput
from banyan.core.ids import check_label, check_name
from banyan.core.zone import Mode
from banyan.zone.views import KnownKeyView, PageView

_FINGERPRINT = re.compile(r"[0-9a-f]{64}\Z")


class KnownKeyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The zone that holds this key is admitted under `name`, with `labels`, up to `mode`."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
    labels: Annotated[dict[str, str], msgspec.Meta(max_length=64)] = {}
    mode: Mode = Mode.PLACE
    replace: bool = False


def check_fingerprint(text: str) -> str:
    """64 hexadecimal digits in lower case; colons and capitals are forgiven."""
    bare = text.replace(":", "").lower()
    if not _FINGERPRINT.match(bare):
        raise BadInput(
            "bad-fingerprint",
            f"a fingerprint is the SHA-256 of a public key, 64 hexadecimal digits, got {text[:80]!r}; "
            "`banyan status` on the zone in question shows it",
        )
    return bare


async def list_keys(context: Context, query: PageQuery, body: NoBody) -> PageView:
    return await context.surface.known_keys(context.caller, query.marker, query.limit)


async def put(context: Context, query: NoQuery, body: KnownKeyBody) -> KnownKeyView:
    for key, value in body.labels.items():
        check_label(key, value)
    known = KnownKeyView(
        fingerprint=check_fingerprint(context.params["fingerprint"]),
        name=check_name(body.name),
        labels=body.labels,
        mode=body.mode.value,
        replace=body.replace,
        created_by="",
    )
    return await context.surface.put_known_key(context.caller, known)


async def delete(context: Context, query: NoQuery, body: NoBody) -> None:
    await context.surface.delete_known_key(context.caller, check_fingerprint(context.params["fingerprint"]))
