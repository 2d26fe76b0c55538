"""Servers through the compute API: what is ordered, shown, listed, changed; and what is refused, with which words."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from banyan.core.errors import Unreachable
from banyan.core.quota import DEFAULTS, Quota
from banyan.core.server import SortKey, VmState
from tests.api.nova.cloud import Cloud, run
from tests.api.nova.fakes import BIG_IMAGE, IMAGE, NETWORK, PORT, QUEUED_IMAGE

NONE = "f0000000-0000-4000-8000-000000000000"
SERVER = {"name": "web", "imageRef": IMAGE, "flavorRef": "1"}


def order(version: str = "2.1", token: str = "member", **fields: object) -> tuple[int, Any]:
    """(status, body) of a create with these fields."""

    async def play(c: Cloud) -> tuple[int, Any]:
        answer = await c.ask("POST", "/servers", {"server": {**SERVER, **fields}}, token, version)
        return answer.status_code, answer.json()

    return run(play)


def test_a_create_answers_what_a_client_needs_to_go_on() -> None:
    async def play(c: Cloud) -> None:
        answer = await c.ask("POST", "/servers", {"server": {**SERVER, "adminPass": "mine"}})
        assert answer.status_code == 202
        server = answer.json()["server"]
        assert set(server) == {"id", "links", "OS-DCF:diskConfig", "security_groups", "adminPass"}
        assert server["adminPass"] == "mine"
        assert answer.headers["Location"] == server["links"][0]["href"]
        shown = await c.ok("GET", f"/servers/{server['id']}")
        assert (shown["server"]["status"], shown["server"]["OS-EXT-STS:power_state"]) == ("ACTIVE", 1)

    run(play)


def test_a_create_that_is_said_again_under_its_key_makes_nothing_new() -> None:
    async def play(c: Cloud) -> None:
        key = {"Idempotency-Key": "deploy-17"}

        async def ask(**fields: object) -> httpx.Response:
            return await c.ask("POST", "/servers", {"server": {**SERVER, **fields}}, headers=key)

        first, again = await ask(), await ask()
        assert first.status_code == again.status_code == 202
        assert first.json()["server"]["id"] == again.json()["server"]["id"]
        other = await ask(metadata={"a": "b"}, max_count=2)
        assert other.status_code == 409
        assert "metadata, most" in other.json()["conflictingRequest"]["message"]
        assert len(c.servers.rows) == 1
        # What was looked up for it may have changed, or be used up, since: it was answered.
        c.images.known.clear()
        assert (await ask()).status_code == 202

    run(play)


def test_many_at_once_answer_a_reservation_by_which_they_are_found() -> None:
    async def play(c: Cloud) -> None:
        many = {**SERVER, "min_count": 2, "return_reservation_id": "True"}
        answer = await c.ok("POST", "/servers", {"server": many}, "admin")
        await c.server("admin")
        found = await c.ok("GET", f"/servers?reservation_id={answer['reservation_id']}", token="admin")
        assert [server["name"] for server in found["servers"]] == ["web-2", "web-1"]

    run(play)


@pytest.mark.parametrize(
    ("version", "fields", "status", "words"),
    [
        ("2.1", {"name": ""}, 400, "too short"),
        ("2.1", {"name": " a"}, 400, "printable"),
        ("2.1", {"name": "x" * 256}, 400, "255"),
        ("2.1", {"name": 12345}, 400, "string"),
        ("2.1", {"flavorRef": "none"}, 400, "Flavor none could not be found"),
        ("2.1", {"imageRef": NONE}, 400, "Can not find requested image"),
        ("2.1", {"imageRef": "x"}, 400, "imageRef"),
        ("2.1", {"imageRef": ""}, 400, "Invalid imageRef"),
        ("2.1", {"imageRef": QUEUED_IMAGE}, 400, "not active"),
        ("2.1", {"imageRef": BIG_IMAGE}, 400, "too small"),
        ("2.1", {"key_name": "none"}, 400, "Invalid key_name"),
        ("2.1", {"networks": [{"uuid": "junk"}]}, 400, "not in proper format"),
        ("2.1", {"networks": [{"uuid": NONE}]}, 400, "could not be found"),
        ("2.1", {"networks": [{"port": NONE}]}, 400, "could not be found"),
        ("2.1", {"networks": [{"port": PORT, "fixed_ip": "10.0.0.1"}]}, 400, "cannot be used with port"),
        ("2.1", {"networks": "none"}, 400, "networks"),
        ("2.37", {}, 400, "'networks' is a required property"),
        ("2.37", {"networks": "some"}, 400, "'auto'"),
        ("2.37", {"networks": [{"uuid": NETWORK, "tag": "a"}]}, 400, "'tag' was unexpected"),
        ("2.42", {"networks": [{"uuid": NETWORK, "tag": "a"}]}, 202, ""),
        ("2.1", {"security_groups": [{"name": "nope"}]}, 400, "Security group nope"),
        ("2.1", {"accessIPv4": "1.1.1.1.1.1"}, 400, "accessIPv4"),
        ("2.1", {"accessIPv6": "1.1.1.1"}, 400, "accessIPv6"),
        ("2.1", {"metadata": {"a" * 256: "b"}}, 400, "metadata"),
        ("2.1", {"metadata": {"": "b"}}, 400, "metadata"),
        ("2.1", {"metadata": {"banyan:access_ipv4": "1.2.3.4"}}, 400, "own"),
        ("2.1", {"metadata": {str(n): "" for n in range(129)}}, 403, "128"),
        ("2.1", {"min_count": 0}, 400, "minimum"),
        ("2.1", {"min_count": 2.5}, 400, "min_count"),
        ("2.1", {"min_count": 2, "max_count": 1}, 400, "min_count must be <= max_count"),
        ("2.1", {"max_count": 2_001}, 400, "2000"),
        ("2.1", {"availability_zone": "nowhere"}, 400, "availability zone"),
        ("2.1", {"availability_zone": "az1:host-h1"}, 403, "server_place"),
        ("2.1", {"block_device_mapping_v2": [{"source_type": "volume", "uuid": NONE}]}, 400, "volumes"),
        ("2.1", {"block_device_mapping": [{"volume_id": NONE}]}, 400, "volumes"),
        ("2.1", {"user_data": "not base64!"}, 400, "base64"),
        ("2.1", {"user_data": "a" * 65_536}, 400, "too long"),
        ("2.1", {"description": "d"}, 400, "'description' was unexpected"),
        ("2.19", {"description": "d\n"}, 400, "description"),
        ("2.51", {"networks": "none", "tags": ["a"]}, 400, "'tags' was unexpected"),
        ("2.52", {"networks": "none", "tags": ["a,b"]}, 400, "comma"),
        ("2.52", {"networks": "none", "tags": [str(n) for n in range(51)]}, 400, "50"),
        ("2.56", {"networks": "none", "personality": [{"path": "/a", "contents": "aGk="}]}, 400, "user_data"),
        ("2.57", {"networks": "none", "personality": []}, 400, "'personality' was unexpected"),
        ("2.63", {"networks": "none", "trusted_image_certificates": ["a"]}, 400, "not offered"),
        ("2.74", {"networks": "none", "host": "host-h1"}, 403, "server_place"),
        ("2.89", {"networks": "none", "hostname": "a1"}, 400, "'hostname' was unexpected"),
        ("2.90", {"networks": "none", "hostname": "a.b"}, 400, "hyphens"),
        ("2.94", {"networks": "none", "hostname": "a.b"}, 202, ""),
        ("2.94", {"networks": "none", "hostname": "a.b", "max_count": 2}, 400, "single hostname"),
        ("2.1", {"junk": 1}, 400, "'junk' was unexpected"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(version: str, fields: dict[str, object], status: int, words: str) -> None:
    got, body = order(version, **fields)
    assert got == status, body
    if words:
        (fault,) = body.values()
        assert words in fault["message"]
        assert fault["code"] == status


@pytest.mark.parametrize("name", ["a.b c", "Ünï¢øde 名前", "x" * 255, "a/b?c=d&e%2F", "-", "None"])
def test_names_are_what_people_write(name: str) -> None:
    async def play(c: Cloud) -> None:
        id = await c.server(name=name)
        assert (await c.ok("GET", f"/servers/{id}"))["server"]["name"] == name
        assert (await c.ok("PUT", f"/servers/{id}", {"server": {"name": name[::-1]}}))["server"]["name"] == name[::-1]

    run(play)


def test_a_disk_that_the_flavor_has_anyway_may_be_named() -> None:
    boot = {"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": IMAGE}
    swap = {"source_type": "blank", "destination_type": "local", "guest_format": "swap", "volume_size": 1}
    assert order(imageRef="", block_device_mapping_v2=[boot, swap])[0] == 202
    assert order(block_device_mapping_v2=[{**boot, "uuid": BIG_IMAGE}])[0] == 400
    assert order(block_device_mapping_v2=[{**boot, "boot_index": None}])[0] == 400


def test_no_place_is_said_at_once_with_the_reasons_and_costs_no_quota() -> None:
    async def play(c: Cloud) -> None:
        c.servers.room = 0
        answer = await c.ask("POST", "/servers", {"server": SERVER})
        assert answer.status_code == 409
        assert "2 full" in answer.json()["conflictingRequest"]["message"]
        c.servers.room = 2
        await c.server()
        await c.server()

    run(play, {**DEFAULTS, Quota.SERVERS: 2})


def test_a_deleted_server_is_shown_to_nobody() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        await c.ok("DELETE", f"/servers/{id}")
        for token in ("member", "admin"):
            for path in ("", "/metadata", "/os-interface", "/tags"):
                assert (await c.ask("GET", f"/servers/{id}{path}", token=token, version="2.96")).status_code == 404

    run(play)


def test_over_quota_is_403_and_what_is_deleted_makes_room() -> None:
    async def play(c: Cloud) -> None:
        ids = [await c.server() for _ in range(3)]
        answer = await c.ask("POST", "/servers", {"server": SERVER})
        assert answer.status_code == 403
        text = "Quota exceeded for instances: Requested 1, but already used 3 of 3 instances"
        assert answer.json()["forbidden"]["message"] == text
        await c.ok("DELETE", f"/servers/{ids[0]}")
        await c.server()
        absolute = (await c.ok("GET", "/limits"))["limits"]["absolute"]
        assert (absolute["totalInstancesUsed"], absolute["maxTotalInstances"]) == (3, 3)
        await c.server("other")

    run(play, {**DEFAULTS, Quota.SERVERS: 3})


def test_fewer_than_the_most_are_made_when_quota_or_room_ends() -> None:
    async def play(c: Cloud) -> None:
        many = {**SERVER, "min_count": 2, "max_count": 9}
        assert (await c.ask("POST", "/servers", {"server": many})).status_code == 202
        assert len(c.servers.rows) == 3

    run(play, {**DEFAULTS, Quota.SERVERS: 3})


def test_servers_without_addresses_go_again() -> None:
    async def play(c: Cloud) -> None:
        c.networks.full = True
        answer = await c.ask("POST", "/servers", {"server": {**SERVER, "networks": "auto"}}, version="2.37")
        assert answer.status_code == 409
        assert [server.state for server in c.servers.rows.values()] == [VmState.DELETED]

    run(play)


# --- shown ----------------------------------------------------------------------------------------

BASE = {
    "id", "name", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created", "updated",
    "addresses", "accessIPv4", "accessIPv6", "links", "OS-DCF:diskConfig", "progress",
}  # fmt: skip
PLAIN = BASE | {
    "OS-EXT-AZ:availability_zone", "config_drive", "key_name", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at",
    "OS-EXT-STS:task_state", "OS-EXT-STS:vm_state", "OS-EXT-STS:power_state", "os-extended-volumes:volumes_attached",
}  # fmt: skip
_ATTR = "OS-EXT-SRV-ATTR:"
HOSTS = {f"{_ATTR}{word}" for word in ("host", "hypervisor_hostname", "instance_name")}
MORE = {
    f"{_ATTR}{word}"
    for word in (
        "hostname",
        "kernel_id",
        "ramdisk_id",
        "launch_index",
        "reservation_id",
        "root_device_name",
        "user_data",
    )
}
# (microversion, key): from then on it is there.
SINCE = [
    (9, "locked"), (19, "description"), (26, "tags"), (63, "trusted_image_certificates"), (71, "server_groups"),
    (73, "locked_reason"), (90, f"{_ATTR}hostname"), (96, "pinned_availability_zone"),
]  # fmt: skip
MINORS = [1, 2, 3, 8, 9, 15, 16, 18, 19, 25, 26, 46, 47, 62, 63, 70, 71, 72, 73, 74, 75, 89, 90, 95, 96]


@pytest.mark.parametrize("minor", MINORS)
def test_a_server_has_exactly_the_keys_of_its_version(minor: int) -> None:
    async def play(c: Cloud) -> None:
        id = await c.server(description="d")
        version = f"2.{minor}"
        since = {key for first, key in SINCE if minor >= first}
        shown = (await c.ok("GET", f"/servers/{id}", version=version))["server"]
        assert set(shown) == PLAIN | since
        listed = (await c.ok("GET", "/servers/detail", version=version))["servers"][0]
        assert set(listed) == (PLAIN | since) - {"server_groups"}
        admin = (await c.ok("GET", f"/servers/{id}", token="admin", version=version))["server"]
        hosts = HOSTS | (MORE if minor >= 3 else set()) | ({"host_status"} if minor >= 16 else set())
        assert set(admin) == PLAIN | since | hosts
        updated = (await c.ok("PUT", f"/servers/{id}", {"server": {"name": "n"}}, version=version))["server"]
        assert set(updated) == ((PLAIN if minor >= 75 else BASE) | since)
        answer = await c.ok("POST", f"/servers/{id}/action", {"rebuild": {"imageRef": IMAGE}}, version=version)
        extra = {"adminPass"} | ({"user_data"} if minor >= 57 else set()) | ({"key_name"} if minor >= 54 else set())
        assert set(answer["server"]) == ((PLAIN if minor >= 75 else BASE) | since | extra)
        flavor = {"id", "links"} if minor < 47 else {
            "vcpus", "ram", "disk", "ephemeral", "swap", "original_name", "extra_specs",
        }  # fmt: skip
        assert set(shown["flavor"]) == flavor

    run(play)


def test_addresses_are_shown_by_network_and_only_whole_views_say_what_they_are() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server(networks="auto")
        address = {"version": 4, "addr": "10.0.0.1"}
        whole = {**address, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01"}
        shown = (await c.ok("GET", f"/servers/{id}"))["server"]
        assert shown["addresses"] == {"private": [whole]}
        assert shown["security_groups"] == [{"name": "default"}]
        assert (await c.ok("GET", f"/servers/{id}/ips"))["addresses"] == {"private": [address]}
        assert await c.ok("GET", f"/servers/{id}/ips/private") == {"private": [address]}
        assert (await c.ask("GET", f"/servers/{id}/ips/other")).status_code == 404
        (one,) = (await c.ok("GET", f"/servers/{id}/os-interface", version="2.70"))["interfaceAttachments"]
        assert one == {
            "net_id": NETWORK, "port_id": one["port_id"], "mac_addr": "fa:16:3e:00:00:01", "port_state": "ACTIVE",
            "fixed_ips": [{"ip_address": "10.0.0.1", "subnet_id": "subnet"}], "tag": None,
        }  # fmt: skip

    run(play)


@pytest.mark.parametrize("id", ["none", NONE, "x" * 300, "1", "é", NONE.replace("-", "")])
def test_a_server_that_is_not_there_is_404_whatever_it_is_called(id: str) -> None:
    async def play(c: Cloud) -> None:
        for method, path, body in (
            ("GET", "", None), ("PUT", "", {"server": {"name": "n"}}), ("DELETE", "", None),
            ("POST", "/action", {"os-start": None}), ("GET", "/metadata", None), ("GET", "/tags", None),
            ("GET", "/os-instance-actions", None),
        ):  # fmt: skip
            answer = await c.ask(method, f"/servers/{id}{path}", body, version="2.96")
            assert answer.status_code == 404, (method, path, answer.text)

    run(play)


def test_times_of_the_tree_are_told() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        c.servers.away = Unreachable("member-unreachable", "zone top/north can not be asked", transient=True)
        answer = await c.ask("GET", f"/servers/{id}")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert "top/north" in answer.json()["serviceUnavailable"]["message"]

    run(play)


# --- lists ----------------------------------------------------------------------------------------


async def names(c: Cloud, query: str, token: str = "member", version: str = "2.96") -> list[str]:
    found = await c.ok("GET", f"/servers?{query}", token=token, version=version)
    return [server["name"] for server in found["servers"]]


def test_filters_find_what_they_say() -> None:
    async def play(c: Cloud) -> None:
        a = await c.server(name="alpha", tags=["red", "big"], flavorRef="2")
        b = await c.server(name="beta", tags=["red"])
        await c.server("other", name="theirs")
        await c.ok("POST", f"/servers/{b}/action", {"os-stop": None})
        await c.ok("POST", f"/servers/{a}/action", {"lock": None})
        assert await names(c, "") == ["beta", "alpha"]
        assert await names(c, "name=alp.a") == ["alpha"]
        assert await names(c, "status=SHUTOFF") == ["beta"]
        assert await names(c, "status=active&status=shutoff") == ["beta", "alpha"]
        assert await names(c, "flavor=2") == ["alpha"]
        assert await names(c, f"image={IMAGE}") == ["beta", "alpha"]
        assert await names(c, f"image={NONE}") == []
        assert await names(c, "tags=red,big") == ["alpha"]
        assert await names(c, "tags-any=big,none") == ["alpha"]
        assert await names(c, "not-tags=red,big") == ["beta"]
        assert await names(c, "not-tags-any=big") == ["beta"]
        assert await names(c, "locked=true") == ["alpha"]
        assert await names(c, "vm_state=stopped") == ["beta"]
        assert await names(c, "power_state=4") == ["beta"]
        assert await names(c, "sort_key=display_name&sort_dir=asc") == ["alpha", "beta"]
        assert await names(c, "changes-since=2030-01-01T00:00:00Z") == []
        assert await names(c, "changes-since=2020-01-01T00:00:00%2B01:00") == ["beta", "alpha"]
        assert await names(c, "all_tenants=1", "admin") == ["theirs", "beta", "alpha"]
        assert await names(c, "all_tenants=1&project_id=p2", "admin") == ["theirs"]
        assert await names(c, "project_id=p2", "admin") == ["beta", "alpha"]
        assert await names(c, "host=host-h1", "admin") == ["alpha"]
        assert (await c.ask("DELETE", f"/servers/{a}")).status_code == 409, "it is locked"
        await c.ok("POST", f"/servers/{a}/action", {"unlock": None})
        await c.ok("DELETE", f"/servers/{a}")
        assert await names(c, "") == ["beta"]
        assert await names(c, "deleted=true", "admin") == ["alpha"]
        assert await names(c, "deleted=true") == ["beta"], "only an administrator sees those"
        assert await names(c, "status=DELETED", "admin") == ["alpha"]

    run(play)


@pytest.mark.parametrize(
    ("query", "version", "token", "status"),
    [
        ("limit=-1", "2.1", "member", 400),
        ("limit=x", "2.1", "member", 400),
        ("marker=none", "2.1", "member", 400),
        ("status=junk", "2.37", "member", 200),
        ("status=junk", "2.38", "member", 400),
        ("status=DELETED", "2.1", "member", 403),
        ("all_tenants=1", "2.1", "member", 403),
        ("all_tenants=0", "2.1", "member", 200),
        ("all_tenants=maybe", "2.1", "admin", 400),
        ("changes-since=yesterday", "2.1", "member", 400),
        ("changes-since=2026-01-02T00:00:00Z&changes-before=2026-01-01T00:00:00Z", "2.66", "member", 400),
        ("sort_key=junk", "2.1", "member", 400),
        ("sort_key=vcpus", "2.74", "member", 200),
        ("sort_key=vcpus", "2.75", "member", 400),
        ("sort_key=uuid&sort_dir=up", "2.1", "member", 400),
        ("junk=1", "2.74", "member", 200),
        ("junk=1", "2.75", "member", 400),
        ("block_device_mapping=1", "2.1", "admin", 400),
        ("_private=1", "2.1", "admin", 400),
        ("locked=perhaps", "2.73", "member", 400),
    ],
)
def test_queries_are_taken_as_their_version_has_them(query: str, version: str, token: str, status: int) -> None:
    async def play(c: Cloud) -> int:
        return (await c.ask("GET", f"/servers?{query}", token=token, version=version)).status_code

    assert run(play) == status


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("sort", ["", "&sort_key=display_name&sort_dir=asc"])
def test_pages_follow_each_other_to_the_end_and_one_beyond(sort: str, restarted: bool) -> None:
    async def play(c: Cloud) -> None:
        for n in range(7):
            await c.server(name=f"s{n}")
        whole = await names(c, sort.removeprefix("&"))
        walked: list[str] = []
        path, pages = f"/servers?limit=3{sort}", 0
        while path:
            page = await c.ok("GET", path)
            walked += [server["name"] for server in page["servers"]]
            last = page["servers"][-1]["id"] if page["servers"] else ""
            links = page.get("servers_links")
            path = links[0]["href"].split("/v2.1", 1)[1] if links else ""
            pages += 1
            if restarted:
                c.compute.lists._places.clear()
        assert walked == whole
        assert pages == 3
        assert (await c.ok("GET", f"/servers?limit=3&marker={last}{sort}"))["servers"] == []
        assert (await c.ok("GET", "/servers?limit=0"))["servers"] == []
        assert "servers_links" not in await c.ok("GET", "/servers?limit=7")

    run(play)


def test_a_filter_that_no_leaf_knows_fills_its_pages_all_the_same() -> None:
    async def play(c: Cloud) -> None:
        for n in range(6):
            await c.server(min_count=1 if n % 2 else 2)
        found = await c.ok("GET", "/servers?launch_index=1&limit=2", token="admin")
        assert [server["name"] for server in found["servers"]] == ["web-2", "web-2"]
        more = await c.ok("GET", found["servers_links"][0]["href"].split("/v2.1", 1)[1], token="admin")
        assert [server["name"] for server in more["servers"]] == ["web-2"]

    run(play)


def test_a_list_names_the_zones_that_could_not_be_asked() -> None:
    async def play(c: Cloud) -> None:
        await c.server()
        assert "X-Banyan-Absent" not in (await c.ask("GET", "/servers")).headers
        c.servers.absent = ("top/north", "top/south")
        for path in ("/servers", "/servers/detail"):
            answer = await c.ask("GET", path)
            assert (answer.status_code, len(answer.json()["servers"])) == (200, 1)
            assert answer.headers["X-Banyan-Absent"] == "top/north, top/south"

    run(play)


def test_every_sort_key_of_ours_is_one_of_the_trees() -> None:
    from banyan.api.nova.server_query import _SORT_KEYS

    assert set(_SORT_KEYS.values()) == set(SortKey)
