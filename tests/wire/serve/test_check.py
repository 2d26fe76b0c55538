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
from banyan.core.zone import Uplink
from banyan.drivers.registry import Drivers, Registry
from banyan.link.websocket_wire import WebSocketDialer, WebSocketListener
from banyan.serve.assemble import Adapters, Assembled, assemble
from banyan.serve.check import joined, parent
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.glance import parents
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


def test_the_parent_that_a_zone_has_joined_is_looked_at_while_the_zone_runs(tmp_path: Path) -> None:
    """Without a code, from what the zone's own database says, beside the process that has it open."""

    async def look(wrong_pin: bool) -> tuple[list[Finding], list[Finding]]:
        async with top(tmp_path / f"top{wrong_pin}") as (built, address):
            authority = built.zone.own.authority.row
            row = Uplink(
                1,
                (address, "127.0.0.1:1"),
                b"x" * 32 if wrong_pin else authority.fingerprint,
                parent_code=built.zone.own.code,
                parent_name="top",
                path="top/lab",
                certificate=b"held",
                bundle=(authority.certificate,),
            )
            clock, ids = SystemClock(), SystemIds()
            data = tmp_path / f"lab{wrong_pin}"
            store = open_store(data, ids=ids, clock=clock)
            try:
                await store.write("test", lambda unit: unit.uplinks.put(row))
                before = sorted(path.name for path in data.iterdir())
                known = parents(data)
                found = await joined(known, WebSocketDialer(clock), clock, ids, "")
                behind = Late()
                late = await joined(known, WebSocketDialer(behind), behind, ids, "")
                assert sorted(path.name for path in data.iterdir()) == before
            finally:
                await store.close()
            return list(found), list(late)

    found, late = asyncio.run(look(False))
    assert [(one.what.split()[0], one.ok) for one in found] == [("parent", True), ("clock", True), ("parent", False)]
    assert "took this one in as top/lab" in found[0].found
    assert found[2].what == "parent 127.0.0.1:1"
    assert (late[1].what, late[1].ok) == ("clock", False)
    wrong, _ = asyncio.run(look(True))
    assert not any(one.ok for one in wrong)
    assert "expected a parent whose CA is" in wrong[0].found
