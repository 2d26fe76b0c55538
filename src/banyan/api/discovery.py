"""What a client that knows only the host can learn: the versions, and every address of one version.

Nothing here names the zone, its program version or its state: it is told to anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody, NoQuery
from banyan.api.table import Handler, Route


class VersionLink(msgspec.Struct, frozen=True):
    id: str
    href: str


class Root(msgspec.Struct, frozen=True):
    """`document` is the OpenAPI document of the newest version."""

    name: str
    versions: tuple[VersionLink, ...]
    document: str


class Address(msgspec.Struct, frozen=True):
    """`role`: the least that is needed, "" for none."""

    method: str
    path: str
    role: str
    summary: str


class Version(msgspec.Struct, frozen=True):
    id: str
    addresses: tuple[Address, ...]


async def root(context: Context, query: NoQuery, body: NoBody) -> Root:
    return Root("banyan", (VersionLink("v1", "/v1"),), "/openapi.json")


def version(rows: Callable[[], Iterable[Route]]) -> Handler[NoQuery, NoBody]:
    """The handler that shows `rows`; a function, because the table holds the handler."""

    async def show(context: Context, query: NoQuery, body: NoBody) -> Version:
        return Version(
            "v1", tuple(Address(r.method, r.template, r.role.name.lower() if r.role else "", r.summary) for r in rows())
        )

    return show
