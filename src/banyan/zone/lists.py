"""Lists over the whole tree, one page at a time, merged lazily (protocols §13).

Order is (zone path, rack, name, id): a zone's own racks first, then its children by name, each of which
does the same. A page asks only as many members as it needs, in small parallel batches, and never more
rows than were asked for. A member that cannot be asked, or whose answer cannot be one, is named in `absent` and passed
over. A page may be shorter than its limit, even empty, and still have a marker: filters bound the rows looked at, not
found.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias, TypeVar

import msgspec

from banyan.core.errors import BadInput, BanyanError
from banyan.core.guest import Guest
from banyan.core.host import Host, HostWord, as_said
from banyan.core.ids import under
from banyan.core.messages import Page, PageQuery
from banyan.core.ports import Store
from banyan.core.rack import Rack
from banyan.core.reading import Reader, json_reader, msgpack_reader
from banyan.core.records import Unit
from banyan.placement.standing import Standing, rack_standing
from banyan.zone import present
from banyan.zone.deadline import NEVER, Deadline
from banyan.zone.views import HostView, PageView, RackView, ServerView, TraceView

Row = TypeVar("Row")

MAX_LIMIT = 1000
# A page stays below this many bytes plus one child's page, and both fit a frame of the link (core.messages.MAX_FRAME).
MAX_BYTES = 96 * 1024
# Rows looked at for one page when a filter lets few through; then the page ends early with a marker.
MAX_LOOKED_AT = 20_000
# Children asked at the same time for one page.
BATCH = 16
# A zone has about so many racks at most, and a member so many rows of which it has not told yet.
SOME = 1000
# A marker of a child, which ours holds; ours must fit an address of the API (api.context: 8 KiB).
MAX_MARKER = 4096

# Of fnmatch.
_SPECIAL = re.compile(r"[*?\[]")

FILTERS = {
    "racks": ("name", "driver", "health"),
    "hosts": ("name", "rack", "state", "offered", "availability_zone", "aggregate"),
    "servers": ("name", "rack", "state", "project", "host"),
    # Lines of the journals of all zones, of one request.
    "trace": ("request",),
}


_Row = RackView | HostView | ServerView | TraceView
_ROWS: Mapping[str, Reader[_Row]] = {
    "racks": json_reader(RackView),
    "hosts": json_reader(HostView),
    "servers": json_reader(ServerView),
    "trace": json_reader(TraceView),
}


class Marker(msgspec.Struct, frozen=True, array_like=True):
    """Where a page begins: `rack` and `row` within our own racks, or `child` and its own marker.

    `given`: what was had of that child so far, in rows; a page of its counts as one row at least.
    """

    rack: str = ""
    row: str = ""
    child: str = ""
    inner: str = ""
    own_done: bool = False
    given: int = 0


_MARKER = msgpack_reader(Marker)


def encode_marker(marker: Marker) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(marker)).rstrip(b"=").decode()


def decode_marker(text: str) -> Marker:
    """Raises BadInput("bad-marker")."""
    if not text:
        return Marker()
    try:
        return _MARKER(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError as error:
        raise bad_marker() from error


def bad_marker() -> BadInput:
    return BadInput("bad-marker", "the marker must be the `marker` of the page before, unchanged")


def first(
    rows: Sequence[Row], limit: int, view: Callable[[Row], msgspec.Struct], marker: Callable[[Row], str]
) -> PageView:
    """The page of the first `limit` of `rows`, which were read to one beyond it: if that is there, more follows."""
    shown = rows[:limit]
    items = tuple(msgspec.Raw(msgspec.json.encode(view(row))) for row in shown)
    return PageView(items, marker(shown[-1]) if len(rows) > limit else "")


class _Rows(list[bytes]):
    """The rows of one page as they come; enough by number or by bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._bytes = 0

    def add(self, rows: Iterable[bytes]) -> None:
        for row in rows:
            self.append(row)
            self._bytes += len(row)

    def are_enough(self) -> bool:
        return len(self) >= self._limit or self._bytes >= MAX_BYTES


