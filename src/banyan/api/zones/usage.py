"""What is there and what is used: totals, and the use of each project."""

from __future__ import annotations

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody
from banyan.api.paging import PageQuery, Pattern, Under, filters
from banyan.zone.views import PageView, UsageView


class UsageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    under: Under = ""


async def usage(context: Context, query: UsageQuery, body: NoBody) -> UsageView:
    return await context.surface.usage(context.caller, query.under)


class UseQuery(PageQuery, frozen=True):
    """`project`: of the project's id; `name`: of its name, as far as its cloud tells it."""

    project: Pattern = ""
    name: Pattern = ""


async def use(context: Context, query: UseQuery, body: NoBody) -> PageView:
    chosen = filters(query, ("project", "name"))
    return await context.surface.page(context.caller, "use", "", chosen, query.marker, query.limit)
