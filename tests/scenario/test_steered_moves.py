"""A server that gets another host gets one that it may have: by its new flavor, or by its new availability zone."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from banyan.core.errors import BadInput, Conflict
from banyan.core.order import FlavorSnapshot, NamedHost
from banyan.core.server import Action, Arguments, Made, Server, Task, VmState
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.zone.views import HostView
from tests.scenario.trees import create, plant, rests, show, until

BIG = Arguments(flavor=FlavorSnapshot("f2", "small", 2, 1024, 10), needs={"vcpu": 2, "memory_mib": 1024})


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


def names(top: Site, zone: str) -> list[str]:
    page = top.ask(lambda surface, caller: surface.page(caller, "hosts", zone, {}, "", 100))
    return [msgspec.json.decode(item, type=HostView).name for item in page.items]


def act(top: Site, id: str, action: Action, arguments: Arguments) -> Server:
    return top.tree(lambda servers, caller: servers.act(caller, id, action, arguments))


def planted(world: World) -> tuple[Site, Made]:
    top = plant(world, "2x2x6")
    made = create(top).made[0]
    rests(world, top, made.id, VmState.ACTIVE)
    return top, made


def test_a_resized_server_goes_to_a_host_that_its_new_flavor_may_have(world: World) -> None:
    top, made = planted(world)
    below = made.path.partition("/")[2]
    wanted = next(name for name in names(top, made.path) if name != show(top, made.id).host_name)
    listed = (NamedHost("z9/z9", "none"), NamedHost(below, wanted))
    act(top, made.id, Action.RESIZE, msgspec.structs.replace(BIG, hosts=listed))
    until(world, lambda: show(top, made.id).task is Task.NONE)
    now = show(top, made.id)
    assert (now.state, now.host_name) == (VmState.RESIZED, wanted)
    assert now.spec.hints.hosts == (NamedHost("", wanted),), "and whoever moves it later goes by that"
    act(top, made.id, Action.REVERT_RESIZE, Arguments())
    until(world, lambda: show(top, made.id).task is Task.NONE)
    assert show(top, made.id).spec.hints.hosts == ()


@pytest.mark.parametrize("elsewhere", ["", "z9", "inside"])
def test_it_is_refused_where_no_host_of_them_is_in_its_rack(world: World, elsewhere: str) -> None:
    top, made = planted(world)
    path = made.path.partition("/")[2] if elsewhere == "inside" else elsewhere
    with pytest.raises(Conflict) as refused:
        act(top, made.id, Action.RESIZE, msgspec.structs.replace(BIG, hosts=(NamedHost(path, "none"),)))
    assert refused.value.code == "no-valid-host"
    assert show(top, made.id).state is VmState.ACTIVE


def test_a_server_that_is_unshelved_to_another_zone_goes_by_its_hosts_and_keeps_it(world: World) -> None:
    top, made = planted(world)
    below = made.path.partition("/")[2]
    act(top, made.id, Action.SHELVE, Arguments())
    until(world, lambda: show(top, made.id).state is VmState.OFFLOADED)
    wanted = names(top, made.path)[-1]
    moved = Arguments(availability_zone="made-here", hosts=(NamedHost(below, wanted),))
    act(top, made.id, Action.UNSHELVE, moved)
    rests(world, top, made.id, VmState.ACTIVE)
    now = show(top, made.id)
    assert (now.host_name, now.availability_zone, now.spec.availability_zone) == (wanted, "made-here", "made-here")


def test_no_more_hosts_are_named_than_an_order_may_name(world: World) -> None:
    top, made = planted(world)
    below = made.path.partition("/")[2]
    many = tuple(NamedHost(below, f"h{n}") for n in range(1_001))
    with pytest.raises(BadInput, match="1000 hosts"):
        act(top, made.id, Action.RESIZE, msgspec.structs.replace(BIG, hosts=many))
