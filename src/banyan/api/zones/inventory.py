"""What the racks of the tree hold: racks, hosts, servers. The zones that have them are asked, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody
from banyan.api.paging import Exact, PageQuery, Pattern, Under, filters
from banyan.core.errors import BadInput
from banyan.core.guest import GuestState
from banyan.core.host import MAX_REASON, HostChange
from banyan.core.rack import RackHealth
from banyan.zone.views import HostView, PageView

HostState = Literal["", "up", "down", "disabled"]
YesNo = Literal["", "yes", "no"]


class RacksQuery(PageQuery, frozen=True):
    under: Under = ""
    name: Pattern = ""
    driver: Pattern = ""
    health: RackHealth | None = None


class HostsQuery(PageQuery, frozen=True):
    under: Under = ""
    name: Pattern = ""
    rack: Pattern = ""
    state: HostState = ""
    offered: YesNo = ""
    aggregate: Pattern = ""
    availability_zone: Pattern = ""


class ServersQuery(PageQuery, frozen=True):
    under: Under = ""
    name: Pattern = ""
    rack: Pattern = ""
    state: GuestState | None = None
    project: Pattern = ""
    host: Pattern = ""


class HostQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which host of that name, where several have it."""

    under: Under = ""
    rack: Exact = ""
    id: Exact = ""


class DisableBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`down`: it counts as down as well."""

    reason: Annotated[
        str, msgspec.Meta(max_length=MAX_REASON, description="Shown with the host, and kept in the journal.")
    ] = ""
    down: bool = False


async def disable_host(context: Context, query: HostQuery, body: DisableBody) -> HostView:
    if not body.reason.isprintable():
        raise BadInput("bad-change", "a reason is of printable characters")
    return await _say(context, query, HostChange(True, body.reason, True if body.down else None))


async def enable_host(context: Context, query: HostQuery, body: NoBody) -> HostView:
    return await _say(context, query, HostChange(False, "", False))


async def _say(context: Context, query: HostQuery, change: HostChange) -> HostView:
    return await context.surface.say_of_host(
        context.caller, context.params["name"], change, under=query.under, rack=query.rack, id=query.id
    )


async def _page(context: Context, kind: str, query: PageQuery, under: str, chosen: Mapping[str, str]) -> PageView:
    return await context.surface.page(context.caller, kind, under, chosen, query.marker, query.limit)


async def racks(context: Context, query: RacksQuery, body: NoBody) -> PageView:
    chosen = filters(query, ("name", "driver", "health"))
    return await _page(context, "racks", query, query.under, chosen)


async def hosts(context: Context, query: HostsQuery, body: NoBody) -> PageView:
    names = ("name", "rack", "state", "offered", "aggregate", "availability_zone")
    chosen = filters(query, names)
    return await _page(context, "hosts", query, query.under, chosen)


async def servers(context: Context, query: ServersQuery, body: NoBody) -> PageView:
    names = ("name", "rack", "state", "project", "host")
    chosen = filters(query, names)
    return await _page(context, "servers", query, query.under, chosen)
