"""The machine's clocks and its source of chance: the only place where a zone meets either."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import time
from pathlib import Path

from banyan.core.time import Mono

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """core.ports.Clock. `now` is CLOCK_BOOTTIME, which goes on while the machine is suspended."""

    def now(self) -> Mono:
        return Mono(time.clock_gettime(time.CLOCK_BOOTTIME))

    def wall(self) -> float:
        return time.time()

    async def sleep_until(self, instant: Mono) -> None:
        # asyncio sleeps on CLOCK_MONOTONIC, which stands still in suspension: look again at most every 30 s.
        # The first turn is given also when the instant is past, or a long computation would starve heartbeats.
        await asyncio.sleep(0)
        while (left := instant - self.now()) > 0:
            await asyncio.sleep(min(left, 30.0))

    def boot_id(self) -> str:
        return _BOOT_ID.read_text(encoding="ascii").strip()


class SystemIds:
    """core.ports.Ids from the operating system's generator."""

    def token(self, size: int) -> bytes:
        return os.urandom(size)

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)

    def uniform(self, low: float, high: float) -> float:
        share = int.from_bytes(os.urandom(7), "big") / (1 << 56)
        value = low + (high - low) * share
        return value if math.isfinite(value) else low
