"""The chassis by a made-up service: what every OpenStack service may rely on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import httpx
import pytest

from banyan.api.app import Api
from banyan.api.context import Limits
from banyan.api.openstack import faults
from banyan.api.openstack.serve import Face
from banyan.api.openstack.table import Table, op
from banyan.core.identity import Caller
from tests.api.openstack.toy import client, lit, old
from tests.api.surface import FakeSurface

NOVA = "X-OpenStack-Nova-API-Version"


def ask(
    method: str,
    path: str,
    token: str = "reader",
    *,
    headers: Mapping[str, str] | None = None,
    style: faults.Style = faults.compute,
    json: object = None,
    content: bytes | AsyncIterator[bytes] | None = None,
    limits: Limits | None = None,
    face: Face = Face(),  # noqa: B008 - frozen
) -> tuple[httpx.Response, FakeSurface]:
    api, surface = lit(style, limits, face)

    async def one() -> httpx.Response:
        async with client(api, token, headers) as http:
            return await http.request(method, path, json=json, content=content)

    return asyncio.run(one()), surface


def test_a_request_is_answered_with_its_id_and_version() -> None:
    answer, _ = ask("GET", "/compute/v1/lamps/a1")
    assert answer.status_code == 200
    assert answer.json() == {"id": "a1", "who": "ann", "version": "2.1"}
    request = answer.headers["X-Openstack-Request-Id"]
    assert re.fullmatch(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", request)
    assert answer.headers["X-Compute-Request-Id"] == request == answer.headers["X-Banyan-Request-Id"]
    assert answer.headers["OpenStack-API-Version"] == "compute 2.1"
    assert answer.headers[NOVA] == "2.1"
    assert NOVA in answer.headers["Vary"]


@pytest.mark.parametrize(
    ("headers", "status", "version"),
    [
        ({}, 200, "2.1"),
        ({"OpenStack-API-Version": "compute 2.79"}, 200, "2.79"),
        ({"OpenStack-API-Version": "volume 3.50, compute 2.12"}, 200, "2.12"),
        ({"OpenStack-API-Version": "volume 3.50"}, 200, "2.1"),
        ({NOVA: "2.40"}, 200, "2.40"),
        ({NOVA: "2.40", "OpenStack-API-Version": "compute 2.41"}, 200, "2.41"),
        ({NOVA: "latest"}, 200, "2.96"),
        ({"OpenStack-API-Version": "compute latest"}, 200, "2.96"),
        ({NOVA: "2.97"}, 406, ""),
        ({NOVA: "1.9"}, 406, ""),
        ({NOVA: "3.0"}, 406, ""),
        ({NOVA: "2"}, 400, ""),
        ({NOVA: "2.01"}, 400, ""),
        ({NOVA: "2.99999999999"}, 400, ""),
        ({"OpenStack-API-Version": "compute two"}, 400, ""),
    ],
)
def test_microversions_are_negotiated(headers: dict[str, str], status: int, version: str) -> None:
    answer, _ = ask("GET", "/compute/v1/lamps/a1", headers=headers)
    assert answer.status_code == status
    if status == 200:
        assert answer.json()["version"] == version == answer.headers[NOVA]
    if status == 406:
        assert "Minimum is 2.1 and maximum is 2.96" in answer.json()["computeFault"]["message"]


def test_a_row_is_there_in_its_versions_only() -> None:
    assert ask("GET", "/compute/v1/wick", headers={NOVA: "2.9"})[0].json() == {"old": True}
    assert ask("GET", "/compute/v1/wick", headers={NOVA: "2.10"})[0].json() == {"new": True}
    answer, _ = ask("POST", "/compute/v1/lamps/a/action", "admin", json={"dim": {"to": 3}})
    assert answer.status_code == 400
    answer, _ = ask("POST", "/compute/v1/lamps/a/action", "admin", json={"dim": {"to": 3}}, headers={NOVA: "2.5"})
    assert answer.json() == {"to": 3}


def test_discovery_needs_no_token_and_no_version() -> None:
    for path in ("/compute", "/compute/"):
        answer, _ = ask("GET", path, "", headers={NOVA: "9.9"})
        assert answer.status_code == 300
        assert answer.json()["versions"][0]["links"][0]["href"] == "http://cloud:8780/compute/v1"


@pytest.mark.parametrize("path", ["/compute/v1/lamps/", "/compute/v1//lamps", "/compute/v1", "/compute/v2/lamps"])
def test_a_slash_too_many_is_another_address(path: str) -> None:
    answer, _ = ask("GET", path)
    assert answer.status_code == 404
    assert answer.json()["itemNotFound"]["code"] == 404


def test_prefixes_are_whole_words() -> None:
    answer, _ = ask("GET", "/computer/v1/lamps")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no-route")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PATCH", "/compute/v1/lamps/a1", "DELETE, GET, HEAD"),
        ("PUT", "/compute/v1/lamps", "GET, HEAD, POST"),
        ("BREW", "/compute/v1/lamps", "GET, HEAD, POST"),
    ],
)
def test_other_methods_are_405_with_what_is_allowed(method: str, path: str, allow: str) -> None:
    answer, _ = ask(method, path)
    assert answer.status_code == 405
    assert answer.headers["Allow"] == allow
    assert answer.json()["badMethod"]["code"] == 405


def test_an_id_may_be_spelled_like_a_word_of_the_path() -> None:
    assert ask("GET", "/compute/v1/lamps/detail")[0].json()["lamps"] == []
    assert ask("DELETE", "/compute/v1/lamps/detail", "admin")[0].status_code == 204


def test_what_is_percent_encoded_stays_in_its_segment() -> None:
    answer, _ = ask("GET", "/compute/v1/lamps/a%2Fb%20c")
    assert answer.json()["id"] == "a/b c"
    assert ask("GET", "/compute/v1/lamps/a%E3%80%80b%C2%A0c")[0].json()["id"] == "a\u3000b\u00a0c"
    assert ask("GET", "/compute/v1/lamps/%00")[0].status_code == 400
    assert ask("GET", "/compute/v1/lamps/%ff")[0].status_code == 400


def test_head_is_get_without_a_body() -> None:
    answer, _ = ask("HEAD", "/compute/v1/lamps/a1")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 0


def test_204_has_no_body_and_no_length() -> None:
    answer, _ = ask("DELETE", "/compute/v1/lamps/a1", "admin")
    assert (answer.status_code, answer.content) == (204, b"")
    assert "Content-Length" not in answer.headers


def test_without_a_token_and_with_a_wrong_one_it_is_401() -> None:
    for token, code in (("", "no-token"), ("nonsense", "bad-token")):
        answer, surface = ask("GET", "/compute/v1/lamps", token)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == 'Keystone uri="http://cloud:8780/identity"'
        assert answer.json()["error"]["code"] == 401
        assert "nonsense" not in answer.text
        assert surface.refusals == [("", "192.0.2.7", surface.refusals[0][2], code)]


def test_a_second_token_header_is_refused() -> None:
    api, _ = lit()

    async def one() -> httpx.Response:
        async with client(api) as http:
            return await http.get("/compute/v1/lamps", headers=[("X-Auth-Token", "reader"), ("X-Auth-Token", "admin")])

    assert asyncio.run(one()).status_code == 400


def test_a_role_too_low_is_403_before_the_body_is_read() -> None:
    answer, surface = ask("POST", "/compute/v1/lamps", content=b"{", headers={"Content-Type": "application/json"})
    assert answer.status_code == 403
    assert "identity:create_region" in answer.json()["forbidden"]["message"]
    assert surface.refusals == [("user:ann#u1", "192.0.2.7", "identity:create_region", "forbidden")]


def test_each_action_has_its_own_policy() -> None:
    where = "/compute/v1/lamps/a/action"
    answer, _ = ask("POST", where, json={"light": None})
    assert (answer.status_code, answer.content) == (202, b"")
    assert ask("POST", where, json={"dim": {"to": 1}}, headers={NOVA: "2.9"})[0].status_code == 403
    for body in ({}, {"burn": None}, {"light": None, "dim": {"to": 1}}, {"dim": {"to": "x"}}):
        answer, _ = ask("POST", where, "admin", json=body, headers={NOVA: "2.9"})
        assert answer.status_code == 400, body
        assert answer.json()["badRequest"]["code"] == 400


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"null", "application/json", 400),
        (b'"\xff"', "application/json", 400),
        (b"[" * 50_000, "application/json", 400),
        (b'{"lamp": {"name": "a\\u0000"}}', "application/json", 400),
        (b'{"lamp": {"name": 4}}', "application/json", 400),
        (b'{"lamp": {}}', "application/json", 400),
        (b"{}", "text/plain", 415),
        (b'{"lamp": {"name": "' + b"x" * 70_000 + b'"}}', "application/json", 413),
        (b'{"lamp": {"name": "taken"}}', "application/json", 409),
        (b'{"lamp": {"name": "a", "more": 1}, "other": 2}', "application/json; charset=utf-8", 201),
    ],
)  # fmt: skip
def test_bodies_are_bounded_and_checked(content: bytes, kind: str, status: int) -> None:
    answer, _ = ask("POST", "/compute/v1/lamps", "admin", content=content, headers={"Content-Type": kind})
    assert answer.status_code == status, answer.text
    if status == 201:
        assert answer.headers["Location"] == "http://cloud:8780/compute/v1/lamps/a"


def test_queries_are_read_as_clients_write_them() -> None:
    answer, _ = ask("GET", "/compute/v1/lamps?all&limit=7&name=a%20b")
    assert answer.json() == {"lamps": [], "all": True, "limit": 7, "name": "a b"}
    assert ask("GET", "/compute/v1/lamps?name=a%E3%80%80b%C2%A0c%0Ad")[0].json()["name"] == "a\u3000b\u00a0c\nd"
    assert ask("GET", "/compute/v1/lamps?limit=9999")[0].json()["limit"] == 50
    assert ask("GET", "/compute/v1/lamps?all=off")[0].json()["all"] is False
    for wrong in ("limit=-1", "limit=x", "limit=1&limit=2", "all=maybe", "name=%00", "name=%ff"):
        assert ask("GET", f"/compute/v1/lamps?{wrong}")[0].status_code == 400, wrong


def test_what_breaks_shows_nothing_of_itself() -> None:
    answer, _ = ask("GET", "/compute/v1/lamps/boom")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["X-Openstack-Request-Id"].startswith("req-")


@pytest.mark.parametrize(
    ("style", "accept", "body"),
    [
        (faults.compute, "", {"itemNotFound": {"code": 404, "message": "Lamp none could not be found."}}),
        (
            faults.identity,
            "",
            {"error": {"code": 404, "message": "Lamp none could not be found.", "title": "Not Found"}},
        ),
        (
            faults.network({"no-lamp": "LampNotFound"}),
            "",
            {"NeutronError": {"type": "LampNotFound", "message": "Lamp none could not be found.", "detail": ""}},
        ),
        (
            faults.image,
            "application/json",
            {"message": "Lamp none could not be found.", "code": "404 Not Found", "title": "Not Found"},
        ),
    ],
)
def test_each_service_words_failures_in_its_own_way(style: faults.Style, accept: str, body: object) -> None:
    answer, _ = ask("GET", "/compute/v1/lamps/none", style=style, headers={"Accept": accept} if accept else None)
    assert (answer.status_code, answer.json()) == (404, body)


def test_placement_names_the_request_and_image_can_speak_plainly() -> None:
    answer, _ = ask("GET", "/compute/v1/lamps/none", style=faults.placement)
    (error,) = answer.json()["errors"]
    assert error["request_id"] == answer.headers["X-Openstack-Request-Id"]
    assert (error["status"], error["title"]) == (404, "Not Found")
    answer, _ = ask("GET", "/compute/v1/lamps/none", style=faults.image, headers={"Accept": "text/plain"})
    assert answer.text == "404 Not Found\n\nLamp none could not be found.\n"


def test_uploads_are_read_in_pieces_and_bounded() -> None:
    async def pieces(size: int) -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"x" * size

    headers = {"Content-Type": "application/octet-stream"}
    where = "/compute/v1/lamps/a/file"
    assert ask("PUT", where, content=pieces(100), headers=headers)[0].json() == {"size": 1000}
    answer, _ = ask("PUT", where, content=pieces(101), headers=headers)
    assert (answer.status_code, answer.headers["Connection"]) == (413, "close")
    assert ask("PUT", where, content=b"{}", headers={"Content-Type": "application/json"})[0].status_code == 415


def test_downloads_are_sent_in_pieces() -> None:
    answer, _ = ask("GET", "/compute/v1/lamps/a/file")
    assert (answer.content, answer.headers["Content-Length"]) == (b"AAAABBBBCCCC", "12")


def test_links_follow_the_setting_then_the_host_then_the_listener() -> None:
    def href(face: Face, host: str) -> str:
        answer, _ = ask("GET", "/compute", "", headers={"Host": host}, face=face)
        return str(answer.json()["versions"][0]["links"][0]["href"])

    plain = Face(listen="https://10.0.0.1:8780")
    assert href(plain, "lb.example:443") == "http://lb.example:443/compute/v1"
    assert href(plain, "[2001:db8::1]:8780") == "http://[2001:db8::1]:8780/compute/v1"
    assert href(plain, "evil.example/x?") == "https://10.0.0.1:8780/compute/v1"
    assert href(Face("https://cloud.example"), "lb.example:443") == "https://cloud.example/compute/v1"


def test_the_local_socket_needs_no_token() -> None:
    api, _ = lit()

    async def one() -> httpx.Response:
        transport = httpx.ASGITransport(api.local, client=("root", 0))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            return await http.get("/compute/v1/lamps/a")

    assert asyncio.run(one()).json()["who"] == "root"


def test_too_many_at_a_time_are_told_when_to_come_back() -> None:
    api, _ = lit(limits=replace(Limits(), concurrency=0))
    answer = asyncio.run(_get(api, "/compute/v1/lamps"))
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert answer.json()["serviceUnavailable"]["code"] == 503


async def _get(api: Api, path: str) -> httpx.Response:
    async with client(api, "reader") as http:
        return await http.get(path)


def test_seats_are_given_back_whatever_happens() -> None:
    api, _ = lit(limits=replace(Limits(), concurrency=1))

    async def many() -> list[int]:
        async with client(api, "reader") as http:
            paths = ("lamps/boom", "lamps/none", "lamps/a/file", "lamps", "nothing")
            return [(await http.get(f"/compute/v1/{path}")).status_code for path in paths]

    assert asyncio.run(many()) == [500, 404, 200, 200, 404]
    assert api.outer.inside == {False: 0, True: 0}


def test_refusals_that_can_not_be_journalled_are_answered_all_the_same() -> None:
    from banyan.core.errors import Unreachable

    api, surface = lit()

    async def refused(caller: Caller | None, address: str, what: str, error: str) -> None:
        raise Unreachable("store-busy", "busy")

    surface.refused = refused
    assert api.cloud is not None
    api.cloud.refusals = refused

    async def one() -> int:
        async with client(api, "wrong") as http:
            return (await http.get("/compute/v1/lamps")).status_code

    assert asyncio.run(one()) == 401


def test_two_rows_for_one_request_are_an_error() -> None:
    with pytest.raises(ValueError, match="two rows"):
        Table([op("GET", "/a", old, "x"), op("GET", "/a", old, "x", first="2.3")])
    Table([op("GET", "/a", old, "x", last="2.2"), op("GET", "/a", old, "x", first="2.3")])
