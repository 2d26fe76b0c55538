"""A made-up service on the chassis, and a gate that knows a few tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import httpx
import msgspec

from banyan.api.app import Api
from banyan.api.context import Limits
from banyan.api.openstack import faults
from banyan.api.openstack.call import Answer, Call, Reply, Surfaces
from banyan.api.openstack.microversion import Microversions, Version
from banyan.api.openstack.serve import Face
from banyan.api.openstack.service import Service
from banyan.api.openstack.table import OPEN, Nothing, op, op_with
from banyan.core.errors import Conflict, NotFound, Unauthenticated
from banyan.core.ids import ZoneCode
from banyan.core.principal import Principal, ScopeKind
from banyan.core.time import Wall
from tests.api.serving import make
from tests.api.surface import FakeSurface

READER = Principal(
    ZoneCode(1), "u1", "ann", "default", ScopeKind.PROJECT, frozenset({"reader"}), Wall(2e9), project="p1", audit="a1"
)
ADMIN = replace(READER, user="u2", user_name="root", roles=frozenset({"admin", "manager", "member", "reader"}))


class Gate:
    """`known`: token → principal."""

    def __init__(self) -> None:
        self.known = {"reader": READER, "admin": ADMIN}

    async def authenticate(self, token: str, address: str, request: str) -> Principal:
        if token not in self.known:
            raise Unauthenticated("bad-token", "this token is not one of ours")
        return self.known[token].at(address, request)

    def measured(self) -> Mapping[str, float]:
        return {}

    def local(self, user: str, request: str) -> Principal:
        return replace(ADMIN, user="", user_name=user, scope=ScopeKind.SYSTEM, project="", request=request)


class Lamp(msgspec.Struct, frozen=True):
    name: str
    watts: int = 40


class LampBody(msgspec.Struct, frozen=True):
    lamp: Lamp


async def versions(call: Call) -> Answer:
    return Reply({"versions": [{"id": "v1", "links": [{"rel": "self", "href": call.link("/v1")}]}]}, status=300)


async def show(call: Call) -> Answer:
    if call.params["lamp_id"] == "boom":
        raise RuntimeError("a secret of the inside")
    if call.params["lamp_id"] == "none":
        raise NotFound("no-lamp", "Lamp none could not be found.")
    return {"id": call.params["lamp_id"], "who": call.principal.user_name, "version": str(call.version)}


async def listed(call: Call) -> Answer:
    return {"lamps": [], "all": call.flag("all"), "limit": call.limit(50), "name": call.maybe("name")}


async def create(call: Call, body: LampBody) -> Answer:
    if body.lamp.name == "taken":
        raise Conflict("name-taken", "a lamp of that name is there")
    return Reply({"lamp": body.lamp}, headers={"Location": call.link(f"/v1/lamps/{body.lamp.name}")})


async def old(call: Call) -> Answer:
    return {"old": True}


async def new(call: Call) -> Answer:
    return {"new": True}


async def light(call: Call, body: Nothing) -> Answer:
    return None


class Dim(msgspec.Struct, frozen=True):
    to: int


async def dim(call: Call, body: Dim) -> Answer:
    return {"to": body.to}


async def delete(call: Call) -> Answer:
    return None


async def upload(call: Call) -> Answer:
    assert call.chunks is not None
    size = 0
    async for chunk in call.chunks:
        size += len(chunk)
    return {"size": size}


async def download(call: Call) -> Answer:
    async def pieces() -> AsyncIterator[bytes]:
        for n in range(3):
            yield bytes([65 + n]) * 4

    return Reply(stream=pieces(), media="application/octet-stream", length=12)


ROWS = (
    op("GET", "", versions, OPEN),
    op("GET", "/", versions, OPEN),
    op("GET", "/v1/lamps", listed, "identity:list_regions"),
    op("GET", "/v1/lamps/detail", listed, "identity:list_regions"),
    op_with("POST", "/v1/lamps", create, "identity:create_region", body=LampBody, status=201),
    op("GET", "/v1/lamps/{lamp_id}", show, "identity:get_region"),
    op("DELETE", "/v1/lamps/{lamp_id}", delete, "identity:delete_region", status=204),
    op_with(
        "POST",
        "/v1/lamps/{lamp_id}/action",
        light,
        "identity:list_regions",
        key="light",
        body=Nothing,
        status=202,
    ),
    op_with(
        "POST", "/v1/lamps/{lamp_id}/action", dim, "identity:create_region", key="dim", body=Dim, first="2.5"
    ),
    op("GET", "/v1/wick", old, "identity:list_regions", last="2.9"),
    op("GET", "/v1/wick", new, "identity:list_regions", first="2.10"),
    op("PUT", "/v1/lamps/{lamp_id}/file", upload, "identity:list_regions", streamed=True, most=1000,
       kinds=("application/octet-stream",)),
    op("GET", "/v1/lamps/{lamp_id}/file", download, "identity:list_regions"),
)  # fmt: skip


def service(style: faults.Style = faults.compute, prefix: str = "compute") -> Service:
    return Service(
        prefix,
        "nova",
        f"/{prefix}/v1",
        ROWS,
        style,
        Microversions("compute", Version(2, 1), Version(2, 96), "X-OpenStack-Nova-API-Version"),
        ("x-openstack-request-id", "x-compute-request-id"),
    )


def lit(
    style: faults.Style = faults.compute,
    limits: Limits | None = None,
    face: Face = Face(),  # noqa: B008 - frozen
) -> tuple[Api, FakeSurface]:
    surface = FakeSurface()
    api = make(surface, limits)
    api.offer([service(style)], Gate(), Surfaces(), face)
    return api, surface


def client(api: Api, token: str = "", headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    given = {"X-Auth-Token": token} if token else {}
    transport = httpx.ASGITransport(api, client=("192.0.2.7", 4711))
    return httpx.AsyncClient(transport=transport, base_url="http://cloud:8780", headers={**given, **(headers or {})})
