"""The clocks of simulated machines: one virtual time, seen through each machine's own faults.

`VirtualClock` implements core.ports.Clock. Its boot time counts from the machine's last boot; its wall
clock has an offset (jumps) and both run at `rate` (a quartz that is 1 % fast is 1.01). Virtual time
itself is loop.py's; nothing here reads a real clock.
"""

from __future__ import annotations

import asyncio

from banyan.core.time import BUILD_DATE, Mono
from banyan.simulate.loop import VirtualLoop

# Worlds begin here, two months after the build date, so that a clock may be wrong in both directions.
WORLD_BEGAN = BUILD_DATE + 61 * 86_400.0  # 2026-12-01T00:00:00Z

# More than what two floats of a world's time can differ by, less than anything waits for. Seconds.
ROUNDING = 1e-6


class VirtualClock:
    """One machine's clocks."""

    def __init__(self, loop: VirtualLoop, machine: str, *, offset: float = 0.0, rate: float = 1.0) -> None:
        self._loop = loop
        self._machine = machine
        self._offset = offset
        self._stepped = False
        self._rate = rate
        self._boots = 1
        self._booted = loop.time()
        # Where the clocks stood when the rate was last set.
        self._anchor = loop.time()
        self._anchor_mono = 0.0
        self._anchor_wall = WORLD_BEGAN + loop.time()

    def now(self) -> Mono:
        """Seconds since this machine's boot, as its quartz counts them."""
        return Mono(self._mono_at(self._loop.time()))

    def wall(self) -> float:
        """Seconds since 1970 as this machine believes."""
        return self._anchor_wall + (self._loop.time() - self._anchor) * self._rate + self._offset

    async def sleep_until(self, instant: Mono) -> None:
        """Returns at `instant` of this machine's boot time; at least one turn of the loop passes."""
        due = self._anchor + (instant - self._anchor_mono) / self._rate
        if self._mono_at(due) < instant:
            # Rounded down. Whoever wakes must find that it is time, or would sleep again for nothing, for ever.
            due += ROUNDING
        reached: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_at(max(due, self._loop.time()), _set, reached)
        try:
            await reached
        finally:
            timer.cancel()

    def boot_id(self) -> str:
        return f"boot-{self._machine}-{self._boots}"

    def _mono_at(self, time: float) -> float:
        return self._anchor_mono + (time - self._anchor) * self._rate

    # --- what befalls a machine -----------------------------------------------------------------

    @property
    def offset(self) -> float:
        """How far the wall clock is from true time because of jumps, in seconds."""
        return self._offset

    @property
    def stepped(self) -> bool:
        """Whether somebody ever set the wall clock."""
        return self._stepped

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock; boot time does not notice."""
        self._stepped = True
        self._offset += seconds

    def set_offset(self, seconds: float) -> None:
        """The wall clock is now `seconds` from true time, whatever it was before."""
        self._stepped = True
        self._offset += seconds - (self.wall() - (WORLD_BEGAN + self._loop.time()))

    def run_at(self, rate: float) -> None:
        """From now on both clocks run `rate` times as fast as true time. Sleepers keep their old due instant."""
        self._anchor_mono, self._anchor_wall = self.now(), self.wall() - self._offset
        self._anchor, self._rate = self._loop.time(), rate

    def reboot(self) -> None:
        """A new boot: boot time counts from zero under a new boot id. What ran on the machine must be gone."""
        self._anchor_wall = self.wall() - self._offset
        self._anchor, self._anchor_mono = self._loop.time(), 0.0
        self._boots += 1


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
