"""Servers through the tree: ordered at the top, made at a leaf, found by their ids, listed from everywhere."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest
from msgspec import structs

from banyan.core.errors import NotFound, Refused, Unreachable
from banyan.core.identity import SYSTEM, Caller, Role
from banyan.core.ids import under
from banyan.core.order import Hints
from banyan.core.server import Action, NoValidHost, ServerQuery, VmState
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.zone.servers.tree import TreeServers
from banyan.zone.views import ServerDetail
from tests.scenario.trees import SPEC, create, plant, rests, show, until


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


@pytest.mark.parametrize("shape", ["2x4", "2x2x4"])
def test_a_server_is_ordered_found_listed_and_deleted_from_the_top(world: World, shape: str) -> None:
    top = plant(world, shape)
    made = create(top).made[0]
    assert made.path.count("/") == shape.count("x")
    rests(world, top, made.id, VmState.ACTIVE)
    listed = top.tree(lambda servers, caller: servers.page(caller, ServerQuery(every_project=True)))
    assert [server.id for server in listed.servers] == [made.id]
    assert (listed.after, listed.absent) == ("", ())
    why = top.tree(lambda servers, caller: servers.why(caller, made.id))
    # Each zone on the way says why that member, and the leaf at last why that host.
    way = ["/".join(made.path.split("/")[:n]) for n in range(1, shape.count("x") + 2)]
    assert [level.path for level in why] == [*way, made.path]
    top.tree(lambda servers, caller: servers.act(caller, made.id, Action.DELETE))
    until(world, lambda: not top.tree(lambda s, caller: s.page(caller, ServerQuery(every_project=True))).servers)


def test_a_zone_may_ask_for_itself_about_servers_at_any_depth(world: World) -> None:
    top = plant(world, "2x2x4")
    made = create(top).made[0]
    rests(world, top, made.id, VmState.ACTIVE)
    assert top.tree(lambda servers, _: servers.show(SYSTEM, made.id)).id == made.id
    assert top.tree(lambda servers, _: servers.actions(SYSTEM, made.id))
    page = top.tree(lambda servers, _: servers.page(SYSTEM, ServerQuery(every_project=True)))
    assert [server.id for server in page.servers] == [made.id] and page.absent == ()


def test_many_are_spread_over_all_leaves_and_paged_newest_first(world: World) -> None:
    top = plant(world, "2x2x4")
    made = create(top, 40).made
    assert len({one.id for one in made}) == 40
    assert {one.path for one in made} == {f"top/z{a}/z{b}" for a in (1, 2) for b in (1, 2)}
    found: list[str] = []
    after = ""
    while True:
        query = ServerQuery(every_project=True, limit=7, after=after)
        page = top.tree(lambda servers, caller, query=query: servers.page(caller, query))
        found += [server.id for server in page.servers]
        after = page.after
        if not after:
            break
    assert found == sorted((one.id for one in made), reverse=True)


def test_what_has_no_place_is_refused_with_a_count_of_all_hosts(world: World) -> None:
    top = plant(world, "2x4")
    huge = type(SPEC)("huge", {"vcpu": 10_000, "memory_mib": 512})
    with pytest.raises(NoValidHost) as refused:
        create(top, spec=huge)
    assert sum(refused.value.counts.values()) == refused.value.looked == 8


def test_a_full_tree_takes_exactly_what_it_has_room_for(world: World) -> None:
    top = plant(world, "2x2")
    made = 0
    refusal: NoValidHost | None = None
    while refusal is None:
        try:
            made += len(create(top, 50).made)
        except NoValidHost as error:
            refusal = error
        assert made < 10_000
    # The top asked all, whatever it believed; what they said adds up to all hosts.
    assert (refusal.fits, refusal.looked) == (0, 4)
    usage = top.tree(lambda servers, caller: servers.page(caller, ServerQuery(every_project=True, limit=1000)))
    assert 50 < len(usage.servers) == min(made, 1000)


def test_a_server_whose_zone_is_cut_off_is_unknown_and_its_zone_named_in_lists(world: World) -> None:
    top = plant(world, "2x2x4")
    made = create(top, 8).made
    lost = made[0]
    middle = "/".join(lost.path.split("/")[:2])
    world[middle].crash("a test")
    world.advance(40.0)
    with pytest.raises(Unreachable, match=lost.path):
        show(top, lost.id)
    listed = top.tree(lambda servers, caller: servers.page(caller, ServerQuery(every_project=True)))
    assert listed.absent == (middle,)
    assert {one.id for one in made if not one.path.startswith(middle)} == {server.id for server in listed.servers}


def test_an_id_of_nobody_is_not_found(world: World) -> None:
    top = plant(world, "1x2")
    with pytest.raises(NotFound):
        show(top, "01890000-0000-8000-8000-000000000000")


def rows(site: Site) -> dict[str, int]:
    """How many rows each table on the zone's disk has."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(site.backup().database)
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}


