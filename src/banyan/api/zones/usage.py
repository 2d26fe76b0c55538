"""What is there and what is used: totals, and the use of each project."""

from __future__ import annotations

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody
from banyan.api.paging import PageQuery, Under
from banyan.zone.views import PageView, UsageView


class UsageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    under: Under = ""


async def usage(context: Context, query: UsageQuery, body: NoBody) -> UsageView:
    return await context.surface.usage(context.caller, query.under)


async def use(context: Context, query: PageQuery, body: NoBody) -> PageView:
    return await context.surface.page(context.caller, "use", "", {}, query.marker, query.limit)
