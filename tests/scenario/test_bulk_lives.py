"""Orders of several servers, each under a death drawn at random: all or none, and nothing is left over."""

from __future__ import annotations

from random import Random

import pytest

from banyan.core.errors import BanyanError
from banyan.core.server import Action, NoValidHost
from banyan.simulate.faults import Doom, Instant
from banyan.simulate.loop import OverdueError
from banyan.simulate.site import Site
from banyan.simulate.world import World
from tests.scenario.bulk import doom, listed, order, settle, there, tried
from tests.scenario.trees import plant

STEPS = (
    "order.keyed", "order.shared", "order.claimed", "order.decided", "order.confirm", "order.confirmed",
    "order.acknowledged", "order.cancel", "order.cancelled", "order.abandoned", "server.done",
)  # fmt: skip
WISHES = ((1, 2), (2, 2), (2, 3), (3, 3))


def told_at_last(world: World, top: Site, least: int, most: int, key: str) -> set[str]:
    """As a client with a retry key does: the same again until it is answered."""
    for _ in range(60):
        if not top.running:
            top.start()
            top.wait()
        try:
            return {one.id for one in order(top, least, most, key)}
        except NoValidHost:
            return set()
        except (BanyanError, OverdueError):
            world.advance(5.0)
    raise AssertionError("no answer in 60 tries")


@pytest.mark.parametrize("seed", range(3))
def test_deaths_at_random_leave_all_or_none(seed: int) -> None:
    draw = Random(seed)
    with World(seed) as world:
        top = plant(world, draw.choice(("2x1", "2x1x1", "1x2x1x1")))
        for number in range(5):
            victim = draw.choice(list(world.sites.values()))
            doom(victim, Doom(draw.choice(list(Instant)), draw.choice(STEPS)))
            (least, most), key = draw.choice(WISHES), draw.choice(("", f"k{number}"))
            answer = tried(top, least, most, key)
            told = None if answer is None else {one.id for one in answer}
            if told is None and key:
                told = told_at_last(world, top, least, most, key)
            settle(world)
            victim.disk.doom = None
            found = listed(top)
            said = f"{number}: {least} to {most}, {key!r}, {victim.path} {victim.disk.seen}"
            assert found == there(world), said
            assert len(found) in {0, *range(least, most + 1)} if told is None else found == told, said
            for id in found:
                top.tree(lambda servers, caller, id=id: servers.act(caller, id, Action.DELETE))
            settle(world)
            assert not there(world)
        assert not world.failures()