def routes(site: Site) -> int:
    return site.tree(lambda servers, caller: count_routes(servers))


async def count_routes(servers: TreeServers) -> int:
    return servers.routes


def test_nothing_above_a_leaf_grows_with_servers(world: World) -> None:
    top = plant(world, "2x2x4")
    above = [top, world["top/z1"], world["top/z2"]]
    # Some first: the ledger's row of a project in each child is no matter of how many servers it has.
    create(top, 40)
    world.advance(30.0)
    before = [rows(site) for site in above]
    assert before[0]["ledger"] == 2
    assert before[0]["servers"] == before[0]["orders"] == 0
    for _ in range(20):
        create(top, 30)
    create(top)
    world.advance(30.0)
    assert [rows(site) for site in above] == before
    assert [routes(site) for site in above] == [4, 2, 2]
    leaves = [rows(world[f"top/z{a}/z{b}"])["servers"] for a in (1, 2) for b in (1, 2)]
    assert sum(leaves) == 641


def test_an_operator_of_a_part_has_the_servers_of_that_part_and_no_others(world: World) -> None:
    top = plant(world, "2x2x4")
    huge = structs.replace(SPEC, needs={"vcpu": 1_000})
    built = top._built
    assert built is not None
    front, tree = built.front, built.zone.tree
    part = Caller("ops", Role.OPERATOR, built.zone.own.code, tree.resolve("top/z1"))
    lab = replace(part, under=tree.resolve("top/z1/z2"))
    ids = {server.id: show(top, server.id).rack for server in create(top, 24).made}
    listed = top.tree(lambda servers, caller: front.servers(caller, "", "", 100))
    zones = {one.id: one.zone for one in (msgspec.json.decode(item, type=ServerDetail) for item in listed.items)}
    assert set(zones) == set(ids) and set(zones.values()) == {f"top/z{a}/z{b}" for a in (1, 2) for b in (1, 2)}

    for who, path in ((part, "top/z1"), (lab, "top/z1/z2")):
        page = top.tree(lambda servers, caller, who=who: front.servers(who, "", "", 100))
        seen = {one.id: one.zone for one in (msgspec.json.decode(item, type=ServerDetail) for item in page.items)}
        assert seen == {id: zone for id, zone in zones.items() if under(zone, path)} and page.absent == ()
        mine, other = next(iter(seen)), next(id for id in zones if id not in seen)
        assert top.tree(lambda servers, caller, who=who, id=mine: front.server(who, id)).id == mine
        why = top.tree(lambda servers, caller, who=who, id=mine: front.why(who, id))
        assert why.levels and all(under(level.zone, path) for level in why.levels)
        whole = top.tree(lambda servers, caller, id=mine: front.why(caller, id))
        for hidden in (other, show(top, mine).order, show(top, mine).request):
            for ask in (front.server, front.delete_server, front.why):
                with pytest.raises(NotFound) as refused:
                    top.tree(lambda servers, caller, who=who, ask=ask, id=hidden: ask(who, id))
                assert refused.value.code == "no-server"
        assert len(whole.levels) > len(why.levels)

        made = top.tree(
            lambda servers, caller, who=who: front.create_servers(who, SPEC, count=3, least=3, project="p1")
        )
        assert all(under(one.zone, path) for one in (*made.servers, *made.levels))
        id = made.servers[0].id
        rests(world, top, id, VmState.ACTIVE)
        assert top.tree(lambda servers, caller, who=who, id=id: front.delete_server(who, id)).task == "deleting"
        viewer = replace(who, role=Role.VIEWER)
        with pytest.raises(Refused):
            top.tree(lambda servers, caller, who=viewer, id=mine: front.delete_server(who, id))
        with pytest.raises(NoValidHost) as full:
            top.tree(lambda servers, caller, who=who: front.create_servers(who, huge, count=1, least=1, project="p"))
        assert "path" not in full.value.counts, "there is nothing beside it"
    beside = structs.replace(SPEC, hints=Hints(path="z2"))
    made = top.tree(lambda servers, caller: front.create_servers(part, beside, count=2, least=2, project="p1"))
    assert {one.zone for one in made.servers} == {"top/z1/z2"}, "a path is below the part"
