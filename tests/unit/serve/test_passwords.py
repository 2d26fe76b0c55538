"""A storm of logins is bounded: in threads, in places, and by address."""

from __future__ import annotations

import asyncio
import threading

import pytest

from banyan.core.errors import Unreachable
from banyan.core.secret import Secret
from banyan.serve.passwords import HashingThreads
from banyan.simulate.ids import SeededIds
from banyan.trust import passwords
from banyan.trust.passwords import Cost

X = Secret(b"x")


def threads(waiting: int = 2) -> HashingThreads:
    return HashingThreads(SeededIds(1, "x"), threads=2, waiting=waiting, cost=Cost(memory=8, passes=1))


def test_a_hash_matches_and_each_has_its_salt() -> None:
    async def run() -> None:
        pool = threads()
        one, other = await pool.hashed(X, "a"), await pool.hashed(X, "a")
        assert one != other and await pool.matches(X, one, "a") and not await pool.matches(Secret(b"y"), one, "a")
        pool.close()

    asyncio.run(run())


def test_the_loop_goes_on_and_the_rest_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slow(password: Secret, kept: str) -> bool:
        gate.wait(10)
        return True

    monkeypatch.setattr(passwords, "matches", slow)

    async def run() -> None:
        pool = threads()
        first = [asyncio.ensure_future(pool.matches(X, "", "storm")) for _ in range(2)]
        await asyncio.wait(first, timeout=0.05)
        # One address holds at most half of the places.
        with pytest.raises(Unreachable) as busy:
            await pool.matches(X, "", "storm")
        assert (busy.value.code, busy.value.status, busy.value.retry_after) == ("logins-busy", 503, 1.0)
        rest = [asyncio.ensure_future(pool.matches(X, "", name)) for name in ("a", "b")]
        await asyncio.wait(rest, timeout=0.05)
        with pytest.raises(Unreachable):
            await pool.matches(X, "", "c")
        assert pool.refused == 2
        # Whoever goes away leaves its place only when its thread is done.
        first[0].cancel()
        await asyncio.wait(first[:1])
        with pytest.raises(Unreachable):
            await pool.matches(X, "", "c")
        gate.set()
        assert await asyncio.gather(first[1], *rest) == [True, True, True]
        assert await pool.matches(X, "", "storm")
        pool.close()

    asyncio.run(run())
