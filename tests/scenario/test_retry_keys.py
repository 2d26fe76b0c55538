"""The same retry key with the same arguments gives the same servers, whatever died; with others it is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from banyan.core.errors import BadInput, BanyanError, Conflict, Refused
from banyan.core.order import Hints
from banyan.core.server import Created, NoValidHost
from banyan.core.shares import MAX_KEYS
from banyan.simulate.faults import Doom, Instant
from banyan.simulate.loop import OverdueError
from banyan.simulate.site import Site
from banyan.simulate.world import World
from tests.scenario.bulk import BIG, at, doom, listed, order, settle, there, tried
from tests.scenario.trees import SPEC, create, plant


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


def keyed(top: Site, key: str, count: int = 1) -> Created:
    return create(top, count, retry_key=key)


def until_told(world: World, top: Site, least: int, key: str) -> set[str]:
    """As a client does: the same again until it is answered."""
    for _ in range(30):
        if not top.running:
            top.start()
            top.wait()
        try:
            return {one.id for one in order(top, least, key=key)}
        except (BanyanError, OverdueError):
            world.advance(5.0)
    raise AssertionError("no answer in 30 tries")


def test_a_key_gives_the_same_servers_after_a_kill_and_from_another_process(world: World) -> None:
    top = plant(world, "2x4")
    first = keyed(top, "k1", 3)
    assert not first.again
    again = keyed(top, "k1", 3)
    assert (again.made, again.order, again.again) == (first.made, first.order, True)
    top.crash("a test")
    top.start()
    top.wait()
    assert keyed(top, "k1", 3).made == first.made
    world.advance(20.0)
    assert keyed(top, "k2", 3).made != first.made
    assert len(listed(top)) == 6


def test_a_key_with_other_arguments_is_refused_and_says_which_differ(world: World) -> None:
    top = plant(world, "1x4")
    made = keyed(top, "k1")
    with pytest.raises(Conflict, match="another most; take") as refused:
        keyed(top, "k1", 2)
    assert refused.value.code == "other-order"
    other = replace(SPEC, user_data="c2VjcmV0", metadata={"a": "b"})
    with pytest.raises(Conflict, match="another metadata, user_data; take") as refused:
        create(top, spec=other, retry_key="k1")
    assert "c2Vj" not in refused.value.text
    assert listed(top) == {made.made[0].id}
    for bad in ("x" * 256, "a\nb", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"):
        with pytest.raises(BadInput, match="retry key"):
            keyed(top, bad)


def test_a_refusal_is_not_kept(world: World) -> None:
    top = plant(world, "2x1")
    with pytest.raises(NoValidHost):
        order(top, 3, key="k1")
    # The zones below have to say first that they have room again.
    settle(world)
    assert len(order(top, 2, key="k1")) == 2


def test_a_request_that_was_wrong_may_be_put_right_under_its_key(world: World) -> None:
    top = plant(world, "1x4")
    with pytest.raises(BadInput, match="zone name"):
        create(top, spec=replace(SPEC, hints=Hints(path="North Pole")), retry_key="k1")
    assert len(keyed(top, "k1").made) == 1


def test_a_key_is_good_for_a_day_and_a_project_has_so_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    top = plant(world, "1x4")
    made = keyed(top, "k1").made
    monkeypatch.setattr("banyan.zone.servers.retries.MAX_KEYS", 2)
    keyed(top, "k2")
    with pytest.raises(Refused, match="2 retry keys") as refused:
        keyed(top, "k3")
    assert refused.value.code == "too-many-retry-keys"
    assert keyed(top, "k1").made == made
    assert MAX_KEYS <= 10_000, "more would be no page of the store's"
    monkeypatch.setattr("banyan.zone.servers.retries.KEY_LIFE", 60.0)
    world.advance(61.0)
    assert keyed(top, "k1", 2).made != made, "a day later it is a new request"


ENTRY = [
    *((1, step) for step in ("order.keyed", "order.shared", "order.decided")),
    *((2, step) for step in ("order.keyed", "order.shared", "order.decided", "order.acknowledged")),
]


@pytest.mark.parametrize(("count", "step"), ENTRY)
@pytest.mark.parametrize("instant", Instant)
def test_a_retry_after_any_death_of_the_entry_gives_one_set_of_servers(
    world: World, count: int, step: str, instant: Instant
) -> None:
    """One that a member takes whole, and one that needs both."""
    top = plant(world, "2x1")
    doom(top, Doom(instant, step))
    told = tried(top, count, key="k1")
    found = until_told(world, top, count, "k1")
    settle(world)
    assert top.disk.doom is None, "the death was never met"
    assert told is None or {one.id for one in told} == found
    assert found == listed(top) == there(world)
    assert until_told(world, top, count, "k1") == found


@pytest.mark.parametrize("step", ["order.claimed", "order.confirm"])
def test_a_retry_while_the_first_is_under_way_waits_for_it(world: World, step: str) -> None:
    top = plant(world, "2x1")
    answers: list[set[str]] = []

    def again() -> None:
        world.loop.create_task(ask())

    async def ask() -> None:
        built = top._built
        assert built is not None
        caller = built.front.local("operator", "again")
        made = await built.zone.tree_servers.create(caller, BIG, least=2, most=2, project="p1", retry_key="k1")
        answers.append({one.id for one in made.made})

    at(world["top/z1"], step, again)
    found = {one.id for one in order(top, 2, key="k1")}
    settle(world)
    assert answers == [found]
    assert found == listed(top) == there(world)
