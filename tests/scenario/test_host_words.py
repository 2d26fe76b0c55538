"""A host that a person takes out of service: at once, durably, wherever it lies; what runs on it stays."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from banyan.core.errors import BadInput, BanyanError, Conflict, NotFound, Refused, Unreachable
from banyan.core.host import HostChange
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.core.principal import Principal, ScopeKind
from banyan.core.records import StoreUnknown
from banyan.core.server import VmState
from banyan.core.time import Wall
from banyan.drivers.sim.script import Disable
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.zone.views import HostView
from tests.scenario.leaves import Client
from tests.scenario.trees import create, plant, rests, show, until

OUT = HostChange(True, "new fan")


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world
        assert not world.failures()


def hosts(site: Site, under: str = "", **filters: str) -> list[HostView]:
    page = site.ask(lambda surface, caller: surface.page(caller, "hosts", under, filters, "", 1000))
    assert not page.absent
    return [msgspec.json.decode(item, type=HostView) for item in page.items]


def say(site: Site, name: str, change: HostChange = OUT, under: str = "") -> HostView:
    return site.ask(lambda surface, caller: surface.say_of_host(caller, name, change, under=under))


def counted(site: Site) -> tuple[int, int, int]:
    found = site.ask(lambda surface, caller: surface.usage(caller, "")).hosts
    return found.total, found.up, found.disabled


def fitting(site: Site) -> dict[str, int]:
    return dict(site.ask(lambda surface, caller: surface.usage(caller, "")).fits)


def lines(site: Site, kind: str) -> list[str]:
    return [line.text for line in site.peek(lambda unit: unit.journal.page(0, 1000, {"kind": kind}))]


def test_a_host_that_is_disabled_takes_no_server_and_keeps_those_it_has(world: World) -> None:
    client = Client(world, hosts=2)
    first, second = (host.name for host in hosts(client.site))
    ids = [client.order()[0] for _ in range(8)]
    for id in ids:
        client.rests(id, VmState.ACTIVE)
    (kept, *_) = (id for id in ids if client.show(id).host_name == first)
    before = fitting(client.site)
    seen = say(client.site, first)
    assert (seen.disabled, seen.up, seen.reason) == (True, True, "new fan")
    assert seen.said_by == "operator@local" and seen.said_at is not None
    for _ in range(8):
        (id,) = client.order()
        assert client.show(id).host_name == second, "at once"
    client.advance(1.0)
    assert counted(client.site) == (2, 2, 1)
    assert all(fitting(client.site)[key] < value for key, value in before.items() if value)
    assert client.show(kept).state is VmState.ACTIVE
    client.settle()


@pytest.mark.parametrize("how", ["scan", "kill", "restart"])
def test_a_persons_word_outlives_scans_and_the_process(world: World, how: str) -> None:
    client = Client(world, hosts=2)
    first = hosts(client.site)[0].name
    say(client.site, first)
    say(client.site, first, HostChange(forced_down=True))
    if how == "scan":
        client.advance(150.0)
    elif how == "kill":
        client.site.crash("for a test")
        client.advance(5.0)
    else:
        client.site.stop()
        client.begin()
        client.advance(5.0)
    assert counted(client.site) == (2, 1, 1)
    found = {host.name: (host.disabled, host.up, host.forced_down) for host in hosts(client.site)}
    assert found[first] == (True, False, True)
    assert [host.name for host in hosts(client.site, state="disabled")] == [first]
    for _ in range(6):
        assert client.show(client.order()[0]).host_name != first
    back = say(client.site, first, HostChange(False, "", False))
    assert (back.disabled, back.up, back.said_by) == (False, True, "")
    assert {client.show(client.order()[0]).host_name for _ in range(12)} >= {first}
    client.settle()


def test_a_scan_that_is_under_way_does_not_lose_a_word(world: World) -> None:
    client = Client(world, hosts=40)
    first = hosts(client.site)[0].name
    client.site.ask(lambda surface, caller: surface.command(caller, "zone.rescan", "", {}))
    say(client.site, first)
    client.advance(30.0)
    assert counted(client.site) == (40, 40, 1)


def test_who_says_it_again_changes_nothing_and_leaves_no_line(world: World) -> None:
    client = Client(world, hosts=2)
    first = hosts(client.site)[0].name
    said = [say(client.site, first), say(client.site, first), say(client.site, first, HostChange(True))]
    assert said[0] == said[1] == said[2]
    assert lines(client.site, "host-disabled") == ["new fan"]
    say(client.site, first, HostChange(False))
    say(client.site, first, HostChange(False))
    assert lines(client.site, "host-enabled") == ["takes servers again"]
    say(client.site, first, HostChange(forced_down=True))
    say(client.site, first, HostChange(forced_down=False))
    assert lines(client.site, "host-forced-down") and lines(client.site, "host-no-longer-forced-down")
    assert client.site.peek(lambda unit: unit.host_words.page(unit.racks.all()[0].code, "", 10)) == []


def test_a_host_that_its_own_side_disabled_is_not_enabled_by_a_word(world: World) -> None:
    client = Client(world, hosts=2)
    first = hosts(client.site)[0]
    client.site.bottom.builds = (Disable(at=0.0, hosts="1"),)
    client.advance(130.0)
    say(client.site, first.name)
    assert say(client.site, first.name, HostChange(False, "", True)).disabled
    say(client.site, first.name)
    say(client.site, first.name, HostChange(forced_down=False))
    back = say(client.site, first.name, HostChange(False))
    assert (back.disabled, back.reason, back.said_by) == (True, "disabled by the script", "")
    assert counted(client.site)[2] == 1


def test_what_was_said_is_known_after_a_commit_whose_fate_was_not(world: World) -> None:
    client = Client(world, hosts=2)
    first = hosts(client.site)[0].name
    client.site.fail_commits(StoreUnknown)
    with pytest.raises(BanyanError) as told:
        say(client.site, first)
    assert told.value.code == "host-undecided"
    client.advance(5.0)
    said = {host.name: host.disabled for host in hosts(client.site)}[first]
    assert counted(client.site)[2] == int(said)
    assert {client.show(client.order()[0]).host_name == first for _ in range(6)} <= {not said, False}
    say(client.site, first)
    assert counted(client.site)[2] == 1


@pytest.mark.parametrize("shape", ["2x2", "2x2x2"])
def test_a_host_anywhere_below_is_taken_out_of_service_from_the_top(world: World, shape: str) -> None:
    top = plant(world, shape)
    made = create(top).made[0]
    rests(world, top, made.id, VmState.ACTIVE)
    name, zone = show(top, made.id).host_name, made.path
    assert say(top, name, under=zone).disabled
    until(world, lambda: counted(top)[2] == 1)
    assert [(host.name, host.zone, host.reason) for host in hosts(top, state="disabled")] == [(name, zone, "new fan")]
    leaf = world[zone]
    assert lines(leaf, "host-disabled") == ["new fan"] and not lines(top, "host-disabled")
    for one in create(top, 12).made:
        assert (one.path, show(top, one.id).host_name) != (zone, name)
    assert show(top, made.id).state is VmState.ACTIVE
    with pytest.raises(Conflict, match="several hosts"):
        say(top, name)
    with pytest.raises(NotFound):
        say(top, "none", under=zone)
    # An administrator of the top's cloud, as the compute API has it.
    code = top.peek(lambda unit: unit.self_.get()).code
    admin = Principal(code, "u1", "ann", "d1", ScopeKind.SYSTEM, frozenset({"admin"}), Wall(1e12))
    id, rack = hosts(top, state="disabled")[0].id, hosts(top, state="disabled")[0].rack
    seen = top.tree(lambda servers, _: servers.say_of_host(admin, zone, rack, id, HostChange(False)))
    assert not seen.disabled
    member = Principal(code, "u1", "ann", "d1", ScopeKind.PROJECT, frozenset({"member"}), Wall(1e12), "p1")
    with pytest.raises(Refused, match="admin"):
        top.tree(lambda servers, _: servers.say_of_host(member, zone, rack, id, OUT))
    with pytest.raises(NotFound, match="no host"):
        top.tree(lambda servers, _: servers.say_of_host(admin, zone, rack, "none", OUT))
    for change in (HostChange(), HostChange(reason="x"), HostChange(True, "x" * 300)):
        with pytest.raises(BadInput):
            top.tree(lambda servers, _, change=change: servers.say_of_host(admin, zone, rack, id, change))
    # One whose zone can not be asked is named, and nothing is said to have been done.
    leaf.crash("for a test")
    world.advance(1.0)
    with pytest.raises(Unreachable, match=zone):
        top.tree(lambda servers, _: servers.say_of_host(admin, zone, rack, id, OUT))


def test_an_operator_of_another_part_does_not_see_the_host(world: World) -> None:
    top = plant(world, "2x2")
    name = hosts(top, "top/z2")[0].name
    code = world["top/z1"].peek(lambda unit: unit.self_.get()).code

    def as_operator(role: Role, under: ZoneCode) -> None:
        top.ask(
            lambda surface, caller: surface.say_of_host(
                Caller("ops", role, caller.issuer, under=under), name, OUT, under="top/z2"
            )
        )

    with pytest.raises(NotFound):
        as_operator(Role.OPERATOR, code)
    with pytest.raises(Refused):
        as_operator(Role.VIEWER, world["top/z2"].peek(lambda unit: unit.self_.get()).code)
