"""Whole scans of a stand-in cloud over real sockets: what is counted, in which words, and what it asks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from banyan.core.errors import BadInput
from banyan.core.guest import GuestState
from banyan.core.rack import Basis, Capacity, GuestBatch, HostBatch, RackHealth
from banyan.core.resources import Amount
from banyan.core.share import Share
from banyan.drivers.openstack import REGISTRATION
from tests.unit.drivers.fakes import StillClock, context
from tests.unit.drivers.openstack.conftest import Make
from tests.unit.drivers.openstack.seen import refusal, scan, scans, seen
from tests.unit.drivers.openstack.standin import PASSWORD, PROJECT, TOKEN, Provider, StandIn


def filled(cloud: StandIn, hosts: int = 3, servers: int = 4) -> None:
    for number in range(1, hosts + 1):
        cloud.add_host(number)
    for number in range(1, servers + 1):
        host = f"c{(number - 1) % hosts + 1:04d}"
        cloud.add_server(number, host)
        provider = next(p for p in cloud.providers.values() if p.name == host)
        for name, amount in (("VCPU", 1), ("MEMORY_MB", 2048), ("DISK_GB", 10)):
            provider.used[name] = provider.used.get(name, 0) + amount
    cloud.add_rest()


def test_a_cloud_is_counted(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    driver = make()
    result = scan(driver)
    assert driver.capacity is Capacity.SHARED
    assert result.end.basis is Basis.HOSTS
    assert result.total("vcpu") == Amount(192, 768, 4)
    assert result.total("memory_mib") == Amount(3 * 262144, 3 * (262144 - 512), 4 * 2048)
    assert result.total("disk_gib") == Amount(12000, 12000, 40)
    assert result.hosts["c0001"].traits == {"COMPUTE_NODE", "HW_CPU_X86_AVX2"}
    assert [guest.state for guest in result.guests] == [GuestState.ACTIVE] * 4
    assert {guest.host for guest in result.guests} == {host.id for host in result.hosts.values()}
    end = result.end
    assert [f.name for f in end.flavors] == ["small"]
    assert [(i.name, i.checksum) for i in end.images] == [("tiny-image", "sha512:2d23")]
    assert [(n.name, n.subnets) for n in end.networks] == [("shared", ("10.64.0.0/12",))]
    assert [(p.name, p.limits) for p in end.projects] == [("fleet", {"vcpu": 20, "memory_mib": 51200, "guests": 10})]
    assert end.facts["capacity"] == "hosts"
    assert end.facts["compute"].startswith("microversion 2.87")
    assert end.facts["region"] == "Here"
    assert end.requests == len(cloud.log)


def test_only_get_and_token_requests_leave(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    driver = make()

    async def everything() -> None:
        await driver.check()
        await driver.probe()
        await seen(driver)

    asyncio.run(everything())
    posts = [path for method, path, _, _ in cloud.log if method != "GET"]
    assert set(posts) == {"/identity/v3/auth/tokens"}


def test_the_guard_lets_nothing_else_out(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    driver = make()
    scan(driver)
    session = driver._cloud._access._opened().session
    before = len(cloud.log)
    for method in ("DELETE", "PUT", "PATCH", "POST"):
        with pytest.raises(AssertionError, match="must never send"):
            session.request(f"{cloud.url}/compute/v2.1/servers/x", method)
    assert len(cloud.log) == before


@pytest.mark.parametrize(("compute", "placement"), [("2.79", "1.36"), ("2.85", "1.37"), ("2.104", "1.39")])
def test_microversions_are_agreed_down_to_trains(cloud: StandIn, make: Make, compute: str, placement: str) -> None:
    filled(cloud)
    cloud.compute, cloud.placement = ("2.1", compute), ("1.0", placement)
    assert scan(make()).total("vcpu") == Amount(192, 768, 4)
    used = {version for _, path, _, version in cloud.log if version and "/compute" in path}
    assert used == {f"compute {min(tuple(map(int, compute.split('.'))), (2, 87))[0]}.{min(int(compute[2:]), 87)}"}
    assert {v for _, path, _, v in cloud.log if v and "/placement" in path} == {f"placement {placement}"}


def test_all_lists_are_paged_by_marker_whatever_the_links_say(cloud: StandIn, make: Make) -> None:
    filled(cloud, hosts=7, servers=25)
    cloud.max_limit = 10
    result = scan(make(page_size=3))
    assert len(result.hosts) == 7
    assert len({guest.id for guest in result.guests}) == len(result.guests) == 25
    assert max(len(item.guests) for item in result.items if isinstance(item, GuestBatch)) == 3
    assert cloud.asked("/servers/detail") == 9
    # Two full pages and one of one; then one more, because Nova leaves rows out of pages and links with them.
    assert cloud.asked("/os-hypervisors/detail") == 4


def test_a_page_is_followed_although_nova_left_rows_out_of_it(cloud: StandIn, make: Make) -> None:
    filled(cloud, hosts=5, servers=0)
    # Nova answers with fewer than it was asked for, and without a link, when a compute service was deleted.
    page = cloud._page
    cloud._page = lambda items, query: (
        page(items, query) if items is not cloud.hypervisors else (page(items, query)[0][:2], "")
    )
    assert len(scan(make(page_size=3)).hosts) == 5


def test_a_server_that_goes_between_two_pages_breaks_nothing(cloud: StandIn, make: Make) -> None:
    filled(cloud, servers=12)
    gone = []

    def delete_the_last_of_the_first_page(path: str) -> None:
        if path.endswith("/servers/detail") and not gone:
            gone.append(cloud.servers.pop(3)["id"])

    cloud.after = delete_the_last_of_the_first_page
    ids = [guest.id for guest in scan(make(page_size=4)).guests]
    assert len(ids) == len(set(ids)) == 12
    assert gone[0] in ids


def test_a_server_on_two_pages_is_told_once(cloud: StandIn, make: Make) -> None:
    """As while it moves from one cell of Nova to another."""
    filled(cloud, servers=7)
    cloud.servers.insert(4, cloud.servers[3])
    ids = [guest.id for guest in scan(make(page_size=4)).guests]
    assert len(ids) == len(set(ids)) == 7


def test_a_provider_that_goes_while_it_is_read_is_left_out(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    first = next(iter(cloud.providers.values()))
    first.inventories = {"CUSTOM_ODD": (1, 0, 1.0)}

    def gone(path: str) -> None:
        if path.endswith("/allocation_candidates"):
            cloud.providers.pop(first.uuid, None)

    cloud.after = gone
    result = scan(make())
    assert len(result.hosts) == 3
    assert result.hosts["c0001"].amounts == {}
    assert "1 hypervisors" in result.end.facts["without inventory"]


def test_credentials_of_one_project_see_its_quota(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.admin = False
    cloud.limits = {
        "maxTotalCores": 20,
        "maxTotalRAMSize": 51200,
        "maxTotalInstances": 10,
        "totalCoresUsed": 4,
        "totalRAMUsed": 8192,
        "totalInstancesUsed": 4,
    }
    result = scan(make())
    assert result.end.basis is Basis.QUOTA
    assert list(result.hosts) == ["quota"]
    assert result.total("vcpu") == Amount(0, 20, 4)
    assert result.end.facts["capacity"] == "quota"
    assert [(p.id, p.limits) for p in result.end.projects] == [
        (PROJECT, {"vcpu": 20, "memory_mib": 51200, "guests": 10})
    ]
    assert {guest.host for guest in result.guests} == {"quota"}
    assert all("all_tenants" not in query for _, _, query, _ in cloud.log)
    assert not any("/placement" in path for _, path, _, _ in cloud.log)


def test_a_quota_may_be_asked_for(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.limits = dict.fromkeys(
        (
            "maxTotalCores",
            "maxTotalRAMSize",
            "maxTotalInstances",
            "totalCoresUsed",
            "totalRAMUsed",
            "totalInstancesUsed",
        ),
        -1,
    )
    assert cloud.asked("/os-hypervisors/detail") == 0
    assert scan(make(see="quota")).end.basis is Basis.QUOTA


def test_a_lost_role_is_no_small_cloud(cloud: StandIn, make: Make) -> None:
    """An admin's role that was taken away must not turn hosts into a quota."""
    filled(cloud)
    driver = make()

    async def both() -> str:
        await seen(driver)
        cloud.admin = False
        from tests.unit.drivers.openstack.seen import refused

        return (await refused(driver)).code

    assert asyncio.run(both()) == "openstack-role"


