"""Lists over the tree: merged lazily, every row once, absent members named."""

from __future__ import annotations

import asyncio
import base64

import msgspec
import pytest

from banyan.core.errors import BadInput, Unreachable
from banyan.core.messages import Page, PageQuery
from banyan.core.time import Mono
from banyan.simulate.clock import VirtualClock
from banyan.simulate.loop import VirtualLoop
from banyan.zone import lists
from banyan.zone.deadline import Deadline
from banyan.zone.views import HostView


def host(zone: str, number: int, width: int = 0) -> bytes:
    traits = ("T" * width,) if width else ()
    return msgspec.json.encode(HostView(zone, "rack", str(number), f"h{number}", True, False, True, {}, traits))


class Member:
    """A child that holds numbered rows and pages as a zone does."""

    def __init__(self, name: str, rows: int, *, reachable: bool = True, stubborn: int = 0) -> None:
        self.name = name
        self.rows = [host(f"top/{name}", n) for n in range(rows)]
        self.reachable = reachable
        self.stubborn = stubborn
        self.asked: list[PageQuery] = []
        self.most = 1000 + 2 * rows

    async def ask(self, query: PageQuery) -> Page:
        self.asked.append(query)
        if self.stubborn:
            self.stubborn -= 1
            raise Unreachable("member-unreachable", "gone")
        begin = int(query.marker or 0)
        chosen = self.rows[begin : begin + query.limit]
        end = begin + len(chosen)
        return Page(tuple(chosen), str(end) if end < len(self.rows) else "")

    def below(self) -> lists.Below:
        return lists.Below(self.name, f"top/{self.name}", self.reachable, self.ask, self.most)


def listed(*members: Member) -> lists.Members:
    ordered = sorted(members, key=lambda m: m.name)
    return lambda name, count: [m.below() for m in ordered if m.name >= name][:count]


class NoStore:
    """The zone of these tests has no rack, so nothing is read."""

    async def write(self, name: str, work: object) -> object:
        raise AssertionError

    async def read(self, work: object) -> object:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError


def walk(members: list[Member], limit: int) -> tuple[list[bytes], set[str], int]:
    """All rows by following markers, the absent, and how many pages it took."""

    async def follow() -> tuple[list[bytes], set[str], int]:
        rows: list[bytes] = []
        absent: set[str] = set()
        marker, pages = "", 0
        while True:
            page = await lists.page("hosts", "top", NoStore(), (), listed(*members), {}, marker, limit)
            assert len(page.rows) <= limit
            rows += page.rows
            absent |= set(page.absent)
            pages += 1
            assert pages < 10_000, "a list that does not end"
            if not page.marker:
                return rows, absent, pages
            marker = page.marker

    return asyncio.run(follow())


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("sizes", [(0,), (5,), (3, 0, 4), (1, 1, 1, 1, 1), (10, 2, 9), (0, 0, 6)])
def test_every_row_comes_once_and_in_order(sizes: tuple[int, ...], limit: int) -> None:
    members = [Member(f"m{n:02}", size) for n, size in enumerate(sizes)]
    rows, absent, _ = walk(members, limit)
    assert rows == [row for member in members for row in member.rows]
    assert absent == set()


def test_more_children_than_one_batch() -> None:
    members = [Member(f"m{n:02}", 3) for n in range(40)]
    rows, _, _ = walk(members, 50)
    assert len(rows) == len(set(rows)) == 120


def test_a_page_asks_no_more_children_than_it_needs() -> None:
    members = [Member(f"m{n:02}", 5) for n in range(100)]
    asyncio.run(lists.page("hosts", "top", NoStore(), (), listed(*members), {}, "", 5))
    assert sum(bool(member.asked) for member in members) <= lists.BATCH


def test_absent_members_are_named_and_passed_over() -> None:
    members = [Member("a", 2), Member("b", 2, reachable=False), Member("c", 2, stubborn=1)]
    rows, absent, _ = walk(members, 10)
    assert rows == members[0].rows
    assert absent == {"top/b", "top/c"}


def test_a_member_that_leaves_between_pages_loses_only_its_own_rows() -> None:
    first, second = Member("a", 4), Member("b", 1)

    async def run() -> list[bytes]:
        page = await lists.page("hosts", "top", NoStore(), (), listed(first, second), {}, "", 2)
        rest = await lists.page("hosts", "top", NoStore(), (), listed(second), {}, page.marker, 10)
        return [*page.rows, *rest.rows]

    assert asyncio.run(run()) == [*first.rows[:2], *second.rows]


def test_a_foreign_marker_is_refused() -> None:
    with pytest.raises(BadInput, match="marker"):
        lists.decode_marker("not-a-marker")


