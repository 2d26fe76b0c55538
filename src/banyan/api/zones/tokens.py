"""API tokens: made, listed, revoked. A token is shown once, when it is made, and never kept."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody, NoQuery
from banyan.api.paging import PageQuery, Under, page
from banyan.core.identity import Role
from banyan.zone.views import PageView, TokenCreated


class RoleName(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class TokenBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`subject` names who holds it, for the journal. `expires` in seconds from now, at most a year."""

    role: RoleName
    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9][A-Za-z0-9._@-]*$")]
    under: Under = ""
    expires: Annotated[float, msgspec.Meta(gt=0, le=366 * 86400)] = 86400.0


async def create(context: Context, query: NoQuery, body: TokenBody) -> TokenCreated:
    role = Role[body.role.name]
    return await context.surface.create_token(
        context.caller, body.subject, role, context.place(body.under), body.expires
    )


async def list_tokens(context: Context, query: PageQuery, body: NoBody) -> PageView:
    return page(await context.surface.tokens(context.caller, query.marker, query.limit), query.limit, "id")


async def revoke(context: Context, query: NoQuery, body: NoBody) -> None:
    await context.surface.revoke_token(context.caller, context.params["id"])
