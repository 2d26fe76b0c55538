"""Join codes: made, listed, revoked. A code is shown once, when it is made."""

from __future__ import annotations

from typing import Annotated

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody, NoQuery
from banyan.api.paging import PageQuery
from banyan.core.ids import check_label
from banyan.core.zone import Mode
from banyan.zone.views import CodeCreated, PageView

Text = Annotated[str, msgspec.Meta(max_length=255)]


class CodeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a code admits. `uses` null is unlimited; `expires` in seconds from now, at most 90 days.

    `name` and `driver` are patterns that the zone must match; `labels` are given to it; `mode` is the
    most that it is granted; `replace` lets a new key take a taken name.
    """

    name: Text = "*"
    driver: Text = "*"
    labels: Annotated[dict[str, str], msgspec.Meta(max_length=64)] = {}
    uses: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = 1
    expires: Annotated[float, msgspec.Meta(gt=0, le=90 * 86400)] = 86400.0
    mode: Mode = Mode.PLACE
    replace: bool = False


async def create(context: Context, query: NoQuery, body: CodeBody) -> CodeCreated:
    for key, value in body.labels.items():
        check_label(key, value)
    return await context.surface.create_code(
        context.caller,
        name=body.name,
        driver=body.driver,
        labels=body.labels,
        uses=body.uses,
        expires=body.expires,
        mode=body.mode.value,
        replace=body.replace,
    )


async def list_codes(context: Context, query: PageQuery, body: NoBody) -> PageView:
    return await context.surface.codes(context.caller, query.marker, query.limit)


async def revoke(context: Context, query: NoQuery, body: NoBody) -> None:
    await context.surface.revoke_code(context.caller, context.params["id"])
