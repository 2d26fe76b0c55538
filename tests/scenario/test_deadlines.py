"""One zone hangs, three levels down: it is heard, and answers nothing. Its siblings are in every list, and it is named,
while the one who asked still waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from banyan.api.context import Limits
from banyan.core.identity import Caller
from banyan.core.messages import Request
from banyan.core.server import ServerQuery
from banyan.simulate.world import World
from banyan.zone.compute.lists import ServerLists
from banyan.zone.settings import ZoneSettings
from tests.api.nova.cloud import principals
from tests.scenario.trees import create, plant

HUNG = "top/z1/z1/z1"
ZONES = [f"top/z{a}/z{b}/z{c}" for a in (1, 2) for b in (1, 2) for c in (1, 2)]
ANY = ServerQuery(every_project=True, limit=100)
HONEST = [path for path in ZONES if path != HUNG]


async def hang(request: Request, caller: Caller) -> bytes:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("it never ends")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        top = plant(made, "2x2x2x2")
        create(top, 16)
        made.advance(60.0)
        built = made[HUNG]._built
        assert built is not None
        built.zone.answer = hang
        yield made
        assert not made.failures()


def timed(world: World, work: Callable[[], Any]) -> Any:
    """What it gives, within the time of one answer of the API."""
    begun = world.loop.time()
    given = work()
    taken = world.loop.time() - begun
    assert ZoneSettings(name="x").replies - 4.0 < taken < Limits().deadline - 5.0, "it waited for the one that hangs"
    return given


def listed(world: World, kind: str, path: str = "") -> tuple[list[Mapping[str, Any]], tuple[str, ...]]:
    """All pages of a list, as (rows, absent)."""
    rows: list[Mapping[str, Any]] = []
    absent: dict[str, None] = {}
    marker = ""
    while True:
        page = world["top"].ask(lambda surface, caller, m=marker: surface.page(caller, kind, path, {}, m, 100))
        rows += [msgspec.json.decode(bytes(item)) for item in page.items]
        absent |= dict.fromkeys(page.absent)
        marker = page.marker
        if not marker:
            return rows, tuple(absent)


@pytest.mark.parametrize("kind", ["hosts", "racks"])
def test_a_list_shows_the_siblings_of_a_zone_that_hangs(world: World, kind: str) -> None:
    rows, absent = timed(world, lambda: listed(world, kind))
    assert sorted({row["zone"] for row in rows}) == HONEST
    assert absent == (HUNG,)


def test_a_part_of_the_tree_shows_them_as_well(world: World) -> None:
    rows, absent = timed(world, lambda: listed(world, "hosts", "top/z1"))
    assert sorted({row["zone"] for row in rows}) == HONEST[:3]
    assert absent == (HUNG,)


def test_servers_are_listed_but_for_those_of_a_zone_that_hangs(world: World) -> None:
    top = world["top"]
    page = timed(world, lambda: top.tree(lambda s, c: s.page(c, ANY)))
    assert page.absent == (HUNG,)
    assert len(page.servers) == 14
    placed = timed(world, lambda: top.ask(lambda surface, caller: surface.servers(caller, "", "", 100)))
    assert (len(placed.items), placed.absent) == (14, (HUNG,))


def test_a_client_of_compute_gets_them_in_time(world: World) -> None:
    """However many pages of the tree make one of its own."""
    top = world["top"]
    built = top._built
    assert built is not None
    who, lists = principals(built.zone.own.code)["admin"], ServerLists(built.zone.tree_servers)
    query = ServerQuery(every_project=True)
    found = timed(world, lambda: top.tree(lambda s, c: lists.page(who, query, "", 3, lambda server: False)))
    assert found.absent == (HUNG,)
    found = timed(world, lambda: top.tree(lambda s, c: lists.page(who, query, "", 100)))
    assert (len(found.servers), found.absent) == (14, (HUNG,))


def test_records_of_servers_in_other_zones_are_found(world: World) -> None:
    top = world["top"]
    page = top.tree(lambda s, c: s.page(c, ANY))
    ids = [server.id for server in page.servers]
    hung = world[HUNG].peek(lambda unit: [server.id for server in unit.servers.page(ANY).servers])
    reply = timed(world, lambda: top.tree(lambda s, c: s.look(c, [*ids, *hung])))
    assert sorted(server.id for server in reply.servers) == sorted(ids)
    assert {(one.id, one.path) for one in reply.unknown} == {(id, HUNG) for id in hung}


def test_totals_and_zones_do_not_ask_and_do_not_wait(world: World) -> None:
    top = world["top"]
    begun = world.loop.time()
    zones = top.ask(lambda surface, caller: surface.zones(caller, "", {}, "", "", 100))
    usage = top.ask(lambda surface, caller: surface.usage(caller, ""))
    assert (len(zones.items), zones.absent, usage.hosts.total) == (14, (), 16)
    assert world.loop.time() - begun < 1.0
