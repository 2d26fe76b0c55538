"""Every row of the image API × who asks, in which scope; and each row against bodies and addresses that mean nothing.

A row without a case is a failing test, and so is a case without a row.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from banyan.api.glance.rows import ROWS
from banyan.api.openstack.table import OPEN, Operation
from banyan.core.permissions import Target, could, may
from banyan.core.principal import Principal, ScopeKind
from tests.api.glance.cloud import BYTES, NEW, OLD, Cloud, lit

TOKENS = ("reader", "member", "manager", "admin", "other", "system-reader", "system-admin", "domain-reader",
          "domain-admin", "none")  # fmt: skip
NONE = "f0000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Case:
    """`{name}` in the path is an id of the prepared cloud. `of`: "p1" is a private image of p1, hidden from others
    (404); "shared" one that p2 is offered; "project" the caller's own; "" nobody's. `good`: the statuses of who may."""

    path: str
    body: object = None
    of: str = "p1"
    good: tuple[int, ...] = (200, 201, 202, 204)
    kind: str = "application/json"


_I, _S = "/v2/images/{private}", "/v2/images/{shared}"
_PATCH = [{"op": "replace", "path": "/name", "value": "x"}]
_WEB = {"name": "web-download", "uri": "http://images.example/a"}
_TASK = {
    "type": "import",
    "input": {"import_from": "http://images.example/a", "import_from_format": "raw",
              "image_properties": {"name": "t", "disk_format": "raw", "container_format": "bare"}},
}  # fmt: skip

CASES: dict[str, Case] = {
    "GET ": Case("", of="", good=(300,)),
    "GET /": Case("/", of="", good=(300,)),
    "GET /versions": Case("/versions", of=""),
    "GET /v2/images": Case("/v2/images", of="project"),
    "POST /v2/images": Case("/v2/images", {"name": "n", "disk_format": "raw", "x": "y", "tags": ["t"]}, of="project"),
    "GET /v2/images/{image_id}": Case(_I),
    "PATCH /v2/images/{image_id}": Case(_I, _PATCH, kind=NEW),
    "DELETE /v2/images/{image_id}": Case(_I),
    "POST /v2/images/{image_id}/actions/deactivate": Case(_I + "/actions/deactivate"),
    "POST /v2/images/{image_id}/actions/reactivate": Case(_I + "/actions/reactivate"),
    "PUT /v2/images/{image_id}/tags/{tag}": Case(_I + "/tags/new"),
    "DELETE /v2/images/{image_id}/tags/{tag}": Case(_I + "/tags/t"),
    "PUT /v2/images/{image_id}/file": Case("/v2/images/{queued}/file", b"x", kind=BYTES),
    "GET /v2/images/{image_id}/file": Case(_I + "/file"),
    "PUT /v2/images/{image_id}/stage": Case("/v2/images/{queued}/stage", b"x", kind=BYTES),
    "POST /v2/images/{image_id}/import": Case("/v2/images/{queued}/import", {"method": _WEB}),
    "GET /v2/images/{image_id}/tasks": Case(_I + "/tasks"),
    "GET /v2/tasks": Case("/v2/tasks", of=""),
    "POST /v2/tasks": Case("/v2/tasks", _TASK, of=""),
    "GET /v2/tasks/{task_id}": Case("/v2/tasks/" + NONE, of="", good=(404,)),
    "GET /v2/images/{image_id}/members": Case(_S + "/members", of="shared"),
    "POST /v2/images/{image_id}/members": Case(_S + "/members", {"member": "p3"}, of="owner"),
    "GET /v2/images/{image_id}/members/{member_id}": Case(_S + "/members/p2", of="shared"),
    "PUT /v2/images/{image_id}/members/{member_id}": Case(_S + "/members/p2", {"status": "accepted"}, of="member"),
    "DELETE /v2/images/{image_id}/members/{member_id}": Case(_S + "/members/p2", of="owner"),
    "GET /v2/info/import": Case("/v2/info/import", of=""),
    "GET /v2/info/stores": Case("/v2/info/stores", of=""),
    "GET /v2/info/usage": Case("/v2/info/usage", of="project"),
    "GET /v2/schemas/{name}": Case("/v2/schemas/image", of=""),
}


@dataclass
class Prepared:
    cloud: Cloud
    folder: tempfile.TemporaryDirectory[str]
    ids: dict[str, str] = field(default_factory=dict)

    async def close(self) -> None:
        await self.cloud.images.close()
        self.cloud.files.close()
        await self.cloud.store.close()
        self.folder.cleanup()


async def prepared() -> Prepared:
    folder = tempfile.TemporaryDirectory()
    cloud = await lit(Path(folder.name))
    ids = {
        "private": await cloud.image(data=b"content", visibility="private", tags=["t"]),
        "queued": await cloud.image(visibility="private"),
        "shared": await cloud.image(visibility="shared"),
    }
    await cloud.ok("POST", f"/v2/images/{ids['shared']}/members", {"member": "p2"})
    return Prepared(cloud, folder, ids)


def test_each_row_has_a_case_and_each_case_a_row() -> None:
    assert {row.name for row in ROWS} == set(CASES)


def filled(text: str, ids: Mapping[str, str]) -> str:
    for name, id in ids.items():
        text = text.replace(f"{{{name}}}", id)
    return text


async def raw(cloud: Cloud, method: str, path: str, body: object, token: str, kind: str) -> httpx.Response:
    transport = httpx.ASGITransport(cloud.api, client=("192.0.2.7", 4711))
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    headers = {"X-Auth-Token": token, **({} if content is None else {"Content-Type": kind})}
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud:8780") as http:
        return await http.request(method, f"/image{path}", headers=headers, content=content)


def wanted(row: Operation, case: Case, who: Principal) -> tuple[int, ...]:
    if row.action == OPEN:
        return case.good
    if not could(who, row.action):
        return (403,)
    mine = may(who, row.action, Target(project="p1"))
    sees_all = who.scope is ScopeKind.SYSTEM or "admin" in who.roles
    match case.of:
        case "p1":
            return case.good if mine else (404,) if not sees_all else (403,)
        case "owner":
            return case.good if mine else (403,)
        case "member":
            return case.good if may(who, row.action, Target(project="p2")) else (403,)
        case "project":
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
    runner.run(made.close())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_who_may_ask(row: Operation, runner: asyncio.Runner) -> None:
    case = CASES[row.name]

    async def play() -> None:
        made = await prepared()
        for token in TOKENS:
            path = filled(case.path, made.ids)
            answer = await raw(made.cloud, row.method, path, case.body, token, case.kind)
            good = wanted(row, case, made.cloud.gate.known[token])
            assert answer.status_code in good, (token, answer.status_code, answer.text, good)
            if row.method != "GET" and answer.status_code < 300:
                await made.close()
                made = await prepared()
        await made.close()

    runner.run(play())


def test_without_a_token_nothing_is_answered_but_versions(shared: Prepared, runner: asyncio.Runner) -> None:
    async def play() -> None:
        for row in ROWS:
            case = CASES[row.name]
            path = filled(case.path, shared.ids)
            answer = await raw(shared.cloud, row.method, path, case.body, "nobody", case.kind)
            assert answer.status_code == (case.good[0] if row.action == OPEN else 401), row.name

    runner.run(play())


# --- bodies that mean nothing ---------------------------------------------------------------------

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=40),
    st.sampled_from(["x" * 300, "raw", "bare", "public", "shared", "", "\x00", NONE, "p1", "2.5", "os_glance_x"]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=10,
)
FULL: dict[str, Any] = {
    "name": "n", "visibility": "private", "container_format": "bare", "disk_format": "raw", "min_disk": 1, "min_ram": 1,
    "protected": False, "os_hidden": False, "owner": "p1", "tags": ["a"], "hw_cpu_cores": "4", "status": "active",
    "locations": [], "os_glance_x": "y", "id": NONE, "size": 5,
}  # fmt: skip
STATUSES = {400, 403, 404, 409, 410, 413, 415}


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


BODIED = [row for row in ROWS if isinstance(CASES[row.name].body, dict) and row.method != "PATCH"]
SETTINGS = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def check(answer: httpx.Response, what: object) -> None:
    assert answer.status_code < 400 or answer.status_code in STATUSES, (what, answer.status_code, answer.text)
    assert "x-openstack-request-id" in answer.headers
    if answer.status_code >= 400:
        assert answer.json()["message"] and answer.json()["code"].startswith(str(answer.status_code))


@SETTINGS
@given(data=st.data())
def test_any_field_of_a_body_may_be_anything(shared: Prepared, runner: asyncio.Runner, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(BODIED))
    case = CASES[row.name]
    fields = data.draw(st.lists(st.sampled_from(sorted(FULL)), max_size=3, unique=True))
    body = mutated({name: FULL[name] for name in fields} if row.path == "/v2/images" else case.body, data)
    token = data.draw(st.sampled_from(["member", "admin"]))
    path = filled(case.path, shared.ids)
    check(runner.run(raw(shared.cloud, row.method, path, body, token, case.kind)), (row.name, body))


@SETTINGS
@given(data=st.data())
def test_any_change_of_an_image_may_be_anything(shared: Prepared, runner: asyncio.Runner, data: st.DataObject) -> None:
    old = data.draw(st.booleans())
    way = data.draw(st.sampled_from(["add", "replace", "remove", "test", ""]) | JSON)
    names = st.sampled_from([*FULL, "", "~", "~2", "a/b", "locations/0", "tags/-", "x" * 300])
    path = data.draw(names.map(lambda name: f"/{name}") | JSON)
    one: object = {str(way): path} if old else {"op": way, "path": path}
    if data.draw(st.booleans()):
        one = {**one, "value": data.draw(JSON | st.sampled_from(list(FULL.values())))}
    body = data.draw(st.sampled_from([[one], [one, one], one]) | JSON)
    where = f"/v2/images/{shared.ids['queued']}"
    answer = runner.run(raw(shared.cloud, "PATCH", where, body, "admin", OLD if old else NEW))
    check(answer, body)


QUERIES = """
    limit marker sort sort_key sort_dir name status visibility owner id tag size size_min size_max min_ram min_disk
    protected checksum os_hash_algo os_hash_value member_status os_hidden created_at updated_at container_format
    disk_format anything
