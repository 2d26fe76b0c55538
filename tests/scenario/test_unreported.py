"""Zones that die right after an order was acknowledged: what they hold is in no ledger yet, and is not forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from banyan.core.errors import Refused, Unreachable
from banyan.core.order import GroupPolicy
from banyan.core.quota import DEFAULTS, Quota
from banyan.core.server import ServerQuery
from banyan.simulate.world import World
from banyan.zone.compute.lists import Listed
from banyan.zone.compute.ordering import Wish
from tests.api.nova.fakes import IMAGE
from tests.scenario.test_compute import WISH, Entry
from tests.scenario.trees import plant

ONE = {**DEFAULTS, Quota.SERVERS: 1}


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


def page(top: Entry) -> Listed:
    who = top.who()
    return top.run(top.compute.lists.page(who, ServerQuery(who.issuer, who.project), "", 10))


def again(world: World, path: str) -> None:
    world[path].crash("a test")
    world[path].start()
    world[path].wait()


@pytest.mark.parametrize("restarted", [(), ("top/z1",), ("top",), ("top/z1", "top")])
def test_a_server_of_a_zone_that_died_at_once_is_unknown_and_not_absent(
    world: World, restarted: tuple[str, ...]
) -> None:
    site = plant(world, "2x2x4")
    top = Entry(site, ONE)
    [made] = top.run(top.compute.ordering.create(top.who(), WISH)).created.made
    leaf = world[made.path]
    leaf.crash("a test")
    for path in restarted:
        again(world, made.path.rpartition("/")[0] if path == "top/z1" else path)
    world.advance(200.0)
    top = Entry(site, ONE)
    assert page(top) == Listed((), "", (made.path,))
    with pytest.raises(Refused, match="Quota exceeded"):
        top.create()
    leaf.start()
    leaf.wait()
    world.advance(30.0)
    found = page(top)
    assert ([server.id for server in found.servers], found.absent) == ([made.id], ())


def test_a_group_is_not_kept_together_by_who_does_not_know_where_it_is(world: World) -> None:
    site = plant(world, "2x2x4")
    top = Entry(site, DEFAULTS)
    group = top.run(top.compute.groups.create(top.who(), "g", GroupPolicy.AFFINITY, None)).group
    wish = Wish("web", "1", IMAGE, no_network=True, group=group.id)
    [first] = top.run(top.compute.ordering.create(top.who(), wish)).created.made
    world[first.path].crash("a test")
    again(world, first.path.rpartition("/")[0])
    again(world, "top")
    world.advance(20.0)
    top = Entry(site, DEFAULTS)
    with pytest.raises(Unreachable, match=first.path):
        top.run(top.compute.ordering.create(top.who(), wish))
    world[first.path].start()
    world[first.path].wait()
    world.advance(30.0)
    [second] = top.run(top.compute.ordering.create(top.who(), wish)).created.made
    assert (second.path, second.host) == (first.path, first.host)


def test_zones_that_all_reported_are_not_asked_for_what_they_do_not_have(world: World) -> None:
    site = plant(world, "2x2x4")
    top = Entry(site, DEFAULTS)
    [made] = top.run(top.compute.ordering.create(top.who(), WISH)).created.made
    world.advance(200.0)
    other = next(path for path in world.sites if path.count("/") == 2 and path.split("/")[1] != made.path.split("/")[1])
    world[other].crash("a test")
    world.advance(60.0)
    assert page(top).absent == ()
