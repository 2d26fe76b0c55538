"""What is done to a server that is there: once, under its numbers, with Nova's own words where it does not do it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from banyan.core.deed import Deed, Operation, Sighting
from banyan.core.order import ImageSource
from banyan.core.records import DriverUnavailable
from banyan.core.secret import Secret
from banyan.core.server import Arguments, PendingResize, Power, Server, VmState
from banyan.core.time import Wall
from tests.unit.drivers.openstack.conftest import Placing
from tests.unit.drivers.openstack.serving import Fault, Json
from tests.unit.drivers.openstack.standin import StandIn
from tests.unit.drivers.openstack.test_placing import (
    FIRST,
    SECOND,
    SMALL,
    SPEC,
    create,
    done,
    ends,
    failed,
    server,
)

STOP, START, REBOOT = Operation.STOP, Operation.START, Operation.REBOOT


def actions(cloud: StandIn) -> list[Json]:
    return [body for call, body in cloud.bodies if call.endswith("/action")]


def mark(cloud: StandIn) -> tuple[str, str]:
    """(move, deed) of the one server."""
    (only,) = cloud.servers
    return only["metadata"]["banyan:move"], only["metadata"]["banyan:deed"]


def moved(one: Server, move: int = 2, **changes: object) -> Server:
    kept = PendingResize(one.spec, one.host, "", VmState.ACTIVE, one.move, Wall(1_800_000_000.0))
    return replace(one, host=SECOND, move=move, resize=kept, **changes)


def test_a_deed_is_done_once_by_its_number(cloud: StandIn, placing: Placing) -> None:
    one = server()
    done(placing(), create(one), Deed(REBOOT, one, 2), Deed(REBOOT, one, 2))
    done(placing(), Deed(REBOOT, one, 2))
    assert actions(cloud) == [{"reboot": {"type": "SOFT"}}]
    done(placing(), Deed(REBOOT, one, 3))
    assert len(actions(cloud)) == 2


def test_an_earlier_deed_said_late_undoes_nothing(cloud: StandIn, placing: Placing) -> None:
    one = server()
    off = Sighting(one.id, 1, FIRST, Power.OFF)
    assert done(placing(), create(one), Deed(START, one, 2), Deed(STOP, one, 3))[2] == off
    assert done(placing(), Deed(START, one, 2), create(one)) == [off, off]
    assert mark(cloud) == ("1", "3")


def test_an_action_whose_answer_was_lost_is_seen_to_be_done(cloud: StandIn, placing: Placing) -> None:
    one = server()
    done(placing(), create(one))
    cloud.fail("/action", Fault(cut=True, times=1, late=True, method="POST"))
    with pytest.raises(DriverUnavailable):
        done(placing(), Deed(STOP, one, 2))
    assert done(placing(), Deed(STOP, one, 2)) == [Sighting(one.id, 1, FIRST, Power.OFF)]
    assert len(actions(cloud)) == 1


def test_what_nova_refuses_says_so(placing: Placing) -> None:
    one = server()
    done(placing(), create(one), Deed(STOP, one, 2))
    assert "Cannot 'resume'" in failed(placing(), Deed(Operation.RESUME, one, 3)).text


def test_what_nova_took_and_did_not_do_says_why(cloud: StandIn, placing: Placing) -> None:
    one = server()
    done(placing(), create(one))
    cloud.act_fails = lambda action: "libvirt does not answer"
    assert "libvirt does not answer" in failed(placing(), Deed(STOP, one, 2)).text
    assert mark(cloud) == ("1", "1")


def test_a_server_that_was_deleted_behind_our_back_is_told(placing: Placing) -> None:
    assert failed(placing(), Deed(STOP, server(), 2)).code == "no-guest"


def test_a_move_has_its_number_while_it_waits(cloud: StandIn, placing: Placing) -> None:
    one = server()
    seen = done(placing(), create(one), Deed(Operation.MOVE, moved(one), 2))[1]
    assert seen == Sighting(one.id, 2, SECOND, Power.RUNNING)
    assert actions(cloud) == [{"migrate": {"host": "c0002"}}]
    assert done(placing(), Deed(Operation.MOVE, moved(one), 2)) == [seen]
    assert len(actions(cloud)) == 1
    done(placing(), Deed(Operation.CONFIRM, moved(one), 3))
    assert mark(cloud) == ("2", "3")


def test_a_move_that_fails_leaves_the_number_as_it_was(cloud: StandIn, placing: Placing) -> None:
    one = server()
    done(placing(), create(one))
    cloud.act_fails = lambda action: "No valid host was found."
    assert failed(placing(), Deed(Operation.MOVE, moved(one), 2)).elsewhere
    assert mark(cloud) == ("1", "1")
    assert cloud.servers[0]["OS-EXT-SRV-ATTR:host"] == "c0001"


def test_a_move_that_is_undone_has_the_next_number(cloud: StandIn, placing: Placing) -> None:
    one = server()
    back = Deed(Operation.REVERT, moved(one, 3), 3)
    done(placing(), create(one), Deed(Operation.MOVE, moved(one), 2))
    assert done(placing(), back, back) == [Sighting(one.id, 3, FIRST, Power.RUNNING)] * 2
    assert mark(cloud) == ("3", "3")


def test_a_resize_asks_for_the_new_flavor(cloud: StandIn, placing: Placing) -> None:
    one = server()
    large = replace(SMALL, id="g", name="top-large", vcpu=4)
    done(placing(), create(one), Deed(Operation.MOVE, moved(one, spec=replace(SPEC, flavor=large)), 2))
    (made,) = (flavor for flavor in cloud.flavors if flavor["id"] != "f1")
    assert actions(cloud) == [{"resize": {"flavorRef": made["id"]}}]


def test_a_rebuild_keeps_the_mark(cloud: StandIn, placing: Placing) -> None:
    one = server()
    new = replace(one, name="other", spec=replace(SPEC, metadata={"tier": "db"}))
    done(placing(), create(one), Deed(Operation.REBUILD, new, 2))
    (only,) = cloud.ours(one.id)
    assert (only["name"], only["metadata"]["tier"]) == ("other", "db")
    assert mark(cloud) == ("1", "2")


def test_a_rescue_has_the_image_that_was_named(cloud: StandIn, placing: Placing) -> None:
    one = server()
    image = Arguments(image=ImageSource("rescue", "rescue", "sha512:2d23"))
    done(placing(), create(one), Deed(Operation.RESCUE, one, 2, image, Secret(b"open sesame")))
    assert actions(cloud) == [{"rescue": {"adminPass": "open sesame", "rescue_image_ref": "i1"}}]
    assert done(placing(), Deed(Operation.UNRESCUE, one, 3)) == [Sighting(one.id, 1, FIRST, Power.RUNNING)]


def test_a_password_is_in_no_error(cloud: StandIn, placing: Placing) -> None:
    one = server()
    done(placing(), create(one))
    cloud.fail("/action", Fault(400, b'{"badRequest": {"message": "too short"}}', method="POST"))
    error = failed(placing(), Deed(Operation.SET_PASSWORD, one, 2, None, Secret(b"open sesame")))
    assert "too short" in error.text
    assert "sesame" not in error.text + error.detail + repr(error)


@pytest.mark.parametrize(("newest", "host"), [("2.104", {"host": "c0002"}), ("2.79", None)])
def test_where_a_server_is_unshelved_is_said_if_the_cloud_can_be_told(
    cloud: StandIn, placing: Placing, newest: str, host: Json | None
) -> None:
    cloud.compute = ("2.1", newest)
    one = server()
    done(placing(), create(one), Deed(Operation.SHELVE, one, 2))
    done(placing(), Deed(Operation.UNSHELVE, replace(one, host=SECOND, move=2), 3))
    assert actions(cloud)[-1] == {"unshelve": host}
    assert mark(cloud) == ("2", "3")


def test_many_are_seen_with_few_requests(cloud: StandIn, placing: Placing) -> None:
    guests = [server(number) for number in range(1, 4)]
    done(placing(), *map(create, guests))
    driver = placing()
    asked = cloud.asked("/servers/detail")
    seen = ends(driver, lambda: driver.sight([guest.id for guest in guests] + [server(9).id]))
    assert sorted(seen) == sorted(guest.id for guest in guests)
    assert cloud.asked("/servers/detail") == asked + 1
