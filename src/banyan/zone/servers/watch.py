"""What a scan saw of our servers, held against their rows: one that shut itself down is stopped, a lost one is told.

Only servers at rest are judged, and only if nothing was done to them since the scan began. That a guest is gone is
asked of the rack once more before it is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from banyan.core import server_steps as steps
from banyan.core.errors import BanyanError
from banyan.core.ports import Store
from banyan.core.records import Unit
from banyan.core.server import Power, Server, ServerQuery, Task, VmState
from banyan.core.time import Wall
from banyan.zone.firm import firm
from banyan.zone.own import Own
from banyan.zone.servers.places import Effect, Places

_BATCH: Final = 200
# What has a guest to be seen.
_RUNS: Final = frozenset(VmState) - {VmState.BUILDING, VmState.OFFLOADED, VmState.ERROR, VmState.DELETED}


class Watch:
    def __init__(self, own: Own, store: Store, places: Places) -> None:
        self.followed = 0
        self.vanished = 0
        self._own = own
        self._store = store
        self._places = places

    async def look(self, seen: Mapping[str, int], differs: Mapping[str, Power], since: Wall) -> None:
        """`seen`: how many of ours the scan saw on each host; `differs`: those in another power state than their row
        says; `since`: when the scan began. Errors of the driver are no news: the next scan looks again."""
        ids = sorted(differs)
        for at in range(0, len(ids), _BATCH):
            batch = ids[at : at + _BATCH]
            self.followed += await self._change(
                batch, since, lambda row, now: steps.observed(row, differs[row.id], now)
            )
        short = [host for host, _ in self._places.held.hosts() if self._places.held.on(host) > seen.get(host, 0)]
        for host in sorted(short):
            gone = await self._gone(host, since)
            for at in range(0, len(gone), _BATCH):
                self.vanished += await self._change(gone[at : at + _BATCH], since, steps.vanished)

    async def _gone(self, host: str, since: Wall) -> list[str]:
        """Servers of that host that its rack does not have."""
        query = ServerQuery(every_project=True, host=host)
        page = await self._store.read(lambda unit: unit.servers.page(query))
        resting = [server.id for server in page.servers if _rests(server, since)]
        if not resting:
            return []
        try:
            there = await self._places.driver.sight(resting)
        except BanyanError:
            return []
        return [id for id in resting if id not in there]

    async def _change(self, ids: Sequence[str], since: Wall, change: Callable[[Server, Wall], Server]) -> int:
        now = self._own.wall()

        def work(unit: Unit, effect: Effect) -> int:
            for row in unit.servers.many(ids).values():
                after = change(row, now) if _rests(row, since) else row
                if after is not row:
                    unit.servers.update((row, after))
                    effect.pairs.append((row, after))
                    text = f"{row.state} before, {after.state} now" if after.fault is None else after.fault.text
                    self._own.write(unit, self._own.event("server-observed", row.id, text))
            return len(effect.pairs)

        return await firm(self._places.write("server.observed", work))


def _rests(row: Server, since: Wall) -> bool:
    return row.task is Task.NONE and row.state in _RUNS and row.updated < since
