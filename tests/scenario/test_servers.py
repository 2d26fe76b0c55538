"""Servers on one leaf: placed exactly, built elsewhere when a build fails, kept as asked, told as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields

from banyan.core.errors import BanyanError, Conflict, NotFound, Refused
from banyan.core.identity import Caller
from banyan.core.ids import ZoneCode
from banyan.core.order import GroupPolicy, Hints, Order, Policy, Specification
from banyan.core.principal import Principal, ScopeKind
from banyan.core.server import Action, Arguments, Change, NoValidHost, Power, ServerQuery, Task, VmState
from banyan.core.time import Wall
from banyan.drivers.sim.script import Disable, Down, FailBuilds, SlowBuilds
from banyan.simulate.world import World
from banyan.zone.servers.leaf import LeafServers
from banyan.zone.servers.orders import Taken
from tests.scenario.leaves import BIG, SPEC, TOP, Client, used

# Half of the smallest sim host's memory: two of them fill a host.
HALF = with_fields(SPEC, needs={"memory_mib": 131_072})


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.fixture
def client(world: World) -> Client:
    return Client(world)


def user(project: str = "p1", *roles: str, scope: ScopeKind = ScopeKind.PROJECT) -> Principal:
    return Principal(TOP, "u1", "anna", "d1", scope, frozenset(roles or ("member", "reader")), Wall(1e12), project)


# --- placing ------------------------------------------------------------------------------------


def test_a_server_is_built_and_counted_at_once(client: Client) -> None:
    (id,) = client.order(spec=with_fields(SPEC, metadata={"a": "b"}, user_data="c2VjcmV0"))
    assert client.show(id).state is VmState.BUILDING
    assert used(client) == 1
    usage = client.site.ask(lambda surface, caller: surface.usage(caller, ""))
    assert (usage.guests["building"], usage.guests["active"]) == (1, 0)
    built = client.rests(id, VmState.ACTIVE)
    assert (built.power, built.launched is not None, built.host_name[:4]) == (Power.RUNNING, True, "sim-")
    assert (built.availability_zone, built.spec.user_data) == ("sim", "c2VjcmV0")
    client.settle()
    client.advance(130.0)
    client.settle()


def test_the_last_place_goes_to_one_order(client: Client) -> None:
    with pytest.raises(NoValidHost) as refused:
        client.order_until_refused(HALF)
    assert refused.value.looked == sum(refused.value.counts.values()) == 4
    assert "full:memory_mib" in refused.value.counts
    assert "4 looked at" in refused.value.text
    # Every host is full of halves, and of nothing else.
    assert len(client.page()) >= 8
    client.settle()
    (id, *_) = [server.id for server in client.page()]
    client.do(id, Action.DELETE, VmState.DELETED)
    client.order(spec=HALF)
    with pytest.raises(NoValidHost):
        client.order(spec=HALF)
    client.settle()


def test_many_are_one_claim_or_none(client: Client) -> None:
    with pytest.raises(NoValidHost) as refused:
        client.order(count=1_000, spec=HALF)
    assert refused.value.fits >= 8
    assert client.page() == []
    some = Order("o1", TOP, "p1", "u1", HALF, 2, 1_000)
    taken = client.site.servers(lambda servers, caller: servers.order(caller, some))
    assert sum(len(place.ids) for place in taken.order.placed) == refused.value.fits
    assert used(client, "memory_mib") == refused.value.fits * 131_072


def test_groups_keep_together_or_apart(client: Client) -> None:
    together = with_fields(SPEC, hints=Hints(group="g1", policy=GroupPolicy.AFFINITY))
    hosts = {client.show(client.order(spec=together)[0]).host for _ in range(3)}
    assert len(hosts) == 1
    apart = with_fields(SPEC, hints=Hints(group="g2", policy=GroupPolicy.ANTI_AFFINITY))
    hosts = {client.show(client.order(spec=apart)[0]).host for _ in range(4)}
    assert len(hosts) == 4
    with pytest.raises(NoValidHost) as refused:
        client.order(spec=apart)
    assert refused.value.counts == {"group": 4}
    near = with_fields(SPEC, hints=Hints(same_host=(client.page()[0].id,)))
    assert client.show(client.order(spec=near)[0]).host == client.page()[1].host
    client.settle()


def test_an_order_is_known_by_its_id(client: Client) -> None:
    first = client.order("o1")
    assert client.order("o1") == first
    with pytest.raises(Conflict) as refused:
        client.order("o1", spec=HALF)
    assert refused.value.code == "other-order"


def test_an_order_is_known_for_a_day() -> None:
    with World(pace=20) as world:
        client = Client(world)
        first = client.order("o1")
        client.advance(0.9 * 86_400.0)
        assert client.order("o1") == first
        client.advance(0.2 * 86_400.0)
        assert client.order("o1") != first


def test_the_same_order_twice_at_once_is_one(client: Client) -> None:
    one = Order("o1", TOP, "p1", "u1", SPEC)

    async def both(servers: LeafServers, caller: Caller) -> set[str]:
        taken = await asyncio.gather(*(servers.order(caller, one) for _ in range(5)))
        return {id for each in taken for place in each.order.placed for id in place.ids}

    assert len(client.site.servers(both)) == 1
    client.settle()
    assert len(client.page()) == 1


def test_orders_are_refused_while_the_rack_cannot_be_reached(client: Client) -> None:
    client.site.bottom.failure = "the API answers 503"
    client.advance(60.0)
    with pytest.raises(NoValidHost) as refused:
        client.order()
    assert refused.value.counts == {"unreachable": 4}
    client.site.bottom.failure = ""
    client.advance(60.0)
    client.one()


def test_an_order_that_comes_too_late_is_refused_where_it_commits(client: Client) -> None:
    asked = 0

    def admit(order: Order) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise Refused("lease-over", "the lease is over")

    for n in range(30):
        asked, late = 0, Order(f"o{n}", TOP, "p1", "u1", HALF)
        with pytest.raises(Refused, match="lease is over"):
            client.site.servers(lambda servers, caller, late=late: servers.order(caller, late, admit))
    assert client.page() == []
    assert used(client) == 0
    client.order("o1", spec=HALF)


# --- builds that fail ---------------------------------------------------------------------------


def test_a_build_that_fails_is_tried_elsewhere(client: Client) -> None:
    client.site.bottom.builds = (FailBuilds(at=0.0, every=2, reason="no memory left"),)
    ids = client.order(count=2)
    for id in ids:
        client.rests(id, VmState.ACTIVE)
    moved = next(server for server in (client.show(id) for id in ids) if server.move > 1)
    (made,) = client.actions(moved.id)
    assert (made.action, made.message) == (Action.CREATE, "")
    assert [event.result for event in made.events] == ["error", "success"]
    assert "no memory left" in made.events[0].text
    assert made.events[0].host != made.events[1].host == moved.host_name
    client.settle()


def test_after_a_few_hosts_a_build_is_given_up_with_reasons(world: World) -> None:
    client = Client(world, hosts=10)
    client.site.bottom.builds = (FailBuilds(at=0.0, chance=1.0, reason="no memory left"),)
    (id,) = client.order()
    failed = client.rests(id, VmState.ERROR)
    assert failed.fault is not None
    assert "5 builds failed" in failed.fault.text
    assert "no memory left" in failed.fault.text
    (made,) = client.actions(id)
    assert made.message == "Error"
    assert len({event.host for event in made.events}) == len(made.events) == 5
    assert (failed.host, used(client)) == ("", 0)
    client.settle()
    client.do(id, Action.DELETE, VmState.DELETED)
    client.settle()


def test_a_build_with_nowhere_left_to_go_counts_why(client: Client) -> None:
    client.site.bottom.builds = (FailBuilds(at=0.0, chance=1.0),)
    failed = client.rests(client.order()[0], VmState.ERROR)
    assert failed.fault is not None
    assert "of 4 hosts: 4 named" in failed.fault.text
    client.settle()


def test_a_build_is_not_tried_for_longer_than_minutes(client: Client) -> None:
    client.site.bottom.builds = (FailBuilds(at=0.0, chance=1.0), SlowBuilds(at=0.0, seconds=200.0))
    failed = client.rests(client.order()[0], VmState.ERROR, within=1_000.0)
    assert len(client.actions(failed.id)[0].events) == 2
    client.settle()


# --- deeds that nobody answers --------------------------------------------------------------------


def test_what_the_rack_does_not_answer_is_said_again(client: Client) -> None:
    id = client.one()
    client.site.bottom.failure = "the API answers 503"
    client.act(id, Action.STOP)
    client.advance(30.0)
    assert client.show(id).task is Task.STOPPING
    client.site.bottom.failure = ""
    client.rests(id, VmState.STOPPED)
    client.settle()


def test_patience_ends_but_a_delete_is_owed(client: Client) -> None:
    id = client.one()
    client.site.bottom.failure = "the API answers 503"
    client.act(id, Action.STOP)
    lost = client.rests(id, VmState.ERROR, within=600.0)
    assert lost.fault is not None
    assert "not known whether" in lost.fault.text
    assert (lost.power, bool(lost.host)) == (Power.UNKNOWN, True)
    client.act(id, Action.DELETE)
    client.advance(1_000.0)
    assert client.show(id).task is Task.DELETING
    client.site.bottom.failure = ""
    client.rests(id, VmState.DELETED)
    client.settle()
    assert used(client) == 0


def test_a_host_that_is_down_is_not_built_on(client: Client) -> None:
    client.site.bottom.builds = (Down(at=0.0, hosts="1-3"),)
    (id,) = client.order()
    assert client.rests(id, VmState.ACTIVE).host_name == "sim-00004"
    client.settle()


def test_a_deed_that_fails_for_good_is_told(client: Client) -> None:
    id = client.one()
    client.site.bottom.machines.lose(id)
    failed = client.do(id, Action.STOP, VmState.ERROR)
    assert failed.fault is not None
    assert "no guest" in failed.fault.text
    (stop, made) = client.actions(id)
    assert (stop.action, stop.message, stop.events[0].result) == (Action.STOP, "Error", "error")
    assert made.action is Action.CREATE
    client.settle()
    client.do(id, Action.DELETE, VmState.DELETED)


# --- one after the other ----------------------------------------------------------------------------


WAYS: dict[str, tuple[tuple[Action, VmState], ...]] = {
    "active": (),
    "stopped": ((Action.STOP, VmState.STOPPED),),
    "paused": ((Action.PAUSE, VmState.PAUSED),),
    "suspended": ((Action.SUSPEND, VmState.SUSPENDED),),
    "rescued": ((Action.RESCUE, VmState.RESCUED),),
    "offloaded": ((Action.SHELVE, VmState.OFFLOADED),),
    "resized": ((Action.RESIZE, VmState.RESIZED),),
    "stopped and resized": ((Action.STOP, VmState.STOPPED), (Action.RESIZE, VmState.RESIZED)),
    "unshelved": ((Action.SHELVE, VmState.OFFLOADED), (Action.UNSHELVE, VmState.ACTIVE)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_delete_wins_in_every_state(client: Client, way: str) -> None:
    id = client.one()
    for action, state in WAYS[way]:
        client.do(id, action, state, BIG if action is Action.RESIZE else None)
    client.settle()
    client.do(id, Action.DELETE, VmState.DELETED)
    client.settle()
    assert len(client.site.bottom.machines) == 0
    assert used(client) == 0
    with pytest.raises(NotFound):
        client.act(id, Action.START)


@pytest.mark.parametrize("action", [Action.STOP, Action.REBUILD, Action.RESIZE, Action.SHELVE, Action.SNAPSHOT])
def test_a_delete_wins_over_what_is_under_way(client: Client, action: Action) -> None:
    id = client.one()
    client.act(id, action, BIG if action is Action.RESIZE else None)
    client.act(id, Action.DELETE)
    client.act(id, Action.DELETE)
    client.rests(id, VmState.DELETED)
    client.settle()
    assert (len(client.site.bottom.machines), used(client)) == (0, 0)


def test_a_server_may_be_deleted_before_it_is_built(client: Client) -> None:
    client.site.bottom.builds = (SlowBuilds(at=0.0, seconds=20.0),)
    (id,) = client.order()
    client.act(id, Action.DELETE)
    client.rests(id, VmState.DELETED)
    client.settle()
    assert (len(client.site.bottom.machines), used(client)) == (0, 0)


def test_a_stopped_server_is_resized_and_stays_stopped(client: Client) -> None:
    id = client.one()
    client.do(id, Action.STOP, VmState.STOPPED)
    assert client.do(id, Action.RESIZE, VmState.RESIZED, BIG).power is Power.OFF
    assert client.do(id, Action.CONFIRM_RESIZE, VmState.STOPPED).resize is None
    client.settle()


def test_a_resize_without_room_changes_nothing(client: Client) -> None:
    id = client.one()
    before = client.show(id)
    huge = replace_arguments({"memory_mib": 10_000_000})
    with pytest.raises(NoValidHost) as refused:
        client.act(id, Action.RESIZE, huge)
    assert refused.value.counts == {"small:memory_mib": 4}
    assert client.show(id) == before
    client.settle()


def replace_arguments(needs: dict[str, int]) -> Arguments:
    return with_fields(BIG, needs=needs)


def test_what_is_under_way_refuses_all_but_a_delete(client: Client) -> None:
    id = client.one()
    client.act(id, Action.STOP)
    with pytest.raises(Conflict) as refused:
        client.act(id, Action.REBUILD)
    assert refused.value.code == "busy"
    client.rests(id, VmState.STOPPED)
    with pytest.raises(Conflict) as refused:
        client.act(id, Action.PAUSE)
    assert refused.value.code == "bad-state"


def test_the_same_request_again_is_one_action(client: Client) -> None:
    id = client.one()
    for _ in range(3):
        client.site.servers(lambda servers, caller: servers.act(replace(caller, request="r1"), id, Action.REBOOT))
        client.advance(1.0)
    assert [record.action for record in client.actions(id)] == [Action.REBOOT, Action.CREATE]


# --- whose it is ------------------------------------------------------------------------------------


def test_servers_of_others_are_not_there(client: Client) -> None:
    id = client.one()
    for who in (user("p2"), user("p2", "member"), replace(user("p1", "admin"), issuer=ZoneCode(9))):
        for ask in (
            lambda servers, who=who: servers.show(who, id),
            lambda servers, who=who: servers.act(who, id, Action.DELETE),
            lambda servers, who=who: servers.change(who, id, Change(name="mine")),
            lambda servers, who=who: servers.actions(who, id),
            lambda servers, who=who: servers.console(who, id),
            lambda servers, who=who: servers.why(who, id),
        ):
            with pytest.raises(NotFound, match=id):
                client.site.servers(lambda servers, _, ask=ask: ask(servers))
        page = client.site.servers(lambda servers, _, who=who: servers.page(who, ServerQuery(TOP, "p1")))
        assert page.servers == ()
    assert client.show(id).task is Task.NONE


def test_a_role_says_what_may_be_done(client: Client) -> None:
    id = client.one()
    reader, member, admin = user("p1", "reader"), user("p1"), user("p9", "admin", "member", "reader")
    for who in (reader, member, admin):
        assert client.site.servers(lambda servers, _, who=who: servers.show(who, id)).id == id
    with pytest.raises(Refused) as refused:
        client.site.servers(lambda servers, _: servers.act(reader, id, Action.STOP))
    assert refused.value.code == "forbidden"
    client.site.servers(lambda servers, _: servers.act(member, id, Action.LOCK, Arguments(reason="mine")))
    with pytest.raises(Conflict) as locked:
        client.site.servers(lambda servers, _: servers.act(member, id, Action.STOP))
    assert locked.value.code == "locked"
    client.site.servers(lambda servers, _: servers.act(admin, id, Action.STOP))
    client.rests(id, VmState.STOPPED)
    assert client.site.servers(lambda servers, _: servers.act(member, id, Action.UNLOCK)).locked_by == ""
    assert client.site.servers(lambda servers, _: servers.act(admin, id, Action.LOCK)).locked_by == "admin"
    client.site.servers(lambda servers, _: servers.act(member, id, Action.LOCK))
    with pytest.raises(Refused):
        client.site.servers(lambda servers, _: servers.act(member, id, Action.UNLOCK))
    assert not client.site.servers(lambda servers, _: servers.act(admin, id, Action.UNLOCK)).locked
    every = ServerQuery(every_project=True)
    assert len(client.site.servers(lambda servers, _: servers.page(admin, every)).servers) == 1
    assert len(client.site.servers(lambda servers, _: servers.page(member, every)).servers) == 1
    assert len(client.site.servers(lambda servers, _: servers.page(user("p2"), every)).servers) == 0


def test_it_is_told_why_and_what_was_done(client: Client) -> None:
    client.site.bottom.builds = (Disable(at=0.0, hosts="1"),)
    client.advance(70.0)
    id = client.one()
    server = client.show(id)
    for key in (id, server.order, server.request):
        (level,) = client.site.servers(lambda servers, caller, key=key: servers.why(caller, key))
        assert (level.path, level.looked, level.chosen[0][0]) == ("leaf", 4, server.host_name)
        assert level.left_out == {"disabled": 1}
    (made,) = client.actions(id)
    assert (made.action, made.request, made.events[0].result) == (Action.CREATE, server.request, "success")
    text = client.site.servers(lambda servers, caller: servers.console(caller, id))
    assert server.id in text
    assert client.site.servers(lambda servers, caller: servers.console(caller, id, 3)).count("\n") == 3
    client.do(id, Action.STOP, VmState.STOPPED)
    assert client.site.servers(lambda servers, caller: servers.console(caller, id)), "what it said is kept"
    client.do(id, Action.SHELVE, VmState.OFFLOADED)
    with pytest.raises(Conflict):
        client.site.servers(lambda servers, caller: servers.console(caller, id))


def test_packing_fills_one_host_first(client: Client) -> None:
    hosts = {client.show(client.order(policy=Policy.PACK)[0]).host for _ in range(5)}
    assert len(hosts) == 1
    spread = {client.show(client.order()[0]).host for _ in range(8)}
    assert len(spread) == 3


def test_an_order_says_what_is_wrong_with_it(client: Client) -> None:
    with pytest.raises(BanyanError) as refused:
        client.order(spec=Specification("x", {}))
    assert refused.value.code == "bad-order"


# --- orders that come together ----------------------------------------------------------------------


def test_orders_that_come_together_do_not_take_each_other_along(client: Client) -> None:
    (known,) = client.order("known")
    asked = dict[str, int]()

    def admit(order: Order) -> None:
        asked[order.id] = asked.get(order.id, 0) + 1
        if order.id == "late" and asked[order.id] > 1:
            raise Refused("lease-over", "the lease is over")

    async def together(servers: LeafServers, caller: Caller) -> list[object]:
        ids = ("o1", "late", "known", "o2", "huge", "o3")
        orders = [
            Order(id, TOP, "p1", "u1", HALF if id == "huge" else SPEC, *([99, 99] * (id == "huge"))) for id in ids
        ]
        return list(
            await asyncio.gather(*(servers.order(caller, one, admit) for one in orders), return_exceptions=True)
        )

    seen = client.site.disk.seen["order.claimed"]
    first, late, again, second, huge, third = client.site.servers(together)
    assert client.site.disk.seen["order.claimed"] - seen <= 2
    assert isinstance(late, Refused)
    assert isinstance(huge, NoValidHost)
    assert isinstance(again, Taken)
    assert (again.again, again.order.placed[0].ids) == (True, (known,))
    assert all(isinstance(one, Taken) and not one.again for one in (first, second, third))
    assert used(client) == 4
    client.settle()
    client.order("late")


def test_an_id_that_was_drawn_before_is_drawn_again(client: Client) -> None:
    """As when two processes both believe to own the rack, and their clocks stand still."""

    async def together(servers: LeafServers, caller: Caller) -> set[str]:
        (rack,) = servers.racks.values()
        ahead = round(client.site.clock.wall() * 1000) + 1_000_000
        rack.orders.draw_from(ahead, 7)
        (first,) = await asyncio.gather(servers.order(caller, Order("o0", TOP, "p1", "u1", SPEC, 2, 2)))
        rack.orders.draw_from(ahead, 8)
        taken = await asyncio.gather(
            *(servers.order(caller, Order(f"o{n}", TOP, "p1", "u1", SPEC)) for n in range(1, 5))
        )
        return {id for one in (first, *taken) for place in one.order.placed for id in place.ids}

    assert len(client.site.servers(together)) == 6
    client.settle()
    assert used(client) == 6


def test_what_is_placed_during_a_scan_is_in_its_picture(client: Client) -> None:
    # So slow a disk that orders commit while the end of a scan is written.
    client.site.disk.slow = 0.7
    for _ in range(100):
        client.order()
    client.site.disk.slow = 0.0
    # The next scan would mend it.
    assert used(client) == 100
    client.settle()