def test_unknown_filters_and_limits_are_named() -> None:
    with pytest.raises(BadInput, match="can be filtered by"):
        lists.check_query("hosts", {"colour": "red"}, 10)
    with pytest.raises(BadInput, match="from 1 to"):
        lists.check_query("hosts", {}, 0)
    assert lists.check_query("hosts", {}, 10**9) == lists.MAX_LIMIT


def test_a_page_stays_within_a_frame_of_the_link() -> None:
    members = [Member(f"m{n}", 0) for n in range(3)]
    for member in members:
        member.rows = [host(f"top/{member.name}", n, width=2000) for n in range(60)]
    rows, absent, pages = walk(members, 1000)
    assert rows == [row for member in members for row in member.rows]
    assert absent == set()
    assert pages > 1


def test_a_page_looks_at_few_of_many_members() -> None:
    """Twenty thousand children: a page takes those it needs from where it begins, and never a list of all."""
    members = [Member(f"m{n:05}", 2) for n in range(20_000)]
    looked_at = 0
    rows = listed(*members)

    def below(name: str, count: int) -> list[lists.Below]:
        nonlocal looked_at
        looked_at += count
        return list(rows(name, count))

    async def pages() -> None:
        page = await lists.page("hosts", "top", NoStore(), (), below, {}, "", 10)
        middle = lists.encode_marker(lists.Marker(child="m15000", own_done=True))
        again = await lists.page("hosts", "top", NoStore(), (), below, {}, middle, 10)
        assert len(page.rows) == len(again.rows) == 10

    asyncio.run(pages())
    assert looked_at <= 20 * lists.BATCH


def test_the_marker_of_one_member_is_never_given_to_the_next() -> None:
    first, second = Member("a", 5), Member("b", 5)
    there = [first, second]

    def below(name: str, count: int) -> list[lists.Below]:
        return [m.below() for m in there if m.name >= name][:count]

    async def page() -> None:
        found = await lists.page("hosts", "top", NoStore(), (), below, {}, "", 3)
        there.remove(first)
        rest = await lists.page("hosts", "top", NoStore(), (), below, {}, found.marker, 10)
        assert rest.rows == tuple(second.rows)

    asyncio.run(page())


def test_a_page_reads_little_more_below_than_it_shows() -> None:
    members = [Member(f"m{n:02}", 1000) for n in range(16)]
    asyncio.run(lists.page("hosts", "top", NoStore(), (), listed(*members), {}, "", 100))
    assert sum(query.limit for member in members for query in member.asked) <= 2 * 100


class Liar(Member):
    """A child whose answers are not what they must be."""

    def __init__(self, lie: Page) -> None:
        super().__init__("liar", 0)
        self.lie = lie

    async def ask(self, query: PageQuery) -> Page:
        return self.lie


@pytest.mark.parametrize(
    "lie",
    [
        Page((b"this is not json",)),
        Page((b"{}",)),
        Page((host("top/other", 1),)),
        Page((host("top/liarxyz", 1),)),
        Page(tuple(host("top/liar", n) for n in range(11))),
        Page((host("top/liar", 1)[:-1] + b',"new":' + b"[" * 50_000 + b"]" * 50_000 + b"}",)),
        Page((), "m" * (lists.MAX_MARKER + 1)),
        Page((host("top/liar", 1), host("top", 2))),
        Page((b"NaN",)),
        Page((host("top/liar", 1) + b"\xff",)),
    ],
)
def test_an_answer_that_cannot_be_one_makes_its_child_absent_and_nobody_else(lie: Page) -> None:
    honest = Member("zebra", 2)
    rows, absent, _ = walk([Liar(lie), honest], 10)
    assert rows == honest.rows
    assert absent == {"top/liar"}


class Endless(Member):
    """A child whose list never ends: each page is followed by another, of `rows` rows."""

    def __init__(self, each: int) -> None:
        super().__init__("endless", 0)
        self.each = each
        self.most = 1000

    async def ask(self, query: PageQuery) -> Page:
        self.asked.append(query)
        begin = int(query.marker or 0)
        chosen = tuple(host("top/endless", begin + n) for n in range(min(self.each, query.limit)))
        return Page(chosen, str(begin + max(1, len(chosen))))


@pytest.mark.parametrize("each", [0, 1, 7, 1000])
@pytest.mark.parametrize("limit", [10, 1000])
def test_a_list_that_never_ends_makes_its_child_absent_in_time(each: int, limit: int) -> None:
    """Its own totals say how many rows it can have; who sorts behind it is shown all the same."""
    endless, honest = Endless(each), Member("zebra", 2)
    rows, absent, _ = walk([endless, honest], limit)
    assert rows[-2:] == honest.rows
    assert absent == {"top/endless"}
    assert len(rows) <= endless.most + limit
    assert len(endless.asked) <= endless.most + 2


def test_one_page_waits_for_a_child_once_though_it_gives_little() -> None:
    """A child that gives a row at a time, each after a while, must not hold one request for as many whiles."""
    endless = Endless(1)
    one = asyncio.run(lists.page("hosts", "top", NoStore(), (), listed(endless), {}, "", 1000))
    assert len(endless.asked) == 1
    assert one.marker


