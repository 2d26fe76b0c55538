"""The tree in the words of compute: hypervisors, services, zones, aggregates, usage, versions."""

from __future__ import annotations

from typing import Any

import pytest

from banyan.api.nova.versions import FIRST, HISTORY, LAST
from banyan.core.order import NamedHost
from banyan.core.server import Arguments
from tests.api.nova.cloud import Cloud, run
from tests.api.nova.fakes import IMAGE
from tests.api.nova.inventory import HOSTS

NONE = "f0000000-0000-4000-8000-000000000000"


def test_every_microversion_has_its_sentence() -> None:
    assert list(HISTORY) == list(range(FIRST.minor, LAST.minor + 1))
    assert all(sentence.endswith(".") and 20 < len(sentence) < 130 for sentence in HISTORY.values())


def test_versions_are_discovered_and_lead_on() -> None:
    async def play(c: Cloud) -> None:
        listed = (await c.ok("GET", "/../"))["versions"]
        assert [(one["id"], one["version"], one["min_version"]) for one in listed] == [
            ("v2.0", "", ""),
            ("v2.1", "2.96", "2.1"),
        ]
        for one in listed:
            path = one["links"][0]["href"].split("/compute", 1)[1]
            shown = await c.ok("GET", f"/..{path}")
            assert shown["version"]["id"] == one["id"] and shown["version"]["media-types"]
        extensions = (await c.ok("GET", "/extensions"))["extensions"]
        for one in extensions:
            assert (await c.ok("GET", f"/extensions/{one['alias']}"))["extension"] == one

    run(play)


# --- hypervisors ----------------------------------------------------------------------------------

BRIEF = {"id", "hypervisor_hostname", "state", "status"}
WHOLE = BRIEF | {"hypervisor_type", "hypervisor_version", "host_ip", "service"}
FIGURES = {
    "vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "free_ram_mb", "local_gb", "local_gb_used", "free_disk_gb",
    "disk_available_least", "current_workload", "running_vms", "cpu_info",
}  # fmt: skip


@pytest.mark.parametrize("minor", [1, 27, 28, 52, 53, 74, 75, 87, 88, 96])
def test_a_hypervisor_has_exactly_the_keys_of_its_version(minor: int) -> None:
    async def play(c: Cloud) -> None:
        version = f"2.{minor}"
        listed = (await c.ok("GET", "/os-hypervisors", token="admin", version=version))["hypervisors"]
        assert [set(one) for one in listed] == [BRIEF] * len(HOSTS)
        more = {"uptime"} if minor >= 88 else FIGURES
        for one in (await c.ok("GET", "/os-hypervisors/detail", token="admin", version=version))["hypervisors"]:
            assert set(one) == WHOLE | more
            assert isinstance(one["id"], str if minor >= 53 else int)
        shown = await c.ok("GET", f"/os-hypervisors/{listed[1]['id']}", token="admin", version=version)
        assert set(shown["hypervisor"]) == WHOLE | more
        assert (shown["hypervisor"]["state"], shown["hypervisor"]["hypervisor_hostname"]) == ("down", "host-h2")
        if minor >= 53:
            await c.server()
            path = "/os-hypervisors?with_servers=true"
            with_servers = (await c.ok("GET", path, token="admin", version=version))["hypervisors"]
            assert with_servers[0]["servers"] and ("servers" in with_servers[3]) is (minor >= 75)

    run(play)


