"""Ports of servers that are gone are given back, once; who can not be asked keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from banyan.core.errors import BanyanError, NotFound, Unreachable
from banyan.core.identity import SYSTEM
from banyan.core.network import Network, Subnet
from banyan.core.order import NetworkWish
from banyan.core.server import Server, ServerPage, ServerQuery, VmState
from banyan.core.time import Mono, Wall
from banyan.store.inline import InlineStore, no_pause
from banyan.zone.compute.sources import NetworkPlan
from banyan.zone.networks.service import NetworkService, make_networks
from banyan.zone.networks.upkeep import GRACE, LOOK, ROWS, WALKED, Upkeep
from banyan.zone.own import open_own
from tests.api.nova.cloud import principals
from tests.api.nova.fakes import FakeServers
from tests.api.serving import StillClock
from tests.contract.store.fakes import SeededIds


class Tree:
    """Servers as the tree tells of them, to the zone itself only."""

    def __init__(self) -> None:
        self.there: dict[str, VmState] = {}
        self.away: BanyanError | None = None
        self.queries: list[ServerQuery] = []
        self.template: Server | None = None

    def _server(self, id: str) -> Server:
        assert self.template is not None
        return replace(self.template, id=id, state=self.there[id])

    async def show(self, who: object, id: str) -> Server:
        assert who is SYSTEM
        if self.away is not None:
            raise self.away
        if id not in self.there:
            raise NotFound("no-server", f"Instance {id} could not be found.")
        return self._server(id)

    async def page(self, who: object, query: ServerQuery, within: float | None = None) -> ServerPage:
        assert who is SYSTEM and query.deleted and query.every_project
        self.queries.append(query)
        if self.away is not None:
            return ServerPage((), "", ("top/away",))
        gone = sorted(id for id, state in self.there.items() if state is VmState.DELETED and id > query.after)
        rows = gone[: query.limit]
        return ServerPage(tuple(map(self._server, rows)), rows[-1] if len(gone) > len(rows) else "")


class Lab:
    def __init__(self, network: NetworkService, tree: Tree, upkeep: Upkeep, clock: StillClock, who: Any) -> None:
        self.network, self.tree, self.upkeep, self.clock, self.who = network, tree, upkeep, clock, who

    async def serve(self, *servers: str) -> None:
        """Servers with a port each."""
        self.tree.there.update(dict.fromkeys(servers, VmState.ACTIVE))
        await self.network.serving.allocate(self.who, NetworkPlan((NetworkWish("n1"),), ("default",)), servers)

    async def look(self, after: float = LOOK) -> None:
        self.clock.wait(after)
        assert await self.upkeep.activate(self.clock.now()) == Mono(self.clock.now() + LOOK)

    async def left(self) -> set[str]:
        found = await self.network.desk.read(lambda rows: rows.ports.page({}, "", 1_000))
        used = await self.network.desk.read(lambda rows: rows.subnets.get("s1"))
        assert used is not None and used.used == len(found)
        return {port.device for port in found}


def run(play: Callable[[Lab], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        store = InlineStore(SeededIds(), no_pause, rehearse=False)
        clock, ids, tree = WaitingClock(), SeededIds(7), Tree()
        own = await open_own(store, clock, ids, "top", {})
        network = make_networks(own, store, ids, tree)
        tree.template = await template()

        def begin(unit: Any) -> None:
            subnet = Subnet("s1", "p1", "n1", "", 4, "10.0.0.0/16", Wall(1.0), Wall(1.0))
            unit.networks.networks.add(Network("n1", "p1", "n", Wall(1.0), Wall(1.0)))
            unit.networks.subnets.add(subnet)
            from banyan.core import addresses

            pools = addresses.whole(addresses.prefix("10.0.0.0/16"), "")
            unit.networks.addresses.open("s1", pools)
            from dataclasses import replace as changed

            unit.networks.subnets.change(subnet, changed(subnet, pools=pools, revision=2))

        await store.write("test", begin)
        upkeep = network.upkeep(clock)
        try:
            await play(Lab(network, tree, upkeep, clock, principals(own.code)["member"]))
        finally:
            await store.close()

    asyncio.run(whole())


class WaitingClock(StillClock):
    """Goes on when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0.0

    def wait(self, seconds: float) -> None:
        self.waited += seconds

    def now(self) -> Mono:
        return Mono(super().now() + self.waited)


async def template() -> Server:
    from banyan.core.ids import ZoneCode
    from banyan.core.order import Specification

    servers = FakeServers()
    await servers.create(principals(ZoneCode(1))["member"], Specification("n", {}))
    (server,) = servers.rows.values()
    return server


def test_ports_of_deleted_servers_are_given_back() -> None:
    async def play(lab: Lab) -> None:
        await lab.serve("a", "b", "c")
        lab.tree.there["b"] = VmState.DELETED
        await lab.look()
        assert await lab.left() == {"a", "c"}
        lab.tree.there["a"] = VmState.ERROR
        await lab.look()
        assert await lab.left() == {"a", "c"}

    run(play)


def test_each_look_asks_for_what_was_deleted_since_the_last() -> None:
    async def play(lab: Lab) -> None:
        many = [f"x{n:04d}" for n in range(ROWS + 5)]
        lab.tree.there.update(dict.fromkeys(many, VmState.DELETED))
        await lab.serve("a")
        await lab.look()
        first = lab.tree.queries[0].changed_since
        assert [one.after for one in lab.tree.queries] == ["", many[ROWS - 1]]
        lab.tree.queries.clear()
        await lab.look()
        (again,) = lab.tree.queries[:1]
        assert first is not None and again.changed_since is not None and again.changed_since > first + 86_400

    run(play)


def test_a_server_that_is_nowhere_is_gone_at_the_second_look() -> None:
    async def play(lab: Lab) -> None:
        await lab.serve("a", "b")
        del lab.tree.there["a"]
        await lab.look()
        assert await lab.left() == {"a", "b"}
        # Found in between: it begins anew.
        lab.tree.there["a"] = VmState.ACTIVE
        await lab.look(GRACE)
        del lab.tree.there["a"]
        await lab.look()
        await lab.look(GRACE - 1)
        assert await lab.left() == {"a", "b"}
        await lab.look(2)
        assert await lab.left() == {"b"}

    run(play)


def test_who_can_not_be_asked_keeps_its_ports() -> None:
    async def play(lab: Lab) -> None:
        await lab.serve("a")
        lab.tree.there.clear()
        lab.tree.away = Unreachable("member-unreachable", "away")
        for _ in range(3):
            await lab.look(GRACE)
        assert await lab.left() == {"a"}

    run(play)


def test_the_walk_comes_to_every_port() -> None:
    async def play(lab: Lab) -> None:
        servers = [f"v{n:03d}" for n in range(2 * WALKED + 7)]
        await lab.serve(*servers)
        # No list tells of them.
        for id in servers:
            lab.tree.there.pop(id)
        for _ in range(4):
            await lab.look()
        for _ in range(4):
            await lab.look(GRACE)
        assert await lab.left() == set()

    run(play)