def test_rows_in_a_wrong_order_are_a_childs_own_matter() -> None:
    liar = Member("liar", 0)
    liar.rows = [host("top/liar", n) for n in (5, 1, 9, 1, 0)]
    honest = Member("zebra", 3)
    for limit in (1, 2, 100):
        rows, absent, _ = walk([liar, honest], limit)
        assert (rows, absent) == ([*liar.rows, *honest.rows], set())


@pytest.mark.parametrize("kind", ["hosts", "servers", "racks"])
def test_what_a_child_can_have_follows_from_its_totals(kind: str) -> None:
    counters = {"lh": 10, "nh": 2, "uh": 3, "lhu": 99, "lg:active": 70, "ng:error": 7, "lr:vcpu:t": 10**9, "z:total": 4}
    wanted = {"hosts": 1000 + 2 * 15, "servers": 1000 + 2 * 77, "racks": 5000}
    assert lists.most_rows(kind, counters) == wanted[kind]
    assert lists.most_rows(kind, {}) == 1000


def test_a_marker_of_a_users_making_is_refused_however_deep() -> None:
    deep = base64.urlsafe_b64encode(b"\x97\xa0\xa0\xa0\xa0\xc2\x00" + b"\x91" * 5000).decode()
    with pytest.raises(BadInput) as refusal:
        lists.decode_marker(deep)
    assert refusal.value.code == "bad-marker"


def test_a_child_names_as_absent_only_what_is_below_it() -> None:
    rows, absent, _ = walk([Liar(Page((), "", ("top/liar/a", "top/other", "top/liar/\x1b]0;owned\x07")))], 10)
    assert (rows, absent) == ([], {"top/liar/a"})


def test_a_kind_of_a_later_version_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match="lists are of"):
        lists.check_query("volumes", {}, 10)


async def nap(loop: VirtualLoop, seconds: float) -> None:
    clock = VirtualClock(loop, "m")
    await clock.sleep_until(Mono(clock.now() + seconds))


class Slow(Member):
    """A member that takes so many seconds for each page, or hangs until its asker gives up."""

    def __init__(self, name: str, rows: int, seconds: float, loop: VirtualLoop) -> None:
        super().__init__(name, rows)
        self.seconds = seconds
        self.loop = loop

    async def ask(self, query: PageQuery) -> Page:
        left = 20.0 - self.loop.time() % 100.0
        await nap(self.loop, min(self.seconds, left))
        if self.seconds >= left:
            raise Unreachable("no-answer", "it hangs")
        return await super().ask(query)


def test_a_list_whose_time_is_over_goes_on_at_its_marker() -> None:
    """Each batch has one that hangs; every page ends in time, with what came, and all pages make the whole list."""
    loop = VirtualLoop()
    members = [Slow(f"m{n:03}", 2, 1e9 if n % 16 == 5 else 0.1, loop) for n in range(64)]

    async def one(marker: str, number: int) -> Page:
        await nap(loop, 100.0 * number - loop.time())
        below = listed(*members)
        page = await lists.page("hosts", "top", NoStore(), (), below, {}, marker, 1000, Deadline.within(20.0))
        assert loop.time() - 100.0 * number < 20.5
        return page

    rows: list[bytes] = []
    absent: list[str] = []
    marker = ""
    for number in range(1, 10):
        page = loop.run_task(one(marker, number), 1_000.0)
        rows += page.rows
        absent += page.absent
        marker = page.marker
        if not marker:
            break
    loop.close()
    assert (number, absent) == (4, [f"top/m{n:03}" for n in (5, 21, 37, 53)])
    assert rows == [row for n, one_ in enumerate(members) if n % 16 != 5 for row in one_.rows]


def test_a_member_whose_rows_came_too_late_to_be_asked_for_fewer_is_not_absent() -> None:
    """It was asked for more than there is room for, and no time is left to ask again: the next page begins there."""
    loop = VirtualLoop()
    members = [Slow("a", 5, 0.1, loop), Slow("b", 0, 1e9, loop), Slow("c", 4, 0.1, loop)]

    async def one(marker: str, seconds: float) -> Page:
        below = listed(*members)
        return await lists.page("hosts", "top", NoStore(), (), below, {}, marker, 6, Deadline.within(seconds))

    first = loop.run_task(one("", 20.0), 100.0)
    assert (len(first.rows), first.absent) == (5, ("top/b",))
    assert first.marker
    members[1].seconds = 0.0
    loop.run_until(200.0)
    rest = loop.run_task(one(first.marker, 20.0), 100.0)
    loop.close()
    assert [*first.rows, *rest.rows] == [*members[0].rows, *members[2].rows]
    assert (rest.absent, rest.marker) == ((), "")
