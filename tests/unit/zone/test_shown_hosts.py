"""A host that was shown and is gone: whoever asks for it is told so, also if two ask at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

from banyan.core.errors import NotFound
from banyan.core.identity import Caller
from banyan.core.ids import ZoneCode
from banyan.core.principal import Principal, ScopeKind
from banyan.core.time import Wall
from banyan.simulate.loop import VirtualLoop
from banyan.zone.compute.desk import Desk
from banyan.zone.compute.hosts import Hosts, Where
from banyan.zone.servers.surface import Servers
from banyan.zone.views import PageView, UsageView

ADMIN = Principal(ZoneCode(1), "u", "root", "d", ScopeKind.SYSTEM, frozenset({"admin", "reader"}), Wall(9e9))


class Emptied:
    """The tree after its hosts went; each answer takes a turn of the loop, which both that ask wait for."""

    def __init__(self) -> None:
        self.asked = 0
        self.both = asyncio.Event()

    async def page(
        self, caller: Caller, kind: str, path: str, filters: Mapping[str, str], marker: str, limit: int
    ) -> PageView:
        self.asked += 1
        if self.asked == 2:
            self.both.set()
        await self.both.wait()
        return PageView((), "", ())

    async def usage(self, caller: Caller, path: str) -> UsageView:
        raise AssertionError("not asked here")


def test_a_host_that_is_gone_is_not_found_by_each_of_two_who_ask_at_once() -> None:
    loop = VirtualLoop()

    async def ask() -> list[object]:
        hosts = Hosts(cast("Desk", None), Emptied(), cast("Servers", None))
        hosts._shown["7"] = Where("", "r1", "h1")
        return list(await asyncio.gather(hosts.show(ADMIN, "7"), hosts.show(ADMIN, "7"), return_exceptions=True))

    assert [type(one) for one in loop.run_task(ask(), within=10.0)] == [NotFound, NotFound]
