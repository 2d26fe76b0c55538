"""Receivers of alarms: how they are, and a test of one."""

from __future__ import annotations

from banyan.api.context import Context
from banyan.api.intake import NoBody, NoQuery
from banyan.api.paging import PageQuery
from banyan.zone.receiver_view import ReceiverView
from banyan.zone.views import PageView


async def list_receivers(context: Context, query: PageQuery, body: NoBody) -> PageView:
    return await context.surface.receivers(context.caller, query.marker, query.limit)


async def test(context: Context, query: NoQuery, body: NoBody) -> ReceiverView:
    return await context.surface.test_receiver(context.caller, context.params["name"])