@dataclass(frozen=True, slots=True)
class Below:
    """One child that may hold rows. `ask` raises BanyanError when it cannot be asked.

    `most`: the rows that it can have, generously, by its own totals; a list that goes on beyond never ends. `offered`:
    whether what it offers is so here too (placement.standing).
    """

    name: str
    path: str
    reachable: bool
    ask: Callable[[PageQuery], Awaitable[Page]]
    most: int
    offered: bool = True


# So many of the members whose names are not before the given one, by name. A name with a NUL comes right after it.
Members = Callable[[str, int], Sequence[Below]]


def nobody(name: str, count: int) -> Sequence[Below]:
    """A zone that asks no member."""
    return ()


def most_rows(kind: str, counters: Mapping[str, int]) -> int:
    """The rows that a child can have of this kind, by the totals that it reported: twice as many, and some more.

    Its totals may be older than its rows, and a page that holds none counts as one.
    """
    if kind == "racks":
        return SOME + counters.get("z:total", 0) * SOME
    letter = "h" if kind == "hosts" else "g"
    return SOME + 2 * sum(value for key, value in counters.items() if key[1:] == letter or key[1:3] == f"{letter}:")


def check_query(kind: str, filters: Mapping[str, str], limit: int) -> int:
    """The limit, bounded. Raises BadInput for an unknown filter or limit."""
    known = FILTERS.get(kind)
    if known is None:
        raise BadInput("bad-kind", f"lists are of {', '.join(FILTERS)}; got {kind[:40]!r}")
    for key in filters:
        if key not in known:
            raise BadInput("bad-filter", f"{kind} can be filtered by {', '.join(known)}, not by {key[:40]!r}")
    if kind == "trace" and not filters.get("request"):
        raise BadInput("bad-filter", "a trace is of one request: give its id")
    return check_limit(limit)


def check_limit(limit: int) -> int:
    """The rows of one page: at least one, at most MAX_LIMIT. Raises BadInput("bad-limit")."""
    if limit < 1:
        raise BadInput("bad-limit", f"limit must be from 1 to {MAX_LIMIT}, got {limit}")
    return min(limit, MAX_LIMIT)


