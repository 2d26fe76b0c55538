"""The zone itself: its status, its authority, its release after a restore, its leaving."""

from __future__ import annotations

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody, NoQuery
from banyan.zone.views import PageView, ReleaseView, StatusView


class RotateBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`leaked`: the old CA is not crossed, so that every child must join again."""

    leaked: bool = False


class ReleaseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Without `apply` nothing is done: the answer says what is held back, and which children were not heard."""

    apply: bool = False


class LeaveBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Without `apply` nothing is done: the answer lists what would be forgotten, and what stays."""

    apply: bool = False


async def status(context: Context, query: NoQuery, body: NoBody) -> StatusView:
    return await context.surface.status(context.caller)


async def rotate(context: Context, query: NoQuery, body: RotateBody) -> StatusView:
    return await context.surface.rotate_authority(context.caller, body.leaked)


async def release(context: Context, query: NoQuery, body: ReleaseBody) -> ReleaseView:
    return await context.surface.release(context.caller, body.apply)


async def leave(context: Context, query: NoQuery, body: LeaveBody) -> PageView:
    return await context.surface.leave(context.caller, body.apply)
