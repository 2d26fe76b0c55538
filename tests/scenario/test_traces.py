"""The id of an answer leads to the journal: whatever zone below did what was asked at the top."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from banyan.core.errors import BadInput
from banyan.core.server import Action, Change, VmState
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.zone.views import PageView, TraceView
from tests.scenario.trees import create, plant, rests


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


def traced(site: Site, request: str, path: str = "", marker: str = "", limit: int = 100) -> PageView:
    query = {"request": request}
    return site.ask(lambda surface, caller: surface.page(caller, "trace", path, query, marker, limit))


def lines(page: PageView) -> list[tuple[str, str, str]]:
    found = [msgspec.json.decode(item, type=TraceView) for item in page.items]
    return [(one.zone, one.kind, one.target) for one in found]


CHANGES = {
    "name": Change(name="other"),
    "metadata": Change(metadata_merge={"a": "b"}),
    "one-item": Change(metadata_drop=("none",)),
    "tags": Change(tags_add=("red",)),
    "description": Change(description="of the web"),
    "no-description": Change(clear=("description",)),
    "groups": Change(security_groups=("default",)),
    "host-name": Change(hostname="web"),
}


def test_what_a_request_changed_is_found_from_every_zone_above(world: World) -> None:
    top = plant(world, "2x2x4")
    made = create(top).made[0]
    rests(world, top, made.id, VmState.ACTIVE)
    for name, change in CHANGES.items():
        request = f"req-change-{name}"
        top.tree(lambda servers, caller, c=change: servers.change(caller, made.id, c), request)
        page = traced(top, request)
        assert lines(page) == [(made.path, "server-changed", made.id)], name
        assert (page.marker, page.absent) == ("", ())
    top.tree(lambda servers, caller: servers.act(caller, made.id, Action.REBOOT), "req-reboot-1")
    assert lines(traced(top, "req-reboot-1")) == [(made.path, "server-reboot", made.id)]
    middle = made.path.rpartition("/")[0]
    assert lines(traced(top, "req-reboot-1", middle)) == [(made.path, "server-reboot", made.id)]
    assert lines(traced(top, "req-nobodys")) == []
    with pytest.raises(BadInput, match="give its id"):
        traced(top, "")


def test_the_zone_itself_comes_first_and_a_trace_goes_on_at_its_marker(world: World) -> None:
    top = plant(world, "2x4")
    for n in range(5):
        top.ask(lambda s, caller, n=n: s.create_code(
            caller, name=f"n{n}", driver="*", labels={}, uses=1, expires=60.0, mode="observe", replace=False
        ))  # fmt: skip
    found, marker = [], ""
    while True:
        page = traced(top, "play", marker=marker, limit=2)
        found += lines(page)
        marker = page.marker
        if not marker:
            break
    codes = [target for zone, kind, target in found if (zone, kind) == ("top", "code-created")]
    assert len(codes) == len(set(codes)) >= 5


def test_a_zone_that_can_not_be_asked_is_named(world: World) -> None:
    top = plant(world, "2x4")
    world["top/z1"].stop()
    page = traced(top, "req-whatever")
    assert page.absent == ("top/z1",)