async def page(
    kind: str,
    path: str,
    store: Store,
    racks: Sequence[Rack],
    below: Members,
    filters: Mapping[str, str],
    marker_text: str,
    limit: int,
    deadline: Deadline = NEVER,
) -> Page:
    """One page of the zone at `path`: its own rows from the store, then its children's.

    When the time is over it ends with what came, and goes on at its marker.
    """
    limit = check_query(kind, filters, limit)
    marker = decode_marker(marker_text)
    rows = _Rows(limit)
    if not marker.own_done and not marker.child:
        marker = await _own(kind, path, store, racks, filters, marker, limit, rows, deadline)
        if not marker.own_done:
            return Page(tuple(rows), encode_marker(marker))
    absent: list[str] = []
    inner = marker.inner
    batch = below(marker.child, BATCH)
    given, asked_any = marker.given, False
    if inner and (not batch or batch[0].name != marker.child):
        inner = ""
    while batch:
        if rows.are_enough() or (deadline.over and asked_any):
            where = Marker(child=batch[0].name, inner=inner, own_done=True, given=given if inner else 0)
            return Page(tuple(rows), encode_marker(where), _named(absent))
        wanted = limit - len(rows)
        # The first may fill the page alone; the others are asked for their share, or a long list would read
        # a page from each of them to show one.
        share = max(1, wanted // len(batch))
        queries = [
            PageQuery(kind, "", dict(filters), inner if i == 0 else "", wanted if i == 0 else share)
            for i in range(len(batch))
        ]
        asked_any = True
        replies = await asyncio.gather(*(_ask(b, q) for b, q in zip(batch, queries, strict=True)))
        before = given if inner else 0
        inner, following = "", batch[-1].name + "\0"
        for number, (child, reply) in enumerate(zip(batch, replies, strict=True)):
            room, asked = limit - len(rows), queries[number].limit
            if rows.are_enough():
                following = child.name
                break
            if reply is not None and len(reply.rows) > room:
                if deadline.over:
                    following = child.name
                    break
                # Asked before it was known how little is wanted; its marker only fits the right limit.
                reply, asked = await _ask(child, PageQuery(kind, "", dict(filters), "", room)), room
            given = (before if number == 0 else 0) + max(1, 0 if reply is None else len(reply.rows))
            if reply is None or (reply.marker and given > child.most):
                absent.append(child.path)
            else:
                absent.extend(reply.absent)
                rows.add(reply.rows)
                if reply.marker:
                    inner = reply.marker
                    if len(reply.rows) < asked:
                        # It looked at its fill and found little: hand the marker on rather than wait here.
                        where = Marker(child=child.name, inner=inner, own_done=True, given=given)
                        return Page(tuple(rows), encode_marker(where), _named(absent))
                    following = child.name
                    break
        batch = below(following, BATCH)
        if not batch or batch[0].name != following:
            inner = ""  # it went while it was asked
    return Page(tuple(rows), "", _named(absent))


def _named(absent: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(absent))[:MAX_LIMIT]


async def _ask(child: Below, query: PageQuery) -> Page | None:
    if not child.reachable:
        return None
    wanted = asked(query, child.offered)
    if wanted is None:
        return Page(())
    try:
        return checked(await child.ask(wanted), wanted, child.path, child.offered)
    except (BanyanError, ValueError):
        return None


def asked(query: PageQuery, offered: bool) -> PageQuery | None:
    """What a child is asked for. Below one that is not offered no host is, whatever it says itself: None if it can have
    none that matches."""
    wanted = query.filters.get("offered")
    if offered or query.kind != "hosts" or wanted is None:
        return query
    if not _matches(wanted, present.truth(False)):
        return None
    return msgspec.structs.replace(query, filters={k: v for k, v in query.filters.items() if k != "offered"})


def checked(page: Page, query: PageQuery, path: str, offered: bool) -> Page:
    """A child's answer, if it can be one: as many rows as were asked for, each of its kind and from the child or below.

    Raises ValueError. A child's word is believed about itself only, and never shown unread; `offered` as in Below.
    """
    read, rows = _ROWS[query.kind], []
    if len(page.rows) > query.limit or (page.marker and page.marker == query.marker):
        raise ValueError("more rows than were asked for, or a list that does not end")
    if len(page.marker) > MAX_MARKER:
        raise ValueError(f"a marker of {len(page.marker)} characters; at most {MAX_MARKER} are taken")
    for row in page.rows:
        view = read(row)
        if not under(view.zone, path):
            raise ValueError("a row from a zone that is not below the one that was asked")
        if isinstance(view, HostView) and not offered:
            row = msgspec.json.encode(msgspec.structs.replace(view, offered=False))
        rows.append(row)
    absent = tuple(name for name in page.absent if under(name, path) and name.isprintable())
    return Page(tuple(rows), page.marker, absent)


async def _own(
    kind: str,
    path: str,
    store: Store,
    racks: Sequence[Rack],
    filters: Mapping[str, str],
    marker: Marker,
    limit: int,
    rows: _Rows,
    deadline: Deadline,
) -> Marker:
    """Appends own rows; the marker to go on from, `own_done` when there are no more."""
    encode = msgspec.json.encode
    if kind == "trace":
        return await _traced(path, store, filters, marker, limit, rows)
    looked_at = 0
    for rack in sorted(racks, key=lambda r: r.name):
        if rack.name < marker.rack or not _matches(filters.get("rack", "*"), rack.name):
            continue
        if kind == "racks":
            if rack.name == marker.rack:
                continue
            if rows.are_enough():
                return Marker(rack=marker.rack)
            hosts, servers = await store.read(_counter(rack))
            if (
                _matches(filters.get("name", "*"), rack.name)
                and _matches(filters.get("driver", "*"), rack.driver)
                and _matches(filters.get("health", "*"), rack.health)
            ):
                rows.add((encode(present.rack(rack, path, hosts, servers)),))
            marker = Marker(rack=rack.name)
            continue
        after = marker.row if rack.name == marker.rack else ""
        while True:
            wanted = min(MAX_LIMIT, max(limit - len(rows), 100))
            batch, words = await store.read(_reader(kind, rack, after or None, wanted))
            for row in batch:
                if rows.are_enough():
                    return Marker(rack=rack.name, row=after)
                after = f"{row.name}\x00{row.id}"
                if isinstance(row, Host):
                    offered, word = offered_here(row, rack), words.get(row.id)
                    if _host_matches(as_said(row, word), offered, filters):
                        rows.add((encode(present.host(row, path, rack.name, offered, word)),))
                elif _guest_matches(row, filters):
                    rows.add((encode(present.server(row, path, rack.name)),))
            looked_at += len(batch)
            if len(batch) < wanted:
                break
            if looked_at >= MAX_LOOKED_AT or deadline.over:
                return Marker(rack=rack.name, row=after)
    return Marker(own_done=True)


async def _traced(
    path: str, store: Store, filters: Mapping[str, str], marker: Marker, limit: int, rows: _Rows
) -> Marker:
    """Own lines of the journal; the marker's row is the number of the last one seen."""
    after = marker.row or "0"
    if not (after.isascii() and after.isdigit() and len(after) <= 18):
        raise bad_marker()
    lines = await store.read(lambda unit: unit.journal.page(int(after), limit + 1, filters))
    for line in lines:
        if rows.are_enough():
            return Marker(row=after)
        after = str(line.number)
        rows.add((msgspec.json.encode(present.trace(line, path)),))
    return Marker(own_done=True)


def _counter(rack: Rack) -> Callable[[Unit], tuple[int, int]]:
    def count(unit: Unit) -> tuple[int, int]:
        return unit.hosts.count(rack.code), sum(unit.guests.count_by_state(rack.code).values())

    return count


_Batch: TypeAlias = tuple[Sequence[Host] | Sequence[Guest], Mapping[str, HostWord]]


def _reader(kind: str, rack: Rack, after: str | None, limit: int) -> Callable[[Unit], _Batch]:
    """Rows, and what people said about those that are hosts."""

    def read(unit: Unit) -> _Batch:
        if kind == "hosts":
            hosts = unit.hosts.page(rack.code, after, limit)
            return hosts, unit.host_words.of(rack.code, [host.id for host in hosts]) if hosts else {}
        return unit.guests.page(rack.code, after, limit), {}

    return read


def literal(text: str) -> str:
    """A pattern that only `text` matches."""
    return _SPECIAL.sub(r"[\g<0>]", text)


def _matches(pattern: str, value: str) -> bool:
    return pattern == "*" or fnmatchcase(value, pattern)


def offered_here(row: Host, rack: Rack) -> bool | None:
    """None while nobody can see whether the host is there."""
    return row.offered and (rack_standing(rack) is Standing.LIVE or None)


def _host_matches(row: Host, offered: bool | None, filters: Mapping[str, str]) -> bool:
    state = "disabled" if row.disabled else "up" if row.up else "down"
    return (
        _matches(filters.get("name", "*"), row.name)
        and _matches(filters.get("state", "*"), state)
        and _matches(filters.get("offered", "*"), present.truth(offered))
        and _matches(filters.get("availability_zone", "*"), row.availability_zone)
        and ("aggregate" not in filters or any(_matches(filters["aggregate"], a) for a in row.aggregates))
    )


def _guest_matches(row: Guest, filters: Mapping[str, str]) -> bool:
    return all(
        _matches(filters.get(key, "*"), value)
        for key, value in (("name", row.name), ("state", row.state), ("project", row.project), ("host", row.host))
    )