def test_hypervisors_are_found_paged_and_summed() -> None:
    async def play(c: Cloud) -> None:
        async def names(query: str) -> list[str]:
            found = await c.ok("GET", f"/os-hypervisors?{query}", token="admin", version="2.53")
            return [one["hypervisor_hostname"] for one in found["hypervisors"]]

        assert await names("hypervisor_hostname_pattern=h3.[a]") == ["host-h3.[a]"]
        assert await names("limit=2") == ["host-h1", "host-h2"]
        page = await c.ok("GET", "/os-hypervisors?limit=2", token="admin", version="2.53")
        marker = page["hypervisors_links"][0]["href"].rpartition("marker=")[2]
        assert await names(f"limit=2&marker={marker}") == ["host-h3.[a]", "host-h4"]
        assert "hypervisors_links" not in await c.ok("GET", "/os-hypervisors?limit=4", token="admin", version="2.53")
        for query, status in (
            ("marker=none", 400), ("hypervisor_hostname_pattern=none", 404), ("limit=x", 400),
            ("hypervisor_hostname_pattern=h&limit=1", 400), ("with_servers=perhaps", 400),
        ):  # fmt: skip
            answer = await c.ask("GET", f"/os-hypervisors?{query}", token="admin", version="2.53")
            assert answer.status_code == status, query
        for id, version, status in ((NONE, "2.96", 404), ("1", "2.96", 400), ("1", "2.52", 404), ("x", "2.52", 404)):
            assert (await c.ask("GET", f"/os-hypervisors/{id}", token="admin", version=version)).status_code == status
        sums = (await c.ok("GET", "/os-hypervisors/statistics", token="admin"))["hypervisor_statistics"]
        assert (sums["count"], sums["vcpus"], sums["running_vms"]) == (4, 8, 2)
        found = (await c.ok("GET", "/os-hypervisors/h4/search", token="admin"))["hypervisors"]
        assert [one["status"] for one in found] == ["disabled"]
        assert (await c.ask("GET", "/os-hypervisors/none/search", token="admin")).status_code == 404

    run(play)


def test_a_host_that_was_shown_is_found_by_one_look() -> None:
    async def play(c: Cloud) -> None:
        (first, *_) = (await c.ok("GET", "/os-hypervisors", token="admin", version="2.53"))["hypervisors"]
        before = c.inventory.asked
        await c.ok("GET", f"/os-hypervisors/{first['id']}", token="admin", version="2.53")
        assert c.inventory.asked == before + 1

    run(play)


def test_services_are_the_hosts_and_the_zone_itself() -> None:
    async def play(c: Cloud) -> None:
        async def rows(query: str, version: str = "2.69") -> list[dict[str, object]]:
            return list((await c.ok("GET", f"/os-services?{query}", token="admin", version=version))["services"])

        assert [row["binary"] for row in await rows("")].count("nova-compute") == 4
        assert {row["host"] for row in await rows("binary=nova-scheduler")} == {"top"}
        (one,) = await rows("host=host-h4")
        assert (one["status"], one["disabled_reason"], one["forced_down"]) == ("disabled", "by hand", False)
        assert await rows("host=none") == [] and await rows("binary=nova-junk") == []
        assert "forced_down" not in (await rows("", "2.10"))[0]

    run(play)


def test_an_administrator_takes_a_host_out_of_service_and_back() -> None:
    version = "2.69"

    async def play(c: Cloud) -> None:
        async def row(name: str) -> dict[str, Any]:
            found = await c.ok("GET", f"/os-services?host={name}&binary=nova-compute", token="admin", version=version)
            return dict(found["services"][0])

        async def put(**body: object) -> dict[str, Any]:
            id = (await row("host-h1"))["id"]
            return dict((await c.ok("PUT", f"/os-services/{id}", body, "admin", version))["service"])

        assert (await put(status="disabled", disabled_reason="new fan"))["status"] == "disabled"
        said = await row("host-h1")
        assert (said["status"], said["disabled_reason"], said["state"]) == ("disabled", "new fan", "up")
        found = (await c.ok("GET", "/os-hypervisors/detail", token="admin", version=version))["hypervisors"]
        (host,) = [one for one in found if one["hypervisor_hostname"] == "host-h1"]
        assert (host["status"], host["service"]["disabled_reason"]) == ("disabled", "new fan")
        assert (await put(forced_down=True))["forced_down"] is True
        assert [(await row("host-h1"))[key] for key in ("state", "status", "forced_down")] == ["down", "disabled", True]
        back = await put(status="enabled", forced_down=False)
        assert [back[key] for key in ("state", "status", "forced_down")] == ["up", "enabled", False]
        assert back["disabled_reason"] is None and back == await row("host-h1")

    run(play)


