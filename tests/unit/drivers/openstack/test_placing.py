"""Servers are made in a stand-in cloud and go again: once, where they belong, and with reasons where they cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from msgspec.structs import replace

from banyan.core.deed import Deed, DeedFailed, Operation, Sighting
from banyan.core.ids import RackCode, ZoneCode, guest_id
from banyan.core.order import FlavorSnapshot, ImageSource, KeySnapshot, Specification
from banyan.core.records import DriverUnavailable
from banyan.core.server import Power, Server
from banyan.core.time import Wall
from banyan.drivers.openstack import OpenStackDriver, writes
from banyan.drivers.openstack.endpoints import Service
from tests.unit.drivers.openstack.conftest import Make, Placing
from tests.unit.drivers.openstack.seen import scan
from tests.unit.drivers.openstack.serving import Fault, Json
from tests.unit.drivers.openstack.standin import PROJECT, StandIn
from tests.unit.drivers.openstack.test_scan import filled

T = TypeVar("T")

FIRST = "00000000-0000-4000-8000-000000000001"
SECOND = "00000000-0000-4000-8000-000000000002"
SMALL = FlavorSnapshot("f", "top-small", 1, 2048, 10)
IMAGE = ImageSource("top-image", "tiny", "sha512:2d23")
SPEC = Specification("web", {"vcpu": 1, "memory_mib": 2048, "disk_gib": 10}, flavor=SMALL, image=IMAGE)


def server(
    number: int = 1, host: str = FIRST, spec: Specification = SPEC, project: str = "p1", move: int = 1
) -> Server:
    id, at = guest_id(1_800_000_000_000 + number, RackCode(7), number), Wall(1_800_000_000.0)
    return Server(id, ZoneCode(1), project, "u1", f"web-{number}", RackCode(7), host, spec, at, at)


def create(one: Server, number: int = 1) -> Deed:
    return Deed(Operation.CREATE, one, number)


def delete(one: Server) -> Deed:
    return Deed(Operation.DELETE, one, 99)


def done(driver: OpenStackDriver, *deeds: Deed) -> list[Sighting | None]:
    """One after the other."""

    async def work() -> list[Sighting | None]:
        return [await driver.perform(deed) for deed in deeds]

    return ends(driver, work)


def ends(driver: OpenStackDriver, work: Callable[[], Awaitable[T]]) -> T:
    async def whole() -> T:
        try:
            return await asyncio.wait_for(work(), 30)
        finally:
            await driver.close()

    return asyncio.run(whole())


def failed(driver: OpenStackDriver, deed: Deed) -> DeedFailed:
    with pytest.raises(DeedFailed) as error:
        done(driver, deed)
    return error.value


def written(cloud: StandIn, path: str) -> list[Json]:
    return [body for call, body in cloud.bodies if call.endswith(path)]


# --- what is made ---------------------------------------------------------------------------------


def test_a_server_is_made_as_it_was_ordered(cloud: StandIn, placing: Placing) -> None:
    key = KeySnapshot("mine", "ssh-ed25519 AAAA")
    spec = replace(SPEC, key=key, user_data="c2VjcmV0", metadata={"tier": "web"}, config_drive=True)
    one = server(spec=spec, host=SECOND)
    assert done(placing(), create(one)) == [Sighting(one.id, 1, SECOND, Power.RUNNING)]
    (asked,) = (body["server"] for body in written(cloud, "/servers"))
    assert (asked["name"], asked["imageRef"], asked["flavorRef"]) == ("web-1", "i1", "f1")
    assert (asked["host"], asked["hypervisor_hostname"]) == ("c0002", "c0002")
    assert (asked["user_data"], asked["config_drive"], asked["networks"]) == ("c2VjcmV0", True, "none")
    assert cloud.keypairs[asked["key_name"]]["public_key"] == key.public_key
    marks = {"banyan:id": one.id, "banyan:move": "1", "banyan:deed": "1", "banyan:rack": "00000007"}
    assert asked["metadata"] == {"tier": "web", **marks}


def test_a_mark_that_the_user_wrote_is_not_the_servers(cloud: StandIn, placing: Placing) -> None:
    one = server(spec=replace(SPEC, metadata={"banyan:id": "another", "banyan:move": "9"}))
    done(placing(), create(one))
    assert [s["metadata"]["banyan:id"] for s in cloud.servers] == [one.id]


def test_each_project_has_one_of_its_own_made_once(cloud: StandIn, placing: Placing) -> None:
    async def work() -> None:
        await asyncio.gather(
            *(driver.perform(create(server(n, project=f"p{n % 2}"))) for n in range(1, 9)),
        )

    driver = placing()
    ends(driver, work)
    made = {p["name"]: p["id"] for p in cloud.projects if p["name"].startswith("banyan-")}
    assert sorted(made) == ["banyan-00000001-p0", "banyan-00000001-p1"]
    assert len(written(cloud, "/projects")) == 2
    assert cloud.roles == {(id, "u1", "r1") for id in made.values()}
    assert cloud.quotas.keys() == set(made.values())
    assert {(s["name"], s["tenant_id"]) for s in cloud.servers} == {
        (f"web-{n}", made[f"banyan-00000001-p{n % 2}"]) for n in range(1, 9)
    }


def test_a_project_that_is_there_is_found_again(cloud: StandIn, placing: Placing) -> None:
    done(placing(), create(server(1)))
    done(placing(), create(server(2)))
    assert len(written(cloud, "/projects")) == 1


def test_a_project_that_was_deleted_behind_our_back_is_made_again(cloud: StandIn, placing: Placing) -> None:
    driver = placing()

    async def work() -> None:
        await driver.perform(create(server(1)))
        del cloud.projects[-1]
        driver._workshop.forget()
        with pytest.raises(DriverUnavailable):
            await driver.perform(create(server(2)))
        await driver.perform(create(server(2)))

    ends(driver, work)
    assert len(written(cloud, "/projects")) == 2


def test_one_project_for_all_is_that_of_the_credentials(cloud: StandIn, placing: Placing) -> None:
    done(placing(projects="shared"), create(server(1)), create(server(2, project="p2")))
    assert {s["tenant_id"] for s in cloud.servers} == {PROJECT}
    assert written(cloud, "/projects") == []


def test_projects_are_in_the_domain_that_was_named(cloud: StandIn, placing: Placing) -> None:
    done(placing(domain="lent"), create(server()))
    assert [p["domain_id"] for p in cloud.projects if p["name"].startswith("banyan-")] == ["d2"]
    assert "no domain 'nowhere'" in failed(placing(domain="nowhere"), create(server(2))).text


def test_a_flavor_is_made_where_none_gives_the_same(cloud: StandIn, placing: Placing) -> None:
    pinned = replace(SMALL, extra_specs={"hw:cpu_policy": "dedicated"})
    other = replace(SPEC, flavor=pinned)
    done(placing(), create(server(1, spec=other)), create(server(2, spec=other)), create(server(3)))
    (made,) = (flavor for flavor in cloud.flavors if flavor["id"] != "f1")
    assert made["extra_specs"] == {"hw:cpu_policy": "dedicated"}
    assert made["os-flavor-access:is_public"] is False
    assert [s["flavor"]["original_name"] for s in cloud.servers] == [made["name"], made["name"], "small"]


def test_a_flavor_that_was_cut_off_before_its_specs_gets_them(cloud: StandIn, placing: Placing) -> None:
    other = replace(SPEC, flavor=replace(SMALL, extra_specs={"hw:cpu_policy": "dedicated"}))
    cloud.fail("os-extra_specs", Fault(cut=True, times=1))
    with pytest.raises(DriverUnavailable):
        done(placing(), create(server(spec=other)))
    done(placing(), create(server(spec=other)))
    assert [f["extra_specs"] for f in cloud.flavors] == [{}, {"hw:cpu_policy": "dedicated"}]


def test_an_image_that_the_cloud_has_not_is_named(cloud: StandIn, placing: Placing) -> None:
    spec = replace(SPEC, image=ImageSource("top-image", "debian", "sha512:aa"))
    error = failed(placing(), create(server(spec=spec)))
    assert "'debian'" in error.text
    assert "sha512:aa" in error.text
    assert cloud.servers == []


# --- once -----------------------------------------------------------------------------------------


def test_an_answer_that_was_lost_makes_no_second_server(cloud: StandIn, placing: Placing) -> None:
    cloud.fail("/servers", Fault(cut=True, times=1, late=True, method="POST"))
    driver, one = placing(), server()

    async def work() -> Sighting | None:
        with pytest.raises(DriverUnavailable):
            await driver.perform(create(one))
        return await driver.perform(create(one))

    assert ends(driver, work) == Sighting(one.id, 1, FIRST, Power.RUNNING)
    assert cloud.made == 1


def test_nor_does_it_in_the_next_process(cloud: StandIn, placing: Placing) -> None:
    cloud.fail("/servers", Fault(cut=True, times=1, late=True, method="POST"))
    with pytest.raises(DriverUnavailable):
        done(placing(), create(server()))
    done(placing(), create(server()))
    assert cloud.made == 1


def test_a_request_that_came_through_late_is_waited_for(cloud: StandIn, placing: Placing) -> None:
    """It shows only after Nova was asked what there is: whoever asks again at once would make two."""
    cloud.fail("/servers", Fault(cut=True, times=1, method="POST"))
    driver, one = placing(), server()

    async def work() -> None:
        with pytest.raises(DriverUnavailable):
            await driver.perform(create(one))
        lost = next(body for call, body in cloud.lost if call.endswith("/servers"))
        looks = 0

        def after(path: str) -> None:
            nonlocal looks
            looks += path.endswith("/servers/detail")
            if looks == 1:
                looks += 1
                project = next(p["id"] for p in cloud.projects if p["name"].startswith("banyan-"))
                cloud.make_server(lost["server"], project)

        cloud.after = after
        await driver.perform(create(one))

    ends(driver, work)
    assert cloud.made == 1


def test_of_two_servers_of_one_copy_the_younger_goes(cloud: StandIn, placing: Placing) -> None:
    one = server()

    def twice(path: str) -> None:
        if cloud.made == 1:
            cloud.make_server(cloud.bodies[-1][1]["server"], cloud.servers[-1]["tenant_id"])

    cloud.build_looks = 2
    cloud.after = twice
    done(placing(), create(one))
    assert cloud.made == 2
    assert [s["created"] for s in cloud.ours(one.id)] == ["2026-11-30T12:00:01Z"]


def test_a_copy_of_a_lower_number_goes_before_the_next_is_made(cloud: StandIn, placing: Placing) -> None:
    one = server()
    done(placing(), create(one))
    done(placing(), create(replace(one, move=2, host=SECOND), 2))
    (left,) = cloud.ours(one.id)
    assert (left["metadata"]["banyan:move"], left["OS-EXT-SRV-ATTR:host"]) == ("2", "c0002")


# --- what fails -----------------------------------------------------------------------------------


def test_a_build_that_fails_says_why_in_novas_words_and_leaves_nothing(cloud: StandIn, placing: Placing) -> None:
    cloud.build_fails = lambda host: "No valid host was found. There are not enough hosts available."
    error = failed(placing(), create(server()))
    assert error.elsewhere
    assert error.text == "No valid host was found. There are not enough hosts available."
    assert "Traceback" in error.detail
    assert cloud.servers == []


def test_a_quota_of_the_clouds_is_no_reason_to_try_elsewhere(cloud: StandIn, placing: Placing) -> None:
    body = b'{"forbidden": {"code": 403, "message": "Quota exceeded for cores: Requested 1"}}'
    cloud.fail("/servers", Fault(403, body, method="POST"))
    error = failed(placing(), create(server()))
    assert not error.elsewhere
    assert "Quota exceeded for cores" in error.text


def test_a_host_that_nova_has_not_is_a_reason_to_try_elsewhere(placing: Placing) -> None:
    error = failed(placing(), create(server(host="00000000-0000-4000-8000-00000000dead")))
    assert error.elsewhere


def test_a_service_that_asks_to_slow_down_is_asked_again(cloud: StandIn, placing: Placing) -> None:
    cloud.fail("/servers", Fault(429, headers={"Retry-After": "2"}, times=2, method="POST"))
    done(placing(), create(server()))
    assert cloud.made == 1


def test_what_was_ordered_is_in_no_error(cloud: StandIn, placing: Placing) -> None:
    cloud.fail("/servers", Fault(500, method="POST"))
    with pytest.raises(DriverUnavailable) as error:
        done(placing(), create(server(spec=replace(SPEC, user_data="c2VjcmV0"))))
    assert "c2VjcmV0" not in error.value.text + error.value.detail + repr(error.value)


# --- whose it is ----------------------------------------------------------------------------------


def test_a_scan_tells_ours_as_ours(cloud: StandIn, placing: Placing) -> None:
    cloud.add_server(1)
    one = server(host=SECOND)
    done(placing(), create(one))
    guests = {guest.id: guest for guest in scan(placing()).guests}
    assert {id: guest.native for id, guest in guests.items()} == {
        one.id: False,
        "11111111-0000-4000-8000-000000000001": True,
    }
    assert (guests[one.id].move, guests[one.id].host) == (1, SECOND)
    assert {g.id: g.native for g in scan(placing(mode="observe")).guests} == {i: g.native for i, g in guests.items()}


def test_a_mark_in_somebody_elses_project_is_not_believed(cloud: StandIn, placing: Placing) -> None:
    one = server()
    done(placing(), create(one))
    stranger = cloud.add_server(1, metadata=dict(cloud.servers[0]["metadata"]), tags=list(cloud.servers[0]["tags"]))
    assert sorted(guest.native for guest in scan(placing()).guests) == [False, True]
    done(placing(), delete(one))
    assert cloud.servers == [stranger]


def test_a_mark_of_another_rack_is_not_ours(cloud: StandIn, placing: Placing) -> None:
    one = server()
    done(placing(), create(one))
    cloud.servers[0]["metadata"]["banyan:rack"] = "00000008"
    assert [guest.native for guest in scan(placing()).guests] == [True]
    done(placing(), delete(one))
    assert len(cloud.servers) == 1


# --- what it costs --------------------------------------------------------------------------------


def test_many_builds_are_watched_with_few_requests(cloud: StandIn, placing: Placing) -> None:
    driver = placing()

    async def work() -> None:
        await asyncio.gather(*(driver.perform(create(server(n))) for n in range(1, 33)))

    ends(driver, work)
    assert cloud.made == 32
    assert cloud.asked("/servers/detail") < 32
    assert cloud.asked("/images") == 1
    assert cloud.asked("/flavors/detail") == 1


def test_servers_of_a_train_cloud_are_asked_for_in_its_version(cloud: StandIn, placing: Placing) -> None:
    cloud.compute = ("2.1", "2.79")
    done(placing(), create(server()))
    assert {version for method, path, _, version in cloud.log if "/servers" in path} == {"compute 2.79"}


# --- what is never sent ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "method", "path", "body"),
    [
        (Service.COMPUTE, "DELETE", "/os-hypervisors/1", None),
        (Service.COMPUTE, "DELETE", "/servers", None),
        (Service.COMPUTE, "DELETE", "/servers/../flavors/1", None),
        (Service.COMPUTE, "POST", "/flavors/f1/os-extra_specs", {"extra_specs": {}}),
        (Service.COMPUTE, "POST", "/servers/x/action", {"evacuate": {}}),
        (Service.COMPUTE, "POST", "/servers/x/action", {"os-stop": None, "evacuate": {}}),
        (Service.COMPUTE, "PUT", "/os-services/1", {}),
        (Service.IDENTITY, "DELETE", "/projects/x", None),
        (Service.PLACEMENT, "POST", "/servers", {}),
    ],
)
def test_what_is_not_in_the_list_is_not_sent(service: Service, method: str, path: str, body: Json | None) -> None:
    with pytest.raises(writes.Forbidden):
        writes.check(service, method, path, body)


def test_who_only_observes_writes_nothing(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    driver = make()
    assert not driver.operations
    assert failed(driver, delete(server())).code == "only-observes"
    driver = make()
    with pytest.raises(writes.Forbidden):
        ends(driver, lambda: driver._workshop.send(Service.COMPUTE, "DELETE", "/servers/x"))
    assert cloud.bodies == []
