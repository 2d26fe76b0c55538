"""One page of servers over many members: what each has is in the same order, and is merged as it is needed.

A member is asked for few rows at a time, and only when the next row of the page could be its own. A place in the list
means the same to every member, so nothing is kept between two pages. Members that can not be asked, or answer with an
error, are named; what they hold is then not on the page, and is found again on a later one that begins before it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from banyan.core.errors import BanyanError, Unreachable
from banyan.core.server import Server, ServerPage, ServerQuery
from banyan.core.server_messages import MAX_LOOK
from banyan.core.server_order import Values, full_order, ranking, read_place, values_of, write_place
from banyan.zone.deadline import NEVER, Deadline

# Rows asked of one member at a time, at least; members asked at a time; and how often all that must be are asked.
MIN_BATCH: Final = 10
AT_ONCE: Final = 64
TURNS: Final = 50
# Zones that are named in one answer, of those that are absent; of the rest it is said how many they are.
MAX_ABSENT: Final = 100

Ask = Callable[[ServerQuery], Awaitable[ServerPage]]


@dataclass(slots=True)
class Source:
    """One member. `ask` raises what it answers instead of a page, Unreachable if it can not be asked."""

    path: str
    ask: Ask
    rows: list[tuple[Any, Server]] = field(default_factory=list)
    reached: Any = None
    """How far it is read, as a rank; None for not at all."""
    after: str = ""
    ended: bool = False
    answered: bool = False
    at: int = 0
    error: BanyanError | None = None
    """What it answered instead of a page."""

    @property
    def empty(self) -> bool:
        return self.at >= len(self.rows) and not self.ended


async def merged(
    query: ServerQuery, sources: Sequence[Source], absent: Sequence[str] = (), deadline: Deadline = NEVER
) -> ServerPage:
    """The next page. It may be short, even empty, and still go on. Raises BadInput("bad-marker"), and what a member
    answers if none of them gives a page and not all of them can not be asked: then it is the question.

    When the time is over it ends with what came; a member that was not read at all by then is absent like one that gave
    no answer.
    """
    order = full_order(query.sort)
    rank = ranking(order)
    start = read_place(query.after, len(order))
    if start is not None:
        rank(start) < rank(start)  # noqa: B015 - a marker of another order is refused before anybody is asked
    missing = dict.fromkeys(absent)
    batch = min(MAX_LOOK, max(MIN_BATCH, 2 * query.limit // max(1, len(sources)) + 1))
    for source in sources:
        source.after = query.after
    found: list[Server] = []
    place: Values | list[str | float] | None = start
    for _ in range(TURNS):
        await _fill([source for source in sources if source.empty], query, batch, order, rank, missing, deadline)
        _check(sources)
        place = _take(sources, query.limit, order, rank, found, place)
        if len(found) == query.limit or all(source.ended and source.at >= len(source.rows) for source in sources):
            break
        if deadline.over:
            break
    left = any(not source.ended or source.at < len(source.rows) for source in sources)
    after = ""
    if left:
        if not found:
            waiting = [source for source in sources if source.empty and source.reached is not None]
            first = min(waiting, key=lambda source: source.reached, default=None)
            after = query.after if first is None else first.after
        else:
            after = write_place(place or ())
    return ServerPage(tuple(found), after, tuple(missing))


async def _fill(
    sources: Sequence[Source],
    query: ServerQuery,
    batch: int,
    order: Sequence[Any],
    rank: Any,
    missing: dict[str, None],
    deadline: Deadline,
) -> None:
    pages: dict[int, ServerPage | BanyanError | None] = {}
    waiting = iter(enumerate(sources))

    async def ask() -> None:
        # One that hangs holds up its own place in the row, and nobody else's.
        for at, source in waiting:
            if deadline.over:
                pages[at] = None
                continue
            try:
                pages[at] = await source.ask(replace(query, after=source.after, limit=min(batch, query.limit)))
            except BanyanError as error:
                pages[at] = error

    for ended in await asyncio.gather(*(ask() for _ in range(min(AT_ONCE, len(sources)))), return_exceptions=True):
        if ended is not None:
            raise ended
    for at, source in enumerate(sources):
        page = pages[at]
        if page is None and source.reached is not None:
            continue  # what it has is behind the end of this page
        if page is None or isinstance(page, Unreachable):
            missing[source.path] = None
            source.ended = True
            continue
        if isinstance(page, BanyanError):
            missing[f"{source.path} ({page.code})"] = None
            source.ended, source.error = True, page
            continue
        source.answered = True
        missing.update(dict.fromkeys(page.absent))
        source.rows = [(rank(values_of(server, order)), server) for server in page.servers]
        source.at = 0
        source.after, source.ended = page.after, not page.after
        if page.after:
            source.reached = rank(read_place(page.after, len(order)) or ())


def _check(sources: Sequence[Source]) -> None:
    """Raises what a member answers where none has a page: what one of many answers is no reason to show nothing."""
    error = next((source.error for source in sources if source.error is not None), None)
    if error is not None and not any(source.answered for source in sources):
        raise error


def some_of(absent: Iterable[str], path: str) -> tuple[str, ...]:
    """Absent zones as an answer names them: all, or the first, and how many more are below `path`."""
    names = tuple(dict.fromkeys(absent))
    if len(names) <= MAX_ABSENT:
        return names
    return (*names[:MAX_ABSENT], f"{len(names) - MAX_ABSENT} or more others below {path}")


def _take(
    sources: Sequence[Source],
    limit: int,
    order: Sequence[Any],
    rank: Any,
    found: list[Server],
    place: Values | list[str | float] | None,
) -> Values | list[str | float] | None:
    """Rows that come before all that is not read yet. The place behind the last of them."""
    heads = [(source.rows[source.at][0], n) for n, source in enumerate(sources) if source.at < len(source.rows)]
    heapq.heapify(heads)
    frontier = min((source.reached for source in sources if source.empty), default=None)
    while heads and len(found) < limit:
        first, n = heads[0]
        if frontier is not None and frontier < first:
            break
        source = sources[n]
        server = source.rows[source.at][1]
        found.append(server)
        place = values_of(server, order)
        source.at += 1
        if source.at < len(source.rows):
            heapq.heapreplace(heads, (source.rows[source.at][0], n))
            continue
        heapq.heappop(heads)
        if source.empty and (frontier is None or source.reached < frontier):
            frontier = source.reached
    return place


def fitting(page: ServerPage, sort: Sequence[Any], size: Callable[[Server], int], most: int) -> ServerPage:
    """As many of the page's first rows as have room in an answer; at least one."""
    total = 0
    for at, server in enumerate(page.servers):
        total += size(server)
        if total > most and at:
            kept = page.servers[:at]
            return ServerPage(kept, write_place(values_of(kept[-1], full_order(sort))), page.absent)
    return page
