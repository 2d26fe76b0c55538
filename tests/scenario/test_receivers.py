"""A whole zone and its receivers: a lost child is told, a crash tells it again under the same id, and is shown."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from banyan.core.errors import NotFound
from banyan.core.identity import Caller
from banyan.core.receiver import SendFailed
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.zone.receiver_view import ReceiverView
from banyan.zone.surface import Surface
from tests.scenario.trees import plant
from tests.unit.zone.telling import SPEC, Recorded


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


def shown(site: Site) -> ReceiverView:
    page = site.ask(lambda surface, caller: surface.receivers(caller, "", 10))
    (view,) = [msgspec.json.decode(item, type=ReceiverView) for item in page.items]
    return view


def test_a_lost_child_is_told_over_crashes_and_with_the_same_id(world: World) -> None:
    top, other = plant(world, "1x2"), Recorded()
    (east,) = [site for site in world.sites.values() if site is not top]
    world.advance(60)
    top.stop()
    top.receivers, top.senders = (SPEC,), other
    top.start()
    top.wait()
    world.advance(60)
    east.crash("for good")
    other.fails = SendFailed("https://siem.example answered 503")
    world.advance(120)
    assert shown(top).state == "failing"
    lost = [notice for notice in other.offered if notice.kind == "child-suspect"]
    assert len(lost) > 2 and len({notice.id for notice in lost}) == 1
    world.advance(400)
    assert shown(top).state == "dead"
    metrics = top.ask(_metrics)
    assert metrics['banyan_receiver_failing{receiver="siem"}'] == 1
    assert metrics['banyan_receiver_failed_total{receiver="siem"}'] > 5
    assert any('receiver="siem"' in name and name.startswith("banyan_activations_total") for name in metrics)
    top.crash("in the middle")
    top.start()
    top.wait()
    other.fails = None
    before = len(other.taken)
    world.advance(60)
    told = other.taken[before:]
    assert told[0].id == lost[0].id
    assert [notice.kind for notice in told].count("child-lost") == 1
    assert told[0].zone == "top"
    view = shown(top)
    assert (view.state, view.backlog, view.last_error) == ("well", 0, "")


def test_a_test_is_an_operators_word_about_this_zone(world: World) -> None:
    top = world.add("top")
    top.receivers, top.senders = (SPEC,), Recorded()
    top.start()
    top.wait()
    view = top.ask(lambda surface, caller: surface.test_receiver(caller, "siem"))
    assert (view.name, view.state) == ("siem", "well")
    with pytest.raises(NotFound, match="there are siem"):
        top.ask(lambda surface, caller: surface.test_receiver(caller, "other"))


async def _metrics(surface: Surface, caller: Caller) -> dict[str, float]:
    return dict(surface.metrics(caller))
