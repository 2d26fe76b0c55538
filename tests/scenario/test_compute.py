"""Compute at the top of a tree whose servers live two levels down: orders, limits, and what the top keeps of it all."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from banyan.core.compute import Flavor
from banyan.core.errors import BadInput, Conflict, NotFound, Refused
from banyan.core.principal import Principal
from banyan.core.quota import DEFAULTS, Limits, Quota, Use
from banyan.core.server import Action, NoValidHost, ServerQuery, Task, VmState
from banyan.core.time import Mono
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.zone.compute.compute import Compute, make_compute
from banyan.zone.compute.ordering import Wish
from banyan.zone.compute.sources import NetworkPlan
from banyan.zone.compute.steering import Known
from tests.api.nova.cloud import principals
from tests.api.nova.fakes import IMAGE, FakeImages, FakeNetworks
from tests.scenario.trees import plant, until

WISH = Wish("web", "1", IMAGE, no_network=True)


class Entry:
    """The top's own compute, asked as its API would ask it."""

    def __init__(self, site: Site, limits: Limits) -> None:
        self.site = site
        built = site._built
        assert built is not None
        zone = built.zone
        self.compute: Compute = make_compute(
            zone.own,
            zone.store,
            zone.clock,
            zone.ids,
            zone.tree_servers,
            built.front,
            FakeImages(),
            FakeNetworks(),
            limits,
        )
        self.run(self.compute.load())
        self.known = principals(zone.own.code)
        self._requests = 0

    def who(self, name: str = "member") -> Principal:
        self._requests += 1
        return self.known[name].at("192.0.2.7", f"req-{self._requests}")

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.site.tree(lambda servers, caller: work)

    def create(self, wish: Wish = WISH, who: str = "member") -> list[str]:
        ordered = self.run(self.compute.ordering.create(self.who(who), wish))
        return [made.id for made in ordered.created.made]

    def rests(self, world: World, id: str) -> None:
        until(world, lambda: self.run(self.compute.servers.show(self.who(), id)).task is Task.NONE)

    def gone(self, id: str) -> bool:
        try:
            self.run(self.compute.servers.show(self.who(), id))
        except NotFound:
            return True
        return False


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


def test_an_order_at_the_top_is_a_server_two_levels_down(world: World) -> None:
    top = Entry(plant(world, "2x2x4"), DEFAULTS)
    (id,) = top.create()
    top.rests(world, id)
    server = top.run(top.compute.servers.show(top.who(), id))
    assert (server.state, server.project, server.spec.flavor.name) == (VmState.ACTIVE, "p1", "m1.tiny")
    listed = top.run(top.compute.lists.page(top.who(), ServerQuery(server.issuer, "p1"), "", 10))
    assert [one.id for one in listed.servers] == [id]
    with pytest.raises(NotFound):
        top.run(top.compute.servers.show(top.who("other"), id))
    with pytest.raises(NotFound):
        top.run(top.compute.life.delete(top.who("other"), id))
    top.run(top.compute.life.delete(top.who(), id))
    until(world, lambda: top.gone(id))


def test_the_top_keeps_a_row_for_the_project_and_none_for_its_servers(world: World) -> None:
    site = plant(world, "2x2x8")
    top = Entry(site, DEFAULTS)
    ids = top.create(Wish("web", "1", IMAGE, no_network=True, least=60, most=60))
    assert len(set(ids)) == 60
    row = site.peek(lambda unit: unit.compute.quotas.use("p1"))
    assert row is not None and row.use.servers >= 60
    assert site.peek(lambda unit: unit.servers.page(ServerQuery(every_project=True)).servers) == ()
    use = top.run(top.compute.usage.held(top.who()))
    assert use == Use(60, 60, 60 * 512)


def test_a_limit_holds_for_the_whole_tree_and_what_is_gone_makes_room(world: World) -> None:
    top = Entry(plant(world, "2x2x4"), {**DEFAULTS, Quota.SERVERS: 3})
    ids = [top.create()[0] for _ in range(3)]
    with pytest.raises(Refused) as refused:
        top.create()
    assert refused.value.code == "quota-exceeded"
    top.rests(world, ids[0])
    top.run(top.compute.life.delete(top.who(), ids[0]))
    top.create()
    with pytest.raises(Refused):
        top.create()


