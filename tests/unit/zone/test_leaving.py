"""What `leave` says of what stays: counted, and named as far as one answer goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest

from banyan.core.ids import RackCode
from banyan.core.image import Image
from banyan.core.network import Network
from banyan.core.order import Specification
from banyan.core.records import Unit
from banyan.core.server import Server, VmState
from banyan.core.time import Wall
from banyan.zone.front import Front
from banyan.zone.leaving import MAX_NAMED
from banyan.zone.views import LeavingView
from tests.contract.store.test_servers import OTHER, RACK, made
from tests.unit.zone.household import ADMIN, Household

AT = Wall(1_000.0)
SPEC = Specification("web", {"vcpu": 1})


@pytest.fixture
def house() -> Iterator[Household]:
    one = Household()
    yield one
    one.zone.racks.clear()
    one.close()


def racked(house: Household, servers: int, code: RackCode = RACK, name: str = "sim") -> None:
    held = SimpleNamespace(servers=servers)
    house.zone.racks[code] = SimpleNamespace(name=name, servers=SimpleNamespace(places=SimpleNamespace(held=held)))


def keep(house: Household, servers: int, things: int) -> None:
    issuer = house.zone.own.code
    rows: list[Server] = [made(n, spec=SPEC, issuer=issuer) for n in range(servers)]
    images = [Image(f"i{n:04}", "p", f"image-{n:04}") for n in range(things)]
    networks = [Network(f"n{n:04}", "p", f"net-{n:04}", AT, AT) for n in range(things)]

    def work(unit: Unit) -> None:
        unit.servers.insert(rows)
        for image in images:
            assert unit.images.images.add(image)
        for network in networks:
            assert unit.networks.networks.add(network)

    house.run(house.store.write("kept", work))


def said(house: Household, apply: bool = False) -> list[LeavingView]:
    admin = replace(ADMIN, issuer=house.zone.own.code)
    page = house.run(Front(house.zone).leave(admin, apply))
    return [msgspec.json.decode(item, type=LeavingView) for item in page.items]


def test_a_rack_stays_with_every_server_in_it(house: Household) -> None:
    racked(house, 0)
    assert said(house) == [LeavingView("rack", "sim", "stays, with every server in it, whoever made it", 0)]


@pytest.mark.parametrize("apply", [False, True])
def test_what_banyan_made_is_counted_and_named(house: Household, apply: bool) -> None:
    racked(house, 2)
    keep(house, servers=2, things=1)
    rows = said(house, apply)
    assert [(row.kind, row.name, row.count) for row in rows] == [
        ("rack", "sim", 2),
        ("servers", "", 2),
        ("images", "", 1),
        ("networks", "", 1),
        ("server", "web-1", None),
        ("server", "web-0", None),
        ("image", "image-0000", None),
        ("network", "net-0000", None),
    ]
    assert [row.id for row in rows[4:]] == [made(1).id, made(0).id, "i0000", "n0000"]
    assert rows[4].then == "stays in rack sim"


def test_more_than_an_answer_names_are_counted_and_it_says_where_all_are(house: Household) -> None:
    racked(house, MAX_NAMED + 1)
    keep(house, servers=MAX_NAMED + 1, things=MAX_NAMED + 1)
    rows = said(house)
    for kind, whole, command in (
        ("server", "servers", "banyan server placed"),
        ("image", "images", "openstack image list"),
        ("network", "networks", "openstack network list"),
    ):
        assert sum(row.kind == kind for row in rows) == MAX_NAMED
        (sum_of,) = (row for row in rows if row.kind == whole)
        assert sum_of.count == MAX_NAMED + 1
        assert f"{MAX_NAMED} of" in sum_of.then and command in sum_of.then


def test_servers_of_several_racks_are_counted_together(house: Household) -> None:
    half = MAX_NAMED // 2 + 10
    racked(house, half)
    racked(house, half, OTHER, "other")
    rows = [made(n, spec=SPEC, rack=RACK if n < half else OTHER) for n in range(2 * half)]
    house.run(house.store.write("kept", lambda unit: unit.servers.insert(rows)))
    (row,) = (row for row in said(house) if row.kind == "servers")
    assert (row.count, f"{MAX_NAMED} of" in row.then) == (2 * half, True)


def test_servers_of_a_rack_that_is_gone_from_the_settings_are_counted(house: Household) -> None:
    keep(house, servers=MAX_NAMED + 50, things=0)
    (row,) = (row for row in said(house) if row.kind == "servers")
    assert row.count == MAX_NAMED + 50 and "banyan server placed" in row.then


def test_what_is_gone_or_was_never_confirmed_is_not_counted(house: Household) -> None:
    rows = [
        made(1, spec=SPEC),
        made(2, spec=SPEC, state=VmState.DELETED, deleted_at=AT),
        made(3, spec=SPEC, unconfirmed=True),
    ]
    house.run(house.store.write("kept", lambda unit: unit.servers.insert(rows)))
    assert [(row.kind, row.count) for row in said(house)] == [("servers", 1), ("server", None)]


def test_a_server_that_a_zone_above_ordered_is_said_to_be_out_of_its_reach(house: Household) -> None:
    racked(house, 1)
    house.run(house.store.write("kept", lambda unit: unit.servers.insert([made(1, spec=SPEC)])))
    (row,) = (row for row in said(house) if row.kind == "server")
    assert row.then == "stays in rack sim; who ordered it, above, does not reach it any more"


def test_a_server_of_a_rack_that_is_gone_from_the_settings_is_named_with_that(house: Household) -> None:
    keep(house, servers=1, things=0)
    (row,) = (row for row in said(house) if row.kind == "server")
    assert "not in the settings" in row.then


def test_the_zones_below_come_along(house: Household) -> None:
    house.kid("kid")
    assert ("zones", 1) in [(row.kind, row.count) for row in said(house)]
