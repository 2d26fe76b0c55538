"""What a caller of an API process sees is what a caller of the zone sees; and what the zone knows of the caller."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest

from banyan.api.context import Limits
from tests.api.queue.house import CALLER, House, client, house
from tests.api.serving import until

# Of each request: the id, which is new each time.
_IDS = ("x-banyan-request-id", "x-openstack-request-id", "x-compute-request-id")

BYTES = {"content-type": "application/octet-stream"}
REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/compute/v1/lamps/a1", {}),
    ("HEAD", "/compute/v1/lamps/a1", {}),
    ("GET", "/compute/v1/lamps?all&limit=3&name=%C3%A4", {}),
    ("GET", "/compute/v1/lamps/a%2Fb", {}),
    ("POST", "/compute/v1/lamps", {"json": {"lamp": {"name": "x"}}}),
    ("POST", "/compute/v1/lamps", {"json": {"lamp": {"name": "taken"}}}),
    ("POST", "/compute/v1/lamps", {"json": {"lamp": {"name": "x" * 70_000}}}),
    ("POST", "/compute/v1/lamps", {"content": b"{", "headers": {"content-type": "text/plain"}}),
    ("POST", "/compute/v1/lamps/a/action", {"json": {"light": {}}}),
    ("DELETE", "/compute/v1/lamps/a", {}),
    ("DELETE", "/compute/v1/lamps", {}),
    ("GET", "/compute/v1/lamps/boom", {}),
    ("GET", "/compute/v1/lamps/none", {}),
    ("GET", "/compute/v1/lamps/a/file", {}),
    ("PUT", "/compute/v1/lamps/a/file", {"content": b"x" * 900, "headers": BYTES}),
    ("PUT", "/compute/v1/lamps/a/file", {"content": b"x" * 1001, "headers": BYTES}),
    ("GET", "/compute/v1/wick", {"headers": {"OpenStack-API-Version": "compute 2.50"}}),
    ("GET", "/compute/v1/wick", {"headers": {"OpenStack-API-Version": "compute 9.9"}}),
    ("GET", "/compute/", {}),
    ("GET", "/compute/none", {}),
    ("GET", "/", {}),
    ("GET", "/v1", {}),
    ("GET", "/nothing", {}),
    ("GET", "/v1/zones?limit=2", {}),
    ("GET", "/v1/zones?limit=two", {}),
    ("POST", "/v1/zones/north/actions/disable", {"json": {"reason": "cold"}}),
    ("POST", "/v1/zones/north/actions/disable", {"json": {"why": "cold"}}),
    ("GET", "/v1/usage", {"headers": {"authorization": "Bearer nobody"}}),
    ("GET", "/v1/usage", {"headers": {"authorization": "bad"}}),
    ("GET", "/v1/usage", {"headers": {"x": "y" * 20_000}}),
    ("GET", "/healthz", {}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "more"), REQUESTS, ids=[f"{m} {p}"[:50] for m, p, _ in REQUESTS])
def test_an_answer_is_that_of_the_zone(method: str, path: str, more: dict[str, Any]) -> None:
    async def both() -> tuple[httpx.Response, httpx.Response]:
        async with house() as built:
            async with client(built.api, "admin", "admin-all") as http:
                direct = await http.request(method, path, **more)
            async with built.client("admin", bearer="admin-all") as http:
                through = await http.request(method, path, **more)
            return direct, through

    direct, through = asyncio.run(both())
    assert through.status_code == direct.status_code

    def plain(answer: httpx.Response) -> tuple[bytes, dict[str, str]]:
        content, lines = answer.content, {k: v for k, v in answer.headers.items() if k not in _IDS}
        for name in _IDS:
            if name in answer.headers:
                content = content.replace(answer.headers[name].encode(), b"ID")
        return content, lines

    assert plain(through) == plain(direct)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Banyan-Address"])
def test_the_zone_learns_the_callers_own_address_and_the_requests_id(header: str) -> None:
    async def one(built: House) -> httpx.Response:
        async with built.client(bearer="viewer-all", headers={header: "203.0.113.1"}) as http:
            await http.get("/v1/zones")
            return await http.post("/v1/codes", json={})

    async def run() -> None:
        async with house() as built:
            refused = await one(built)
            assert refused.status_code == 403
            assert {address for _, address, _ in built.surface.proved} == {CALLER[0]}
            assert built.surface.proved[-1][2] == refused.headers["X-Banyan-Request-Id"]
            assert [address for _, address, _, _ in built.surface.refusals] == [CALLER[0]]

    asyncio.run(run())


def test_a_callers_own_request_id_is_kept_as_the_zone_keeps_it() -> None:
    async def run() -> str:
        async with (
            house() as built,
            built.client(bearer="admin-all", headers={"X-Banyan-Request-Id": "mine-0001"}) as c,
        ):
            answer = await c.get("/v1/zones")
            assert built.surface.proved[-1][2] == "mine-0001"
            return answer.headers["X-Banyan-Request-Id"]

    assert asyncio.run(run()) == "mine-0001"


def test_bad_tokens_never_reach_the_zone_but_its_journal_does_hear_of_them() -> None:
    async def run() -> None:
        async with house() as built:
            async with built.client("bad-one", bearer="bad-two") as http:
                answers = [await http.get("/compute/v1/lamps"), await http.get("/v1/zones")]
                async with built.client() as bare:
                    answers.append(await bare.get("/compute/v1/lamps"))
            assert [answer.status_code for answer in answers] == [401, 401, 401]
            assert all("www-authenticate" in answer.headers for answer in answers)
            await until(lambda: len(built.surface.refusals) == 3)
            assert not built.surface.proved
            assert {(who, where) for who, where, _, _ in built.surface.refusals} == {("", CALLER[0])}
            assert built.process.figures()["turned_away_total"] == 3

    asyncio.run(run())


def test_a_flood_of_strangers_is_told_of_in_bounds() -> None:
    async def run() -> int:
        async with house() as built, built.client("bad") as http:
            for _ in range(60):
                assert (await http.get("/compute/v1/lamps")).status_code == 401
            await http.get("/healthz")
            await until(lambda: len(built.surface.refusals) >= 16)
            return len(built.surface.refusals)

    assert asyncio.run(run()) == 16


def test_an_address_that_only_the_zone_knows_is_asked_there() -> None:
    async def run() -> int:
        async with house() as built, built.client("reader") as http:
            built.process._same_program = False
            built.api.app = _teapot
            return (await http.get("/compute/v9/new")).status_code

    assert asyncio.run(run()) == 418


async def _teapot(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("path", ["/compute/v1/lamps", "/v1/zones", "/healthz"])
def test_without_a_zone_the_answer_is_to_come_again(path: str) -> None:
    async def run() -> None:
        async with house(connected=False) as built:
            async with built.client("reader", bearer="viewer-all") as http:
                before = await http.get(path)
                await built.connect()
                assert (await http.get(path)).status_code == 200
                await built.kill_zone()
                after = await http.get(path)
                await built.open()
                await built.connect()
                assert (await http.get(path)).status_code == 200
            for answer in (before, after):
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/compute/v1/lamps", "/v1/zones"])
def test_nothing_is_acknowledged_before_the_zone_has_answered(path: str) -> None:
    async def run() -> None:
        async with house() as built, built.client("reader", bearer="viewer-all") as http:
            arrived, hold = asyncio.Event(), asyncio.Event()

            async def stuck(scope: Any, receive: Any, send: Any) -> None:
                arrived.set()
                await hold.wait()

            built.api.app = stuck
            asked = asyncio.ensure_future(http.get(path))
            await arrived.wait()
            assert not asked.done()
            await built.kill_zone()
            answer = await asked
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert "may have happened" in answer.text
            assert built.process.figures()["unanswered_total"] == 1
            hold.set()

    asyncio.run(run())


def test_a_full_process_tells_callers_to_come_again_and_shows_its_depth() -> None:
    async def run() -> None:
        limits = replace(Limits(), concurrency=2, waiting=4)
        async with house(limits, replace(Limits(), waiting=3)) as built, built.client("reader") as http:
            arrived: list[int] = []
            hold = asyncio.Event()

            async def slow(scope: Any, receive: Any, send: Any) -> None:
                arrived.append(1)
                await hold.wait()
                await _teapot(scope, receive, send)

            built.api.app = slow
            asked = [asyncio.ensure_future(http.get("/compute/v1/lamps")) for _ in range(5)]
            await until(lambda: len(arrived) == 2 and built.process.door.depth == 3)
            over = await http.get("/compute/v1/lamps")
            assert (over.status_code, over.headers["Retry-After"]) == (503, "1")
            figures = built.process.figures()
            assert (figures["queue_depth"], figures["queue_limit"], figures["queue_refused_total"]) == (3, 3, 1)
            built.links[0].wire.send(built.links[0].beat())
            (session,) = built.sessions.sessions
            await until(lambda: bool(session.figures))
            shown = built.api.measured()
            assert shown['banyan_api_process_queue_depth{process="here:1/2"}'] == 3
            assert shown["banyan_api_processes"] == 1
            assert len(arrived) == 2
            hold.set()
            assert [(await one).status_code for one in asked] == [418] * 5

    asyncio.run(run())


def test_a_process_that_dies_leaves_its_work_to_be_done_and_no_place_taken() -> None:
    async def run() -> None:
        async with house() as built, built.client(bearer="admin-all") as http:
            built.surface.pause = asyncio.Event()
            asked = asyncio.ensure_future(http.post("/v1/placed", json={"name": "web", "project": "p", "count": 1}))
            await until(lambda: built.api.outer.inside[False] == 1)
            transport = built.links[0].wire.transport
            assert transport is not None
            transport.abort()
            assert (await asked).status_code == 503
            await until(lambda: not built.sessions.sessions)
            built.surface.pause.set()
            await until(lambda: not built.sessions.tasks)
            assert built.api.outer.inside == {False: 0, True: 0}
            assert not built.words.watchers

    asyncio.run(run())


def test_an_answer_that_was_lost_names_the_request_as_the_zone_does() -> None:
    async def run() -> None:
        async with house() as built, built.client(bearer="viewer-all") as http:
            built.surface.pause = asyncio.Event()
            asked = asyncio.ensure_future(http.get("/v1/zones"))
            await until(lambda: bool(built.surface.proved))
            await built.kill_zone()
            answer = await asked
            assert answer.json()["error"]["request"] == answer.headers["X-Banyan-Request-Id"]
            assert built.surface.proved[-1][2] == answer.headers["X-Banyan-Request-Id"]
            built.surface.pause.set()
            await until(lambda: not built.sessions.tasks)

    asyncio.run(run())


def test_a_zone_that_stops_ends_what_was_handed_over() -> None:
    async def run() -> None:
        async with house() as built, built.client(bearer="admin-all") as http:
            built.surface.pause = asyncio.Event()
            asked = asyncio.ensure_future(http.get("/v1/zones"))
            await until(lambda: bool(built.surface.proved))
            stopping = asyncio.ensure_future(built.sessions.close())
            answer = await asked
            assert answer.status_code == 503
            assert not stopping.done(), "the request is still being worked on"
            built.surface.pause.set()
            await stopping
            assert not built.sessions.tasks
            assert not built.api.outer.inside[False]

    asyncio.run(run())
