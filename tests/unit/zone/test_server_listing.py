"""Pages of many members make one list: each row once, in one order, whoever is short, empty or away."""

from __future__ import annotations

import asyncio
import random

import pytest

from banyan.core.errors import BadInput, Refused, Unreachable
from banyan.core.ids import RackCode, ZoneCode, guest_id
from banyan.core.order import Specification
from banyan.core.server import Server, ServerPage, ServerQuery, Sort, SortKey
from banyan.core.server_order import full_order, ranking, read_place, values_of, write_place
from banyan.core.time import Mono, Wall
from banyan.simulate.clock import VirtualClock
from banyan.simulate.loop import VirtualLoop
from banyan.zone.deadline import Deadline
from banyan.zone.servers.listing import AT_ONCE, MAX_ABSENT, Ask, Source, fitting, merged, some_of

SPEC = Specification("web", {"vcpu": 1})


def server(n: int, name: str = "web") -> Server:
    id = guest_id(1_000_000 + n, RackCode(5), n)
    return Server(id, ZoneCode(1), "p1", "u1", name, RackCode(5), "h", SPEC, Wall(n), Wall(n))


def member(servers: list[Server], stops: int = 0) -> Ask:
    """What a store answers; `stops`: rows it looks at before it gives up with what it has."""

    async def ask(query: ServerQuery) -> ServerPage:
        order = full_order(query.sort)
        rank = ranking(order)
        rows = sorted(servers, key=lambda one: rank(values_of(one, order)))
        start = read_place(query.after, len(order))
        rows = [one for one in rows if start is None or rank(start) < rank(values_of(one, order))]
        if stops and rows and rows[0].name == "hidden":
            hidden = [one for one in rows[:stops] if one.name == "hidden"]
            return ServerPage((), write_place(values_of(hidden[-1], order)))
        found = [one for one in rows if one.name != "hidden"][: query.limit]
        more = found and found[-1] is not rows[-1]
        return ServerPage(tuple(found), write_place(values_of(found[-1], order)) if more else "")

    return ask


def all_of(asks: list[Ask], query: ServerQuery) -> list[Server]:
    found: list[Server] = []
    while True:
        page = asyncio.run(merged(query, [Source(f"z{n}", ask) for n, ask in enumerate(asks)]))
        found += page.servers
        assert len(page.servers) <= query.limit
        if not page.after:
            return found
        query = ServerQuery(sort=query.sort, limit=query.limit, after=page.after)


@pytest.mark.parametrize("sort", [(), (Sort(SortKey.NAME, False),), (Sort(SortKey.NAME), Sort(SortKey.ID, False))])
@pytest.mark.parametrize("limit", [1, 7, 100])
def test_many_members_make_one_list(sort: tuple[Sort, ...], limit: int) -> None:
    draw = random.Random(f"{sort} {limit}")
    servers = [server(n, f"n{draw.randrange(5)}") for n in range(60)]
    parts: list[list[Server]] = [[] for _ in range(5)]
    for one in servers:
        parts[draw.randrange(4)].append(one)
    order = full_order(sort)
    expected = sorted(servers, key=lambda one: ranking(order)(values_of(one, order)))
    assert all_of([member(part) for part in parts], ServerQuery(sort=sort, limit=limit)) == expected


def test_a_member_that_looks_long_for_little_is_waited_for() -> None:
    hidden = [server(n, "hidden") for n in range(50, 100)]
    asks = [member([*hidden, server(10)], stops=5), member([server(n) for n in (5, 20, 70)])]
    assert all_of(asks, ServerQuery(limit=10)) == [server(n) for n in (70, 20, 10, 5)]


def test_who_can_not_be_asked_is_named_and_the_rest_is_listed() -> None:
    async def away(query: ServerQuery) -> ServerPage:
        raise Unreachable("member-unreachable", "it is away")

    sources = [Source("here", member([server(1), server(2)])), Source("there", away)]
    page = asyncio.run(merged(ServerQuery(), sources, ["before"]))
    assert page == ServerPage((server(2), server(1)), "", ("before", "there"))


def test_a_marker_of_another_order_is_refused() -> None:
    with pytest.raises(BadInput):
        asyncio.run(merged(ServerQuery(after=write_place(["a", "b"])), []))
    with pytest.raises(BadInput):
        asyncio.run(merged(ServerQuery(after="%%%"), []))


