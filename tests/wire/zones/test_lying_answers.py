"""A child in wrong hands is asked for lists, totals and deeds: its answers hide nobody, and are known for lies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import quote

import msgspec
import pytest

from banyan.core.lineage import Row
from banyan.core.messages import (
    Ack,
    Answer,
    Beat,
    BeatAck,
    CommandReply,
    DigestPart,
    Page,
    PageQuery,
    Request,
    UsageReply,
)
from banyan.zone.views import HostView
from tests.wire.zones.house import House, housed
from tests.wire.zones.stranger import Stranger, report

pytestmark = pytest.mark.slow

pack = msgspec.msgpack.encode


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with housed(tmp_path_factory.mktemp("house")) as made:
        yield made


def host(zone: str, name: str) -> bytes:
    return msgspec.json.encode(HostView(zone, "r", name, name, True, False, True, {}))


Answering = Callable[[Request], Answer]


@contextmanager
def answering(house: House, liar: Stranger, below: Stranger, answer: Answering) -> Iterator[list[Request]]:
    """`liar` is connected, has hosts by its own account and `below` under it, and answers what it is asked."""
    asked: list[Request] = []
    ready, end = threading.Event(), threading.Event()

    async def live() -> None:
        talker = await liar.session()
        rows: list[Row] = [liar.own_row(house.code), below.row(liar.code)]
        counters = {"lh": 5, "lhu": 5, "lg:active": 5, "z:total": 2}
        number = 1
        await talker.say(report(number, rows, digest=DigestPart(0, 1, counters)))
        quiet = True
        while not end.is_set():
            message = None
            with suppress(TimeoutError):
                message = await talker.hear(0.2)
            if isinstance(message, Request):
                asked.append(message)
                await talker.say(answer(message))
            elif isinstance(message, Ack | BeatAck):
                ready.set()
                quiet = True
            elif message is None and quiet:
                number, quiet = number + 1, False
                await talker.say(Beat(number))
        await talker.close()

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        assert ready.wait(30)
        house.top.wait_until(lambda: "top/liar/deep" in house.top.seen(), "to see what is below the liar")
        yield asked
    finally:
        end.set()
        thread.join(30)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def liar(house: House) -> tuple[Stranger, Stranger]:
    return house.joined("liar"), Stranger(house.address, "deep")


def listed(house: House, under: str = "", limit: int = 4) -> tuple[list[str], set[str], int]:
    """(zone/host of each row, who was absent, how many pages) of the whole list."""
    rows, absent, marker = [], set(), ""
    for pages in range(1, 3_000):
        address = f"/v1/hosts?limit={limit}&marker={quote(marker)}" + (f"&under={quote(under)}" if under else "")
        status, page = house.top.ask(address)
        assert status == 200, page
        rows += [f"{row['zone']}/{row['name']}" for row in page["items"]]
        absent |= set(page["absent"])
        marker = page["marker"]
        if not marker:
            return rows, absent, pages
    raise AssertionError("a list that does not end")


def paged(make: Callable[[PageQuery], Page]) -> Answering:
    def answer(request: Request) -> Answer:
        if request.verb != "page":
            return Answer(request.id, b"", "bad-verb", "not now", 400)
        return Answer(request.id, pack(make(msgspec.msgpack.decode(request.body, type=PageQuery))))

    return answer


def raw(body: bytes) -> Answering:
    return lambda request: Answer(request.id, body)


def endless(query: PageQuery) -> Page:
    begin = int(query.marker or 0)
    rows = tuple(host("top/liar", f"h{begin + n:09}") for n in range(min(query.limit, 3)))
    return Page(rows, str(begin + len(rows)))


HONEST = ["top/good/sim-00001", "top/good/sim-00002", "top/good/sim-00003"]
LIES: dict[str, Answering] = {
    "rows of a sibling": paged(lambda q: Page((host("top/good", "sim-00009"),))),
    "rows of the parent": paged(lambda q: Page((host("top", "mine"),))),
    "rows of a namesake": paged(lambda q: Page((host("top/liarlier", "x"),))),
    "a row that is none": paged(lambda q: Page((b'{"zone": "top/liar"}',))),
    "a row that is no number": paged(lambda q: Page((b"NaN",))),
    "a row without an end": paged(lambda q: Page((host("top/liar", "x")[:-1] + b',"n":' + b"[" * 90_000,))),
    "more rows than asked": paged(lambda q: Page(tuple(host("top/liar", f"h{n}") for n in range(q.limit + 1)))),
    "a marker without an end": paged(lambda q: Page((), "m" * 100_000)),
    "the same marker again": paged(lambda q: Page((), q.marker or "again")),
    "an endless list": paged(endless),
    "an endless empty list": paged(lambda q: Page((), str(int(q.marker or 0) + 1))),
    "nothing": raw(b""),
    "no MessagePack": raw(b"\xc1"),
    "nested without end": raw(b"\x94\x90\xa0\x90" + b"\x91" * 100_000),
    "rows of numbers": raw(pack([[1, 2, 3], "", []])),
    "an error with controls": lambda r: Answer(r.id, b"", "no\x1b[2J", "gone \x1b]0;owned\x07", 599),
    "all of its parents absent": paged(lambda q: Page((), "", ("top", "top/good", "top/\x1b[2J"))),
}


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_a_list_answer_that_lies_hides_nobody(house: House, liar: tuple[Stranger, Stranger], lie: str) -> None:
    with answering(house, *liar, LIES[lie]) as asked:
        rows, absent, pages = listed(house)
        assert [row for row in rows if not row.startswith("top/liar/")] == HONEST
        assert not absent & {"top", "top/good"}
        assert all(name.isprintable() for name in absent)
        assert asked
        if lie != "all of its parents absent":
            assert "top/liar" in absent
        if "endless" in lie:
            assert len(rows) < 1_100
        else:
            assert rows == HONEST
        assert pages < 1_100
        # Asked for alone, it is either what it says of itself, or nothing.
        status, page = house.top.ask("/v1/hosts?under=top/liar&limit=4")
        if status == 200:
            assert all(row["zone"].startswith("top/liar") for row in page["items"])
        else:
            assert status in (400, 404, 409, 500, 502, 503) and page["error"]["code"] not in ("", "internal"), page
        shown = house.top.cli("host", "list", "--limit", "50")
        assert shown.status in (0, 6)
        assert "\x1b" not in shown.out + shown.err
    house.well()


def test_a_list_in_a_wrong_order_and_told_twice_is_its_own(house: House, liar: tuple[Stranger, Stranger]) -> None:
    names = [f"h{n}" for n in (5, 1, 9, 1, 0, 7)]

    def make(query: PageQuery) -> Page:
        begin = int(query.marker or 0)
        rows = tuple(host("top/liar", name) for name in names[begin : begin + query.limit])
        end = begin + len(rows)
        return Page(rows, str(end) if end < len(names) else "")

    with answering(house, *liar, paged(make)):
        for limit in (1, 4, 100):
            rows, absent, _ = listed(house, limit=limit)
            assert sorted(rows) == sorted(HONEST + [f"top/liar/{name}" for name in names])
            assert "top/liar" not in absent


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x92\x80" + b"\x91" * 100_000,
        pack(UsageReply({"lh": -5})),
        pack(UsageReply({"lh": 2**60})),
        pack([{"lh": float("nan")}]),
        pack(CommandReply(b"\xff")),
        pack(CommandReply(b'{"name": 1}')),
    ],
    ids=range(8),
)
def test_other_answers_that_can_be_none_are_told_as_such(
    house: House, liar: tuple[Stranger, Stranger], body: bytes
) -> None:
    disable = "/v1/zones/top/liar/deep/actions/disable"
    with answering(house, *liar, raw(body)) as asked:
        for status, answer in (house.top.ask("/v1/usage?under=top/liar/deep"), house.top.ask(disable, {})):
            assert status == 503, answer
            assert answer["error"]["code"] == "bad-answer"
            assert "top/liar" in answer["error"]["text"]
        assert {request.verb for request in asked} == {"usage", "command"}
    house.well()
