"""Servers of an answered order whose leaf has not heard yet that the order was decided: never said to be not there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from banyan.core.errors import Unreachable
from banyan.core.order import GroupPolicy
from banyan.core.quota import DEFAULTS
from banyan.core.server import Created, ServerQuery
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.zone.compute.ordering import Wish
from tests.api.nova.fakes import IMAGE
from tests.scenario.test_compute import Entry
from tests.scenario.trees import plant


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


def decided_and_not_told(world: World, site: Site, top: Entry) -> Created:
    """An order over four zones, whose middles die when it is decided and come back after it was answered."""
    note, middles = site.disk.committed, ("top/z1", "top/z2")

    def committed(name: str) -> None:
        note(name)
        if name == "order.decided":
            for path in middles:
                if world[path].running:
                    world[path].crash("a test")

    site.disk.committed = committed
    group = top.run(top.compute.groups.create(top.who(), "g", GroupPolicy.ANTI_AFFINITY, None)).group
    wish = Wish("web", "1", IMAGE, no_network=True, group=group.id, least=4, most=4)
    created: Created = top.run(top.compute.ordering.create(top.who(), wish)).created
    site.disk.committed = note
    for path in middles:
        world[path].start()
        world[path].wait()
    return created


def test_what_was_acknowledged_is_asked_for_again_and_never_gone(world: World) -> None:
    site = plant(world, "2x2x1")
    top = Entry(site, DEFAULTS)
    ids = [made.id for made in decided_and_not_told(world, site, top).made]
    said: set[str] = set()
    absent: set[str] = set()
    for _ in range(100):
        who = top.who()
        listed = top.run(top.compute.lists.page(who, ServerQuery(who.issuer, who.project), "", 10))
        assert len(listed.servers) == 4 or listed.absent, "a list that lacks some says so"
        absent.update(listed.absent)
        shown = 0
        for id in ids:
            try:
                top.run(top.compute.servers.show(top.who(), id))
                shown += 1
            except Unreachable as error:
                said.add(error.code)
        if shown == 4:
            break
        world.advance(0.1)
    assert shown == 4
    assert "server-unconfirmed" in said
    assert any(name.endswith("(unconfirmed)") for name in absent)