def test_before_2_53_a_host_is_named() -> None:
    binary = "nova-compute"

    async def play(c: Cloud) -> None:
        async def put(word: str, version: str = "2.11", **more: object) -> object:
            body = {"host": "host-h1", "binary": binary, **more}
            return (await c.ok("PUT", f"/os-services/{word}", body, "admin", version))["service"]

        host = {"host": "host-h1", "binary": binary}
        assert await put("disable", "2.1") == {**host, "status": "disabled"}
        why = {"disabled_reason": "new fan"}
        assert await put("disable-log-reason", "2.1", **why) == {**host, "status": "disabled", **why}
        assert await put("force-down", forced_down=True) == {**host, "forced_down": True}
        assert await put("enable", "2.1") == {**host, "status": "enabled"}
        now = c.inventory.rows["h1"]
        assert (now.disabled, now.forced_down, now.up) == (False, True, False)

    run(play)


@pytest.mark.parametrize(
    ("path", "version", "body", "status"),
    [
        ("disable", "2.1", {"host": "none", "binary": "nova-compute"}, 404),
        ("disable", "2.1", {"host": "host-h1", "binary": "nova-junk"}, 404),
        ("disable-log-reason", "2.1", {"host": "host-h1", "binary": "nova-compute"}, 400),
        ("force-down", "2.10", {"host": "host-h1", "binary": "nova-compute"}, 404),
        ("force-down", "2.11", {"host": "host-h1", "binary": "nova-compute"}, 400),
        ("junk", "2.1", {"host": "host-h1", "binary": "nova-compute"}, 404),
        (NONE, "2.53", {"status": "disabled"}, 404),
        ("junk", "2.53", {"status": "disabled"}, 400),
        (NONE, "2.53", {"status": "junk"}, 400),
        ("{host}", "2.53", {}, 400),
        ("{host}", "2.53", {"status": "enabled", "disabled_reason": "x"}, 400),
        ("{host}", "2.53", {"forced_down": "junk"}, 400),
        ("00000000-0000-8000-8000-000000000001", "2.53", {"status": "disabled"}, 400),
    ],
)
def test_what_is_said_of_a_service_is_checked(path: str, version: str, body: dict[str, str], status: int) -> None:
    async def play(c: Cloud) -> None:
        (first, *_) = (await c.ok("GET", "/os-hypervisors", token="admin", version="2.53"))["hypervisors"]
        answer = await c.ask("PUT", f"/os-services/{path.format(host=first['id'])}", body, "admin", version)
        assert answer.status_code == status, answer.text
        assert c.inventory.rows == {host.id: host for host in HOSTS}, "nothing was said"

    run(play)


def test_availability_zones_are_those_of_the_hosts() -> None:
    async def play(c: Cloud) -> None:
        found = (await c.ok("GET", "/os-availability-zone"))["availabilityZoneInfo"]
        assert [(one["zoneName"], one["zoneState"]["available"], one["hosts"]) for one in found] == [
            ("az1", True, None),
            ("nova", True, None),
        ]
        found = (await c.ok("GET", "/os-availability-zone/detail", token="admin"))["availabilityZoneInfo"]
        assert [one["zoneName"] for one in found] == ["internal", "az1", "nova"]
        assert found[1]["hosts"]["host-h2"]["nova-compute"]["available"] is False
        pinned = await c.server(availability_zone="az1")
        free = await c.server(availability_zone="nova")
        shown = [(await c.ok("GET", f"/servers/{id}", version="2.96"))["server"] for id in (pinned, free)]
        assert [one["pinned_availability_zone"] for one in shown] == ["az1", None]

    run(play)


# --- aggregates -----------------------------------------------------------------------------------


