"""A clock that stands still until it is told, and the context that a driver is made with."""

from __future__ import annotations

import asyncio

from banyan.core.ids import RackCode
from banyan.core.share import OFFER_ALL, Share
from banyan.core.time import Mono
from banyan.drivers.contract import SeededIds
from banyan.drivers.registry import DriverContext

START = 1_800_000_000.0


class StillClock:
    """Sleeping moves it, so that latency shows as elapsed time without waiting."""

    def __init__(self) -> None:
        self.elapsed = 0.0

    def now(self) -> Mono:
        return Mono(1_000.0 + self.elapsed)

    def wall(self) -> float:
        return START + self.elapsed

    async def sleep_until(self, instant: Mono) -> None:
        self.elapsed = max(self.elapsed, instant - 1_000.0)
        turned = asyncio.Event()
        asyncio.get_running_loop().call_soon(turned.set)
        await turned.wait()

    def boot_id(self) -> str:
        return "still"


def context(clock: StillClock | None = None, *, code: int = 7, share: Share = OFFER_ALL) -> DriverContext:
    return DriverContext("lab", clock or StillClock(), SeededIds(), code=RackCode(code), share=share)
