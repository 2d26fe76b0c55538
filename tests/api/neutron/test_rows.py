"""Every row of the network API × who asks, in which scope; and each row against bodies and addresses that mean nothing.

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

from banyan.api.neutron.rows import ROWS
from banyan.api.openstack.table import OPEN, Operation
from banyan.core.network_quota import NETWORK_DEFAULTS
from banyan.core.permissions import Target, could, may
from banyan.core.principal import Principal
from tests.api.neutron.cloud import Cloud, lit
from tests.api.nova.test_rows import TOKENS, mutated

NONE = "f0000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Case:
    """`{name}` in the path or the body is an id of the prepared cloud. `of`: whose it is: "p1" hides it from others
    (404), "open" refuses others (403), "project" is the caller's own, "" nobody's."""

    path: str
    body: object = None
    of: str = "p1"
    good: tuple[int, ...] = (200, 201, 204)


def _kind(word: str, one: str, make: dict[str, object], change: dict[str, object] | None) -> dict[str, Case]:
    """The cases of what each kind has. `word`: its path, `one`: its key in bodies."""
    found = {
        f"POST /v2.0/{word}": Case(f"/{word}", {one: make}, of="project"),
        f"GET /v2.0/{word}": Case(f"/{word}", of="project"),
        f"GET /v2.0/{word}/{{id}}": Case(f"/{word}/{{{one}}}"),
        f"DELETE /v2.0/{word}/{{id}}": Case(f"/{word}/{{{one}}}"),
    }
    if change is not None:
        found[f"PUT /v2.0/{word}/{{id}}"] = Case(f"/{word}/{{{one}}}", {one: change})
        tags = f"/v2.0/{word}/{{id}}/tags"
        at = f"/{word}/{{{one}}}/tags"
        found |= {
            f"GET {tags}": Case(at),
            f"PUT {tags}": Case(at, {"tags": ["a", "b"]}),
            f"DELETE {tags}": Case(at),
            f"GET {tags}/{{tag}}": Case(f"{at}/red"),
            f"PUT {tags}/{{tag}}": Case(f"{at}/new", {}),
            f"DELETE {tags}/{{tag}}": Case(f"{at}/red"),
        }
    return found


CASES: dict[str, Case] = {
    "GET ": Case("", of=""), "GET /": Case("/", of=""),
    "GET /v2.0": Case("", of=""), "GET /v2.0/": Case("/", of=""),
    "GET /v2.0/extensions": Case("/extensions", of=""),
    "GET /v2.0/extensions/{alias}": Case("/extensions/router", of=""),
    **_kind("networks", "network", {"name": "n", "mtu": 1400, "tenant_id": None, "description": "d",
                                    "port_security_enabled": True, "availability_zone_hints": []}, {"name": "m"}),
    **_kind("subnets", "subnet", {"network_id": "{mine}", "ip_version": 4, "cidr": "192.0.2.0/24", "name": "s",
                                  "gateway_ip": "192.0.2.9", "enable_dhcp": True,
                                  "allocation_pools": [{"start": "192.0.2.20", "end": "192.0.2.30"}],
                                  "dns_nameservers": ["192.0.2.1"], "service_types": ["compute:x"],
                                  "host_routes": [{"destination": "198.51.100.0/24", "nexthop": "192.0.2.1"}]},
            {"name": "m"}),
    **_kind("subnetpools", "subnetpool", {"name": "p", "prefixes": ["198.51.100.0/24"], "default_prefixlen": 26,
                                          "min_prefixlen": 24, "max_prefixlen": "30", "default_quota": 1000},
            {"name": "m"}),
    **_kind("ports", "port", {"network_id": "{mine}", "name": "p", "fixed_ips": [{"subnet_id": "{near}"}],
                              "device_id": "d", "device_owner": "compute:x", "security_groups": [],
                              "allowed_address_pairs": [{"ip_address": "192.0.2.1"}],
                              "extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": "1400"}],
                              "binding:vnic_type": "normal"}, {"name": "m"}),
    **_kind("routers", "router", {"name": "r", "external_gateway_info": {"network_id": "{out}"}}, {"name": "m"}),
    **_kind("floatingips", "floatingip", {"floating_network_id": "{out}", "description": "d"}, {"description": "m"}),
    **_kind("security-groups", "security_group", {"name": "g", "description": "d"}, {"name": "m"}),
    **_kind("security-group-rules", "security_group_rule",
            {"security_group_id": "{mine_too}", "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp",
             "port_range_min": 80, "port_range_max": 90, "remote_ip_prefix": "192.0.2.0/24"}, None),
    "PUT /v2.0/routers/{id}/add_router_interface":
        Case("/routers/{router}/add_router_interface", {"subnet_id": "{subnet}"}),
    "PUT /v2.0/routers/{id}/remove_router_interface":
        Case("/routers/{router}/remove_router_interface", {"subnet_id": "{plugged}"}),
    "GET /v2.0/network-ip-availabilities": Case("/network-ip-availabilities", of=""),
    "GET /v2.0/network-ip-availabilities/{id}": Case("/network-ip-availabilities/{network}", of=""),
    "GET /v2.0/quotas": Case("/quotas", of=""),
    "GET /v2.0/quotas/tenant": Case("/quotas/tenant", of="project"),
    "GET /v2.0/quotas/project": Case("/quotas/project", of="project"),
    "GET /v2.0/quotas/{project_id}": Case("/quotas/p1", of="open"),
    "GET /v2.0/quotas/{project_id}/default": Case("/quotas/p1/default", of="open"),
    "GET /v2.0/quotas/{project_id}/details": Case("/quotas/p1/details", of="open"),
    "GET /v2.0/quotas/{project_id}/details.json": Case("/quotas/p1/details.json", of="open"),
    "PUT /v2.0/quotas/{project_id}": Case("/quotas/p1", {"quota": {"network": 7}}, of=""),
    "DELETE /v2.0/quotas/{project_id}": Case("/quotas/p1", of=""),
    "GET /v2.0/availability_zones": Case("/availability_zones", of=""),
    "GET /v2.0/agents": Case("/agents", of=""),
    "GET /v2.0/agents/{id}": Case(f"/agents/{NONE}", of="", good=(404,)),
    "GET /v2.0/service-providers": Case("/service-providers", of=""),
}  # fmt: skip


@dataclass
class Prepared:
    cloud: Cloud
    ids: dict[str, str] = field(default_factory=dict)


PATHS = {
    "networks": "network", "subnets": "subnet", "subnetpools": "subnetpool", "ports": "port", "routers": "router",
    "floatingips": "floatingip", "security-groups": "security_group", "security-group-rules": "security_group_rule",
}  # fmt: skip
# Limits are no matter here.
ENDLESS = dict.fromkeys(NETWORK_DEFAULTS, -1)


async def one_of_each(cloud: Cloud, ids: Mapping[str, str], *paths: str) -> dict[str, str]:
    """New ones of p1, of these kinds, which nothing is in the way of being deleted."""
    wanted: dict[str, dict[str, object]] = {
        "network": {"name": "n"}, "router": {"name": "r"}, "security_group": {"name": "g"},
        "subnetpool": {"name": "p", "prefixes": ["10.0.0.0/8"]},
        "floatingip": {"floating_network_id": ids["out"]}, "port": {"network_id": ids["mine p1"], "fixed_ips": []},
    }  # fmt: skip
    found: dict[str, str] = {}
    for path in paths:
        kind = PATHS[path]
        if kind == "subnet":
            _, found[kind] = await cloud.net("10.1.0.0/24")
        elif kind == "security_group_rule":
            group = (await cloud.make("security_group", name="g"))["id"]
            rule = {"security_group_id": group, "direction": "ingress", "protocol": "udp"}
            found[kind] = (await cloud.make(kind, **rule))["id"]
        else:
            found[kind] = (await cloud.make(kind, **wanted[kind]))["id"]
    return found


async def prepared() -> Prepared:
    """Of project p1 one of each kind, tagged red; an external network; and of each project a network, a subnet and a
    group, so that each may use its own."""
    cloud = await lit(ENDLESS)
    ids = {"out": await cloud.outside("203.0.0.0/16")}
    for token, name in (("member", "p1"), ("other", "p2")):
        ids[f"mine {name}"], ids[f"near {name}"] = await cloud.net("10.3.0.0/16", token)
        ids[f"mine_too {name}"] = (await cloud.make("security_group", token, name="h"))["id"]
    ids |= await one_of_each(cloud, ids, *PATHS)
    for path, kind in PATHS.items():
        if kind != "security_group_rule":
            await cloud.ok("PUT", f"/{path}/{ids[kind]}/tags", {"tags": ["red"]})
    return Prepared(cloud, ids)


def test_each_row_has_a_case_and_each_case_a_row() -> None:
    assert {row.name for row in ROWS} == set(CASES)


def filled(value: object, ids: Mapping[str, str]) -> object:
    """`value` with the ids of the prepared cloud."""
    if isinstance(value, str):
        for name, id in ids.items():
            value = value.replace(f"{{{name}}}", id)
        return value
    if isinstance(value, dict):
        return {key: filled(one, ids) for key, one in value.items()}
    return [filled(one, ids) for one in value] if isinstance(value, list) else value


def ids_for(ids: Mapping[str, str], who: Principal) -> dict[str, str]:
    """Each caller's own of what every project has."""
    project = "p2" if who.project == "p2" else "p1"
    own = {name: ids[f"{name} {project}"] for name in ("mine", "near", "mine_too")}
    return {**ids, **own}


