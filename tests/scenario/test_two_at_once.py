"""Two requests about one server at once: each claims a place of its own, and none gives back what the other holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest

from banyan.core.errors import Unreachable
from banyan.core.identity import Caller
from banyan.core.order import FlavorSnapshot, Order
from banyan.core.records import StoreFull, StoreUnknown, Unit
from banyan.core.server import Action, Arguments, NoValidHost, Server, VmState
from banyan.core.time import Mono
from banyan.simulate.world import World
from banyan.zone.servers.leaf import LeafServers
from banyan.zone.servers.places import Places
from tests.scenario.leaves import BIG, SPEC, TOP, Client, used

T = TypeVar("T")
HUGE = Arguments(
    flavor=FlavorSnapshot("f9", "huge", 10_000, 512, 5), needs={"vcpu": 10_000, "memory_mib": 512, "disk_gib": 5}
)


@pytest.fixture
def client() -> Iterator[Client]:
    with World() as world:
        yield Client(world)


def together(client: Client, id: str, *asked: tuple[Action, Arguments | None]) -> list[Server | BaseException]:
    async def all_of_them(servers: LeafServers, caller: Caller) -> list[Server | BaseException]:
        acts = [
            servers.act(replace(caller, request=f"req-{n}"), id, action, arguments)
            for n, (action, arguments) in enumerate(asked)
        ]
        return await asyncio.gather(*acts, return_exceptions=True)

    return client.site.servers(all_of_them)


async def sleep(client: Client, seconds: float) -> None:
    await client.site.clock.sleep_until(Mono(client.site.clock.now() + seconds))


def pending(client: Client) -> int:
    async def all_of_them(servers: LeafServers, caller: Caller) -> int:
        return sum(rack.places.pending for rack in servers.racks.values())

    return client.site.servers(all_of_them)


@pytest.mark.parametrize(
    ("action", "after", "cores"),
    [
        (Action.RESIZE, VmState.RESIZED, 3),
        (Action.MIGRATE, VmState.RESIZED, 2),
        (Action.UNSHELVE, VmState.ACTIVE, 1),
    ],
)
def test_who_was_not_stored_takes_nobodys_place_along(
    client: Client, action: Action, after: VmState, cores: int
) -> None:
    id = client.one()
    asked = (action, BIG if action is Action.RESIZE else None)
    if action is Action.UNSHELVE:
        client.do(id, Action.SHELVE, VmState.OFFLOADED)
    client.site.fail_commits(StoreFull)
    answers = together(client, id, asked, asked)
    assert {type(one) for one in answers} == {StoreFull, Server}
    client.rests(id, after)
    client.settle(60)
    assert (used(client), pending(client)) == (cores, 0)


def test_a_second_resize_gets_no_place_that_was_claimed_for_a_smaller_one(client: Client) -> None:
    id = client.one()
    answers = together(client, id, (Action.RESIZE, BIG), (Action.RESIZE, HUGE))
    assert [type(one) for one in answers] == [Server, NoValidHost]
    client.rests(id, VmState.RESIZED)
    client.settle(60)
    assert used(client) == 3


def test_one_of_many_is_accepted_and_the_places_of_the_others_are_free_again(client: Client) -> None:
    id = client.one()
    answers = together(client, id, *[(Action.RESIZE, BIG)] * 5)
    assert sorted(type(one).__name__ for one in answers) == [*["Conflict"] * 4, "Server"]
    client.rests(id, VmState.RESIZED)
    client.settle(60)
    assert (used(client), pending(client)) == (3, 0)


# --- what became of the first is not known ----------------------------------------------------------


class Doubtful:
    """A store that keeps nothing of its next unit of work of that name, and does not say so."""

    def __init__(self, places: Places, name: str) -> None:
        self._store, self._name = places._store, name
        self.read = self._store.read
        places._store = self  # type: ignore[assignment]  # it has what places use of a store

    async def write(self, name: str, work: Callable[[Unit], T]) -> T:
        if name == self._name:
            self._name = ""
            raise StoreUnknown("store-unknown", "nobody knows", transient=True)
        return await self._store.write(name, work)


def test_a_resize_that_is_said_again_while_the_first_is_in_doubt(client: Client) -> None:
    """It claims while memory is made anew, and is written after that."""
    id = client.one()

    async def again(servers: LeafServers, caller: Caller) -> Server:
        places = next(iter(servers.racks.values())).places
        second: list[asyncio.Task[Server]] = []
        load = places.load

        async def meanwhile() -> None:
            places.load = load  # type: ignore[method-assign]  # as it was
            await load()
            second.append(asyncio.ensure_future(servers.act(caller, id, Action.RESIZE, BIG)))
            await sleep(client, 0.1)

        places.load = meanwhile  # type: ignore[method-assign]  # once
        Doubtful(places, "server.action")
        with pytest.raises(Unreachable, match="ask again"):
            await servers.act(caller, id, Action.RESIZE, BIG)
        await sleep(client, 1.0)
        return await second[0]

    assert client.site.servers(again).move == 2
    client.rests(id, VmState.RESIZED)
    client.settle(60)
    assert (used(client), pending(client)) == (3, 0)


def test_an_order_that_is_claimed_in_doubt_is_claimed_once(client: Client) -> None:
    async def twice(servers: LeafServers, caller: Caller) -> None:
        places = next(iter(servers.racks.values())).places
        Doubtful(places, "test")
        order = Order("o1", TOP, "p1", "u1", SPEC)
        places.claim(order)
        with pytest.raises(StoreUnknown):
            await places.write("test", lambda unit, effect: None, ["o1"])
        with pytest.raises(Unreachable, match="not known whether"):
            places.claim(order)
        assert places.pending == 1

    client.site.servers(twice)
    client.advance(5.0)
    assert (used(client), pending(client)) == (0, 0)
    (id,) = client.order("o1")
    client.rests(id, VmState.ACTIVE)
    assert used(client) == 1


def test_memory_that_can_not_follow_a_commit_is_made_anew(client: Client) -> None:
    id = client.one()

    async def resize(servers: LeafServers, caller: Caller) -> None:
        claims = next(iter(servers.racks.values())).places._claims
        assert claims is not None
        commit = claims.commit

        def fails(order: str) -> None:
            claims.commit = commit  # type: ignore[method-assign]  # as it was
            raise KeyError(order)

        claims.commit = fails  # type: ignore[method-assign]  # once
        with pytest.raises(KeyError):
            await servers.act(caller, id, Action.RESIZE, BIG)

    client.site.servers(resize)
    client.advance(5.0)
    client.rests(id, VmState.RESIZED)
    client.settle(60)
    assert (used(client), pending(client)) == (3, 0)
