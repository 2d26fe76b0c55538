"""The compute API over a real store and fakes of what lies behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx

from banyan.api import nova, placement
from banyan.api.app import Api
from banyan.api.openstack.call import Surfaces
from banyan.api.openstack.serve import Face
from banyan.core.errors import Unauthenticated
from banyan.core.ids import ZoneCode
from banyan.core.principal import Principal, ScopeKind
from banyan.core.quota import DEFAULTS, Limits
from banyan.core.time import Wall
from banyan.store.inline import InlineStore, no_pause
from banyan.zone.compute.compute import Compute, make_compute
from banyan.zone.own import open_own
from tests.api.nova.fakes import FakeImages, FakeNetworks, FakeServers
from tests.api.nova.inventory import FakeInventory
from tests.api.serving import StillClock, make
from tests.api.surface import FakeSurface
from tests.contract.store.fakes import SeededIds

NOVA = "X-OpenStack-Nova-API-Version"
_ROLES = {
    "reader": {"reader"},
    "member": {"reader", "member"},
    "manager": {"reader", "member", "manager"},
    "admin": {"reader", "member", "manager", "admin"},
}


def principals(issuer: ZoneCode) -> dict[str, Principal]:
    """By token: each role in project p1; `other` is a member of p2; one in each other scope."""
    plain = Principal(issuer, "u1", "ann", "d1", ScopeKind.PROJECT, frozenset(), Wall(4e9), project="p1")
    found = {name: replace(plain, user=f"u-{name}", roles=frozenset(roles)) for name, roles in _ROLES.items()}
    found["other"] = replace(found["member"], user="u-other", project="p2")
    for kind in (ScopeKind.SYSTEM, ScopeKind.DOMAIN):
        for role in ("reader", "admin"):
            domain = "d1" if kind is ScopeKind.DOMAIN else ""
            found[f"{kind}-{role}"] = replace(found[role], scope=kind, project="", domain=domain)
    found["none"] = replace(plain, scope=ScopeKind.NONE, project="")
    return found


class Gate:
    def __init__(self, issuer: ZoneCode) -> None:
        self.known = principals(issuer)

    async def authenticate(self, token: str, address: str, request: str) -> Principal:
        if token not in self.known:
            raise Unauthenticated("bad-token", "this token is not one of ours")
        return self.known[token].at(address, request)

    def local(self, user: str, request: str) -> Principal:
        return replace(self.known["system-admin"], request=request)


@dataclass
class Cloud:
    api: Api
    compute: Compute
    servers: FakeServers
    images: FakeImages
    networks: FakeNetworks
    inventory: FakeInventory
    store: InlineStore
    gate: Gate

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        token: str = "member",
        version: str = "",
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        given = {"X-Auth-Token": token, **({NOVA: version} if version else {}), **(headers or {})}
        transport = httpx.ASGITransport(self.api, client=("192.0.2.7", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://cloud:8780") as http:
            if content is not None:
                given["Content-Type"] = "application/json"
                return await http.request(method, f"/compute/v2.1{path}", headers=given, content=content)
            return await http.request(method, f"/compute/v2.1{path}", headers=given, json=body)

    async def ok(self, *arguments: Any, **more: Any) -> Any:
        """The answer's body, if it is a success."""
        answer = await self.ask(*arguments, **more)
        assert answer.status_code < 300, (arguments, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    async def server(self, token: str = "member", version: str = "2.96", **fields: object) -> str:
        """The id of a new server."""
        networks = {} if version < "2.37" and len(version) == 4 else {"networks": "none"}
        from tests.api.nova.fakes import IMAGE

        wanted = {"name": "web", "imageRef": IMAGE, "flavorRef": "1", **networks, **fields}
        answer = await self.ok("POST", "/servers", {"server": wanted}, token, version)
        return str(answer["server"]["id"])


async def lit(limits: Limits = DEFAULTS) -> Cloud:
    store = InlineStore(SeededIds(), no_pause, rehearse=False)
    clock, ids = StillClock(), SeededIds(7)
    own = await open_own(store, clock, ids, "top", {})
    servers, images, networks, inventory = FakeServers(), FakeImages(), FakeNetworks(), FakeInventory()
    servers.inventory = inventory
    compute = make_compute(own, store, clock, ids, servers, inventory, images, networks, limits)
    await compute.load()
    api = make(FakeSurface())
    gate = Gate(own.code)
    api.offer([nova.SERVICE, placement.SERVICE], gate, Surfaces(compute=compute), Face())
    return Cloud(api, compute, servers, images, networks, inventory, store, gate)


def run(play: Any, limits: Limits = DEFAULTS) -> Any:
    """Runs `play(cloud)`, a coroutine function."""

    async def whole() -> Any:
        cloud = await lit(limits)
        try:
            return await play(cloud)
        finally:
            await cloud.store.close()

    return asyncio.run(whole())
