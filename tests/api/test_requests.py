"""Requests as they may come: bounds, strictness, ids, and errors as answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import httpx
import pytest
import structlog

from banyan.api.context import LARGE_BODY, SMALL_BODY, Limits
from banyan.api.routes import TABLE
from banyan.core.errors import BadInput, BanyanError, Broken, Conflict, NotFound, Refused, Unauthenticated, Unreachable
from banyan.core.records import StoreFull
from tests.api.serving import client, make, until
from tests.api.surface import FakeSurface


def ask(
    method: str,
    address: str,
    *,
    surface: FakeSurface | None = None,
    limits: Limits | None = None,
    bearer: str = "admin-all",
    content: bytes | None = None,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    async def once() -> httpx.Response:
        async with asyncio.timeout(10), client(make(surface or FakeSurface(), limits), bearer) as http:
            kept = headers or {}
            if body is not None:
                return await http.request(method, address, json=body, headers=kept)
            return await http.request(method, address, content=content, headers=kept)

    return asyncio.run(once())


def code(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["code"])


# --- which address


@pytest.mark.parametrize(
    ("method", "address", "allow"),
    [
        ("POST", "/v1/zones", "GET, HEAD"),
        ("PATCH", "/v1/rules/x", "DELETE, PUT"),
        ("GET", "/v1/leave", "POST"),
        ("OPTIONS", "/v1/codes", "GET, HEAD, POST"),
        ("DELETE", "/healthz", "GET, HEAD"),
        ("POST", "/v1/zones/a/b", "GET, HEAD"),
        ("PUT", "/v1/zones/a/actions/ban", "GET, HEAD, POST"),
        ("HEAD", "/v1/journal/follow", "GET"),
    ],
)
def test_another_method_is_told_which_ones_there_are(method: str, address: str, allow: str) -> None:
    answer = ask(method, address)
    assert answer.status_code == 405
    assert answer.headers["Allow"] == allow


@pytest.mark.parametrize(
    "address", ["/v2", "/v1/", "/v1/zone", "/v1//zones", "/v1/zones/", "/v1/zones//x", "/v1/codes/a/b"]
)
def test_no_such_address(address: str) -> None:
    answer = ask("GET", address)
    assert (answer.status_code, code(answer)) == (404, "no-route")


@pytest.mark.parametrize("address", ["/v1/zones/top/north/lab1", "/v1/zones/top%2Fnorth%2Flab1", "/v1/zones/lab1"])
def test_a_zones_path_keeps_its_slashes_or_escapes_them(address: str) -> None:
    assert ask("GET", address).json()["path"] == "top/north/lab1"


def test_a_zone_may_be_called_actions() -> None:
    surface = FakeSurface()
    surface.tree["actions"] = surface.tree["north"]
    surface.tree["actions/ban"] = surface.tree["north/lab1"]
    assert ask("GET", "/v1/zones/actions/ban", surface=surface).status_code == 200
    assert ask("POST", "/v1/zones/actions/actions/ban", surface=surface).status_code == 200
    assert surface.said[0][2] == "actions"


def test_head_has_the_head_of_get_and_no_body() -> None:
    get, head = ask("GET", "/v1/zones"), ask("HEAD", "/v1/zones")
    assert head.content == b""
    assert head.headers["Content-Length"] == get.headers["Content-Length"] == str(len(get.content))


# --- ids and heads


def test_every_answer_carries_a_request_id() -> None:
    made = [
        ask(*what).headers["X-Banyan-Request-Id"] for what in [("GET", "/healthz"), ("GET", "/nowhere"), ("PUT", "/")]
    ]
    assert all(id.startswith("req-") and len(id) == 24 for id in made)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("build-7f3a.42", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("short", False),
        ("a b c d e f", False),
        ("-leading-", False),
    ],
)
def test_a_callers_request_id_is_kept_if_it_is_well_formed(given: str, kept: bool) -> None:
    answer = ask("GET", "/v1/zones/nowhere", headers={"X-Banyan-Request-Id": given})
    assert (answer.headers["X-Banyan-Request-Id"] == given) is kept
    assert answer.json()["error"]["request"] == answer.headers["X-Banyan-Request-Id"]


def test_nothing_is_kept_by_caches() -> None:
    assert ask("GET", "/v1/status").headers["Cache-Control"] == "no-store"


def test_a_long_address_and_long_headers_are_refused_before_anything_else() -> None:
    assert ask("GET", "/v1/zones?name=" + "x" * 9000).status_code == 414
    assert ask("GET", "/v1/zones", headers={"X-Long": "x" * 17_000}).status_code == 431
    assert ask("GET", "/v1/zones", headers={f"X-{n}": "1" for n in range(80)}).status_code == 431


@pytest.mark.parametrize("address", ["/v1/zones/a%00b", "/v1/zones?name=a%0Ab", "/v1/zones/%E2%80%AEevil"])
def test_what_cannot_be_shown_is_refused(address: str) -> None:
    assert ask("GET", address).status_code == 400


# --- queries


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("heath=lost", "unknown-parameter"),
        ("limit=0", "bad-parameter"),
        ("limit=1001", "bad-parameter"),
        ("limit=ten", "bad-parameter"),
        ("health=ill", "bad-parameter"),
        ("health=lost&health=alive", "repeated-parameter"),
        ("label=site", "bad-label"),
        ("label=%20=x", "bad-label"),
        ("sort=colour", "bad-parameter"),
        ("name", "bad-query"),
        ("name=%FF", "bad-query"),
        ("&".join(f"label=k{n}=v" for n in range(17)), "bad-parameter"),
        ("&".join(f"label=k{n}=v" for n in range(70)), "bad-query"),
        ("marker=" + "x" * 4097, "bad-parameter"),
    ],
)
def test_a_query_must_fit_to_the_letter(query: str, wanted: str) -> None:
    answer = ask("GET", f"/v1/zones?{query}")
    assert (answer.status_code, code(answer)) == (400, wanted)


def test_filters_reach_the_zone() -> None:
    surface = FakeSurface()
    found = ask("GET", "/v1/zones?under=top/north&label=site=ber*&health=alive&admin=enabled", surface=surface).json()
    assert [item["path"] for item in found["items"]] == ["top/north/lab1"]


def test_pages_follow_the_marker_to_the_end() -> None:
    surface = FakeSurface()
    seen: list[str] = []
    marker = ""
    while True:
        page = ask("GET", f"/v1/zones?limit=2&marker={marker}", surface=surface).json()
        assert len(page["items"]) <= 2
        seen += [item["path"] for item in page["items"]]
        marker = page["marker"]
        if not marker:
            break
    assert seen == [f"top/{path}" for path in sorted(surface.tree)]


def test_absent_members_are_named() -> None:
    surface = FakeSurface()
    surface.absent = ("top/south/lab3",)
    assert ask("GET", "/v1/hosts", surface=surface).json()["absent"] == ["top/south/lab3"]


def test_a_list_that_comes_whole_pages_by_its_last_id() -> None:
    surface = FakeSurface()

    async def several() -> list[dict[str, object]]:
        async with client(make(surface), "admin-all") as http:
            for _ in range(3):
                await http.post("/v1/codes", json={})
            first = (await http.get("/v1/codes?limit=2")).json()
            return [first, (await http.get(f"/v1/codes?limit=2&marker={first['marker']}")).json()]

    first, second = asyncio.run(several())
    assert [len(page["items"]) for page in (first, second)] == [2, 1]
    assert second["marker"] == ""


# --- bodies


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"{", "bad-json"),
        (b"\xff", "bad-json"),
        (b"[]", "bad-body"),
        (b"null", "bad-body"),
        (b'{"uses": 0}', "bad-body"),
        (b'{"usse": 1}', "bad-body"),
        (b'{"expires": 1e999}', "bad-body"),
        (b'{"mode": "rule"}', "bad-body"),
        (b'{"labels": {"a": 1}}', "bad-body"),
        (b'{"labels": {"-": "x"}}', "bad-label"),
        (b"[" * 30_000, "bad-body"),
        (b'{"labels": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001, "bad-body"),
        (b'{"x": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", "bad-body"),
    ],
)
def test_a_body_must_fit_to_the_letter(content: bytes, wanted: str) -> None:
    answer = ask("POST", "/v1/codes", content=content)
    assert (answer.status_code, code(answer)) == (400, wanted), answer.text


def test_no_body_is_an_empty_object() -> None:
    assert ask("POST", "/v1/zones/north/actions/enable").status_code == 200


def test_a_body_where_none_belongs_is_refused() -> None:
    assert code(ask("POST", "/v1/zones/north/actions/enable", body={"reason": "x"})) == "bad-body"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
def test_a_body_is_json(kind: str) -> None:
    assert ask("POST", "/v1/codes", content=b"{}", headers={"Content-Type": kind}).status_code == 415


def test_a_large_body_is_refused_by_its_length_before_it_is_read() -> None:
    assert SMALL_BODY <= LARGE_BODY
    answer = ask("POST", "/v1/codes", content=b" " * (SMALL_BODY + 1))
    assert (answer.status_code, answer.headers["Connection"]) == (413, "close")
    assert ask("POST", "/v1/codes", content=b" " * (SMALL_BODY - 2) + b"{}").status_code == 201


def test_a_large_body_without_a_length_is_refused_when_it_grows_too_large() -> None:
    async def once() -> httpx.Response:
        async def drops() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b" " * 1024

        async with client(make(FakeSurface()), "admin-all") as http:
            return await http.post("/v1/codes", content=drops())

    assert asyncio.run(once()).status_code == 413


def test_every_body_is_bounded() -> None:
    assert all(row.most <= LARGE_BODY for row in TABLE)


# --- errors as answers


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (BadInput("a-b", "text"), 400, None),
        (Unauthenticated("a-b", "text"), 401, None),
        (Refused("a-b", "text"), 403, None),
        (NotFound("a-b", "text"), 404, None),
        (Conflict("a-b", "text"), 409, None),
        (Unreachable("a-b", "text"), 503, "1"),
        (Unreachable("a-b", "text", retry_after=6.2), 503, "7"),
        (StoreFull("a-b", "text"), 503, "1"),
        (Broken("a-b", "text"), 500, None),
        (Refused("a-b", "text", retry_after=30), 403, "30"),
    ],
)
def test_each_kind_of_error_has_its_status(error: BanyanError, status: int, retry: str | None) -> None:
    surface = FakeSurface()

    def fail(name: str) -> None:
        raise error

    surface.before = fail
    answer = ask("GET", "/v1/zones", surface=surface)
    assert answer.status_code == status
    assert answer.headers.get("Retry-After") == retry
    assert answer.json()["error"] == {"code": "a-b", "text": "text", "request": answer.headers["X-Banyan-Request-Id"]}


def test_detail_for_operators_does_not_leave() -> None:
    surface = FakeSurface()

    def fail(name: str) -> None:
        raise Broken("a-b", "text", detail="row 7 of table x")

    surface.before = fail
    assert "row 7" not in ask("GET", "/v1/zones", surface=surface).text


def test_what_nobody_expected_shows_a_request_id_and_nothing_of_itself() -> None:
    surface = FakeSurface()

    def fail(name: str) -> None:
        raise RuntimeError("/etc/banyan/very-private")

    surface.before = fail
    with structlog.testing.capture_logs() as logs:
        answer = ask("GET", "/v1/zones", surface=surface)
    assert (answer.status_code, code(answer)) == (500, "internal")
    assert "private" not in answer.text
    assert [line["request"] for line in logs] == [answer.headers["X-Banyan-Request-Id"]]


def test_a_token_is_never_logged() -> None:
    surface = FakeSurface()
    failures: list[Exception] = [RuntimeError("x"), Broken("a-b", "text"), Refused("forbidden", "text")]

    def fail(name: str) -> None:
        raise failures.pop()

    surface.before = fail
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            ask("GET", "/v1/zones", surface=surface, bearer="viewer-all")
        ask("GET", "/v1/zones", surface=surface, bearer="wrong-token-text")
    assert logs
    assert not [
        line
        for line in logs
        if "viewer-all" in json.dumps(line, default=str) or "wrong-token" in json.dumps(line, default=str)
    ]


def test_an_answer_has_a_deadline() -> None:
    surface = FakeSurface()
    surface.pause = asyncio.Event()
    answer = ask("GET", "/v1/zones", surface=surface, limits=replace(Limits(), deadline=0.02))
    assert (answer.status_code, code(answer)) == (503, "deadline")


def test_over_the_bound_requests_are_told_to_come_again_and_health_is_not() -> None:
    surface = FakeSurface()

    async def crowd() -> tuple[list[int], int, int, int]:
        surface.pause = asyncio.Event()
        api = make(surface, replace(Limits(), concurrency=3, waiting=0))
        async with client(api, "admin-all") as http, client(api, local=True) as inside:
            waiting = [asyncio.ensure_future(http.get("/v1/zones")) for _ in range(3)]
            await until(lambda: sum(api.outer.inside.values()) == 3)
            over = await http.get("/v1/zones")
            assert (over.status_code, over.headers["Retry-After"], code(over)) == (503, "1", "busy")
            health = (await http.get("/healthz")).status_code
            surface.pause.set()
            admin = (await inside.get("/v1/zones")).status_code
            statuses = [(await answer).status_code for answer in waiting]
            after = (await http.get("/v1/zones")).status_code
            assert sum(api.outer.inside.values()) == 0
        return statuses, health, admin, after

    assert asyncio.run(crowd()) == ([200, 200, 200], 200, 200, 200)


# --- what is told to anybody


def test_discovery_lists_every_row_and_nothing_of_the_zone() -> None:
    listed = ask("GET", "/v1", bearer="").json()["addresses"]
    assert {(one["method"], one["path"]) for one in listed} == {(row.method, row.template) for row in TABLE}
    for address in ("/", "/v1", "/openapi.json", "/healthz"):
        text = ask("GET", address, bearer="").text
        assert "0.1.0" not in text and not re.search(r"\btop\b", text)


def test_metrics_are_prometheus_text() -> None:
    async def twice() -> str:
        async with client(make(FakeSurface()), "viewer-all") as http:
            await http.get("/v1/zones")
            return (await http.get("/metrics")).text

    lines = asyncio.run(twice()).splitlines()
    assert "# TYPE banyan_scans_total counter" in lines
    assert "# TYPE banyan_zones gauge" in lines
    assert 'banyan_children{health="alive"} 4' in lines
    assert 'banyan_api_requests_total{route="GET /v1/zones",status="200"} 1' in lines
