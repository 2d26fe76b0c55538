"""Runs activations: each periodically and on signal, one task per activation, never two of one at a time.

An activation observes one snapshot, decides with pure functions, applies, and returns the next instant
worth waking at. It takes no input, never retries inside; a failure is logged, counted, and the loop
comes back after a backoff. This is the only broad `except` of the zone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Protocol, TypeVar

import structlog

from banyan.core.errors import BanyanError, Broken
from banyan.core.ports import Clock, Ids
from banyan.core.time import Mono

log = structlog.get_logger("banyan.loop")
T = TypeVar("T")

FIRST_BACKOFF = 1.0  # seconds
LAST_BACKOFF = 60.0


class Activation(Protocol):
    """`name` is for logs and metrics. `activate` returns when to wake next; None means on signal only."""

    @property
    def name(self) -> str: ...

    async def activate(self, now: Mono) -> Mono | None: ...


async def contained(work: Coroutine[object, object, T], what: str) -> T:
    """What `work` gives or refuses. An error that it should not have raised, a driver's or our own, is logged, and is
    Broken("internal") from here on: it ends what was being done, and nothing else."""
    try:
        return await work
    except BanyanError:
        raise
    except Exception as error:
        log.exception("an error of its own", what=what, error=repr(error))
        raise Broken("internal", f"{what}: {type(error).__name__}: {error}", transient=True) from error


class Loop:
    """One activation's task. `signal` wakes it early; signals that come while it runs are not lost."""

    def __init__(self, activation: Activation, clock: Clock, ids: Ids) -> None:
        self.activation = activation
        self._clock = clock
        self._ids = ids
        self._wake = asyncio.Event()
        self.runs = 0
        self.failures = 0
        self.last_error = ""

    def signal(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """For ever, until cancelled."""
        failed = 0
        while True:
            self._wake.clear()
            try:
                wake_at = await self.activation.activate(self._clock.now())
                failed = 0
                self.last_error = ""
            except Exception as error:
                failed += 1
                self.failures += 1
                self.last_error = str(error)
                ceiling = min(LAST_BACKOFF, FIRST_BACKOFF * 2 ** min(failed, 10))
                wake_at = Mono(self._clock.now() + self._ids.uniform(FIRST_BACKOFF / 2, ceiling))
                expected = isinstance(error, BanyanError) and error.transient
                log.warning(
                    "activation failed; it runs again by itself",
                    activation=self.activation.name,
                    error=str(error),
                    failures=failed,
                    exc_info=not expected,
                )
            self.runs += 1
            await self._pause(wake_at)

    async def _pause(self, wake_at: Mono | None) -> None:
        if wake_at is None:
            await self._wake.wait()
            return
        sleeper = asyncio.ensure_future(self._clock.sleep_until(wake_at))
        waker = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((sleeper, waker), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
            waker.cancel()
            await asyncio.gather(sleeper, waker, return_exceptions=True)
