"""Servers on one leaf when the rack, the disk or a person with a backup does what nobody ordered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from banyan.core.deed import Deed, Operation
from banyan.core.errors import BanyanError, NotFound
from banyan.core.records import StoreFull, StoreUnknown, Unit
from banyan.core.server import Action, Arguments, NoValidHost, Power, Task, VmState
from banyan.core.time import Wall
from banyan.simulate.ids import SeededIds
from banyan.simulate.world import World
from banyan.store.inline import Image, InlineStore, no_pause
from tests.scenario.leaves import BIG, Client, used


@pytest.fixture
def client() -> Iterator[Client]:
    with World() as world:
        yield Client(world)


# --- what the rack does by itself -------------------------------------------------------------------


def test_a_guest_that_shut_itself_down_is_stopped(client: Client) -> None:
    id = client.one()
    machine = client.site.bottom.machines.get(id, client.site.clock.now())
    assert machine is not None
    server = client.show(id)
    client.site.bottom.machines.do(Deed(Operation.STOP, server, 99), client.site.clock.now(), lambda host: {})
    stopped = client.rests(id, VmState.STOPPED)
    assert (stopped.power, stopped.wanted) == (Power.OFF, VmState.STOPPED)
    client.settle()


def test_a_guest_that_is_gone_is_told_and_keeps_its_place(client: Client) -> None:
    id = client.one()
    client.site.bottom.machines.lose(id)
    lost = client.rests(id, VmState.ERROR)
    assert lost.fault is not None
    assert "no longer has" in lost.fault.text
    assert used(client) == 1
    client.do(id, Action.DELETE, VmState.DELETED)
    assert used(client) == 0


def test_a_stray_guest_holds_its_place_and_is_counted(client: Client) -> None:
    """As after a restored database: a guest of ours that no row knows. Nobody destroys it."""
    backup = client.site.backup()
    client.one()
    client.settle()
    client.site.crash("killed")
    client.site.replace_disk(backup)
    client.begin()
    client.advance(70.0)
    usage = client.site.ask(lambda surface, caller: surface.usage(caller, ""))
    assert (usage.resources["vcpu"].used, usage.guests["active"]) == (1, 1)
    client.site.crash("killed")
    client.begin()
    assert used(client) == 1
    assert len(client.site.bottom.machines) == 1


@pytest.mark.parametrize(("action", "cores"), [(Action.CONFIRM_RESIZE, 2), (Action.REVERT_RESIZE, 1)])
def test_a_resize_is_settled_although_a_person_reset_it(client: Client, action: Action, cores: int) -> None:
    id = client.one()
    client.do(id, Action.RESIZE, VmState.RESIZED, BIG)
    client.act(id, Action.RESET, Arguments(state=VmState.ACTIVE))
    assert used(client) == 3
    client.do(id, action, VmState.ACTIVE)
    client.settle()
    assert (used(client), client.show(id).resize) == (cores, None)
    client.do(id, Action.MIGRATE, VmState.RESIZED)


# --- the store --------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [StoreFull, StoreUnknown])
@pytest.mark.parametrize("nth", range(3))
def test_a_commit_that_fails_or_does_not_say(client: Client, failure: type[BanyanError], nth: int) -> None:
    other = client.one()
    client.settle()
    client.site.fail_commits(*[None] * nth, failure)
    ids = []
    for n in range(3):
        try:
            ids += client.order(f"o{n}")
        except StoreFull:
            ids += client.order(f"o{n}")
    try:
        client.act(other, Action.RESIZE, BIG)
    except StoreFull:
        client.act(other, Action.RESIZE, BIG)
    client.rests(other, VmState.RESIZED)
    for id in ids:
        client.rests(id, VmState.ACTIVE)
    client.settle()
    assert used(client) == 3 + 1 + 2
    assert len(client.page()) == 4


# --- time -------------------------------------------------------------------------------------------


def test_deleted_rows_stay_for_seven_days() -> None:
    with World(pace=20) as world:
        deleted_rows_stay(Client(world))


def deleted_rows_stay(client: Client) -> None:
    id = client.one()
    client.do(id, Action.DELETE, VmState.DELETED)
    client.advance(6.9 * 86_400.0)
    assert client.show(id).state is VmState.DELETED
    client.advance(0.2 * 86_400.0)
    with pytest.raises(NotFound):
        client.show(id)


def test_a_restored_zone_does_nothing_to_servers_before_it_is_released(client: Client) -> None:
    id = client.one()
    client.site.crash("killed")
    client.site.replace_disk(restored(client.site.backup()))
    client.begin()
    client.advance(2.0)
    with pytest.raises(NoValidHost) as refused:
        client.order()
    assert refused.value.counts == {"read-only": 4}
    client.act(id, Action.STOP)
    client.advance(120.0)
    assert client.show(id).task is Task.STOPPING
    client.site.ask(lambda surface, caller: surface.release(caller, True))
    client.rests(id, VmState.STOPPED)
    client.settle()


def restored(image: Image) -> Image:
    """The disk as `banyan restore` leaves it."""

    async def mark() -> Image:
        store = InlineStore(SeededIds(0, "restore"), no_pause, image=image)

        def work(unit: Unit) -> None:
            row = unit.self_.get()
            assert row is not None
            unit.self_.put(replace(row, restored_at=Wall(1.8e9)))

        await store.write("restored", work)
        return store.image()

    return asyncio.run(mark())
