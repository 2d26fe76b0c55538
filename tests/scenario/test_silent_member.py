"""Lists beside a child that says nothing any more while its session still stands: as a stopped machine's does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from banyan.core.errors import Unreachable
from banyan.core.identity import Caller
from banyan.core.server import ServerPage, ServerQuery
from banyan.simulate.faults import Path
from banyan.simulate.world import World
from banyan.zone.servers.access import Who
from banyan.zone.servers.tree import TreeServers
from tests.scenario.trees import create, plant, show

EVERY = ServerQuery(every_project=True)


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


def test_a_list_waits_for_a_silent_zone_no_longer_than_its_report_is_awaited(world: World) -> None:
    top = plant(world, "2x4")
    made = create(top, 8).made
    [silent, *_] = sorted({one.path for one in made})
    world[silent].uplink.set(Path.SILENT)
    took = []
    for _ in range(2):
        began = world.loop.time()
        page = top.tree(lambda servers, caller: servers.page(caller, EVERY))
        took.append(world.loop.time() - began)
        assert page.absent == (silent,)
        assert {server.id for server in page.servers} == {one.id for one in made if one.path != silent}
    # A report each 6 s, 3 s late at most, 1.5 s to answer still: not the 15 s for which its session stands.
    assert took[0] < 11.5
    assert took[1] < 2.1, "it is known to be silent by now"


def test_a_server_of_a_silent_zone_is_unknown_as_soon(world: World) -> None:
    top = plant(world, "2x4")
    one = create(top, 8).made[0]
    world[one.path].uplink.set(Path.SILENT)
    world.advance(10.0)
    began = world.loop.time()
    with pytest.raises(Unreachable, match=one.path):
        show(top, one.id)
    assert world.loop.time() - began < 2.1


def test_lists_of_hosts_wait_no_longer_either(world: World) -> None:
    top = plant(world, "2x4")
    silent = "top/z1"
    world[silent].uplink.set(Path.SILENT)
    began = world.loop.time()
    page = top.ask(lambda surface, caller: surface.page(caller, "hosts", "", {}, "", 100))
    assert world.loop.time() - began < 11.5
    assert (page.absent, len(page.items)) == ((silent,), 4)


def test_one_that_is_heard_may_take_its_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zone that is slow, and not silent, is waited for."""
    top = plant(world, "2x4")
    slow = create(top, 8).made[0].path
    servers = world[slow].tree(servers_of)
    page_of = servers._leaf.page

    async def slowly(who: Who, query: ServerQuery) -> ServerPage:
        await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=14.0)
        return await page_of(who, query)

    monkeypatch.setattr(servers._leaf, "page", slowly)
    page = top.tree(lambda servers, caller: servers.page(caller, EVERY))
    assert (page.absent, len(page.servers)) == ((), 8)


async def servers_of(servers: TreeServers, caller: Caller) -> TreeServers:
    return servers
