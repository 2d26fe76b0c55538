"""Deeds in a cloud: a guest's copy is found by its mark; what is asked is done, waited for, and noted in the mark.

Nova takes a request and does it later, and may do one whose answer was lost. So a deed begins by looking at what there
is, and what was done already is not done again. A guest's deeds pass one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from banyan.core.deed import Deed, DeedFailed, Operation, Sighting
from banyan.core.server import Server
from banyan.drivers.openstack import acts, shapes
from banyan.drivers.openstack.acts import Acts
from banyan.drivers.openstack.asking import Cloud
from banyan.drivers.openstack.builds import Builds
from banyan.drivers.openstack.endpoints import Service
from banyan.drivers.openstack.grounds import Grounds
from banyan.drivers.openstack.lookout import Lookout
from banyan.drivers.openstack.nodes import Nodes
from banyan.drivers.openstack.refusals import refused
from banyan.drivers.openstack.stock import Stock
from banyan.drivers.openstack.waiting import Waiting
from banyan.drivers.registry import DriverContext

OPERATIONS: Final = frozenset({Operation.CREATE, Operation.DELETE, *acts.OPERATIONS})


class Hands:
    def __init__(self, cloud: Cloud, context: DriverContext, grounds: Grounds, nodes: Nodes) -> None:
        self._cloud = cloud
        self._lookout = Lookout(cloud, context.clock, context.code, grounds, nodes)
        self._waiting = Waiting(self._lookout, context.clock, context.ids)
        stock = Stock(cloud)
        self._builds = Builds(cloud, context, grounds, stock, nodes, self._lookout, self._waiting)
        self._acts = Acts(cloud, context.clock, stock, nodes, self._lookout, self._waiting)
        self._turns: dict[str, _Turn] = {}

    async def perform(self, deed: Deed) -> Sighting | None:
        async with self._turn(deed.guest):
            self._cloud.begin()
            copies = await self._lookout.copies(deed.guest)
            if deed.operation is Operation.DELETE:
                await self._builds.delete(deed, copies)
                return None
            newest = copies[0] if copies else None
            if newest is not None and newest.mark.move > deed.move:
                raise DeedFailed(
                    "old-move",
                    f"server {deed.guest} is in the cloud as number {newest.mark.move}; a deed for {deed.move} comes "
                    "too late",
                )
            if deed.operation is Operation.CREATE:
                return await self._builds.create(deed, copies)
            if newest is None:
                raise DeedFailed("no-guest", f"there is no server {deed.guest} of Banyan's in the cloud")
            return await self._acts.perform(deed, newest)

    async def sight(self, guests: Sequence[str]) -> Mapping[str, Sighting]:
        self._cloud.begin()
        found = await asyncio.gather(*(self._lookout.copies(guest) for guest in guests))
        return {copies[0].mark.guest: await self._lookout.sighting(copies[0]) for copies in found if copies}

    async def console(self, server: Server, lines: int | None) -> str:
        copies = await self._lookout.copies(server.id)
        if not copies:
            raise DeedFailed("no-guest", f"there is no server {server.id} in the cloud to read the console of")
        body = {"os-getConsoleOutput": {} if lines is None else {"length": lines}}
        reply = await self._cloud.send(Service.COMPUTE, "POST", f"/servers/{copies[0].id}/action", body)
        if reply.status != 200:
            raise refused(self._cloud.where, Service.COMPUTE, "show the console", reply)
        return self._cloud.decoded(Service.COMPUTE, reply, shapes.ConsoleReply).output or ""

    @asynccontextmanager
    async def _turn(self, guest: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(guest, _Turn())
        turn.wanted += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                self._turns.pop(guest, None)


class _Turn:
    """Whose turn it is with one guest, and how many want it."""

    __slots__ = ("lock", "wanted")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.wanted = 0
