"""Pages of servers as clients of compute ask for them: so many after the server of this id.

The tree's own pages go on from an opaque place. Where the pages that were shown ended is remembered for a while; the
place of a marker that is not remembered, as after a restart, is that of the server it names, or is looked for from the
start of the list if that is not shown any more. A list that is given up before its end says so, also where nothing was
found: its next page begins after the server that was looked at last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from msgspec import msgpack, structs

from banyan.core.errors import BadInput, NotFound, Unreachable
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.server import MAX_PAGE, Server, ServerQuery
from banyan.core.server_order import full_order, read_place, values_of, write_place
from banyan.zone.deadline import WHOLE, Deadline
from banyan.zone.servers.surface import Servers

MAX_REMEMBERED: Final = 10_000
# Pages that are asked for to fill one, where a filter lets few through; and to find a marker.
MAX_ASKED: Final = 50
# Seconds for a page with patterns in it, which cost more than others.
PATIENCE: Final = 5.0
# The end of a list, as a place to go on from.
_END: Final = "\0end"
_ENCODE = msgpack.Encoder(order="deterministic").encode


Keep = Callable[[Server], bool]


@dataclass(frozen=True, slots=True)
class Listed:
    """`marker`: of the next page, "" at the end; the last server's id, or of one that was only looked at. `absent`:
    zones that could not be asked, by path."""

    servers: tuple[Server, ...]
    marker: str = ""
    absent: tuple[str, ...] = ()


class ServerLists:
    """`most`: pages of the tree that are asked for at most to fill one."""

    def __init__(self, servers: Servers, most: int = MAX_ASKED) -> None:
        self.most = most
        self._servers = servers
        # (list, id of the last server shown) → where the tree's list goes on.
        self._places: dict[tuple[bytes, str], str] = {}

    async def page(
        self, who: Principal, query: ServerQuery, marker: str, limit: int, keep: Keep | None = None
    ) -> Listed:
        """At most `limit` servers (0: none) after the one with the id `marker`. `keep`: those of them that are wanted,
        by what the tree's own query can not say. Raises BadInput("bad-marker")."""
        require(who, "compute:server_list", Target(project=who.project))
        if query.every_project:
            require(who, "compute:server_list_all")
        if limit == 0:
            return Listed(())
        patterns = query.name or query.address or query.address6 or query.hostname or query.description
        deadline = Deadline.within(PATIENCE if patterns else WHOLE)
        which = _which(who, query)
        after = await self._place(who, query, which, marker, deadline) if marker else ""
        found: list[Server] = []
        absent: dict[str, None] = {}
        for _ in range(self.most):
            # One page is asked for whatever is left: with no time it says who is absent.
            if after == _END or len(found) >= limit or (found and deadline.over):
                break
            wanted = min(limit - len(found), MAX_PAGE)
            page = await self._servers.page(who, structs.replace(query, after=after, limit=wanted), deadline.left())
            found += page.servers if keep is None else filter(keep, page.servers)
            absent.update(dict.fromkeys(page.absent))
            after = page.after or _END
        more = after != _END
        last = found[-1].id if found else _looked_at(query, after) if more else ""
        # What is made later comes at the end of a rising list: that end is not remembered as one.
        if last and (more or not query.sort or query.sort[0].descending):
            self._remember(which, last, after)
        return Listed(tuple(found), last if more else "", tuple(absent))

    async def _place(self, who: Principal, query: ServerQuery, which: bytes, marker: str, deadline: Deadline) -> str:
        known = self._places.get((which, marker))
        if known is not None:
            return known
        try:
            server = await self._servers.show(who, marker)
            return write_place(values_of(server, full_order(query.sort)))
        except NotFound:
            # A deleted one, in a list of those; or none.
            after = ""
        for _ in range(MAX_ASKED):
            part = structs.replace(query, after=after, limit=MAX_PAGE)
            page = await self._servers.page(who, part, deadline.left())
            at = next((n for n, server in enumerate(page.servers) if server.id == marker), None)
            if at is not None:
                # Asked once more for just so many: then the page's own place is the marker's.
                part = structs.replace(query, after=after, limit=at + 1)
                short = await self._servers.page(who, part, deadline.left())
                return short.after or _END
            after = page.after
            if deadline.over:
                text = f"the place of marker [{marker[:255]}] was not found in time; ask again"
                raise Unreachable("no-time", text, transient=True)
            if not after:
                break
        raise BadInput("bad-marker", f"marker [{marker[:255]}] not found")

    def _remember(self, which: bytes, id: str, after: str) -> None:
        while len(self._places) >= MAX_REMEMBERED:
            del self._places[next(iter(self._places))]
        self._places[which, id] = after


def _looked_at(query: ServerQuery, after: str) -> str:
    """The id of the server that a place is behind. Raises Unreachable("no-time") for a place that can not be read."""
    try:
        values = read_place(after, len(full_order(query.sort)))
    except BadInput:
        values = None
    if not values:
        text = "this list was given up before anything was found, and can not be gone on with; narrow it, or ask again"
        raise Unreachable("no-time", text, transient=True)
    return str(values[-1])


def _which(who: Principal, query: ServerQuery) -> bytes:
    """What one list is: the same caller's scope, filters and order."""
    plain = structs.replace(query, after="", limit=MAX_PAGE)
    return _ENCODE((who.project, plain))