def test_servers_that_can_not_be_asked_for_still_count(world: World) -> None:
    site = plant(world, "2x2x4")
    top = Entry(site, {**DEFAULTS, Quota.SERVERS: 4})
    ids = top.create(Wish("web", "1", IMAGE, no_network=True, least=4, most=4))
    for id in ids:
        top.rests(world, id)
    lost = top.run(top.compute.servers.why(top.who(), ids[0]))[-1].path
    middle = "/".join(lost.split("/")[:2])
    world[middle].crash("a test")
    world.advance(40.0)
    with pytest.raises(Refused) as refused:
        top.create()
    assert refused.value.code == "quota-exceeded"
    assert top.run(top.compute.usage.held(top.who())) is None


def test_servers_of_an_order_that_is_taken_back_go_though_their_zones_were_away(world: World) -> None:
    top = Entry(plant(world, "2x4"), DEFAULTS)
    made: list[str] = []

    async def allocate(who: Principal, plan: NetworkPlan, servers: Sequence[str]) -> Any:
        made.extend(servers)
        for name in ("top/z1", "top/z2"):
            world.loop.call_soon(world[name].crash, "a test")
        crashed = asyncio.get_running_loop().create_future()
        world.loop.call_soon(crashed.set_result, None)
        await crashed
        raise Conflict("no-addresses", "no addresses are left")

    top.compute.networks.allocate = allocate
    with pytest.raises(Conflict, match="no addresses"):
        top.create(Wish("web", "1", IMAGE, automatic_network=True, least=4, most=4))
    assert len(made) == 4
    for name in ("top/z1", "top/z2"):
        world[name].start()
        world[name].wait()
    world.advance(20.0)
    until(world, lambda: all(top.gone(id) for id in made))


def test_what_a_smaller_flavor_gave_up_is_not_given_away_before_the_resize_is_confirmed(world: World) -> None:
    top = Entry(plant(world, "2x4"), {**DEFAULTS, Quota.VCPU: 2})
    (id,) = top.create(replace(WISH, flavor="3"))
    top.rests(world, id)
    top.run(top.compute.life.resize(top.who(), id, "1", ""))
    top.rests(world, id)
    world.advance(3.0)
    with pytest.raises(Refused, match="cores"):
        top.create()
    top.run(top.compute.life.revert(top.who(), id))
    top.rests(world, id)
    assert top.run(top.compute.usage.held(top.who())) == Use(1, 2, 4096)
    top.run(top.compute.life.resize(top.who(), id, "1", ""))
    top.rests(world, id)
    top.run(top.compute.life.confirm(top.who(), id))
    top.rests(world, id)
    world.advance(3.0)
    top.create()


def test_who_deletes_one_server_of_a_request_keeps_the_others_of_it(world: World) -> None:
    top = Entry(plant(world, "2x4"), DEFAULTS)
    networks = top.compute.networks
    real, deleted = networks.allocate, []

    async def allocate(who: Principal, plan: NetworkPlan, servers: Sequence[str]) -> Any:
        made = await real(who, plan, servers)
        await top.compute.servers.act(top.who(), servers[0], Action.DELETE)
        await top.site.clock.sleep_until(Mono(top.site.clock.now() + 5.0))
        deleted.append(servers[0])
        return made

    networks.allocate = allocate
    ids = top.create(replace(WISH, no_network=False, automatic_network=True, least=4, most=4))
    world.advance(20.0)
    assert deleted == [id for id in ids if top.gone(id)]
    assert len(ids) == 4


def test_a_top_that_dies_between_taking_and_placing_refuses_nothing_for_good(world: World) -> None:
    site = plant(world, "2x4")
    limits = {**DEFAULTS, Quota.SERVERS: 2}
    top = Entry(site, limits)
    top.create()
    # The ceiling stands at the limit, as if an order had taken its place and the process had died.
    top.run(top.compute.quotas._ceilings.reserve(top.who(), Use(1, 1, 512)))
    site.crash("a test")
    site.start()
    world.advance(30.0)
    again = Entry(site, limits)
    again.create()
    with pytest.raises(Refused):
        again.create()


def aggregate(top: Entry, name: str, zone: str, *hosts: str, **notes: str) -> int:
    who = top.who("admin")
    made = top.run(top.compute.aggregates.create(who, name, zone))
    for host in hosts:
        top.run(top.compute.aggregates.add_host(who, made.id, host))
    if notes:
        top.run(top.compute.aggregates.set_metadata(who, made.id, notes))
    return int(made.id)


def hosts_of(top: Entry, ids: list[str]) -> set[str]:
    return {top.run(top.compute.servers.show(top.who(), id)).host_name for id in ids}


