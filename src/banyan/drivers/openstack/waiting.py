"""Waiting for what Nova does in its own time: looked at again and again, less and less often, and not for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from banyan.core.ports import Clock, Ids
from banyan.core.records import DriverUnavailable
from banyan.core.time import Mono
from banyan.drivers.openstack.lookout import Copy, Lookout

# Seconds between two looks, from the first to the longest.
FIRST_LOOK: Final = 0.25
LAST_LOOK: Final = 3.0
# What is not done after so long is not known to be done. The zone gives up a deed after 600 s (zone/servers/work.py).
LONGEST: Final = 540.0

Ready = Callable[[tuple[Copy, ...]], bool]


class Waiting:
    def __init__(self, lookout: Lookout, clock: Clock, ids: Ids) -> None:
        self._lookout = lookout
        self._clock = clock
        self._ids = ids

    async def until(self, guest: str, ready: Ready, what: str) -> tuple[Copy, ...]:
        """All copies, once they are as `ready` wants them. Raises DriverUnavailable after LONGEST."""
        end, pause = self._clock.now() + LONGEST, FIRST_LOOK
        while True:
            copies = await self._lookout.copies(guest)
            if ready(copies):
                return copies
            if self._clock.now() >= end:
                seen = ", ".join(f"{c.wire.status} {c.wire.task_state or ''}".strip() for c in copies) or "nothing"
                raise DriverUnavailable(
                    "openstack-slow",
                    f"Nova does not {what} of server {guest} within {LONGEST:g} s (it has {seen}); look at the log of "
                    "nova-compute on its host",
                    transient=True,
                )
            await self.rest(pause)
            pause = min(LAST_LOOK, pause * 1.5)

    async def rest(self, seconds: float) -> None:
        """About so long; not everybody wakes at once."""
        wait = seconds * self._ids.uniform(0.8, 1.2)
        await self._clock.sleep_until(Mono(self._clock.now() + wait))
