"""Servers that Banyan makes: ordered here, placed wherever there is room below, shown and deleted by their ids."""

from __future__ import annotations

from typing import Annotated

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody, NoQuery
from banyan.api.paging import Exact, PageQuery
from banyan.core.errors import BadInput
from banyan.core.order import MAX_GUESTS, FlavorSnapshot, Hints, Specification
from banyan.core.shares import RETRY_HEADER
from banyan.zone.views import PageView, ServerDetail, ServersCreated, WhyView

Text = Annotated[str, msgspec.Meta(max_length=255)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Amount = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_GUESTS)]


class ServersBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is ordered. Sizes in MiB and GiB. `count` servers, or as many as there is room for but `least`, null for all
    of them. `path` and `labels` say where, `traits` what a host must have."""

    name: Name
    project: Name
    vcpu: Annotated[int, msgspec.Meta(ge=1, le=2**20)] = 1
    memory_mib: Annotated[int, msgspec.Meta(ge=1, le=2**40)] = 512
    disk_gib: Amount = 0
    count: Count = 1
    least: Count | None = None
    traits: Annotated[tuple[Text, ...], msgspec.Meta(max_length=64)] = ()
    labels: Annotated[dict[Text, Text], msgspec.Meta(max_length=64)] = {}
    path: Annotated[str, msgspec.Meta(max_length=1024)] = ""
    availability_zone: Text = ""
    metadata: Annotated[dict[Name, Text], msgspec.Meta(max_length=128)] = {}


class ServersQuery(PageQuery, frozen=True):
    project: Exact = ""


async def create(context: Context, query: NoQuery, body: ServersBody) -> ServersCreated:
    least = body.count if body.least is None else body.least
    if least > body.count:
        raise BadInput("bad-order", f"at least as many servers as are ordered can not be {least} of {body.count}")
    needs = {"vcpu": body.vcpu, "memory_mib": body.memory_mib} | ({"disk_gib": body.disk_gib} if body.disk_gib else {})
    name = f"{body.vcpu}x{body.memory_mib}x{body.disk_gib}"
    specification = Specification(
        body.name,
        needs,
        required=tuple(sorted(set(body.traits))),
        flavor=FlavorSnapshot(name, name, body.vcpu, body.memory_mib, body.disk_gib),
        metadata=dict(body.metadata),
        availability_zone=body.availability_zone,
        hints=Hints(path=body.path, labels=dict(body.labels)),
    )
    return await context.surface.create_servers(
        context.caller,
        specification,
        count=body.count,
        least=least,
        project=body.project,
        retry_key=context.headers.get(RETRY_HEADER, ""),
    )


async def placed(context: Context, query: ServersQuery, body: NoBody) -> PageView:
    return await context.surface.servers(context.caller, query.project, query.marker, query.limit)


async def show(context: Context, query: NoQuery, body: NoBody) -> ServerDetail:
    return await context.surface.server(context.caller, context.params["id"])


async def delete(context: Context, query: NoQuery, body: NoBody) -> ServerDetail:
    return await context.surface.delete_server(context.caller, context.params["id"])


async def why(context: Context, query: NoQuery, body: NoBody) -> WhyView:
    return await context.surface.why(context.caller, context.params["id"])
