"""Following the journal: long poll and Server-Sent Events, bounded in number, time and trust."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from banyan.api.context import Limits
from tests.api.serving import client, make, public, until
from tests.api.surface import FakeSurface

QUICK = replace(Limits(), follow_beat=0.05, follow_end=30.0)


def get(address: str, surface: FakeSurface | None = None) -> httpx.Response:
    async def once() -> httpx.Response:
        async with client(make(surface or FakeSurface()), "viewer-all") as http:
            return await http.get(address)

    return asyncio.run(once())


def numbers(answer: httpx.Response) -> list[int]:
    return [line["number"] for line in answer.json()["items"]]


def test_pages_go_forward_from_the_last_number_seen() -> None:
    assert numbers(get("/v1/journal")) == [1, 2, 3]
    assert numbers(get("/v1/journal?marker=1&limit=1")) == [2]
    assert numbers(get("/v1/journal?last=1")) == [3]
    assert numbers(get("/v1/journal?target=top/zone2")) == [2]


@pytest.mark.parametrize(
    "query", ["marker=x", "marker=-1", "marker=1e3", "wait=51", "last=1&under=north", "wait=1&under=north"]
)
def test_what_cannot_be_is_refused(query: str) -> None:
    assert get(f"/v1/journal?{query}").status_code == 400


def test_a_long_poll_returns_with_the_next_line() -> None:
    surface = FakeSurface()

    async def poll() -> httpx.Response:
        async with client(make(surface), "viewer-all") as http:
            waiting = asyncio.ensure_future(http.get("/v1/journal?marker=3&wait=20&kind=zone-*"))
            await surface.grow("other", "top/x")
            await surface.grow("zone-banned", "top/north")
            return await waiting

    assert numbers(asyncio.run(poll())) == [5]


def test_a_long_poll_ends_empty_when_nothing_came() -> None:
    assert numbers(get("/v1/journal?marker=3&wait=0.02")) == []


class Stream:
    """The events of a response, one at a time, within a bound."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines: AsyncIterator[str] = answer.aiter_lines()

    async def next(self) -> tuple[str, str, dict[str, object]]:
        name, number, data = "", "", ""
        async with asyncio.timeout(5):
            async for line in self._lines:
                if not line and data:
                    return name, number, json.loads(data)
                field, _, value = line.partition(": ")
                name = value if field == "event" else name
                number = value if field == "id" else number
                data = value if field == "data" else data
        raise AssertionError("the stream ended")


def test_a_stream_carries_lines_as_they_come_and_resumes_where_it_was_cut() -> None:
    surface = FakeSurface()

    async def follow() -> list[str]:
        seen = []
        async with (
            public(make(surface, QUICK)) as place,
            httpx.AsyncClient(
                base_url=f"http://{place.host}:{place.port}", headers={"Authorization": "Bearer viewer-all"}
            ) as http,
        ):
            async with http.stream("GET", "/v1/journal/follow?after=1") as answer:
                assert answer.headers["Content-Type"].startswith("text/event-stream")
                stream = Stream(answer)
                seen += [(await stream.next())[1] for _ in range(2)]
                await surface.grow("zone-banned", "top/north")
                name, number, line = await stream.next()
                assert (name, line["kind"], line["number"]) == ("line", "zone-banned", 4)
                seen.append(number)
            surface.write("later", "x")
            async with http.stream("GET", "/v1/journal/follow", headers={"Last-Event-ID": "4"}) as answer:
                seen.append((await Stream(answer).next())[1])
        return seen

    assert asyncio.run(follow()) == ["2", "3", "4", "5"]


def test_without_a_number_a_stream_begins_now() -> None:
    surface = FakeSurface()

    async def follow() -> str:
        async with (
            public(make(surface, QUICK)) as place,
            httpx.AsyncClient(
                base_url=f"http://{place.host}:{place.port}", headers={"Authorization": "Bearer viewer-all"}
            ) as http,
            http.stream("GET", "/v1/journal/follow") as answer,
        ):
            await surface.grow("zone-banned", "top/north")
            return (await Stream(answer).next())[1]

    assert asyncio.run(follow()) == "4"


def test_a_stream_ends_when_its_token_is_revoked() -> None:
    surface = FakeSurface()

    async def follow() -> tuple[str, dict[str, object]]:
        async with (
            public(make(surface, QUICK)) as place,
            httpx.AsyncClient(
                base_url=f"http://{place.host}:{place.port}", headers={"Authorization": "Bearer viewer-all"}
            ) as http,
            http.stream("GET", "/v1/journal/follow?after=2") as answer,
        ):
            stream = Stream(answer)
            assert (await stream.next())[1] == "3"
            surface.held["viewer-all"].revoked = True
            name, _, data = await stream.next()
            return name, data

    name, data = asyncio.run(follow())
    assert (name, data["error"]["code"]) == ("end", "token-revoked")


def test_streams_are_bounded_apart_from_requests_and_free_their_place() -> None:
    surface = FakeSurface()
    api = make(surface, replace(QUICK, followers=1, concurrency=2))

    async def follow() -> list[int]:
        statuses = []
        async with (
            public(api) as place,
            httpx.AsyncClient(
                base_url=f"http://{place.host}:{place.port}", headers={"Authorization": "Bearer viewer-all"}
            ) as http,
        ):
            async with http.stream("GET", "/v1/journal/follow"):
                statuses.append((await http.get("/v1/journal/follow")).status_code)
                statuses.append((await http.get("/v1/zones")).status_code)
            await until(lambda: not api.outer.inside[True])
        return statuses

    assert asyncio.run(follow()) == [503, 200]


def test_streams_do_not_keep_a_server_from_ending() -> None:
    async def follow() -> float:
        loop = asyncio.get_running_loop()
        async with httpx.AsyncClient(headers={"Authorization": "Bearer viewer-all"}) as http:
            async with public(make(FakeSurface(), QUICK)) as place:
                answer = await http.send(
                    http.build_request("GET", f"http://{place.host}:{place.port}/v1/journal/follow"), stream=True
                )
                began = loop.time()
            await answer.aclose()
            return loop.time() - began

    assert asyncio.run(follow()) < 2.5
