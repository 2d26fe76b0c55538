"""A parent that was away for three days with three thousand children: all back in ten minutes, and nobody trampled."""

from __future__ import annotations

import pytest

from banyan.simulate.herd import HOSTS, Herd, plant
from banyan.simulate.invariants import views
from banyan.simulate.world import World

CHILDREN = 3000
AWAY = 72 * 3600.0


@pytest.mark.slow
def test_a_parent_that_was_away_for_three_days_has_all_back_in_ten_minutes() -> None:
    with World(rehearse=False, traced=False, commits=False) as world:
        top = world.add("top")
        top.start()
        top.wait()
        top.stop()
        planted = plant(world, top, CHILDREN, joined_ago=3600.0)
        world.advance(AWAY)
        herd = Herd(world, top, planted)
        herd.start()
        world.advance(240.0)  # they have dialled in vain for long enough to be at their slowest
        assert herd.weather.dials > CHILDREN

        top.start()
        top.wait()
        began, dials = world.loop.time(), herd.weather.dials
        busiest = 0
        while herd.alive < CHILDREN and world.loop.time() < began + 600.0:
            before = herd.weather.dials
            world.advance(1.0)
            busiest = max(busiest, herd.weather.dials - before)
        took = world.loop.time() - began
        assert herd.alive == CHILDREN, herd.parent.state
        assert took <= 600.0

        # Bounded: no second of the return saw more dials than openings are allowed, and few were in vain.
        assert busiest <= 400, f"{busiest} dials in one second"
        assert herd.weather.dials - dials <= 3 * CHILDREN

        world.advance(60.0)
        zones, usage = views(top)
        assert {(zone.state, zone.health) for zone in zones} == {("ready", "alive")}
        assert usage.zones.total == CHILDREN
        assert usage.hosts.total == CHILDREN * HOSTS
        # Nobody was asked: each was renewed over its own expired certificate.
        recovered = top.peek(lambda unit: len(unit.journal.page(0, 10_000, {"kind": "child-recovered"})))
        assert recovered == CHILDREN
        herd.stop()