def test_an_aggregate_of_the_top_sends_servers_to_its_hosts(world: World) -> None:
    top = Entry(plant(world, "2x2x4"), DEFAULTS)
    first, *_, last = sorted({view.name for view in top.run(top.compute.hosts.all(top.who("admin")))})
    made = aggregate(top, "fast", "quick", first, last, ssd="true")
    assert top.run(top.compute.steering.zones(top.who())).up["quick"] is True
    wish = replace(WISH, availability_zone="quick", least=6, most=6)
    ids = top.create(wish)
    assert hosts_of(top, ids) == {first, last}
    shown = [top.run(top.compute.servers.show(top.who(), id)) for id in ids]
    assert {one.availability_zone for one in shown} == {"quick"}
    # Without the word any host will do.
    assert not hosts_of(top, top.create(replace(WISH, least=16, most=16))) <= {first, last}
    top.run(top.compute.aggregates.remove_host(top.who("admin"), made, last))
    assert hosts_of(top, top.create(replace(wish, least=3, most=3))) == {first}, "a change is known at once"
    top.run(top.compute.aggregates.remove_host(top.who("admin"), made, first))
    with pytest.raises(BadInput) as refused:
        top.create(wish)
    assert refused.value.code == "bad-zone"


def test_an_order_goes_only_to_zones_that_have_a_host_of_it(world: World) -> None:
    """Hosts of one name are many in a tree of clouds: an order says of each in which zone it is."""
    site = plant(world, "3x2x4")
    top = Entry(site, DEFAULTS)
    aggregate(top, "fast", "quick", "sim-00002")
    known = top.run(top.compute.steering.known(top.who()))
    zones = sorted(view.zone for view in known.hosts["sim-00002"])
    assert len(zones) == 6 and all(zone.count("/") == 2 for zone in zones)
    two = [view for view in known.hosts["sim-00002"] if view.zone in (zones[0], zones[-1])]
    top.compute.steering._known._found = (Mono(math.inf), Known(known.aggregates, {"sim-00002": two}))
    ids = top.create(replace(WISH, availability_zone="quick", least=8, most=8))
    assert hosts_of(top, ids) == {"sim-00002"}
    for id in ids:
        (entry, *_, leaf) = site.tree(lambda servers, caller, id=id: servers.why(caller, id))
        assert leaf.path in (zones[0], zones[-1]), "or it was asked in vain elsewhere"
        assert entry.left_out.get("not-named") == 1, "the child that has none of them is not asked"


def test_a_flavor_goes_to_aggregates_that_have_what_it_asks_for(world: World) -> None:
    top = Entry(plant(world, "1x2x4"), DEFAULTS)
    admin = top.who("admin")
    names = sorted({view.name for view in top.run(top.compute.hosts.all(admin))})
    aggregate(top, "ssd", "", *names[:3], ssd="true")
    aggregate(top, "fast", "z", *names[2:])
    new = Flavor("77", "ssd", 1, 64, extra_specs={"aggregate_instance_extra_specs:ssd": "true"})
    top.run(top.compute.flavors.create(admin, new))
    ids = top.create(replace(WISH, flavor="77", least=3, most=3))
    assert hosts_of(top, ids) <= set(names[:3])
    assert hosts_of(top, top.create(replace(WISH, flavor="77", availability_zone="z"))) == {names[2]}, "in both"
    top.run(top.compute.flavors.set_specs(admin, "77", {"aggregate_instance_extra_specs:ssd": "no"}))
    with pytest.raises(NoValidHost, match="aggregate"):
        top.create(replace(WISH, flavor="77"))
    # A server that is resized goes where its new flavor asks for.
    more = Flavor("78", "ssd-more", 2, 64, extra_specs={"aggregate_instance_extra_specs:ssd": "true"})
    top.run(top.compute.flavors.create(admin, more))
    top.rests(world, ids[0])
    top.run(top.compute.life.resize(top.who(), ids[0], "78", ""))
    top.rests(world, ids[0])
    assert hosts_of(top, ids[:1]) <= set(names[:3])


def test_a_host_that_is_named_is_the_only_one_that_will_do(world: World) -> None:
    top = Entry(plant(world, "2x2x4"), DEFAULTS)
    ids = top.create(replace(WISH, host="sim-00003", least=5, most=5), "admin")
    assert hosts_of(top, ids) == {"sim-00003"}
    with pytest.raises(BadInput, match="could not be found"):
        top.create(replace(WISH, host="sim-00099"), "admin")
    top.rests(world, ids[0])
    top.run(top.compute.life.shelve(top.who("admin"), ids[0]))
    top.rests(world, ids[0])
    top.run(top.compute.life.unshelve(top.who("admin"), ids[0], "", "sim-00001"))
    top.rests(world, ids[0])
    assert hosts_of(top, ids[:1]) == {"sim-00001"}
