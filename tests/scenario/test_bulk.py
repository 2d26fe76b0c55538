"""Several servers or none, over several members: claimed everywhere, decided once, begun then (protocols §5.6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from banyan.core.server import NoValidHost, VmState
from banyan.simulate.faults import Doom, Instant
from banyan.simulate.world import World
from tests.scenario.bulk import doom, listed, order, settle, there, tried
from tests.scenario.trees import plant, rests

SHAPES = {1: "2x1", 2: "2x1x1", 3: "2x1x1x1"}


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


@pytest.mark.parametrize("shape", SHAPES.values())
def test_what_no_member_has_room_for_alone_is_spread_over_several(world: World, shape: str) -> None:
    top = plant(world, shape)
    made = order(top, 2)
    assert len({one.id for one in made}) == len({one.path for one in made}) == 2
    assert listed(top) == {one.id for one in made}
    for one in made:
        rests(world, top, one.id, VmState.ACTIVE)
    settle(world)
    assert there(world) == listed(top)


@pytest.mark.parametrize("shape", SHAPES.values())
def test_fewer_than_are_needed_are_none_and_hold_nothing(world: World, shape: str) -> None:
    top = plant(world, shape)
    with pytest.raises(NoValidHost) as refused:
        order(top, 3)
    assert refused.value.fits == 2
    settle(world)
    assert not there(world) and not listed(top)
    assert len(order(top, 2, 3)) == 2


def test_what_one_member_can_take_whole_is_one_commit_there_and_none_above(world: World) -> None:
    top = plant(world, "2x1x3")
    made = order(top, 3)
    assert len({one.path for one in made}) == 1
    seen = {path: {n for n in site.disk.seen if n.startswith("order.")} for path, site in world.sites.items()}
    assert [names for names in seen.values() if names] == [{"order.claimed"}]


STEPS = {
    "top": ("order.shared", "order.decided", "order.acknowledged"),
    "top/z1": ("order.shared", "order.confirm", "order.acknowledged"),
    "top/z1/z1": ("order.claimed", "order.confirm", "order.confirmed", "order.acknowledged"),
}


def test_every_commit_of_a_bulk_order_has_its_case() -> None:
    with World() as world:
        order(plant(world, SHAPES[2]), 2)
        settle(world)
        for path, steps in STEPS.items():
            assert {name for name in world[path].disk.seen if name.startswith("order.")} == set(steps)


@pytest.mark.parametrize(
    ("path", "step", "instant"),
    [(path, step, instant) for path, steps in STEPS.items() for step in steps for instant in Instant],
)
def test_a_death_at_any_commit_leaves_all_or_none(world: World, path: str, step: str, instant: Instant) -> None:
    top = plant(world, SHAPES[2])
    doom(world[path], Doom(instant, step))
    told = tried(top, 2)
    settle(world)
    assert world[path].disk.doom is None, "the death was never met"
    found = listed(top)
    assert found == there(world)
    if told is None:
        assert len(found) in (0, 2)
    else:
        assert found == {one.id for one in told}
    # Nothing is held for nobody: what is not taken can be had.
    assert len(tried(top, 1, 2) or ()) == 2 - len(found)
