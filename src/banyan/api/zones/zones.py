"""Zones below: list, show, and a person's words about one (disable, ban, retire, …)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody, NoQuery
from banyan.api.paging import Labels, PageQuery, Pattern, Under, filters
from banyan.core.errors import BadInput
from banyan.core.zone import Admin, ChildState, Health
from banyan.zone.views import CodeCreated, PageView, ZoneView

Sort = Literal[
    "path", "used", "hosts", "servers", "as_of", "health", "-path", "-used", "-hosts", "-servers", "-as_of", "-health"
]
Reason = Annotated[
    str, msgspec.Meta(max_length=500, description="Shown wherever the zone is, and kept in the journal.")
]


class ZonesQuery(PageQuery, frozen=True):
    under: Under = ""
    health: Health | None = None
    state: ChildState | None = None
    admin: Admin | None = None
    name: Pattern = ""
    label: Labels = ()
    sort: Sort = "path"


class ReasonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Reason = ""


class MaintenanceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`until`: seconds from now, or an instant as RFC 3339."""

    until: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    reason: Reason = ""


class RenameBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=63)]


class ReplaceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`expires`: for how many seconds the code is good; at most 30 days."""

    expires: Annotated[float, msgspec.Meta(gt=0, le=30 * 86400)] = 86400.0


async def list_zones(context: Context, query: ZonesQuery, body: NoBody) -> PageView:
    chosen = filters(query, ("health", "state", "admin", "name", "label"))
    return await context.surface.zones(context.caller, query.under, chosen, query.sort, query.marker, query.limit)


async def show(context: Context, query: NoQuery, body: NoBody) -> ZoneView:
    return await context.surface.zone(context.caller, context.params["path"])


async def _say(context: Context, word: str, **arguments: str) -> ZoneView:
    return await context.surface.command(context.caller, word, context.params["path"], arguments)


def plain(name: str) -> Callable[[Context, NoQuery, NoBody], Awaitable[ZoneView]]:
    """A word that takes no arguments."""

    async def say(context: Context, query: NoQuery, body: NoBody) -> ZoneView:
        return await _say(context, name)

    return say


def reasoned(name: str) -> Callable[[Context, NoQuery, ReasonBody], Awaitable[ZoneView]]:
    """A word that takes a reason."""

    async def say(context: Context, query: NoQuery, body: ReasonBody) -> ZoneView:
        return await _say(context, name, reason=body.reason)

    return say


async def maintain(context: Context, query: NoQuery, body: MaintenanceBody) -> ZoneView:
    return await _say(context, "zone.maintenance", until=body.until, reason=body.reason)


async def rename(context: Context, query: NoQuery, body: RenameBody) -> ZoneView:
    return await _say(context, "zone.rename", name=body.name)


async def replace(context: Context, query: NoQuery, body: ReplaceBody) -> CodeCreated:
    """A join code that serves once, for a new key under the name that is taken."""
    zone = await context.surface.zone(context.caller, context.params["path"])
    if zone.depth != 1:
        raise BadInput("not-our-child", f"{zone.path} joined {zone.parent}; make the code there")
    return await context.surface.create_code(
        context.caller,
        name=zone.name,
        driver="*",
        labels={},
        uses=1,
        expires=body.expires,
        mode=zone.mode or "place",
        replace=True,
    )