""".split()  # noqa: SIM905 - a list of words


@SETTINGS
@given(data=st.data())
def test_any_address_and_query_may_be_anything(shared: Prepared, runner: asyncio.Runner, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from([row for row in ROWS if row.action != OPEN]))
    case = CASES[row.name]
    anything = st.text(max_size=60).filter(lambda text: text.isprintable())
    known = st.sampled_from(["1", "-1", "true", "in:a,b", 'in:"a', "gte:2026-01-01T00:00:00Z", "lt:9999-12-31", "asc",
                             "name:asc,size", "all", "public", "pending", "eq:0001-01-01T00:00:00+14:00"])  # fmt: skip
    query = data.draw(st.lists(st.tuples(st.sampled_from(QUERIES), anything | known), max_size=4))
    word = data.draw(st.sampled_from([NONE, "x" * 255, "é", "a b", ".", "99999999999999999999", "%00"]) | anything)
    ids = shared.ids
    if data.draw(st.booleans()):
        ids = {name: quote(word, safe="") or "-" for name in shared.ids}
    text = "&".join(f"{name}={quote(value, safe='')}" for name, value in query)
    path = f"{filled(case.path, ids)}?{text}"
    answer = runner.run(raw(shared.cloud, row.method, path, case.body, "admin", case.kind))
    assert answer.status_code < 500, (row.name, path, answer.text)


@SETTINGS
@given(header=st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=40), first=st.integers(0, 9))
def test_any_range_may_be_anything(shared: Prepared, runner: asyncio.Runner, header: str, first: int) -> None:
    async def play() -> None:
        id = await shared.cloud.image(data=b"content")
        for text in (header, f"bytes={header}", f"bytes={first}-{header}"):
            answer = await shared.cloud.ask("GET", f"/v2/images/{id}/file", headers={"Range": text})
            assert answer.status_code in (200, 206, 416), (text, answer.text)
            if answer.status_code == 200:
                assert answer.content == b"content"
        await shared.cloud.ok("DELETE", f"/v2/images/{id}")

    runner.run(play())
