"""Orders whose answer never came: cancelled before they go elsewhere, never placed twice, never lost (protocols §5)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from banyan.core.errors import BanyanError
from banyan.core.identity import Caller
from banyan.core.ids import ZoneCode
from banyan.core.order import Order, share_id
from banyan.core.server import ServerQuery
from banyan.simulate.invariants import Invariants
from banyan.simulate.loop import OverdueError
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.zone.servers.tree import TreeServers
from tests.scenario.trees import SPEC, create, plant, until


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


def listed(site: Site) -> set[str]:
    page = site.tree(lambda servers, caller: servers.page(caller, ServerQuery(every_project=True, limit=1000)))
    assert not page.absent
    return {server.id for server in page.servers}


def whole(world: World, top: Site) -> None:
    """All zones run and are heard again, and everything that must hold holds."""
    for site in world.sites.values():
        if not site.running:
            site.start()
            site.wait()

    def settled() -> bool:
        try:
            return not Invariants(world).broken(settled=True)
        except (BanyanError, OverdueError):
            return False

    until(world, settled, 400.0)


def test_a_cancel_after_a_restart_reaches_what_was_asked_for_under_other_ids(world: World) -> None:
    """A zone in the middle was refused by the one below, asked it for less, and died with its answer."""
    top = plant(world, "2x1x1")
    middle = world["top/z1"]
    child = middle.ask(lambda surface, caller: surface.zones(caller, "", {}, "path", "", 10))
    assert len(child.items) == 1

    async def twice(servers: TreeServers, caller: Caller) -> list[str]:
        placing, under = servers.placing, []
        for n in range(3):
            spec = replace(SPEC, name=f"s{n}")
            order = Order(share_id("o1", n), ZoneCode(1), "p1", "u1", spec)
            reply = await placing.place(order, caller, 30.0)
            under += [made.id for made in reply.made]
        return under

    leaf = world["top/z1/z1"]
    made = leaf.tree(twice)
    assert set(made) == listed(leaf)
    middle.crash("a test")
    middle.start()
    middle.wait()
    world.advance(20.0)
    middle.tree(lambda servers, caller: servers.placing.cancel(caller, "o1"))
    until(world, lambda: not listed(leaf), 120.0)
    whole(world, top)


@pytest.mark.parametrize("shape", ["2x4", "2x2x4"])
@pytest.mark.parametrize("died", ["leaf", "middle"])
def test_who_dies_over_an_order_keeps_no_server_that_nobody_was_told_of(world: World, shape: str, died: str) -> None:
    top = plant(world, shape)
    depth = 1 if died == "middle" else shape.count("x")
    killed: list[str] = []

    def kill(site: Site) -> None:
        """At the commit of the first order: it is stored, and no answer leaves."""

        note = site.disk.committed

        def committed(name: str) -> None:
            note(name)
            if name == "order.claimed" and not killed:
                path = "/".join(site.path.split("/")[: depth + 1])
                killed.append(path)
                world.loop.call_soon(lambda: world[path].crash("a test"))

        site.disk.committed = committed

    for site in world.sites.values():
        kill(site)
    made = create(top).made
    assert killed
    assert not made[0].path.startswith(killed[0])
    whole(world, top)
    until(world, lambda: listed(top) == {made[0].id}, 120.0)
    ran = {guest for site in world.sites.values() for guest in site.bottom.machines.guests()}
    assert ran == {made[0].id}
