"""API tokens: made, listed, affirmed, revoked. A token is shown once, when it is made, and never kept."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody, NoQuery
from banyan.api.paging import PageQuery, Under
from banyan.core.identity import Role
from banyan.zone.views import PageView, TokenCreated, TokenView


class RoleName(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class TokenBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`subject` names who holds it, for the journal. `expires` in seconds from now, at most a year.

    A token that makes one gives at most what is left of its own life: a longer `expires` is refused, and without it
    the new token ends after a day or with its maker, whichever is sooner.
    """

    role: RoleName
    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9][A-Za-z0-9._@-]*$")]
    under: Under = ""
    expires: Annotated[float, msgspec.Meta(gt=0, le=366 * 86400)] | None = None


async def create(context: Context, query: NoQuery, body: TokenBody) -> TokenCreated:
    role = Role[body.role.name]
    return await context.surface.create_token(context.caller, body.subject, role, body.under, body.expires)


async def list_tokens(context: Context, query: PageQuery, body: NoBody) -> PageView:
    return await context.surface.tokens(context.caller, query.marker, query.limit)


async def affirm(context: Context, query: NoQuery, body: NoBody) -> TokenView:
    return await context.surface.affirm_token(context.caller, context.params["id"])


async def revoke(context: Context, query: NoQuery, body: NoBody) -> None:
    await context.surface.revoke_token(context.caller, context.params["id"])