def test_hosts_may_be_insisted_on(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.admin = False
    error = refusal(make(see="hosts"))
    assert error.code == "openstack-role"
    assert "os-hypervisors" in error.text


def test_the_share_marks_and_hides_nothing(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.aggregates.append({"id": 1, "name": "spare", "hosts": ["c0002"], "availability_zone": None, "metadata": {}})
    result = scan(make(Share(aggregates=("spare",), flavors=(), projects=("fleet",))))
    assert {host.name for host in result.hosts.values() if host.offered} == {"c0002"}
    offered = {guest.host for guest in result.guests if guest.offered}
    assert offered == {result.hosts["c0002"].id}
    assert [f.offered for f in result.end.flavors] == [False]
    assert [p.offered for p in result.end.projects] == [True]


def test_a_share_names_projects_by_name_or_id(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.add_server(99, tenant_id="another")
    for patterns in (("fleet",), (PROJECT,)):
        guests = scan(make(Share(projects=patterns))).guests
        assert {guest.project for guest in guests if guest.offered} == {PROJECT}


def test_a_server_on_no_host_is_counted(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.add_server(50, **{"OS-EXT-SRV-ATTR:host": None, "OS-EXT-SRV-ATTR:hypervisor_hostname": None})
    guest = next(g for g in scan(make()).guests if g.name == "s50")
    assert guest.host == ""
    assert guest.offered


def test_nested_providers_belong_to_their_hypervisor(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    root = next(iter(cloud.providers.values()))
    for number in (1, 2):
        cloud.providers[f"gpu{number}"] = Provider(
            f"gpu{number}", f"gpu{number}", root.uuid, {"VGPU": (4, 0, 1.0)}, {"VGPU": number}, ("HW_GPU_API_VULKAN",)
        )
    result = scan(make())
    host = result.hosts["c0001"]
    assert result.total("vgpu") == Amount(8, 8, 3) == host.amounts["vgpu"]
    assert "HW_GPU_API_VULKAN" in host.traits
    assert "COMPUTE_NODE" in host.traits


def test_a_pool_that_belongs_to_no_hypervisor_is_named_and_not_counted(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.providers["pool"] = Provider("pool", "nfs-pool", "pool", {"DISK_GB": (10**6, 0, 1.0)})
    result = scan(make())
    assert result.total("disk_gib").physical == 12000
    assert "nfs-pool" in result.end.facts["not counted"]


def test_hosts_of_a_cell_that_is_down_stay_and_are_down(cloud: StandIn, make: Make) -> None:
    """Nova lists services of a cell that does not answer as UNKNOWN, and its hypervisors not at all."""
    filled(cloud)
    driver = make()

    async def story() -> None:
        whole = await seen(driver)
        cloud.services[1] = {"binary": "nova-compute", "host": "c0002", "status": "UNKNOWN"}
        hypervisor = cloud.hypervisors.pop(1)
        cut = await seen(driver)
        assert "c0002" in cut.end.facts["cell down"]
        assert cut.total("vcpu") == whole.total("vcpu")
        assert {name: host.up for name, host in cut.hosts.items()} == {"c0001": True, "c0002": False, "c0003": True}
        # One that is gone for good has no service any more, and then it goes.
        del cloud.services[1]
        assert "c0002" not in (await seen(driver)).hosts
        cloud.hypervisors.insert(1, hypervisor)
        assert (await seen(driver)).hosts["c0002"].up

    asyncio.run(story())


@pytest.mark.parametrize("service", ["image", "network"])
def test_a_catalogue_service_that_fails_stops_no_count(cloud: StandIn, make: Make, service: str) -> None:
    filled(cloud)
    driver = make()

    async def both() -> None:
        await seen(driver)
        cloud.denied.add(f"/{service}")
        again = await seen(driver)
        things = again.end.images if service == "image" else again.end.networks
        assert len(things) == 1
        fact = again.end.facts["images" if service == "image" else "networks"]
        assert fact.startswith("as of an earlier scan: ")
        assert len(fact) <= 255

    asyncio.run(both())


def test_a_cloud_without_networks_service_is_a_cloud(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.absent.add("network")
    result = scan(make())
    assert result.end.networks == ()
    assert "no network endpoint" in result.end.facts["networks"]


def test_limits_are_read_for_a_few_projects_at_a_time(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.projects += [{"id": f"p{n:02d}", "name": f"p{n:02d}"} for n in range(9)]
    results = scans(make(quotas_per_scan=4), 3)
    known = [sum(1 for p in result.end.projects if p.limits) for result in results]
    assert known == [4, 8, 10]
    assert sum(1 for _, path, _, _ in cloud.log if "/os-quota-sets/" in path) == 12
    assert "8 of 10" in results[1].end.facts["limits"]


def test_requests_keep_their_pace(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    clock = StillClock()
    result = scan(make(clock=clock))
    # At 10 requests a second, as the context says; token and version requests are part of the turns taken.
    assert clock.elapsed >= (result.end.requests - 4) / 10


def test_a_probe_is_one_request(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    driver = make()

    async def probed() -> int:
        assert await driver.probe() == (RackHealth.AVAILABLE, "")
        before = len(cloud.log)
        assert await driver.probe() == (RackHealth.AVAILABLE, "")
        return len(cloud.log) - before

    assert asyncio.run(probed()) == 1


def test_batches_are_small(cloud: StandIn, make: Make) -> None:
    filled(cloud, hosts=600, servers=0)
    for number in range(1_300):
        cloud.add_server(number)
    items = scan(make()).items
    assert [len(item.hosts) for item in items if isinstance(item, HostBatch)] == [250, 250, 100]
    assert [len(item.guests) for item in items if isinstance(item, GuestBatch)] == [250, 250, 250, 250, 250, 50]


def test_nothing_secret_is_told(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    driver = make()

    async def everything() -> str:
        findings = await driver.check()
        result = await seen(driver)
        return f"{findings} {result} {driver!r} {driver._options!r} {driver._cloud._access!r}"

    told = asyncio.run(everything())
    assert PASSWORD not in told
    assert TOKEN not in told


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"cloud": ""}, "cloud"),
        ({"page_size": 0}, "page_size"),
        ({"page_size": 1001}, "page_size"),
        ({"timeout": 0}, "timeout"),
        ({"see": "everything"}, "see"),
        ({"interface": "outside"}, "interface"),
        ({"password": "x"}, "password"),
        ({"max_response_mib": 0}, "max_response_mib"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, object], word: str) -> None:
    with pytest.raises(BadInput, match=word):
        REGISTRATION.open({"cloud": "x", **options}, context())


def test_nothing_is_opened_when_a_driver_is_made(tmp_path: Path) -> None:
    REGISTRATION.open({"cloud": "x", "clouds_file": str(tmp_path / "none.yaml")}, context())


class Patterns(tuple[str, ...]):
    """A share's patterns; which threads looked at them is kept in `by`, as each translated row is held against them."""

    by: set[int]

    def __iter__(self) -> Iterator[str]:
        self.by.add(threading.get_ident())
        return super().__iter__()


def test_long_lists_are_translated_off_the_loop(cloud: StandIn, make: Make) -> None:
    """A page of a thousand rows takes longer than a heartbeat may be late."""
    filled(cloud, hosts=3, servers=5)
    patterns = {name: Patterns(("*",)) for name in ("availability_zones", "hosts", "flavors", "projects")}
    for one in patterns.values():
        one.by = set()
    result = scan(make(Share(**patterns)))
    assert len(result.hosts) == 3 and len(result.guests) == 5 and result.end.flavors and result.end.projects
    assert all(one.by for one in patterns.values())
    assert [name for name, one in patterns.items() if threading.get_ident() in one.by] == []
