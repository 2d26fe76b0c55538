"""banyan check against a real parent on a real socket: who answers, what time it is there, and what never leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from banyan.core.identity import Role
from banyan.core.ports import Finding
from banyan.core.time import Mono
from banyan.drivers.registry import Drivers, Registry
from banyan.link.websocket_wire import WebSocketDialer, WebSocketListener
from banyan.serve.assemble import Adapters, Assembled, assemble
from banyan.serve.check import parent
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.open import open_store
from banyan.zone.settings import ZoneSettings
from banyan.zone.views import CodeView


class Late(SystemClock):
    """This machine's wall clock, a day behind."""

    def wall(self) -> float:
        return super().wall() - 86_400.0

    def now(self) -> Mono:
        return super().now()


@asynccontextmanager
async def top(folder: Path) -> AsyncIterator[tuple[Assembled, str]]:
    """A parent that listens, and its address."""
    clock, ids = SystemClock(), SystemIds()
    store = open_store(folder, ids=ids, clock=clock)
    try:
        adapters = Adapters(store, clock, ids, Drivers(Registry.installed(), clock, ids), WebSocketDialer(clock))
        built = await assemble(ZoneSettings(name="top", addresses=("127.0.0.1:1",)), adapters)
        listener = WebSocketListener(built.parent.serve, built.identity, clock)
        await listener.start("127.0.0.1:0")
        try:
            yield built, listener.addresses[0]
        finally:
            await listener.close()
    finally:
        await store.close()


async def code(built: Assembled, address: str) -> str:
    built.zone.access._addresses = (address,)
    admin = built.front.local("test", "req-test")
    assert admin.role is Role.ADMIN
    made = await built.front.create_code(
        admin, name="*", driver="*", labels={}, uses=1, expires=3600, mode="place", replace=False
    )
    return made.code


def test_the_parent_its_clock_and_the_code(tmp_path: Path) -> None:
    async def look() -> tuple[list[Finding], list[Finding], int]:
        async with top(tmp_path / "top") as (built, address):
            text = await code(built, address)
            clock, ids = SystemClock(), SystemIds()
            right = await parent(text, WebSocketDialer(clock), clock, ids, "")
            behind = Late()
            late = await parent(text, WebSocketDialer(behind), behind, ids, "")
            page = await built.front.codes(built.front.local("test", "req-test"), "", 10)
            (row,) = (msgspec.json.decode(item, type=CodeView) for item in page.items)
            return list(right), list(late), row.used

    right, late, used = asyncio.run(look())
    assert [(one.what.split()[0], one.ok) for one in right] == [("parent", True), ("clock", True), ("join", True)]
    assert [(one.what, one.ok) for one in late][1] == ("clock", False)
    assert "-86400" in late[1].found
    assert used == 0


def test_another_zone_at_that_address_is_found_out(tmp_path: Path) -> None:
    async def look() -> list[Finding]:
        async with top(tmp_path / "top") as (built, _), top(tmp_path / "other") as (_, elsewhere):
            clock = SystemClock()
            text = await code(built, elsewhere)
            return list(await parent(text, WebSocketDialer(clock), clock, SystemIds(), ""))

    (one,) = asyncio.run(look())
    assert not one.ok
    assert "pin" in one.found or "CA" in one.found
