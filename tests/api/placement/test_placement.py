"""Placement as clients read it: shapes by microversion, filters, who may, what is not there, and nonsense."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from banyan.api.placement import SERVICE
from banyan.api.placement.providers import inventory_of
from banyan.api.placement.versions import HISTORY, LAST
from banyan.core.permissions import could
from banyan.zone.compute.hosts import uuid_of
from banyan.zone.views import AmountView
from tests.api.nova.cloud import Cloud, lit
from tests.api.nova.inventory import HOSTS

NEW = str(LAST)
FIRST_HOST = uuid_of(HOSTS[0])
NONE = "f0000000-0000-4000-8000-000000000000"
TOKENS = ("reader", "member", "admin", "system-reader", "system-admin", "domain-admin", "none")


async def ask(
    cloud: Cloud, path: str, token: str = "admin", version: str = NEW, method: str = "GET", body: object = None
) -> httpx.Response:
    headers = {"X-Auth-Token": token, **({"OpenStack-API-Version": f"placement {version}"} if version else {})}
    transport = httpx.ASGITransport(cloud.api, client=("192.0.2.7", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud:8780") as http:
        return await http.request(method, f"/placement{path}", headers=headers, json=body)


def got(path: str, token: str = "admin", version: str = NEW) -> Any:
    """The body of a good answer, from a new cloud."""

    async def main() -> Any:
        answer = await ask(await lit(), path, token, version)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return asyncio.run(main())


def refused(path: str, token: str = "admin", version: str = NEW, method: str = "GET") -> httpx.Response:
    async def main() -> httpx.Response:
        return await ask(await lit(), path, token, version, method)

    return asyncio.run(main())


def test_every_host_is_a_provider() -> None:
    rows = got("/resource_providers")["resource_providers"]
    assert [row["name"] for row in rows] == [host.name for host in HOSTS]
    assert [row["uuid"] for row in rows] == [uuid_of(host) for host in HOSTS]
    assert all(row["root_provider_uuid"] == row["uuid"] and row["parent_provider_uuid"] is None for row in rows)
    assert {link["rel"] for link in rows[0]["links"]} == {
        "self", "inventories", "usages", "aggregates", "traits", "allocations",
    }  # fmt: skip


def test_a_version_shows_what_it_had() -> None:
    row = got("/resource_providers", version="1.0")["resource_providers"][0]
    assert {link["rel"] for link in row["links"]} == {"self", "inventories", "usages"}
    assert "root_provider_uuid" not in row
    assert refused("/traits", version="1.5").status_code == 404
    assert refused("/resource_providers", version="1.37").status_code == 406
    assert all(minor <= LAST.minor for minor in HISTORY)


def test_what_a_provider_has_and_what_is_promised_of_it() -> None:
    path = f"/resource_providers/{FIRST_HOST}"
    have = got(f"{path}/inventories")["inventories"]
    assert have["VCPU"] == {
        "total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 2.0,
    }  # fmt: skip
    assert got(f"{path}/inventories/MEMORY_MB")["total"] == 1000
    assert got(f"{path}/usages")["usages"] == {"VCPU": 4, "MEMORY_MB": 10, "DISK_GB": 1}
    assert refused(f"{path}/inventories/CUSTOM_NONE").status_code == 404


@pytest.mark.parametrize(("physical", "total"), [(8, 16), (0, 5), (3, 1), (0, 0), (7, 7)])
def test_an_inventory_has_the_capacity_that_may_be_promised(physical: int, total: int) -> None:
    row: Any = inventory_of(AmountView(physical, total, 0))
    assert round((row["total"] - row["reserved"]) * row["allocation_ratio"]) == total
    assert row["min_unit"] <= row["max_unit"]


def test_filters() -> None:
    def names(query: str) -> list[str]:
        return [row["name"] for row in got(f"/resource_providers?{query}")["resource_providers"]]

    every = [host.name for host in HOSTS]
    assert names("name=host-h2") == ["host-h2"]
    assert names("name=host-h") == []
    assert names(f"uuid={FIRST_HOST}") == ["host-h1"]
    assert names(f"in_tree={FIRST_HOST}&name=host-h2") == []
    assert names(f"uuid={NONE}") == []
    assert names("resources=VCPU:12") == every
    assert names("resources=VCPU:13") == []
    assert names("required=HW_CPU_X86_AVX2") == []
    assert names("required=!HW_CPU_X86_AVX2") == every
    assert names(f"member_of={NONE}") == []
    assert names(f"member_of=!in:{NONE},{FIRST_HOST}") == every


@pytest.mark.parametrize(
    "query",
    ["colour=red", "resources=VCPU", "resources=VCPU:0", "resources=vcpu:1", "required=low", "member_of=me",
     "uuid=me", "required=A,!A", f"member_of={NONE},{NONE}"],
)  # fmt: skip
def test_a_bad_filter_is_named(query: str) -> None:
    answer = refused(f"/resource_providers?{query}")
    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert error["status"] == 400
    assert error["request_id"]
    assert any(word in error["detail"].lower() for word in query.lower().replace("=", " ").split()), error


def test_a_candidate_is_up_enabled_and_has_room() -> None:
    body = got("/allocation_candidates?resources=VCPU:2,MEMORY_MB:64")
    fit = [uuid_of(host) for host in HOSTS if host.up and not host.disabled]
    assert [next(iter(row["allocations"])) for row in body["allocation_requests"]] == fit
    assert body["allocation_requests"][0] == {
        "allocations": {FIRST_HOST: {"resources": {"VCPU": 2, "MEMORY_MB": 64}}},
        "mappings": {"": [FIRST_HOST]},
    }
    assert body["provider_summaries"][FIRST_HOST]["resources"]["VCPU"] == {"capacity": 16, "used": 4}
    assert len(got("/allocation_candidates?resources=VCPU:2&limit=1")["allocation_requests"]) == 1
    assert got("/allocation_candidates?resources=VCPU:13")["allocation_requests"] == []
    assert refused("/allocation_candidates").status_code == 400
    assert refused("/allocation_candidates?resources=VCPU:1&limit=0").status_code == 400


def test_what_a_server_holds() -> None:
    async def main() -> None:
        cloud = await lit()
        id = await cloud.server()
        server = cloud.servers.rows[id]
        held = {"VCPU": server.spec.needs["vcpu"]}
        body = (await ask(cloud, f"/allocations/{id}")).json()
        assert body["project_id"] == "p1"
        ((provider, of_it),) = body["allocations"].items()
        assert of_it["resources"].items() >= held.items()
        listed = (await ask(cloud, f"/resource_providers/{provider}/allocations")).json()["allocations"]
        assert listed[id]["resources"] == of_it["resources"]
        used = (await ask(cloud, "/usages?project_id=p1", "reader")).json()["usages"]
        assert used == of_it["resources"]
        assert (await ask(cloud, "/usages?project_id=p2", "reader")).status_code == 403
        assert (await ask(cloud, f"/allocations/{NONE}")).json() == {"allocations": {}}
        cloud.servers.absent = ("top/gone",)
        answer = await ask(cloud, "/usages?project_id=p1", "reader")
        assert answer.status_code == 503
        assert "top/gone" in answer.text

    asyncio.run(main())


def test_who_may_read() -> None:
    async def main() -> None:
        cloud = await lit()
        for row in SERVICE.rows:
            if not row.action:
                assert (await ask(cloud, row.path, "")).status_code == 200
                continue
            assert (await ask(cloud, row.path, "", method=row.method)).status_code == 401
            for token in TOKENS:
                path = row.path.replace("{uuid}", FIRST_HOST).replace("{consumer_uuid}", NONE)
                path = path.replace("{resource_class}", "VCPU").replace("{name}", "VCPU")
                query = {"/usages": "?project_id=p1", "/allocation_candidates": "?resources=VCPU:1"}.get(row.path, "")
                answer = await ask(cloud, path + query, token)
                allowed = could(cloud.gate.known[token], row.action)
                assert (answer.status_code == 403) is not allowed, (row.name, token, answer.status_code)
                assert answer.status_code < 500

    asyncio.run(main())


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/resource_providers", f"/allocations/{NONE}", f"/resource_providers/{FIRST_HOST}"])
def test_nothing_is_changed_here(method: str, path: str) -> None:
    answer = refused(path, method=method)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert answer.json()["errors"][0]["status"] == 405


def test_an_answer_says_how_old_it_is() -> None:
    answer = refused("/resource_providers")
    assert answer.headers["last-modified"].endswith("GMT")
    assert answer.headers["openstack-api-version"] == f"placement {NEW}"
    assert "last-modified" not in refused("/resource_providers", version="1.14").headers


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["/resource_providers", "/allocation_candidates", "/usages", "/traits"]),
    st.sampled_from(["name", "uuid", "in_tree", "member_of", "required", "resources", "limit", "project_id"]),
    st.one_of(st.text(max_size=40), st.from_regex(r"[!inA-Z:,0-9_-]{0,30}", fullmatch=True)),
)
def test_no_query_is_answered_with_a_500(path: str, name: str, value: str) -> None:
    answer = refused(f"{path}?{httpx.QueryParams({'resources': 'VCPU:1', name: value})}")
    assert answer.status_code < 500
