"""Hashes passwords in threads of their own: a few at a time, and only so many may wait.

A stranger can make a zone hash by just trying to log in. So the work never runs on the loop, at most `threads` run at
once (some 19 MiB each), `waiting` may wait, and one address holds at most half of the places: a storm from one place is
told to come back, and others get in. zone/identity/desk.py says what is asked of this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from banyan.core.errors import Unreachable
from banyan.core.ports import Ids
from banyan.core.secret import Secret
from banyan.trust import passwords
from banyan.trust.passwords import DEFAULT_COST, SALT_SIZE, Cost

T = TypeVar("T")


class HashingThreads:
    """Made once in a process; `close` ends its threads."""

    def __init__(self, ids: Ids, *, threads: int = 2, waiting: int = 32, cost: Cost = DEFAULT_COST) -> None:
        self._ids = ids
        self._cost = cost
        self._pool = ThreadPoolExecutor(threads, "passwords")
        self._places = threads + waiting
        self._inside: dict[str, int] = {}
        self._count = 0
        self.refused = 0

    async def hashed(self, password: Secret, address: str) -> str:
        """Raises Unreachable("logins-busy")."""
        salt = self._ids.token(SALT_SIZE)
        return await self._run(address, lambda: passwords.hashed(password, salt, self._cost))

    async def matches(self, password: Secret, kept: str, address: str) -> bool:
        """Raises Unreachable("logins-busy")."""
        return await self._run(address, lambda: passwords.matches(password, kept))

    def measured(self) -> Mapping[str, float]:
        return {
            "banyan_passwords_in_work": float(self._count),
            "banyan_passwords_refused_total": float(self.refused),
        }

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _run(self, address: str, work: Callable[[], T]) -> T:
        mine = self._inside.get(address, 0)
        if self._count >= self._places or mine >= max(1, self._places // 2):
            self.refused += 1
            raise Unreachable(
                "logins-busy",
                "as many passwords are being checked as this zone checks at a time; try again in a second",
                transient=True,
                retry_after=1.0,
            )
        self._count += 1
        self._inside[address] = mine + 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        # A caller that went away leaves its work in the thread: the place is free when that ends, not before.
        future.add_done_callback(lambda _: self._leave(address))
        return await asyncio.shield(future)

    def _leave(self, address: str) -> None:
        self._count -= 1
        left = self._inside[address] - 1
        if left:
            self._inside[address] = left
        else:
            del self._inside[address]
