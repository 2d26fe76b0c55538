"""What the racks of the tree hold: racks, hosts, servers. The zones that have them are asked, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from banyan.api.context import Context
from banyan.api.intake import NoBody
from banyan.api.paging import PageQuery, Pattern, Under, filters
from banyan.core.guest import GuestState
from banyan.core.rack import RackHealth
from banyan.zone.views import PageView

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