def test_an_answer_holds_as_many_rows_as_fit_and_goes_on_after_them() -> None:
    page = ServerPage(tuple(server(n) for n in (5, 4, 3)), "", ("away",))
    cut = fitting(page, (), lambda one: 100, 250)
    assert (cut.servers, cut.absent) == (page.servers[:2], ("away",))
    assert read_place(cut.after, 1) == [server(4).id]
    assert fitting(page, (), lambda one: 100, 10).servers == page.servers[:1]
    assert fitting(page, (), lambda one: 100, 300) == page


def test_members_that_hang_hold_up_their_own_places_only_until_the_time_is_over() -> None:
    """Of many members three hang: the others are asked all the same, and the page ends with its marker."""
    loop, asked = VirtualLoop(), []

    async def hang(query: ServerQuery) -> ServerPage:
        await loop.create_future()
        raise AssertionError("it never ends")

    async def patient(query: ServerQuery) -> ServerPage:
        try:
            async with asyncio.timeout(20.0 - loop.time()):
                return await hang(query)
        except TimeoutError as error:
            raise Unreachable("no-answer", "it hangs") from error

    def quick(n: int) -> Ask:
        ask = member([server(n), server(1_000 + n)])

        async def noted(query: ServerQuery) -> ServerPage:
            asked.append(n)
            return await ask(query)

        return noted

    sources = [Source(f"z{n}", patient if n < 3 else quick(n)) for n in range(3 * AT_ONCE)]
    page = loop.run_task(_within(20.0, ServerQuery(limit=100), sources), 100.0)
    loop.close()
    assert len(asked) == len(sources) - 3
    assert page.absent == ("z0", "z1", "z2")
    assert len(page.servers) == 100
    assert page.after


async def _within(seconds: float, query: ServerQuery, sources: list[Source]) -> ServerPage:
    return await merged(query, sources, (), Deadline.within(seconds))


def test_a_member_that_there_was_no_time_to_ask_is_absent() -> None:
    """And what was read before counts; nobody is asked after the end."""
    loop, asked = VirtualLoop(), []

    def slow(*numbers: int) -> Ask:
        async def ask(query: ServerQuery) -> ServerPage:
            asked.append(query)
            await VirtualClock(loop, "z").sleep_until(Mono(loop.time() + 15.0))
            return await member([server(n) for n in numbers])(query)

        return ask

    async def never(query: ServerQuery) -> ServerPage:
        raise AssertionError("it was asked")

    sources = [Source("z0", slow(*range(100, 140))), *(Source(f"z{n}", slow(n)) for n in range(1, 8))]
    page = loop.run_task(_within(20.0, ServerQuery(limit=35), sources), 100.0)
    assert len(asked) == 8 + 1, "the second turn began in time, and no third one"
    assert [one.id for one in page.servers] == [server(n).id for n in range(139, 119, -1)]
    assert page.after
    assert page.absent == ()
    late = loop.run_task(_within(0.0, ServerQuery(limit=30), [Source("z0", never)]), 100.0)
    loop.close()
    assert (late.servers, late.after, late.absent) == ((), "", ("z0",))


def test_an_answer_that_is_an_error_names_the_zone_and_fails_no_list() -> None:
    async def broken(query: ServerQuery) -> ServerPage:
        raise Refused("not-for-you", "a zone of another mind")

    sources = [Source("here", member([server(1), server(2)])), Source("there", broken)]
    page = asyncio.run(merged(ServerQuery(), sources))
    assert page == ServerPage((server(2), server(1)), "", ("there (not-for-you)",))


def test_an_error_of_all_is_the_answer_to_the_question() -> None:
    async def broken(query: ServerQuery) -> ServerPage:
        raise BadInput("bad-pattern", "no pattern")

    async def away(query: ServerQuery) -> ServerPage:
        raise Unreachable("member-unreachable", "it is away")

    with pytest.raises(BadInput, match="no pattern"):
        asyncio.run(merged(ServerQuery(), [Source("a", broken), Source("b", away), Source("c", broken)]))


def test_of_many_absent_zones_some_are_named_and_all_are_counted() -> None:
    few = [f"top/z{n}" for n in range(MAX_ABSENT)]
    assert some_of(few, "top") == tuple(few)
    many = some_of((f"top/z{n}" for n in range(20_000)), "top")
    assert (len(many), many[-1]) == (MAX_ABSENT + 1, f"{20_000 - MAX_ABSENT} or more others below top")