def wanted(row: Operation, case: Case, who: Principal) -> tuple[int, ...]:
    if row.action == OPEN:
        return case.good
    if not could(who, row.action):
        return (403,)
    match case.of:
        case "p1":
            allowed = may(who, row.action, Target(project="p1"))
            seen = may(who, "network:get_network", Target(project="p1"))
            return case.good if allowed else (404,) if not seen else (403,)
        case "open":
            return case.good if may(who, row.action, Target(project="p1")) else (403,)
        case "project":
            if row.method == "POST" and not who.project and "rules" not in row.path:
                # Of nobody's project nothing is made.
                return (400, 201)
            return case.good if may(who, row.action, Target(project=who.project)) else (403,)
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


async def again(made: Prepared, row: Operation, project: str) -> dict[str, str]:
    """Ids for one more request of a row: what the one before took or made is there anew, of project p1."""
    cloud, ids = made.cloud, dict(made.ids)
    token = "other" if project == "p2" else "member"
    if row.name == "POST /v2.0/subnets":
        ids[f"mine {project}"] = (await cloud.make("network", token, name="n"))["id"]
    if row.name == "POST /v2.0/security-group-rules":
        ids[f"mine_too {project}"] = (await cloud.make("security_group", token, name="n"))["id"]
    if row.path.endswith("_router_interface"):
        ids["router"] = (await cloud.make("router", name="r"))["id"]
        _, ids["subnet"] = await cloud.net("10.8.0.0/24")
        _, ids["plugged"] = await cloud.net("10.9.0.0/24")
        await cloud.ok("PUT", f"/routers/{ids['router']}/add_router_interface", {"subnet_id": ids["plugged"]})
    if row.method == "DELETE" and row.path.endswith("/{id}"):
        ids |= await one_of_each(cloud, ids, row.path.split("/")[2])
    if "/tags" in row.path and row.method == "DELETE":
        path = row.path.split("/")[2]
        one = PATHS[path]
        await cloud.ok("PUT", f"/{path}/{ids[one]}/tags", {"tags": ["red"]})
    return ids


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_who_may_ask(row: Operation, shared: Prepared, runner: asyncio.Runner) -> None:
    case = CASES[row.name]

    async def play() -> None:
        for token in TOKENS:
            who = shared.cloud.gate.known[token]
            ids = ids_for(await again(shared, row, who.project), who)
            answer = await raw(shared.cloud, row, str(filled(case.path, ids)), filled(case.body, ids), token)
            good = wanted(row, case, who)
            assert answer.status_code in good, (token, answer.status_code, answer.text, good)

    runner.run(play())


