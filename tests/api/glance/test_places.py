"""Places that all projects share: nobody keeps them from others, by number or by being slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from banyan.zone.images.places import LEAST, WINDOW, Shares, Turns, steady
from banyan.zone.images.refusals import SlowData
from tests.api.glance.cloud import SETTINGS, Cloud, run
from tests.api.glance.test_imports import URL, web
from tests.api.openstack.lab import Clock
from tests.api.serving import until


def test_a_project_has_half_of_what_is_left_and_every_further_one_something() -> None:
    shares = Shares(16)
    had = []
    for project in "abcdef":
        count = 0
        while shares.may(project):
            shares.take(project)
            count += 1
        had.append(count)
    assert had == [8, 4, 2, 1, 1, 0]
    shares.give("a")
    assert shares.may("f") and not shares.may("a")
    with shares.held("f") as there, shares.held("f") as again:
        assert (there, again) == (True, False)
    assert shares.free == 1


def test_one_project_keeps_no_other_from_sending() -> None:
    async def play(c: Cloud) -> None:
        end = asyncio.Event()

        async def dribble() -> AsyncIterator[bytes]:
            yield b"x"
            await end.wait()

        slow = []
        for _ in range(SETTINGS.uploads):
            id = await c.image("other")
            slow.append(asyncio.ensure_future(c.ask("PUT", f"/v2/images/{id}/file", token="other", content=dribble())))
        await until(lambda: sum(one.done() for one in slow) == 2)
        mine = await c.image()
        await c.ok("PUT", f"/v2/images/{mine}/file", content=b"mine")
        staged = await c.image()
        await c.ok("PUT", f"/v2/images/{staged}/stage", content=b"mine")
        end.set()
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*slow))
        assert statuses == [204, 204, 503, 503]

    run(play)


def test_one_project_keeps_no_other_from_reading() -> None:
    async def play(c: Cloud) -> None:
        theirs, mine = await c.image("other", b"theirs"), await c.image(data=b"mine")
        who, me = c.gate.known["other"], c.gate.known["member"]
        kept = [await c.images.data.open(who, theirs, None) for _ in range(2)]
        assert (await c.ask("GET", f"/v2/images/{theirs}/file", token="other")).status_code == 503
        assert await c.ok("GET", f"/v2/images/{mine}/file") == b"mine"
        for part in kept:
            assert part.pieces is not None
            await part.pieces.aclose()
            await part.pieces.aclose()
        assert await c.ok("GET", f"/v2/images/{theirs}/file", token="other") == b"theirs"
        assert me.project != who.project

    run(play, replace(SETTINGS, downloads=4))


def test_one_project_keeps_no_other_from_having_images_fetched() -> None:
    async def play(c: Cloud) -> None:
        c.fetcher.held = asyncio.Event()
        refused = 0
        for _ in range(SETTINGS.fetches + SETTINGS.waiting):
            id = await c.image("other")
            refused += (await c.ask("POST", f"/v2/images/{id}/import", web(), token="other")).status_code == 503
        assert refused == 1
        mine = await c.image()
        await c.ok("POST", f"/v2/images/{mine}/import", web())
        c.fetcher.held.set()
        await c.images.imports.idle()
        for _ in range(2):
            # What was not accepted keeps no place.
            assert (await c.ask("POST", f"/v2/images/{mine}/import", {"method": {"name": "x"}})).status_code == 400
            gone = "f0000000-0000-4000-8000-000000000000"
            assert (await c.ask("POST", f"/v2/images/{gone}/import", web())).status_code == 404
        assert c.images.imports._queue.free == SETTINGS.fetches + SETTINGS.waiting

    run(play)


def test_fetches_are_begun_by_turns_of_their_projects() -> None:
    async def play() -> list[str]:
        turns, begun = Turns(1), list[str]()
        go = asyncio.Event()

        async def one(project: str) -> None:
            async with turns.place(project):
                begun.append(project)
                await go.wait()

        tasks = [asyncio.ensure_future(one(project)) for project in ("a", "a", "a", "b", "b", "c")]
        await until(lambda: begun == ["a"])
        tasks[4].cancel()
        go.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with turns.place("d"):
            pass
        return begun

    assert asyncio.run(play()) == ["a", "a", "b", "c", "a"]


def test_of_four_that_are_fetched_at_once_one_project_has_two() -> None:
    async def play() -> None:
        turns, begun = Turns(4), list[str]()

        async def one(project: str) -> None:
            async with turns.place(project):
                begun.append(project)
                await asyncio.Event().wait()

        tasks = [asyncio.ensure_future(one("a")) for _ in range(8)]
        await until(lambda: len(begun) == 2)
        tasks.append(asyncio.ensure_future(one("b")))
        await until(lambda: "b" in begun)
        assert begun == ["a", "a", "b"]
        for task in tasks:
            task.cancel()

    asyncio.run(play())


async def paced(clock: Clock, pieces: list[tuple[float, int]]) -> AsyncIterator[bytes]:
    for seconds, size in pieces:
        clock.at += seconds
        yield b"x" * size


@pytest.mark.parametrize(
    ("pieces", "least"),
    [
        ([(7.0, 1)] * 20, False),
        ([(WINDOW + 1, LEAST - 1)], False),
        ([(1.0, LEAST)] * 5 + [(7.0, 1)] * 20, False),
        ([(WINDOW / 4, LEAST // 3)] * 20, True),
        ([(9.0, 1)] * 6, True),
    ],
)
def test_data_that_comes_too_slowly_is_not_waited_for(pieces: list[tuple[float, int]], least: bool) -> None:
    async def play() -> None:
        clock = Clock()
        size = 0
        async for piece in steady(paced(clock, pieces), clock):
            size += len(piece)
            # A disk that is slow is not the sender's fault.
            clock.at += 500.0
        assert size == sum(count for _, count in pieces)

    if least:
        asyncio.run(play())
    else:
        with pytest.raises(SlowData):
            asyncio.run(play())


def test_an_upload_that_is_too_slow_is_408_and_a_fetch_says_so_in_its_task() -> None:
    async def play(c: Cloud) -> None:
        async def slow(url: str = "") -> AsyncIterator[bytes]:
            for _ in range(20):
                c.clock.at += 7.0
                yield b"x"

        id = await c.image()
        answer = await c.ask("PUT", f"/v2/images/{id}/file", content=slow())
        assert answer.status_code == 408 and await c.status(id) == "queued" and c.kept() == []
        c.fetcher.fetch = slow
        await c.ok("POST", f"/v2/images/{id}/import", web(URL))
        await c.images.imports.idle()
        (task,) = (await c.ok("GET", f"/v2/images/{id}/tasks"))["tasks"]
        assert task["status"] == "failure" and "seconds of waiting" in task["message"]

    run(play)
