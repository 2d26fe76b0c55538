"""Every row of the compute API × who asks, in which scope; and each row against bodies and addresses that mean nothing.

A row without a case is a failing test, and so is a case without a row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from banyan.api.nova.rows import ROWS
from banyan.api.openstack.table import OPEN, Operation
from banyan.core.permissions import Target, could, may
from banyan.core.principal import Principal
from tests.api.nova.cloud import Cloud, lit
from tests.api.nova.fakes import IMAGE, NETWORK

TOKENS = ("reader", "member", "manager", "admin", "other", "system-reader", "system-admin", "domain-reader",
          "domain-admin", "none")  # fmt: skip
NONE = "f0000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Case:
    """`{name}` in the path is an id of the prepared cloud. `of`: whose it is: "p1" hides it from others (404), "open"
    refuses others (403), "self" is the caller's own, "" nobody's. `good`: the statuses of who may."""

    path: str
    body: object = None
    of: str = "p1"
    good: tuple[int, ...] = (200, 201, 202, 204)
    version: str = ""


_S, _A = "/servers/{server}", "/servers/{server}/action"
_F, _AG = "/flavors/{flavor}", "/os-aggregates/{aggregate}"
_BUSY = (202, 409)
_NOT = (501,)
_SERVER = {"name": "n", "imageRef": IMAGE, "flavorRef": "1"}

ACTIONS: dict[str, tuple[object, tuple[int, ...]]] = {
    "os-start": (None, _BUSY), "os-stop": (None, _BUSY), "reboot": ({"type": "HARD"}, _BUSY),
    "rebuild": ({"imageRef": IMAGE}, _BUSY), "resize": ({"flavorRef": "2"}, _BUSY), "confirmResize": (None, (204, 409)),
    "revertResize": (None, _BUSY), "migrate": (None, _BUSY), "pause": (None, _BUSY), "unpause": (None, _BUSY),
    "suspend": (None, _BUSY), "resume": (None, _BUSY), "rescue": (None, (200, 409)), "unrescue": (None, _BUSY),
    "shelve": (None, _BUSY), "shelveOffload": (None, _BUSY), "unshelve": (None, _BUSY), "lock": (None, _BUSY),
    "unlock": (None, _BUSY), "changePassword": ({"adminPass": "x"}, _BUSY),
    "os-resetState": ({"state": "active"}, _BUSY),
    "forceDelete": (None, _BUSY), "restore": (None, (409,)), "os-getConsoleOutput": ({}, (200,)),
    "createImage": ({"name": "i"}, _BUSY),
    "createBackup": ({"name": "b", "backup_type": "daily", "rotation": 1}, _BUSY),
    "addSecurityGroup": ({"name": "web"}, (202,)), "removeSecurityGroup": ({"name": "web"}, (202, 404)),
    "os-migrateLive": ({}, _NOT), "evacuate": ({}, _NOT), "trigger_crash_dump": (None, _NOT),
    "os-getVNCConsole": ({}, _NOT), "os-getSPICEConsole": ({}, _NOT), "os-getRDPConsole": ({}, _NOT),
    "os-getSerialConsole": ({}, _NOT), "addFixedIp": ({}, _NOT), "removeFixedIp": ({}, _NOT),
    "addFloatingIp": ({}, _NOT),
    "removeFloatingIp": ({}, _NOT), "injectNetworkInfo": (None, (202,)), "resetNetwork": (None, (202,)),
}  # fmt: skip

CASES: dict[str, Case] = {
    "GET ": Case("", of=""), "GET /": Case("/", of=""), "GET /v2": Case("/v2", of=""), "GET /v2/": Case("/v2/", of=""),
    "GET /v2.1": Case("/v2.1", of=""), "GET /v2.1/": Case("/v2.1/", of=""),
    "GET /v2.1/extensions": Case("/extensions", of=""),
    "GET /v2.1/extensions/{alias}": Case("/extensions/os-keypairs", of=""),
    "POST /v2.1/servers": Case("/servers", {"server": _SERVER}, of="project"),
    "GET /v2.1/servers": Case("/servers", of="project"),
    "GET /v2.1/servers/detail": Case("/servers/detail", of="project"),
    "GET /v2.1/servers/{server_id}": Case(_S),
    "PUT /v2.1/servers/{server_id}": Case(_S, {"server": {"name": "x"}}),
    "DELETE /v2.1/servers/{server_id}": Case(_S),
    **{f"POST /v2.1/servers/{{server_id}}/action {key}": Case(_A, {key: body}, good=good)
       for key, (body, good) in ACTIONS.items()},
    "GET /v2.1/servers/{server_id}/metadata": Case(f"{_S}/metadata"),
    "PUT /v2.1/servers/{server_id}/metadata": Case(f"{_S}/metadata", {"metadata": {"a": "1"}}),
    "POST /v2.1/servers/{server_id}/metadata": Case(f"{_S}/metadata", {"metadata": {"a": "1"}}),
    "GET /v2.1/servers/{server_id}/metadata/{key}": Case(f"{_S}/metadata/k"),
    "PUT /v2.1/servers/{server_id}/metadata/{key}": Case(f"{_S}/metadata/k", {"meta": {"k": "2"}}),
    "DELETE /v2.1/servers/{server_id}/metadata/{key}": Case(f"{_S}/metadata/k"),
    "GET /v2.1/servers/{server_id}/tags": Case(f"{_S}/tags"),
    "PUT /v2.1/servers/{server_id}/tags": Case(f"{_S}/tags", {"tags": ["a", "b"]}),
    "DELETE /v2.1/servers/{server_id}/tags": Case(f"{_S}/tags"),
    "GET /v2.1/servers/{server_id}/tags/{tag}": Case(f"{_S}/tags/t"),
    "PUT /v2.1/servers/{server_id}/tags/{tag}": Case(f"{_S}/tags/new"),
    "DELETE /v2.1/servers/{server_id}/tags/{tag}": Case(f"{_S}/tags/t"),
    "GET /v2.1/servers/{server_id}/ips": Case(f"{_S}/ips"),
    "GET /v2.1/servers/{server_id}/ips/{network}": Case(f"{_S}/ips/private"),
    "GET /v2.1/servers/{server_id}/os-security-groups": Case(f"{_S}/os-security-groups"),
    "GET /v2.1/servers/{server_id}/os-interface": Case(f"{_S}/os-interface"),
    "POST /v2.1/servers/{server_id}/os-interface":
        Case(f"{_S}/os-interface", {"interfaceAttachment": {"net_id": NETWORK}}),
    "GET /v2.1/servers/{server_id}/os-interface/{port_id}": Case(f"{_S}/os-interface/{{port}}"),
    "DELETE /v2.1/servers/{server_id}/os-interface/{port_id}": Case(f"{_S}/os-interface/{{port}}"),
    "GET /v2.1/servers/{server_id}/os-instance-actions": Case(f"{_S}/os-instance-actions"),
    "GET /v2.1/servers/{server_id}/os-instance-actions/{request_id}": Case(f"{_S}/os-instance-actions/{{request}}"),
    "GET /v2.1/servers/{server_id}/os-server-password": Case(f"{_S}/os-server-password"),
    "DELETE /v2.1/servers/{server_id}/os-server-password": Case(f"{_S}/os-server-password"),
    "GET /v2.1/servers/{server_id}/os-volume_attachments": Case(f"{_S}/os-volume_attachments"),
    "POST /v2.1/servers/{server_id}/os-volume_attachments":
        Case(f"{_S}/os-volume_attachments", {"volumeAttachment": {"volumeId": NONE}}, good=(404,)),
    "GET /v2.1/servers/{server_id}/os-volume_attachments/{volume_id}":
        Case(f"{_S}/os-volume_attachments/{NONE}", good=(404,)),
    "PUT /v2.1/servers/{server_id}/os-volume_attachments/{volume_id}":
        Case(f"{_S}/os-volume_attachments/{NONE}", {}, good=(404,)),
    "DELETE /v2.1/servers/{server_id}/os-volume_attachments/{volume_id}":
        Case(f"{_S}/os-volume_attachments/{NONE}", good=(404,)),
    "GET /v2.1/servers/{server_id}/migrations": Case(f"{_S}/migrations", of="server"),
    "GET /v2.1/servers/{server_id}/migrations/{migration_id}": Case(f"{_S}/migrations/1", of="server", good=(404,)),
    "DELETE /v2.1/servers/{server_id}/migrations/{migration_id}": Case(f"{_S}/migrations/1", good=(404,)),
    "POST /v2.1/servers/{server_id}/migrations/{migration_id}/action force_complete":
        Case(f"{_S}/migrations/1/action", {"force_complete": None}, good=(404,)),
    "GET /v2.1/servers/{server_id}/diagnostics": Case(f"{_S}/diagnostics", good=_NOT),
    "GET /v2.1/servers/{server_id}/topology": Case(f"{_S}/topology"),
    "POST /v2.1/servers/{server_id}/remote-consoles": Case(f"{_S}/remote-consoles", {"remote_console": {}}, good=_NOT),
    "GET /v2.1/flavors": Case("/flavors", of=""), "GET /v2.1/flavors/detail": Case("/flavors/detail", of=""),
    "POST /v2.1/flavors": Case("/flavors", {"flavor": {"name": "f", "ram": 1, "vcpus": 1, "disk": 1}}, of=""),
    "GET /v2.1/flavors/{flavor_id}": Case("/flavors/1", of=""),
    "PUT /v2.1/flavors/{flavor_id}": Case(_F, {"flavor": {"description": "d"}}, of=""),
    "DELETE /v2.1/flavors/{flavor_id}": Case(_F, of=""),
    "GET /v2.1/flavors/{flavor_id}/os-extra_specs": Case("/flavors/1/os-extra_specs", of="project"),
    "POST /v2.1/flavors/{flavor_id}/os-extra_specs": Case(f"{_F}/os-extra_specs", {"extra_specs": {"a": "b"}}, of=""),
    "GET /v2.1/flavors/{flavor_id}/os-extra_specs/{key}":
        Case("/flavors/1/os-extra_specs/none", of="project", good=(404,)),
    "PUT /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": Case(f"{_F}/os-extra_specs/a", {"a": "c"}, of=""),
    "DELETE /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": Case(f"{_F}/os-extra_specs/a", of="", good=(404,)),
    "GET /v2.1/flavors/{flavor_id}/os-flavor-access": Case(f"{_F}/os-flavor-access", of=""),
    "POST /v2.1/flavors/{flavor_id}/action addTenantAccess":
        Case(f"{_F}/action", {"addTenantAccess": {"tenant": "p3"}}, of=""),
    "POST /v2.1/flavors/{flavor_id}/action removeTenantAccess":
        Case(f"{_F}/action", {"removeTenantAccess": {"tenant": "p1"}}, of=""),
    "GET /v2.1/images": Case("/images", of=""), "GET /v2.1/images/detail": Case("/images/detail", of=""),
    "GET /v2.1/images/{image_id}": Case(f"/images/{IMAGE}", of=""),
    "DELETE /v2.1/images/{image_id}": Case(f"/images/{IMAGE}", of=""),
    "GET /v2.1/os-keypairs": Case("/os-keypairs", of="self"),
    "POST /v2.1/os-keypairs": Case("/os-keypairs", {"keypair": {"name": "k2"}}, of="self", version="2.91"),
    "GET /v2.1/os-keypairs/{name}": Case("/os-keypairs/none", of="self", good=(404,)),
    "DELETE /v2.1/os-keypairs/{name}": Case("/os-keypairs/none", of="self", good=(404,)),
    "GET /v2.1/os-server-groups": Case("/os-server-groups", of="project"),
    "POST /v2.1/os-server-groups":
        Case("/os-server-groups", {"server_group": {"name": "g", "policy": "affinity"}}, of="project"),
    "GET /v2.1/os-server-groups/{group_id}": Case("/os-server-groups/{group}"),
    "DELETE /v2.1/os-server-groups/{group_id}": Case("/os-server-groups/{group}"),
    "GET /v2.1/limits": Case("/limits", of="project"),
    "GET /v2.1/os-quota-sets/{project_id}": Case("/os-quota-sets/p1", of="open"),
    "GET /v2.1/os-quota-sets/{project_id}/detail": Case("/os-quota-sets/p1/detail", of="open"),
    "GET /v2.1/os-quota-sets/{project_id}/defaults": Case("/os-quota-sets/p1/defaults", of=""),
    "PUT /v2.1/os-quota-sets/{project_id}": Case("/os-quota-sets/p1", {"quota_set": {"cores": 7}}, of=""),
    "DELETE /v2.1/os-quota-sets/{project_id}": Case("/os-quota-sets/p1", of=""),
    "GET /v2.1/os-quota-class-sets/{class_id}": Case("/os-quota-class-sets/default", of=""),
    "PUT /v2.1/os-quota-class-sets/{class_id}":
        Case("/os-quota-class-sets/default", {"quota_class_set": {"cores": 7}}, of=""),
    "GET /v2.1/os-simple-tenant-usage": Case("/os-simple-tenant-usage?start=2026-01-01T00:00:00", of=""),
    "GET /v2.1/os-simple-tenant-usage/{project_id}":
        Case("/os-simple-tenant-usage/p1?start=2026-01-01T00:00:00", of="open"),
    "GET /v2.1/os-hypervisors": Case("/os-hypervisors", of=""),
    "GET /v2.1/os-hypervisors/detail": Case("/os-hypervisors/detail", of=""),
    "GET /v2.1/os-hypervisors/statistics": Case("/os-hypervisors/statistics", of=""),
    "GET /v2.1/os-hypervisors/{hypervisor_id}": Case("/os-hypervisors/{host}", of=""),
    "GET /v2.1/os-hypervisors/{hypervisor_id}/uptime": Case("/os-hypervisors/{host}/uptime", of="", version="2.87"),
    "GET /v2.1/os-hypervisors/{hypervisor_id}/search": Case("/os-hypervisors/host/search", of=""),
    "GET /v2.1/os-hypervisors/{hypervisor_id}/servers": Case("/os-hypervisors/host/servers", of=""),
    "GET /v2.1/os-services": Case("/os-services", of=""),
    "PUT /v2.1/os-services/{service_id}": Case("/os-services/{host}", {"status": "disabled"}, of="", good=(200, 404)),
    "DELETE /v2.1/os-services/{service_id}": Case("/os-services/{host}", of="", good=_NOT),
    "GET /v2.1/os-availability-zone": Case("/os-availability-zone", of=""),
    "GET /v2.1/os-availability-zone/detail": Case("/os-availability-zone/detail", of=""),
    "GET /v2.1/os-aggregates": Case("/os-aggregates", of=""),
    "POST /v2.1/os-aggregates": Case("/os-aggregates", {"aggregate": {"name": "new"}}, of=""),
    "GET /v2.1/os-aggregates/{aggregate_id}": Case(_AG, of=""),
    "PUT /v2.1/os-aggregates/{aggregate_id}": Case(_AG, {"aggregate": {"name": "renamed"}}, of=""),
    "DELETE /v2.1/os-aggregates/{aggregate_id}": Case(_AG, of=""),
    "POST /v2.1/os-aggregates/{aggregate_id}/action add_host":
        Case(f"{_AG}/action", {"add_host": {"host": "host-h1"}}, of=""),
    "POST /v2.1/os-aggregates/{aggregate_id}/action remove_host":
        Case(f"{_AG}/action", {"remove_host": {"host": "host-h1"}}, of="", good=(200, 404)),
    "POST /v2.1/os-aggregates/{aggregate_id}/action set_metadata":
        Case(f"{_AG}/action", {"set_metadata": {"metadata": {"a": "b"}}}, of=""),
    "POST /v2.1/os-aggregates/{aggregate_id}/images": Case(f"{_AG}/images", {"cache": [{"id": NONE}]}, of=""),
    "GET /v2.1/os-migrations": Case("/os-migrations", of=""),
}  # fmt: skip


@dataclass
class Prepared:
    cloud: Cloud
    ids: dict[str, str] = field(default_factory=dict)


async def prepared() -> Prepared:
    cloud = await lit()
    ids = {"server": await cloud.server(metadata={"k": "1"}, tags=["t"], networks="auto")}
    server = cloud.servers.rows[ids["server"]]
    ids["port"] = server.nics[0].port
    ids["request"] = server.request
    private = {"name": "private", "ram": 1, "vcpus": 1, "disk": 1, "id": "99", "os-flavor-access:is_public": False}
    await cloud.ok("POST", "/flavors", {"flavor": private}, "admin")
    await cloud.ok("POST", "/flavors/99/action", {"addTenantAccess": {"tenant": "p1"}}, "admin")
    ids["flavor"] = "99"
    body = {"server_group": {"name": "g", "policies": ["affinity"]}}
    ids["group"] = (await cloud.ok("POST", "/os-server-groups", body))["server_group"]["id"]
    hosts = await cloud.ok("GET", "/os-hypervisors", token="admin", version="2.96")
    ids["host"] = hosts["hypervisors"][0]["id"]
    body = {"aggregate": {"name": "a"}}
    ids["aggregate"] = str((await cloud.ok("POST", "/os-aggregates", body, "admin"))["aggregate"]["id"])
    return Prepared(cloud, ids)


def key_of(row: Operation) -> str:
    return row.name


def test_each_row_has_a_case_and_each_case_a_row() -> None:
    assert {key_of(row) for row in ROWS} == set(CASES)


def filled(text: str, ids: Mapping[str, str]) -> str:
    for name, id in ids.items():
        text = text.replace(f"{{{name}}}", id)
    return text


def version_of(row: Operation, case: Case) -> str:
    if case.version:
        return case.version
    if row.last is not None:
        return str(row.last)
    return "2.36" if row.path == "/v2.1/servers" else "2.96"


def wanted(row: Operation, case: Case, who: Principal) -> tuple[int, ...]:
    if row.action == OPEN:
        return case.good
    if not could(who, row.action):
        return (403,)
    match case.of:
        case "p1":
            allowed = may(who, row.action, Target(project="p1"))
            seen = may(who, "compute:server_show", Target(project="p1"))
            return case.good if allowed else (404,) if not seen else (403,)
        case "server":
            return case.good if may(who, "compute:server_show", Target(project="p1")) else (404,)
        case "open":
            return case.good if may(who, row.action, Target(project="p1")) else (403,)
        case "project":
            return case.good if may(who, row.action, Target(project=who.project)) else (403,)
        case "self":
            return case.good if may(who, row.action, Target(user=who.user)) else (403,)
    return case.good


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def shared(runner: asyncio.Runner) -> Iterator[Prepared]:
    """One cloud for all that does not mind what was done to it before."""
    made = runner.run(prepared())
    yield made
    runner.run(made.cloud.store.close())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name} {row.first}")
def test_who_may_ask(row: Operation, runner: asyncio.Runner) -> None:
    case = CASES[key_of(row)]

    async def play() -> None:
        made = await prepared()
        for token in TOKENS:
            path = filled(case.path, made.ids)
            where = path if row.action == OPEN else f"/v2.1{path}"
            answer = await raw(made.cloud, row.method, where, case.body, token, version_of(row, case))
            good = wanted(row, case, made.cloud.gate.known[token])
            assert answer.status_code in good, (token, answer.status_code, answer.text, good)
            if row.method != "GET" and answer.status_code < 300:
                await made.cloud.store.close()
                made = await prepared()
        await made.cloud.store.close()

    runner.run(play())


async def raw(cloud: Cloud, method: str, path: str, body: object, token: str, version: str) -> httpx.Response:
    transport = httpx.ASGITransport(cloud.api, client=("192.0.2.7", 4711))
    headers = {"X-Auth-Token": token, "X-OpenStack-Nova-API-Version": version}
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud:8780") as http:
        return await http.request(method, f"/compute{path}", headers=headers, json=body)


def test_without_a_token_nothing_is_answered_but_versions() -> None:
    async def play() -> None:
        cloud = await lit()
        for row in ROWS:
            path = CASES[key_of(row)].path
            where = path if row.action == OPEN else f"/v2.1{filled(path, {'server': NONE})}"
            answer = await raw(
                cloud, row.method, where, CASES[key_of(row)].body, "nobody", version_of(row, CASES[key_of(row)])
            )
            assert answer.status_code == (200 if row.action == OPEN else 401), row.name
        await cloud.store.close()

    asyncio.run(play())


def test_a_row_is_there_in_its_versions_only() -> None:
    async def play() -> None:
        made = await prepared()
        for row in ROWS:
            if row.action == OPEN:
                continue
            case = CASES[key_of(row)]
            path = f"/v2.1{filled(case.path, made.ids)}"
            for edge, step in ((row.first, -1), (row.last, 1)):
                if edge is None or edge.minor == 0:
                    continue
                there = [r for r in ROWS if r.path == row.path and r.method == row.method and r.key == row.key]
                beyond = edge._replace(minor=edge.minor + step)
                if any(other.holds(beyond) for other in there) or not 1 <= beyond.minor <= 96:
                    continue
                answer = await raw(made.cloud, row.method, path, case.body, "admin", str(beyond))
                assert answer.status_code in (400, 404), (row.name, str(beyond), answer.text)
                # An action of another version is an unknown action.
                assert answer.status_code == (400 if row.key and "servers/{server_id}/action" in row.path else 404)
        await made.cloud.store.close()

    asyncio.run(play())


# --- bodies that mean nothing ---------------------------------------------------------------------

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=40),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def mutated(value: object, data: st.DataObject) -> object:
    """`value` with something of it replaced by anything."""
    if data.draw(st.integers(0, 3)) == 0:
        return data.draw(JSON)
    if isinstance(value, dict) and value:
        key = data.draw(st.sampled_from(sorted(value)))
        return {
            **value,
            key: mutated(value[key], data),
            **data.draw(st.dictionaries(st.text(max_size=8), JSON, max_size=1)),
        }
    return data.draw(JSON)


FULL = {
    "name": "n", "imageRef": IMAGE, "flavorRef": "1", "adminPass": "x", "metadata": {"a": "b"}, "networks": "none",
    "OS-DCF:diskConfig": "AUTO", "accessIPv4": "1.2.3.4", "availability_zone": "az1", "block_device_mapping_v2": [{}],
    "config_drive": True, "key_name": "k", "min_count": 1, "max_count": 2, "return_reservation_id": False,
    "security_groups": [{"name": "default"}], "user_data": "aGk=", "description": "d", "tags": ["a"], "hostname": "h",
    "trusted_image_certificates": None, "host": "h",
}  # fmt: skip
BODIED = [row for row in ROWS if CASES[key_of(row)].body is not None]


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_body_is_answered_with_a_500(shared: Prepared, runner: asyncio.Runner, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(BODIED))
    case = CASES[key_of(row)]
    body = mutated({"server": FULL} if row.path == "/v2.1/servers" else case.body, data)
    version = version_of(row, case) if data.draw(st.booleans()) else f"2.{data.draw(st.integers(1, 96))}"

    path = f"/v2.1{filled(case.path, shared.ids)}"
    answer = runner.run(raw(shared.cloud, row.method, path, body, "admin", version))
    assert answer.status_code in {*case.good, 400, 403, 404, 409, 413, 501}, (row.name, body, answer.text)


QUERIES = """
    limit marker sort_key sort_dir name status changes-since all_tenants tags start is_public minRam locked offset
    user_id host power_state detailed
"""


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_address_or_query_is_answered_with_a_500(
    shared: Prepared, runner: asyncio.Runner, data: st.DataObject
) -> None:
    row = data.draw(st.sampled_from([row for row in ROWS if row.action != OPEN]))
    case = CASES[key_of(row)]
    known = QUERIES.split()
    anything = st.text(max_size=60).filter(lambda text: text.isprintable())
    query = data.draw(
        st.dictionaries(st.sampled_from(known), anything | st.sampled_from(["1", "-1", "true"]), max_size=4)
    )
    word = data.draw(st.sampled_from([NONE, "x" * 255, "é", "a b", ".", "99999999999999999999"]) | anything)

    ids = shared.ids
    if data.draw(st.booleans()):
        ids = {name: quote(word, safe="") or "-" for name in shared.ids}
    text = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    path = f"/v2.1{filled(case.path.partition('?')[0], ids)}?{text}"
    answer = runner.run(raw(shared.cloud, row.method, path, case.body, "admin", version_of(row, case)))
    assert answer.status_code < 500 or answer.status_code == 501, (row.name, path, answer.text)