def test_an_aggregate_makes_an_availability_zone_of_its_hosts() -> None:
    async def play(c: Cloud) -> None:
        async def zones() -> dict[str, bool]:
            found = (await c.ok("GET", "/os-availability-zone"))["availabilityZoneInfo"]
            return {one["zoneName"]: one["zoneState"]["available"] for one in found}

        await c.ok("POST", "/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "z"}}, "admin")
        assert "z" not in await zones(), "it has no host"
        for host in ("host-h2", "host-h1"):
            await c.ok("POST", "/os-aggregates/1/action", {"add_host": {"host": host}}, "admin")
            # The second host is down.
            assert (await zones())["z"] is (host == "host-h1")
        found = (await c.ok("GET", "/os-availability-zone/detail", token="admin"))["availabilityZoneInfo"]
        assert {one["zoneName"]: sorted(one["hosts"]) for one in found}["z"] == ["host-h1", "host-h2"]
        services = (await c.ok("GET", "/os-services?host=host-h1", token="admin"))["services"]
        assert [one["zone"] for one in services] == ["z"]
        await c.server(availability_zone="z")
        (hints,) = (server.spec.hints for server in c.servers.rows.values())
        assert hints.hosts == (NamedHost("", "host-h1"), NamedHost("", "host-h2"))

    run(play)


@pytest.mark.parametrize(
    ("version", "wish", "status"),
    [
        ("2.1", {"availability_zone": "az1:host-h1"}, 202),
        ("2.1", {"availability_zone": "az1:host-h1:host-h1"}, 202),
        ("2.1", {"availability_zone": ":host-h1"}, 202),
        ("2.74", {"host": "host-h1"}, 202),
        ("2.74", {"hypervisor_hostname": "host-h1"}, 202),
        ("2.1", {"availability_zone": "az1:host-h1:host-h2"}, 400),
        ("2.1", {"availability_zone": "az1:none"}, 400),
        ("2.1", {"availability_zone": "az1:host-h4"}, 409),
    ],
)
def test_an_administrator_may_name_the_host_of_a_new_server(version: str, wish: dict[str, str], status: int) -> None:
    async def play(c: Cloud) -> None:
        networks = {"networks": "none"} if version != "2.1" else {}
        body = {"server": {"name": "web", "flavorRef": "1", "imageRef": IMAGE, **networks, **wish}}
        answer = await c.ask("POST", "/servers", body, "admin", version)
        assert answer.status_code == status, answer.text
        hosts = [server.spec.hints.hosts for server in c.servers.rows.values()]
        assert hosts == ([(NamedHost("", "host-h1"),)] if status == 202 else [])
        assert (await c.ask("POST", "/servers", body, "member", version)).status_code in (400, 403)

    run(play)


def test_aggregates_are_kept_with_hosts_and_notes() -> None:
    async def play(c: Cloud) -> None:
        async def act(key: str, value: object, status: int = 200, id: object = 1) -> dict[str, object]:
            answer = await c.ask("POST", f"/os-aggregates/{id}/action", {key: value}, "admin")
            assert answer.status_code == status, (key, answer.text)
            return dict(answer.json().get("aggregate", {}))

        made = await c.ok("POST", "/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "z"}}, "admin")
        assert "hosts" not in made["aggregate"] and "uuid" not in made["aggregate"]
        again = await c.ask("POST", "/os-aggregates", {"aggregate": {"name": "a"}}, "admin")
        assert again.status_code == 409
        assert (await act("add_host", {"host": "host-h1"}))["hosts"] == ["host-h1"]
        await act("add_host", {"host": "host-h1"}, 409)
        await act("add_host", {"host": "none"}, 404)
        await act("add_host", {"host": "host-h1"}, 404, id=9)
        await act("add_host", {"host": "host-h1"}, 400, id="x")
        assert (await act("set_metadata", {"metadata": {"k": "v"}}))["metadata"] == {"availability_zone": "z", "k": "v"}
        assert (await act("set_metadata", {"metadata": {"k": None}}))["metadata"] == {"availability_zone": "z"}
        assert (await c.ask("DELETE", "/os-aggregates/1", token="admin")).status_code == 400, "it has a host"
        await act("remove_host", {"host": "host-h2"}, 404)
        assert (await act("remove_host", {"host": "host-h1"}))["hosts"] == []
        body = {"aggregate": {"name": "b", "availability_zone": "y"}}
        changed = (await c.ok("PUT", "/os-aggregates/1", body, "admin", "2.41"))["aggregate"]
        assert (changed["name"], changed["metadata"], len(changed["uuid"])) == ("b", {"availability_zone": "y"}, 36)
        for wrong in ({"name": ""}, {"name": "x" * 256}, {"name": "c", "availability_zone": "a:b"}, {}):
            assert (await c.ask("POST", "/os-aggregates", {"aggregate": wrong}, "admin")).status_code == 400
        await c.ok("DELETE", "/os-aggregates/1", token="admin")
        assert (await c.ask("GET", "/os-aggregates/1", token="admin")).status_code == 404
        assert (await c.ask("GET", "/os-aggregates/-1", token="admin")).status_code == 404

    run(play)


# --- usage ----------------------------------------------------------------------------------------

WINDOW = "start=2026-11-29T00:00:00&end=2027-01-01T00:00:00"


def test_usage_counts_servers_that_are_there_and_those_that_are_gone() -> None:
    async def play(c: Cloud) -> None:
        first, second = await c.server(), await c.server(flavorRef="2")
        await c.server("other")
        await c.ok("DELETE", f"/servers/{first}")
        path = f"/os-simple-tenant-usage/p1?{WINDOW}"
        usage = (await c.ok("GET", path))["tenant_usage"]
        states = {one["instance_id"]: one["state"] for one in usage["server_usages"]}
        assert states == {first: "terminated", second: "active"}
        assert usage["total_hours"] >= 0 and usage["tenant_id"] == "p1"
        every = (await c.ok("GET", f"/os-simple-tenant-usage?{WINDOW}", token="admin"))["tenant_usages"]
        assert {one["tenant_id"] for one in every} == {"p1", "p2"} and "server_usages" not in every[0]
        detailed = await c.ok("GET", f"/os-simple-tenant-usage?{WINDOW}&detailed=1", token="admin")
        assert "server_usages" in detailed["tenant_usages"][0]
        page = await c.ok("GET", f"{path}&limit=1", version="2.40")
        assert len(page["tenant_usage"]["server_usages"]) == 1
        next_page = page["tenant_usage_links"][0]["href"].split("/v2.1", 1)[1]
        assert len((await c.ok("GET", next_page, version="2.40"))["tenant_usage"]["server_usages"]) == 1
        assert await c.ok("GET", f"/os-simple-tenant-usage/p1?{WINDOW.replace('2026', '2020')[:30]}")
        for query in ("start=yesterday", "start=2027-01-01T00:00:00&end=2026-01-01T00:00:00"):
            assert (await c.ask("GET", f"/os-simple-tenant-usage/p1?{query}")).status_code == 400, query
        # OpenStack's SDK names no window where none is wanted; Nova reads its clock twice, and answers.
        assert await c.ok("GET", "/os-simple-tenant-usage/p1")
        assert (await c.ok("GET", "/os-simple-tenant-usage", token="admin"))["tenant_usages"] is not None

    run(play)


def test_a_server_that_gets_another_host_gets_one_that_an_aggregate_sends_it_to() -> None:
    async def play(c: Cloud) -> None:
        for number, name, host in ((1, "a", "host-h1"), (2, "b", "host-h2")):
            wanted = {"aggregate": {"name": name, "availability_zone": name}}
            await c.ok("POST", "/os-aggregates", wanted, "admin")
            metadata = {"set_metadata": {"metadata": {"kind": name}}}
            await c.ok("POST", f"/os-aggregates/{number}/action", metadata, "admin")
            await c.ok("POST", f"/os-aggregates/{number}/action", {"add_host": {"host": host}}, "admin")
        flavor = {"name": "of-b", "ram": 512, "vcpus": 1, "disk": 1, "id": "of-b"}
        await c.ok("POST", "/flavors", {"flavor": flavor}, "admin")
        specs = {"extra_specs": {"aggregate_instance_extra_specs:kind": "b"}}
        await c.ok("POST", "/flavors/of-b/os-extra_specs", specs, "admin")
        id, pinned = await c.server(), await c.server(availability_zone="a")
        await c.ok("POST", f"/servers/{id}/action", {"resize": {"flavorRef": "of-b"}})
        assert c.servers.arguments[-1].hosts == (NamedHost("", "host-h2"),)
        answer = await c.ask("POST", f"/servers/{pinned}/action", {"resize": {"flavorRef": "of-b"}})
        assert answer.status_code == 409, "none is in both"
        other = await c.server()
        await c.ok("POST", f"/servers/{other}/action", {"shelve": None})
        answer = await c.ask(
            "POST", f"/servers/{other}/action", {"unshelve": {"availability_zone": "none"}}, version="2.77"
        )
        assert answer.status_code == 400, answer.text
        await c.ok("POST", f"/servers/{other}/action", {"unshelve": {"availability_zone": "b"}}, version="2.77")
        assert c.servers.arguments[-1] == Arguments(availability_zone="b", hosts=(NamedHost("", "host-h2"),))

    run(play)