async def raw(cloud: Cloud, row: Operation, path: str, body: object, token: str) -> httpx.Response:
    root = "/network" if row.action == OPEN else "/network/v2.0"
    transport = httpx.ASGITransport(cloud.api, client=("192.0.2.7", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud:8780") as http:
        return await http.request(row.method, f"{root}{path}", headers={"X-Auth-Token": token}, json=body)


def test_without_a_token_nothing_is_answered_but_versions(shared: Prepared, runner: asyncio.Runner) -> None:
    for row in ROWS:
        case = CASES[row.name]
        path = str(filled(case.path, shared.ids))
        answer = runner.run(raw(shared.cloud, row, path, case.body, "nobody"))
        assert answer.status_code == (200 if row.action == OPEN else 401), row.name


# --- bodies that mean nothing ---------------------------------------------------------------------

BODIED = [row for row in ROWS if CASES[row.name].body is not None]
GOOD = {200, 201, 204, 400, 403, 404, 409, 412, 413}


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_body_is_answered_with_a_500(shared: Prepared, runner: asyncio.Runner, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(BODIED))
    case = CASES[row.name]
    ids = ids_for(shared.ids, shared.cloud.gate.known["admin"])
    body = mutated(filled(case.body, ids), data)
    answer = runner.run(raw(shared.cloud, row, str(filled(case.path, ids)), body, "admin"))
    assert answer.status_code in GOOD, (row.name, body, answer.text)
    if answer.status_code >= 400:
        assert set(answer.json()["NeutronError"]) == {"type", "message", "detail"}


QUERIES = """
    limit marker sort_key sort_dir page_reverse fields name status tags not-tags fixed_ips security_groups network_id
    device_id admin_state_up shared mtu id project_id tenant_id cidr router:external created_at revision_number
"""


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_address_or_query_is_answered_with_a_500(
    shared: Prepared, runner: asyncio.Runner, data: st.DataObject
) -> None:
    row = data.draw(st.sampled_from([row for row in ROWS if row.action != OPEN and row.method == "GET"]))
    case = CASES[row.name]
    anything = st.text(max_size=60).filter(lambda text: text.isprintable())
    value = anything | st.sampled_from(["1", "-1", "true", "name", "id", "asc", "ip_address=10.0.0.1", "subnet_id=x"])
    query = data.draw(st.dictionaries(st.sampled_from(QUERIES.split()), value, max_size=4))
    word = data.draw(st.sampled_from([NONE, "x" * 255, "é", "a b", ".", "99999999999999999999"]) | anything)
    ids = shared.ids
    if data.draw(st.booleans()):
        ids = {name: quote(word, safe="") or "-" for name in shared.ids}
    text = "&".join(f"{quote(name, safe='')}={quote(one, safe='')}" for name, one in query.items())
    answer = runner.run(raw(shared.cloud, row, f"{filled(case.path, ids)}?{text}", None, "admin"))
    assert answer.status_code < 500, (row.name, text, answer.text)


@pytest.mark.parametrize("row", BODIED, ids=lambda row: row.name)
def test_every_field_of_every_body_may_be_anything(shared: Prepared, runner: asyncio.Runner, row: Operation) -> None:
    """Each field in turn, with values of every type."""
    case = CASES[row.name]
    ids = ids_for(shared.ids, shared.cloud.gate.known["admin"])
    body = filled(case.body, ids)
    assert isinstance(body, dict)
    odd: list[object] = [None, True, 0, -1, 2**70, 1.5, "", "x" * 5_000, "\x7f", [], [None], [[]], [{}], {}, {"a": {}}]
    for outer, value in body.items():
        for name in value if isinstance(value, dict) else ():
            for one in odd:
                changed = {outer: {**value, name: one}}
                answer = runner.run(raw(shared.cloud, row, str(filled(case.path, ids)), changed, "admin"))
                assert answer.status_code in GOOD, (row.name, name, one, answer.text)
