"""What a zone remembers of tokens never outlives a revocation, whichever way the two cross."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from banyan.core.errors import Unauthenticated
from banyan.core.identity import Caller, Role
from banyan.core.records import StoreUnknown
from banyan.core.time import Mono
from banyan.simulate.ids import SeededIds
from banyan.store.inline import InlineStore
from banyan.zone.commands import tokens
from banyan.zone.commands.tokens import ApiTokens
from banyan.zone.own import open_own
from banyan.zone.tree import Tree


class StillClock:
    def now(self) -> Mono:
        return Mono(1_000.0)

    def wall(self) -> float:
        return 1_800_000_000.0

    async def sleep_until(self, instant: Mono) -> None:
        await self.pause()

    async def pause(self) -> None:
        raise AssertionError("nothing here sleeps")

    def boot_id(self) -> str:
        return "boot"


class Held:
    """A store whose instants can be stopped at, and the tokens of a zone on it."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = {}
        self.reached: list[str] = []
        self.store = InlineStore(SeededIds(1, "store"), self._pause, rehearse=False)

    async def _pause(self, instant: str) -> None:
        self.reached.append(instant)
        if instant in self.gates:
            await self.gates[instant].wait()

    async def open(self) -> None:
        ids = SeededIds(1, "zone")
        self.clock = StillClock()
        own = await open_own(self.store, self.clock, ids, "top", {})
        self.tokens = ApiTokens(own, self.store, ids, Tree(own.code, "top"))
        self.admin = Caller("root@local", Role.ADMIN, own.code)

    async def make(self) -> tuple[str, str]:
        made = await self.tokens.create(self.admin, "ops", Role.ADMIN, self.admin.issuer, 3600.0)
        return made.id, made.token

    async def use(self, token: str) -> Caller:
        return await self.tokens.authenticate(token, "", "")

    async def until(self, instant: str) -> None:
        while instant not in self.reached:
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)


def play(steps: Callable[[Held], Awaitable[None]]) -> None:
    async def run() -> None:
        held = Held()
        await held.open()
        await steps(held)
        await held.store.close()

    asyncio.run(run())


def test_a_row_that_was_read_before_a_revocation_is_not_remembered_after_it() -> None:
    async def steps(held: Held) -> None:
        id, token = await held.make()
        gate = held.gates["answer read"] = asyncio.Event()
        held.reached.clear()
        early = asyncio.ensure_future(held.use(token))
        await held.until("answer read")
        del held.gates["answer read"]
        await held.tokens.revoke(held.admin, id)
        gate.set()
        # Asked before the revocation was done, so either answer is right; but only this once.
        await asyncio.gather(early, return_exceptions=True)
        with pytest.raises(Unauthenticated) as refused:
            await held.use(token)
        assert refused.value.code == "token-revoked"

    play(steps)


def test_a_revocation_of_unknown_fate_is_looked_up_again() -> None:
    async def steps(held: Held) -> None:
        id, token = await held.make()
        await held.use(token)
        looks: list[str] = []

        async def look() -> None:
            """While the store is asked what became of it nobody is let in by what was remembered."""
            with pytest.raises(Unauthenticated) as refused:
                await held.use(token)
            looks.append(refused.value.code)

        held.clock.pause = look
        held.store.fail(StoreUnknown)
        await held.tokens.revoke(held.admin, id)
        await look()
        assert looks == ["token-revoked"] * 2

    play(steps)


def test_what_is_remembered_needs_no_store_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_KNOWN", 2)

    async def steps(held: Held) -> None:
        made = [(await held.make())[1] for _ in range(3)]
        for token in made:
            await held.use(token)
        held.reached.clear()
        for token in made[1:]:
            await held.use(token)
        assert held.reached == []
        await held.use(made[0])
        assert held.reached == ["start read", "answer read"]

    play(steps)
