"""A process that opens a store and writes children one after another, telling each that was acknowledged.

`python -m tests.wire.store.writer DATA LOCATION|- [PHASE NAME]`: with PHASE ("before" or "after") it kills itself,
SIGKILL, at that side of the COMMIT that holds unit NAME.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from banyan.core.ids import ZoneCode
from banyan.core.time import Mono
from banyan.core.zone import Child
from banyan.store.open import open_store
from tests.contract.store.fakes import SeededIds, StillClock


class RealClock(StillClock):
    def now(self) -> Mono:
        return Mono(time.monotonic())


def main(data: str, location: str, phase: str = "", fatal: str = "") -> None:
    def observer(at: str, names: tuple[str, ...]) -> None:
        if at == phase and fatal in names:
            os.kill(os.getpid(), signal.SIGKILL)

    store = open_store(
        Path(data), None if location == "-" else location, ids=SeededIds(), clock=RealClock(), observer=observer
    )

    async def one(number: int) -> None:
        child = Child(ZoneCode(number), f"z{number}", b"key-%d" % number)
        await store.write(f"unit-{number}", lambda u: u.children.put(child))
        # One write of a whole line: it is in the pipe before this process can die.
        os.write(1, b"%d\n" % number)

    async def many() -> None:
        start = await store.read(lambda u: u.children.count())
        os.write(1, b"open\n")
        for number in range(start * 2 + 1, 1 << 30, 8):
            await asyncio.gather(*(one(number + n) for n in range(8)))

    asyncio.run(many())


if __name__ == "__main__":
    main(*sys.argv[1:])
