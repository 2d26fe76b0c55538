"""The journal: pages of it, the next lines as they come (long poll), and a stream of them (Server-Sent Events).

A stream is bounded: so many at a time, an hour each, and its caller is proved again at least every 15 seconds, so
that a revoked token stops reading. A client resumes with Last-Event-ID and misses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Literal

import msgspec
from starlette.responses import StreamingResponse

from banyan.api.context import Context
from banyan.api.faults import fault
from banyan.api.intake import NoBody
from banyan.api.paging import Exact, Limit, Marker, PageQuery, Under, filters
from banyan.core.errors import BadInput, BanyanError
from banyan.zone.views import PageView

_FILTERS = ("kind", "target", "actor", "outcome")
# A long poll ends before the patience of usual proxies (60 s) does.
MAX_WAIT = 50.0
STREAM_PAGE = 100

Outcome = Literal["", "done", "refused", "failed"]


class _JournalFilters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Exact = ""
    target: Exact = ""
    actor: Exact = ""
    outcome: Outcome = ""


class JournalQuery(_JournalFilters, frozen=True):
    """`marker` is the last number seen; `last` starts so many lines before the end instead.

    `wait`: seconds to wait for a line if there is none yet.
    """

    marker: Marker = ""
    limit: Limit = 100
    under: Under = ""
    last: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    wait: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT)] = 0.0


class FollowQuery(_JournalFilters, frozen=True):
    """`after` is the last number seen; the header Last-Event-ID says the same and wins."""

    after: Annotated[int, msgspec.Meta(ge=0)] | None = None


class _Numbered(msgspec.Struct, frozen=True):
    """The one field of a line that a stream reads."""

    number: int


def _number(text: str, otherwise: int) -> int:
    if not text:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadInput("bad-marker", f"the journal's marker is the number of a line, got {text[:40]!r}")
    return int(text)


async def page(context: Context, query: JournalQuery, body: NoBody) -> PageView:
    surface, caller = context.surface, context.caller
    chosen = filters(query, _FILTERS)
    if query.under:
        # Another zone's journal: its numbers are its own, so there is no "last" and no waiting for it here.
        if query.last is not None or query.wait:
            raise BadInput("bad-parameter", "`last` and `wait` are for this zone's own journal, not with `under`")
        return await surface.page(caller, "journal", query.under, chosen, query.marker, query.limit)
    marker = query.marker
    if query.last is not None:
        marker = str(max(0, surface.journal_number() - query.last))
    start = _number(marker, 0)
    found = await surface.page(caller, "journal", "", chosen, marker, query.limit)
    if found.items or not query.wait:
        return found
    try:
        async with asyncio.timeout(query.wait):
            seen = max(start, surface.journal_number())
            while not found.items and not context.stopping():
                await surface.journal_grew(seen)
                grown = surface.journal_number()
                found = await surface.page(caller, "journal", "", chosen, marker, query.limit)
                seen = grown
    except TimeoutError:
        pass  # nothing came in the time that was asked for: the page is empty
    return found


class TraceQuery(PageQuery, frozen=True):
    """`under`: in that zone and below it; otherwise wherever the caller may look."""

    under: Under = ""


async def trace(context: Context, query: TraceQuery, body: NoBody) -> PageView:
    """The lines that a request left, here and in the zones below that carried it out."""
    chosen = {"request": context.params["request"]}
    return await context.surface.page(context.caller, "trace", query.under, chosen, query.marker, query.limit)


async def follow(context: Context, query: FollowQuery, body: NoBody) -> StreamingResponse:
    newest = context.surface.journal_number()
    after = _number(context.headers.get("last-event-id", ""), newest if query.after is None else query.after)
    chosen = filters(query, _FILTERS)
    # The first page is asked before the stream begins, so that a refusal is an ordinary error.
    first = await context.surface.page(context.caller, "journal", "", chosen, str(after), STREAM_PAGE)
    return StreamingResponse(_events(context, chosen, after, newest, first), media_type="text/event-stream")


async def _events(
    context: Context, chosen: Mapping[str, str], after: int, seen: int, page: PageView
) -> AsyncIterator[bytes]:
    """Lines as events until the hour is over, the zone stops or the caller may no longer read.

    `page` follows `after`, and was read when the journal had at least `seen` lines.
    """
    surface, limits = context.surface, context.limits
    loop = asyncio.get_running_loop()
    end = loop.time() + limits.follow_end
    try:
        while True:
            while page.items:
                for item in page.items:
                    after = msgspec.json.decode(item, type=_Numbered).number
                    yield b"id: %d\nevent: line\ndata: %b\n\n" % (after, bytes(item))
                seen = surface.journal_number()
                page = await surface.page(await context.again(), "journal", "", chosen, str(after), STREAM_PAGE)
            # Lines that did not match are never looked at again.
            after = max(after, seen)
            if loop.time() >= end or context.stopping():
                return
            try:
                async with asyncio.timeout(limits.follow_beat):
                    await surface.journal_grew(after)
            except TimeoutError:
                yield b": still here\n\n"
            seen = surface.journal_number()
            page = await surface.page(await context.again(), "journal", "", chosen, str(after), STREAM_PAGE)
    except BanyanError as error:
        yield b"event: end\ndata: %b\n\n" % msgspec.json.encode(fault(error, context.request))
