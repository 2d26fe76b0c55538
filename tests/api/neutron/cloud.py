"""The network API over a real store, beside compute over fakes of its servers: for tests from request to row."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from banyan.api import neutron, nova
from banyan.api.app import Api
from banyan.api.openstack.call import Surfaces
from banyan.api.openstack.serve import Face
from banyan.core.network_quota import NETWORK_DEFAULTS, NetworkLimits
from banyan.store.inline import InlineStore, no_pause
from banyan.zone.compute.compute import Compute, make_compute
from banyan.zone.networks.places import Places
from banyan.zone.networks.service import NetworkService, make_networks
from banyan.zone.own import open_own
from tests.api.nova.cloud import Gate
from tests.api.nova.fakes import IMAGE, FakeImages, FakeServers
from tests.api.nova.inventory import FakeInventory
from tests.api.serving import StillClock, make
from tests.api.surface import FakeSurface
from tests.contract.store.fakes import SeededIds

NOVA = "X-OpenStack-Nova-API-Version"


@dataclass
class Cloud:
    api: Api
    compute: Compute
    network: NetworkService
    servers: FakeServers
    store: InlineStore
    gate: Gate

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        token: str = "member",
        headers: Mapping[str, str] | None = None,
        service: str = "network",
    ) -> httpx.Response:
        given = {"X-Auth-Token": token, **(headers or {})}
        root = "/network/v2.0" if service == "network" else "/compute/v2.1"
        transport = httpx.ASGITransport(self.api, client=("192.0.2.7", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://cloud:8780") as http:
            return await http.request(method, f"{root}{path}", headers=given, json=body)

    async def ok(self, *arguments: Any, **more: Any) -> Any:
        """The answer's body, if it is a success."""
        answer = await self.ask(*arguments, **more)
        assert answer.status_code < 300, (arguments, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    async def refused(self, status: int, *arguments: Any, **more: Any) -> dict[str, str]:
        """The error's body, if it is that refusal."""
        answer = await self.ask(*arguments, **more)
        assert answer.status_code == status, (arguments, answer.status_code, answer.text)
        found: dict[str, str] = answer.json()["NeutronError"]
        assert set(found) == {"type", "message", "detail"} and found["message"]
        return found

    # --- one of each --------------------------------------------------------------------------------

    async def make(self, kind: str, token: str = "member", **fields: object) -> dict[str, Any]:
        """make("network", name="n")"""
        path = "/" + (kind + "s").replace("_", "-")
        made: dict[str, Any] = (await self.ok("POST", path, {kind: fields}, token))[kind]
        return made

    async def net(self, cidr: str = "10.0.0.0/24", token: str = "member", **fields: object) -> tuple[str, str]:
        """The ids of a new network and of its subnet; `fields` are the subnet's."""
        network = await self.make("network", token, name="n")
        version = 6 if ":" in cidr else 4
        subnet = await self.make("subnet", token, network_id=network["id"], cidr=cidr, ip_version=version, **fields)
        return network["id"], subnet["id"]

    async def port(self, network: str, token: str = "member", **fields: object) -> dict[str, Any]:
        return await self.make("port", token, network_id=network, **fields)

    async def outside(self, cidr: str = "203.0.113.0/24") -> str:
        """An external network with a subnet."""
        fields = {"name": "out", "router:external": True, "project_id": "outer"}
        made = (await self.ok("POST", "/networks", {"network": fields}, "admin"))["network"]
        await self.make("subnet", "admin", network_id=made["id"], cidr=cidr, ip_version=4, project_id="outer")
        return str(made["id"])

    async def server(self, token: str = "member", status: int = 202, **fields: object) -> Any:
        """The answer to an order of a server."""
        wanted = {"name": "web", "imageRef": IMAGE, "flavorRef": "1", **fields}
        answer = await self.ask("POST", "/servers", {"server": wanted}, token, {NOVA: "2.96"}, service="compute")
        assert answer.status_code == status, answer.text
        return answer.json()

    async def used(self, subnet: str) -> int:
        """How many addresses of a subnet are given out, as the store counts them; nothing contradicts it."""

        def look(unit: Any) -> int:
            found = unit.networks.subnets.get(subnet)
            holders = unit.networks.addresses.holders(subnet, 10_000)
            left = unit.networks.addresses.left(subnet)
            from banyan.core import addresses

            pools = addresses.size(found.pools)
            inside = sum(1 for _, one in holders if addresses.covers(found.pools, addresses.address(one)))
            assert left == pools - inside, (left, pools, inside)
            assert found.used == len(holders)
            return int(found.used)

        return await self.store.read(look)


async def lit(limits: NetworkLimits = NETWORK_DEFAULTS, places: Places | None = None) -> Cloud:
    store = InlineStore(SeededIds(), no_pause, rehearse=False)
    clock, ids = StillClock(), SeededIds(7)
    own = await open_own(store, clock, ids, "top", {})
    servers = FakeServers()
    network = make_networks(own, store, ids, servers, limits, places)
    compute = make_compute(own, store, clock, ids, servers, FakeInventory(), FakeImages(), network.serving)
    network.desk.news.listener = compute.life.reconnected
    await compute.load()
    api = make(FakeSurface())
    gate = Gate(own.code)
    api.offer([nova.SERVICE, neutron.SERVICE], gate, Surfaces(compute=compute, network=network), Face())
    return Cloud(api, compute, network, servers, store, gate)


def run(play: Any, limits: NetworkLimits = NETWORK_DEFAULTS, places: Places | None = None) -> Any:
    """Runs `play(cloud)`, a coroutine function."""

    async def whole() -> Any:
        cloud = await lit(limits, places)
        try:
            return await play(cloud)
        finally:
            await cloud.store.close()

    return asyncio.run(whole())
