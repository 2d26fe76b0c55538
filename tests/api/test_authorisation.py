"""Every route × every role × within, at the root of and out of the caller's subtree, from the route table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import httpx
import pytest

from banyan.api.context import Limits
from banyan.api.routes import TABLE
from banyan.api.table import Route, Router
from banyan.core.identity import Role
from tests.api.cases import CASES, Case, Reach
from tests.api.serving import client, make
from tests.api.surface import FakeSurface

# Streams end at their first beat, so that they are answers like others.
BRIEF = replace(Limits(), follow_beat=0.01, follow_end=0.01)
ROLES: tuple[Role | None, ...] = (None, *Role)
PARTS = ("all", "north")


def test_every_route_has_a_case_and_every_case_a_route() -> None:
    assert {row.name for row in TABLE} == set(CASES)


def test_a_case_asks_for_its_own_route() -> None:
    router = Router(TABLE)
    for row in TABLE:
        case = CASES[row.name]
        for address in (case.inside, case.outside):
            if address:
                path = address.partition("?")[0].replace("{made}", "x")
                assert router.find(row.method, path)[0] is row, address


def expected(row: Route, case: Case, role: Role | None, part: str, place: str) -> tuple[int, str]:
    """Status, and the error's code unless well."""
    if row.role is None:
        return row.status, ""
    if role is None:
        return 401, "no-token"
    if role < row.role:
        return 403, "forbidden"
    if part != "all" and case.reach is Reach.WHOLE:
        return 404, "no-zone"
    if part != "all" and place == "outside":
        return 404, "no-zone"
    if part != "all" and place == "root" and case.parents:
        return 403, "forbidden"
    return row.status, ""


def places(case: Case) -> tuple[str, ...]:
    """Of which zone a case is tried: one inside the part, the part's own root, one out of it."""
    return ("inside", *(("root",) if case.root else ()), *(("outside",) if case.reach is Reach.PLACE else ()))


def address_of(case: Case, place: str, made: str) -> str:
    return {"inside": case.inside, "root": case.root, "outside": case.outside}[place].replace("{made}", made)


def rows() -> Iterator[tuple[Route, Role | None, str, str]]:
    for row in TABLE:
        for role in ROLES:
            for part in PARTS if role else PARTS[:1]:
                for place in places(CASES[row.name]):
                    yield row, role, part, place


def label(value: object) -> str:
    if isinstance(value, Route):
        return value.name
    return value.name.lower() if isinstance(value, Role) else str(value).lower()


def test_whatever_is_decided_about_a_zone_is_tried_at_the_root_of_a_part() -> None:
    for row in TABLE:
        case = CASES[row.name]
        assert case.parents == (
            row.path.startswith("/v1/zones/") and row.method == "POST" and not carried_out_there(row)
        ), row
        assert bool(case.root) >= case.parents


def carried_out_there(row: Route) -> bool:
    """Carried out by the zone itself; or, a code, made at the zone that is asked, of which a part sees nothing."""
    return row.path.endswith(("/rescan", "/replace"))


@pytest.mark.parametrize(("row", "role", "part", "place"), list(rows()), ids=label)
def test_authorisation(row: Route, role: Role | None, part: str, place: str) -> None:
    case = CASES[row.name]
    surface = FakeSurface()
    status, code = expected(row, case, role, part, place)

    async def ask() -> httpx.Response:
        api = make(surface, BRIEF)
        made = await prepare(case, client(api, "admin-all"))
        bearer = f"{role.name.lower()}-{part}" if role else ""
        body = case.outside_body if place == "outside" else case.body
        async with client(api, bearer) as http:
            return await http.request(row.method, address_of(case, place, made), json=body)

    answer = asyncio.run(ask())
    assert answer.status_code == status, answer.text
    if code:
        assert answer.json()["error"]["code"] == code
    # A refusal is journalled by whom and at what; what a caller may not even see is no refusal.
    wanted = [] if status not in (401, 403) else [(row.action, code)]
    assert [(what, error) for _, _, what, error in surface.refusals] == wanted


async def prepare(case: Case, http: httpx.AsyncClient) -> str:
    """Makes what the case needs; its id."""
    if case.before is None:
        return ""
    method, address, body = case.before
    async with http:
        answer = await http.request(method, address.replace("{new}", "all-labs"), json=body)
    assert answer.is_success, answer.text
    made = answer.json()
    return str(made.get("id") or made.get("fingerprint"))


@pytest.mark.parametrize(
    "bearer", ["Bearer", "Bearer  ", "Basic admin-all", "admin-all", "Bearer admin all", "Bearer ä"]
)
def test_a_malformed_credential_is_none(bearer: str) -> None:
    async def ask() -> httpx.Response:
        async with client(make(FakeSurface())) as http:
            return await http.get("/v1/status", headers={"Authorization": bearer.encode("latin-1")})

    answer = asyncio.run(ask())
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("change", "code"), [("revoked", "token-revoked"), ("expired", "token-expired")])
def test_a_token_that_ended_is_refused_with_the_reason(change: str, code: str) -> None:
    surface = FakeSurface()
    setattr(surface.held["viewer-all"], change, True)

    async def ask() -> httpx.Response:
        async with client(make(surface), "viewer-all") as http:
            return await http.get("/v1/status")

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, code)


def test_the_local_socket_makes_an_admin_and_only_it_does() -> None:
    async def ask(local: bool) -> httpx.Response:
        async with client(make(FakeSurface()), local=local) as http:
            return await http.post("/v1/zones/north/actions/ban", json={})

    assert asyncio.run(ask(local=True)).status_code == 200
    assert asyncio.run(ask(local=False)).status_code == 401


def test_a_bearer_on_the_local_socket_changes_nothing() -> None:
    surface = FakeSurface()

    async def ask() -> httpx.Response:
        async with client(make(surface), "viewer-all", local=True) as http:
            return await http.post("/v1/zones/north/actions/ban", json={})

    assert asyncio.run(ask()).status_code == 200
    assert surface.said[0][0] == "root@socket"


def test_no_body_is_read_of_a_caller_that_may_not_send_one() -> None:
    read: list[bytes] = []

    async def ask() -> httpx.Response:
        async def content() -> AsyncIterator[bytes]:
            read.append(b"asked")
            yield b"{}"

        async with client(make(FakeSurface()), "viewer-all") as http:
            return await http.post("/v1/tokens", content=content())

    answer = asyncio.run(ask())
    assert answer.status_code == 403
    assert answer.headers["Connection"] == "close"
    assert not read
