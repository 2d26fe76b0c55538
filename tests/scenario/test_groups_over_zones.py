"""Server groups whose members lie in several zones: kept together or apart, whoever orders at the same time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from banyan.core.errors import BanyanError, Unreachable
from banyan.core.ids import read_guest_id
from banyan.core.order import GroupPolicy, GroupScope, Hints, Specification
from banyan.core.server import Made, NoValidHost, ServerQuery
from banyan.simulate.site import Site
from banyan.simulate.world import World
from tests.scenario.bulk import at, listed, order, settle, there
from tests.scenario.trees import SPEC, plant

SHAPES = ["3x2", "3x1x2"]


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


def grouped(
    policy: GroupPolicy, scope: GroupScope = GroupScope.HOST, group: str = "g1", **more: object
) -> Specification:
    return replace(SPEC, hints=Hints(group, policy, scope, **more))


def one(top: Site, spec: Specification, least: int = 1) -> tuple[Made, ...]:
    return order(top, least, spec=spec)


def zone(made: Made) -> str:
    return "/".join(made.path.split("/")[:2])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_group_stays_on_one_host_order_after_order(world: World, shape: str) -> None:
    top = plant(world, shape)
    spec = grouped(GroupPolicy.AFFINITY)
    places = {(made.path, made.host) for _ in range(6) for made in one(top, spec)}
    assert len(places) == 1
    assert len({made.host for made in one(top, grouped(GroupPolicy.AFFINITY, group="g2"), 3)}) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_zones_of_a_group_are_kept_apart_order_after_order(world: World, shape: str) -> None:
    top = plant(world, shape)
    spec = grouped(GroupPolicy.ANTI_AFFINITY, GroupScope.ZONE)
    zones = {zone(made) for _ in range(3) for made in one(top, spec)}
    assert zones == {"top/z1", "top/z2", "top/z3"}
    with pytest.raises(NoValidHost) as refused:
        one(top, spec)
    assert "group" in refused.value.counts
    # Its servers are of the group, also where the rule does not bind.
    page = top.tree(lambda servers, caller: servers.page(caller, ServerQuery(every_project=True, group="g1")))
    assert len(page.servers) == 3


def test_two_orders_of_a_group_at_once_come_one_after_the_other(world: World) -> None:
    top = plant(world, "3x2")
    spec = grouped(GroupPolicy.AFFINITY)
    others: list[Made] = []

    async def ask() -> None:
        built = top._built
        assert built is not None
        caller = built.front.local("operator", "another")
        others.extend((await built.zone.tree_servers.create(caller, spec, project="p1")).made)

    for _ in range(3):
        world.loop.create_task(ask())
    (first,) = one(top, spec)
    settle(world)
    assert len(others) == 3
    assert {(made.path, made.host) for made in others} == {(first.path, first.host)}


@pytest.mark.parametrize(
    ("policy", "scope"), [(GroupPolicy.AFFINITY, GroupScope.HOST), (GroupPolicy.ANTI_AFFINITY, GroupScope.ZONE)]
)
def test_a_hard_rule_is_not_kept_by_a_guess(world: World, policy: GroupPolicy, scope: GroupScope) -> None:
    top = plant(world, "2x1x2")
    (first,) = one(top, grouped(policy, scope))
    world[zone(first)].crash("a test")
    world.advance(60.0)
    with pytest.raises(Unreachable, match=zone(first)) as refused:
        one(top, grouped(policy, scope))
    assert refused.value.code == "group-unknown"
    soft = GroupPolicy.SOFT_AFFINITY if policy is GroupPolicy.AFFINITY else GroupPolicy.SOFT_ANTI_AFFINITY
    assert len(one(top, grouped(soft, scope))) == 1


def test_an_order_that_nobody_answered_for_is_settled_before_the_next_of_its_group(world: World) -> None:
    top = plant(world, "2x2")
    spec = grouped(GroupPolicy.AFFINITY)
    dead: list[str] = []

    def kill(name: str) -> None:
        if not dead:
            dead.append(name)
            world.loop.call_soon(lambda: world[name].crash("a test"))

    for name in ("top/z1", "top/z2"):
        at(world[name], "order.claimed", lambda name=name: kill(name))
    (first,) = one(top, spec)
    assert [zone(first)] != dead
    with pytest.raises(Unreachable, match="group g1"):
        one(top, spec)
    settle(world)
    (second,) = one(top, spec)
    assert (second.path, second.host) == (first.path, first.host)
    settle(world)
    assert there(world) == listed(top) == {first.id, second.id}


def test_a_server_goes_where_another_is_without_asking_all(world: World) -> None:
    top = plant(world, "3x1x2")
    (first,) = one(top, SPEC)
    parts = read_guest_id(first.id)
    assert parts is not None
    beside = replace(SPEC, hints=Hints(same_host=(first.id,)))
    for _ in range(4):
        (made,) = one(top, beside)
        assert (made.path, made.host) == (first.path, first.host)
    asked = [path for path, site in world.sites.items() if site.disk.seen.get("order.claimed")]
    assert asked == [first.path]
    with pytest.raises((NoValidHost, BanyanError)):
        one(top, replace(SPEC, hints=Hints(same_host=("01890000-0000-8000-8000-000000000000",))))
