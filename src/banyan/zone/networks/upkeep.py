"""Gives back the ports of servers that went without a word to this service: deleted at another surface, or by a zone
that died between the deletion and what follows it.

What this service was told of as going is asked for every second, so that its addresses are free as soon as it is gone,
and not before: a guest that still runs may use them. Of a detach that failed the server has the port as before.

Two looks more, again and again, each bounded. *Deleted servers*: what the tree lists as deleted since the last look.
*The walk*: a few ports at a time, by id, whose servers are asked for one by one; it finds what no list told. A server
is gone if it is shown as deleted, or if it is found nowhere twice, GRACE apart. Who can not be asked is not gone.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from banyan.core.errors import BanyanError, NotFound
from banyan.core.identity import SYSTEM
from banyan.core.ports import Clock
from banyan.core.principal import Principal
from banyan.core.server import Action, ServerQuery, Task, VmState
from banyan.core.time import Mono, Wall
from banyan.zone.networks.desk import Desk
from banyan.zone.networks.serving import OWNER, ServerNetworks

log = structlog.get_logger("banyan.networks")

# Seconds between looks.
LOOK: Final = 30.0
# Deleted servers are listed for so long (store, docs/decisions/0010), seconds: the first look goes back so far.
LISTED: Final = 7 * 86_400.0
# Rows changed while a look was under way are looked at again.
OVERLAP: Final = 60.0
# Seconds between the first and the second time that a server was found nowhere.
GRACE: Final = 600.0
# Seconds between looks at what is going, and how much of it is asked for at a time.
SOON, GOING = 1.0, 50
# Of one look: pages of deleted servers and rows of each; ports of the walk; servers remembered as missing.
PAGES, ROWS, WALKED, MISSING = 10, 200, 50, 10_000


class Upkeep:
    """An activation (zone/loop.py)."""

    name = "networks"

    def __init__(self, desk: Desk, clock: Clock, serving: ServerNetworks) -> None:
        self._desk = desk
        self._clock = clock
        self._serving = serving
        self._since: Wall | None = None
        self._began = Wall(0.0)
        self._page = ""
        self._walked = ""
        self._look_at = Mono(0.0)
        # Server → when it was found nowhere first.
        self._missing: dict[str, Mono] = {}

    async def activate(self, now: Mono) -> Mono | None:
        """One look of each kind."""
        due = now >= self._look_at or not self._serving.going
        given = await self._going()
        if due:
            given += await self._deleted() + await self._walk()
            self._look_at = Mono(now + LOOK)
        if given:
            log.info("ports of servers that are gone given back", ports=given)
        return Mono(min(now + SOON, self._look_at)) if self._serving.going else self._look_at

    async def _going(self) -> int:
        going = self._serving.going
        some = [(key, going.pop(key)) for key in list(going)[:GOING]]
        found = await asyncio.gather(*(self._left(*key, who) for key, who in some))
        for (key, who), given in zip(some, found, strict=True):
            if given is None:
                # Its turn comes again after the others'.
                going.setdefault(key, who)
        return sum(given or 0 for given in found)

    async def _left(self, id: str, port: str, who: Principal) -> int | None:
        """How many ports were given back; None if that is not decided yet."""
        try:
            server = await self._desk.servers.show(SYSTEM, id)
            if server.state is VmState.DELETED:
                return await self._serving.released([id])
            if server.task in (Task.DELETING, Task.DETACHING):
                return None
            if not port or not await self._lost(id, who):
                return 0
            return await self._serving.detached(who, server, port)
        except NotFound:
            # Found nowhere: the walk decides, by its own patience.
            return 0
        except BanyanError:
            return None

    async def _lost(self, id: str, who: Principal) -> bool:
        """Whether what that caller asked for was done: the guest lost an interface."""
        for record in await self._desk.servers.actions(SYSTEM, id):
            if record.action is Action.DETACH and record.request == who.request:
                return bool(record.events) and record.events[-1].result == "success"
        return False

    async def _deleted(self) -> int:
        now, given = self._desk.now(), 0
        if not self._page:
            self._began = now
        since = Wall(now - LISTED) if self._since is None else self._since
        for _ in range(PAGES):
            query = ServerQuery(every_project=True, deleted=True, changed_since=since, after=self._page, limit=ROWS)
            page = await self._desk.servers.page(SYSTEM, query, LOOK)
            gone = [one.id for one in page.servers if one.state is VmState.DELETED]
            given += await self._give(gone)
            self._page = page.after
            if not page.after:
                # What absent zones did not tell, the walk finds.
                self._since = Wall(self._began - OVERLAP)
                break
        return given

    async def _walk(self) -> int:
        after = self._walked
        ports = await self._desk.read(lambda rows: rows.server_ports(OWNER, after, WALKED))
        self._walked = ports[-1].id if len(ports) == WALKED else ""
        gone = [id for id in dict.fromkeys(port.device for port in ports if port.device) if await self._gone(id)]
        return await self._give(gone)

    async def _gone(self, id: str) -> bool:
        now = self._clock.now()
        try:
            server = await self._desk.servers.show(SYSTEM, id)
        except NotFound:
            if len(self._missing) >= MISSING and id not in self._missing:
                self._missing.pop(next(iter(self._missing)))
            return now - self._missing.setdefault(id, now) >= GRACE
        except BanyanError:
            # It may be anywhere.
            return False
        self._missing.pop(id, None)
        return server.state is VmState.DELETED

    async def _give(self, servers: list[str]) -> int:
        if not servers or not await self._serving.plugged(servers):
            return 0
        for id in servers:
            self._missing.pop(id, None)
        return await self._serving.released(servers)
