"""Gives back the ports of servers that went without a word to this service: deleted at another surface, or by a zone
that died between the deletion and what follows it.

Two looks, again and again, each bounded. *Deleted servers*: what the tree lists as deleted since the last look. *The
walk*: a few ports at a time, by id, whose servers are asked for one by one; it finds what no list told. A server is
gone if it is shown as deleted, or if it is found nowhere twice, GRACE apart. Who can not be asked is not gone.
"""

from __future__ import annotations

from typing import Final

import structlog

from banyan.core.errors import BanyanError, NotFound
from banyan.core.identity import SYSTEM
from banyan.core.ports import Clock
from banyan.core.server import ServerQuery, VmState
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
        # Server → when it was found nowhere first.
        self._missing: dict[str, Mono] = {}

    async def activate(self, now: Mono) -> Mono | None:
        """One look of each kind."""
        given = await self._deleted() + await self._walk()
        if given:
            log.info("ports of servers that are gone given back", ports=given)
        return Mono(now + LOOK)

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
