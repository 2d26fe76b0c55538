"""A guest's new password: it comes to the host through the tree and over deaths, and lies in no database in clear."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from banyan.core.deed import Deed, Operation, Sighting
from banyan.core.records import DriverUnavailable
from banyan.core.secret import Secret
from banyan.core.server import Action, Arguments, Task, VmState
from banyan.core.server_messages import ActCall
from banyan.simulate.site import Site
from banyan.simulate.world import World
from tests.scenario.trees import create, plant, rests, show, until

WORD = "s3cret-\N{SNOWMAN}"
PASSWORD = Secret(WORD.encode())


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


class Watched:
    """What the driver of a leaf's rack is told; `held`: it does not come to that."""

    def __init__(self, leaf: Site, *, held: bool = False) -> None:
        assert leaf._built is not None
        (rack,) = leaf._built.zone.servers.racks.values()
        self.held, self.given = held, list[tuple[Operation, Secret | None]]()
        self._driver, self._perform = rack.places.driver, rack.places.driver.perform
        self._driver.perform = self.perform  # type: ignore[method-assign]  # it is looked at, and does the same

    async def perform(self, deed: Deed) -> Sighting | None:
        if self.held:
            raise DriverUnavailable("away", "nobody answers")
        self.given.append((deed.operation, deed.password))
        return await self._perform(deed)


def act(top: Site, id: str, action: Action, password: Secret | None) -> None:
    top.tree(lambda servers, caller: servers.act(caller, id, action, Arguments(), password=password))


def keys(leaf: Site, id: str) -> Secret | None:
    return leaf.peek(lambda unit: unit.keys.get(f"guest-password.{id}"))


@pytest.mark.parametrize("action", [Action.SET_PASSWORD, Action.RESCUE, Action.REBUILD])
def test_a_password_comes_to_the_host_and_is_forgotten_then(world: World, action: Action) -> None:
    top = plant(world, "2x2x2")
    made = create(top).made[0]
    rests(world, top, made.id, VmState.ACTIVE)
    leaf = world[made.path]
    watched = Watched(leaf)
    act(top, made.id, action, PASSWORD)
    until(world, lambda: show(top, made.id).task is Task.NONE)
    assert [password for _, password in watched.given] == [PASSWORD]
    (record, *_) = top.tree(lambda servers, caller: servers.actions(caller, made.id))
    assert (record.action, record.events[-1].result) == (action, "success")
    assert keys(leaf, made.id) is None
    for site in world.sites.values():
        assert WORD not in str(site.peek(lambda unit: list(unit.journal.page(0, 1000, {}))))


def test_it_outlives_the_zone_that_was_to_set_it_sealed(world: World) -> None:
    top = plant(world, "2x2")
    made = create(top).made[0]
    rests(world, top, made.id, VmState.ACTIVE)
    leaf = world[made.path]
    Watched(leaf, held=True)
    act(top, made.id, Action.SET_PASSWORD, PASSWORD)
    world.advance(1.0)
    assert keys(leaf, made.id) == PASSWORD
    for site in world.sites.values():
        assert WORD.encode() not in site.backup().database
    leaf.crash("for a test")
    leaf.start()
    leaf.wait()
    world.advance(20.0)
    until(world, lambda: show(top, made.id).task is Task.NONE)
    (record, *_) = top.tree(lambda servers, caller: servers.actions(caller, made.id))
    assert record.events[-1].result == "success" and keys(leaf, made.id) is None


def test_with_the_server_goes_what_was_to_be_its_password(world: World) -> None:
    top = plant(world, "2x2")
    made = create(top).made[0]
    rests(world, top, made.id, VmState.ACTIVE)
    leaf = world[made.path]
    watched = Watched(leaf, held=True)
    act(top, made.id, Action.SET_PASSWORD, PASSWORD)
    world.advance(1.0)
    act(top, made.id, Action.DELETE, None)
    assert keys(leaf, made.id) is None
    watched.held = False
    world.advance(30.0)


def test_none_came_and_that_is_said(world: World) -> None:
    top = plant(world, "2x2")
    made = create(top).made[0]
    rests(world, top, made.id, VmState.ACTIVE)
    act(top, made.id, Action.SET_PASSWORD, None)
    until(world, lambda: show(top, made.id).task is Task.NONE)
    (record, *_) = top.tree(lambda servers, caller: servers.actions(caller, made.id))
    assert "no password came" in record.events[-1].text


def test_a_question_that_holds_one_does_not_show_it() -> None:
    call = ActCall("s", Action.SET_PASSWORD, password=WORD.encode())
    assert "s3cret" not in repr(call) and "s3cret" not in str(call)
