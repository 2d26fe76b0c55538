"""Several servers or none, over several members: claimed everywhere, decided once, begun then (protocols §5.6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from banyan.core.errors import BanyanError
from banyan.core.order import share_id
from banyan.core.server import Made, NoValidHost, VmState
from banyan.simulate.faults import Doom, Instant, Path
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.store.inline import Image
from tests.scenario.bulk import BIG, at, doom, listed, order, settle, shares, there, tried
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
    all_or_none(world, plant(world, SHAPES[2]), path, Doom(instant, step))


@pytest.mark.parametrize("step", ["order.shared", "order.confirm", "order.acknowledged"])
def test_a_zone_between_two_others_that_dies_leaves_all_or_none(world: World, step: str) -> None:
    """It holds its part for the zone above, and has others hold theirs."""
    all_or_none(world, plant(world, SHAPES[3]), "top/z1/z1", Doom(Instant.AFTER, step))


def all_or_none(world: World, top: Site, path: str, fate: Doom) -> None:
    doom(world[path], fate)
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


def test_nothing_is_begun_before_the_decision_is_stored(world: World) -> None:
    top = plant(world, SHAPES[2])
    doom(top, Doom(Instant.BEFORE, "order.decided"))
    assert tried(top, 2) is None
    world.advance(30.0)
    assert not there(world), "the entry is dead, and has decided nothing"
    assert sum(len(shares(site)) for site in world.sites.values() if site is not top), "it is held below"
    settle(world)
    assert not there(world) and not listed(top)


def test_what_is_held_is_kept_and_not_begun_while_nobody_says_what_was_decided(world: World) -> None:
    top, middle = plant(world, SHAPES[2]), world["top/z1"]
    doom(top, Doom(Instant.AFTER, "order.decided"))
    assert tried(top, 2) is None
    middle.crash("a test")
    middle.start()
    world.advance(60.0)
    assert "held" in shares(middle) and "held" in shares(world["top/z1/z1"])
    assert not there(world)
    settle(world)
    assert len(listed(top)) == 2
    assert listed(top) == there(world)


def test_a_restored_entry_takes_back_nothing_that_it_may_have_decided(world: World) -> None:
    top = plant(world, SHAPES[1])
    images: list[Image] = []
    at(top, "order.shared", lambda: images.append(top.backup()))
    told = {one.id for one in order(top, 2)}
    settle(world)
    top.crash("a test")
    top.start()
    world.advance(30.0)
    top.crash("a test")
    top.replace_disk(images[0])
    top.start()
    world.advance(90.0)
    assert top.ask(lambda surface, caller: surface.status(caller)).restored_at
    assert there(world) == listed(top) == told


def test_two_orders_for_the_last_places_oversell_nothing(world: World) -> None:
    top = plant(world, SHAPES[2])
    answers: list[tuple[Made, ...] | None] = []

    async def ask() -> None:
        built = top._built
        assert built is not None
        caller = built.front.local("operator", "second")
        try:
            created = await built.zone.tree_servers.create(caller, BIG, least=2, most=2, project="p1")
            answers.append(created.made)
        except BanyanError:
            answers.append(None)

    at(top, "order.shared", lambda: world.loop.create_task(ask()))
    told = tried(top, 2)
    settle(world)
    found = [one.id for made in (told, *answers) for one in made or ()]
    assert len(answers) == 1
    assert len(found) in (0, 2), "all of one order, or none of either"
    assert set(found) == listed(top) == there(world)


@pytest.mark.parametrize("step", ["order.claimed", "order.confirm"])
def test_a_member_that_is_cut_off_in_between_gets_its_word_when_it_is_back(world: World, step: str) -> None:
    top = plant(world, SHAPES[2])
    leaf = world["top/z1/z1"]
    at(leaf, step, lambda: leaf.uplink.set(Path.CUT))
    told = tried(top, 2)
    assert told is not None
    world.advance(60.0)
    leaf.uplink.set(Path.OPEN)
    settle(world)
    assert {one.id for one in told} == listed(top) == there(world)


def test_a_zone_with_several_racks_is_asked_under_an_id_for_each() -> None:
    ids = {share_id("o", n, rack) for n in range(3) for rack in (0, 7, 9)}
    assert len(ids) == 9


@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[2]])
def test_an_answer_that_comes_too_late_is_no_answer(world: World, shape: str) -> None:
    top = plant(world, shape)
    slow = world["top/z1"].uplink
    slow.delay = (45.0, 45.0)
    told = tried(top, 2)
    slow.delay = (0.0, 0.0)
    slow.break_wires("the link is as it was")
    settle(world)
    assert told is None or not told
    assert not listed(top) and not there(world)
    assert len(order(top, 2)) == 2
