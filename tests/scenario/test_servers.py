"""Servers on one leaf: made, kept, moved and deleted, whatever befalls the zone meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from banyan.core.order import FlavorSnapshot, Order, Specification
from banyan.core.server import Server, Task, VmState
from banyan.simulate.site import Site
from banyan.simulate.world import World

SPEC = Specification(
    "web", {"vcpu": 1, "memory_mib": 512, "disk_gib": 5}, flavor=FlavorSnapshot("f1", "tiny", 1, 512, 5)
)


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


def leaf(world: World, hosts: int = 4) -> Site:
    site = world.add("leaf", hosts=hosts)
    site.start()
    site.wait()
    world.advance(2.0)
    return site


def order(site: Site, count: int = 1, **fields: object) -> list[str]:
    one = Order(site.ids.token(16).hex(), 0, "p1", "u1", SPEC, count, count)
    taken = site.servers(lambda servers, caller: servers.order(caller, one))
    return [id for place in taken.order.placed for id in place.ids]


def show(site: Site, id: str) -> Server:
    return site.servers(lambda servers, caller: servers.show(caller, id))


def test_a_server_is_built(world: World) -> None:
    site = leaf(world)
    (id,) = order(site)
    assert show(site, id).state is VmState.BUILDING
    world.advance(1.0)
    built = show(site, id)
    assert (built.state, built.task, built.launched is not None) == (VmState.ACTIVE, Task.NONE, True)
    assert not world.failures()
    assert not site.bottom.machines.wrongs
