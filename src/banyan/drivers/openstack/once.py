"""What is made once and then known: whoever wants it while it is being made waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

# Of each kind of thing; the oldest is forgotten first, and looked up again.
MOST_KNOWN: Final = 10_000


class Once:
    """Texts by key: ids in the cloud. What failed is not kept."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._under_way: dict[str, asyncio.Future[str]] = {}

    async def get(self, key: str, make: Callable[[], Awaitable[str]]) -> str:
        """Whoever is cut off while it waits leaves the making to go on: others may wait as well."""
        found = self._known.get(key)
        if found is not None:
            return found
        making = self._under_way.get(key)
        if making is None:
            making = self._under_way[key] = asyncio.ensure_future(make())
            making.add_done_callback(lambda done: self._made(key, done))
        return await asyncio.shield(making)

    def forget(self, key: str) -> None:
        self._known.pop(key, None)

    def _made(self, key: str, done: asyncio.Future[str]) -> None:
        self._under_way.pop(key, None)
        if done.cancelled() or done.exception() is not None:
            return
        if len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[key] = done.result()
