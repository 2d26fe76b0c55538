"""The line of those who have said their last word of an opening, and wait for our side's answer.

A child waits for a word as long as `Timing.opening` and then dials again: what is done for it after that is done for
nobody, and makes the others late as well. So a few are worked on at a time, and what one costs is measured. Who can not
be answered in time is told at once when to come back; for who has hung up nothing is done; and the turnstile at the
door lets in what our side really manages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from banyan.core.errors import Unreachable
from banyan.core.ports import Clock, WireClosed
from banyan.core.time import Mono
from banyan.link.pace import Turnstile

# Shares of a child's patience: what our side's work may take, and that with the wait for it. The rest is for the way
# here and back, and for loops that run late.
WORK = 0.25
IN_ALL = 0.75
# The share of our side's time for new openings: those that were let in report, and want to be heard.
SHARE = 0.8
LEAST, MOST = 2, 16
# What the one before counts beside each newer one, and after how many seconds without any the measure is worth half:
# whoever was slow an hour ago need not be now.
OLDER = 15 / 16
# So many that cost nothing are assumed before the first: that one may have been slow for reasons of its own.
PRIOR = 4.0
HALF_LIFE = 60.0


class Effort:
    """What one opening costs our side: seconds of work for each that is finished, lately. Pure.

    So what waits for the one processor costs what it takes of it, and what waits together (for a commit) costs the less
    the more share it.
    """

    def __init__(self, now: Mono) -> None:
        self._working = 0
        self._at = now
        # Since the last one was finished, and in all; the older the less it counts.
        self._gap = 0.0
        self._spent = 0.0
        self._count = PRIOR

    @property
    def each(self) -> float:
        """0 if they take no time."""
        return self._spent / self._count

    def begin(self, now: Mono) -> None:
        if not self._working:
            self._spent *= 0.5 ** (max(0.0, now - self._at) / HALF_LIFE)
            self._at = now
        self._working += 1

    def end(self, now: Mono, *, done: bool) -> None:
        """`done` false: it was refused, or failed. If that was quick, it says nothing of the others."""
        self._gap += max(0.0, now - self._at)
        self._at = now
        self._working -= 1
        if done or self._gap > self.each:
            self._spent = self._spent * OLDER + self._gap
            self._count = self._count * OLDER + 1.0
            self._gap = 0.0


@dataclass(slots=True, eq=False)
class _Waiting:
    since: Mono
    gone: Callable[[], bool]
    turn: asyncio.Future[None]


class Line:
    """`patience`: seconds that a child waits for a word. `turnstile` is made to follow what is measured here.

    `later` names a time to come back, seconds, for one that is sent away. The line is as long as its last one can be
    answered in time; before anything was measured, as the door lets strangers in.
    """

    def __init__(self, clock: Clock, turnstile: Turnstile, patience: float, later: Callable[[], float]) -> None:
        self._clock = clock
        self._turnstile = turnstile
        self._patience = patience
        self._later = later
        self._effort = Effort(clock.now())
        self._taken = 0
        self._waiting: list[_Waiting] = []

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def at_once(self) -> int:
        """How many are worked on at a time: as many as are finished within their share of the patience."""
        each = self._effort.each
        return MOST if each <= 0 else max(LEAST, min(MOST, int(self._patience * WORK / each)))

    @asynccontextmanager
    async def turn(self, gone: Callable[[], bool]) -> AsyncIterator[None]:
        """One's turn, held while the side works. `gone`: nobody waits for the answer any more.

        Raises Unreachable("busy") with a time to come back if that can not be in time, WireClosed if `gone`.
        """
        await self._wait(gone)
        done = False
        self._effort.begin(self._clock.now())
        try:
            yield
            done = True
        finally:
            now = self._clock.now()
            self._effort.end(now, done=done)
            each = self._effort.each
            if each > 0:
                rate = SHARE / each
                self._turnstile.follow(rate, rate * self._patience * (IN_ALL - WORK), now)
            self._taken -= 1
            self._call()

    async def _wait(self, gone: Callable[[], bool]) -> None:
        one = _Waiting(self._clock.now(), gone, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        self._call()
        try:
            async with asyncio.timeout(self._patience * IN_ALL):
                await one.turn
        except BaseException as error:
            if one in self._waiting:
                self._waiting.remove(one)
            elif one.turn.done() and not one.turn.cancelled() and one.turn.exception() is None:
                # Its turn came in the very moment in which it gave up.
                self._taken -= 1
                self._call()
            if isinstance(error, TimeoutError):
                raise WireClosed(_HUNG_UP) if gone() else self._busy() from error
            raise

    def _call(self) -> None:
        """Each in the line has its turn, is sent away, or stays."""
        now, each, most = self._clock.now(), self._effort.each, self.at_once
        staying: list[_Waiting] = []
        for one in self._waiting:
            if one.turn.done():
                continue
            if one.gone():
                one.turn.set_exception(WireClosed(_HUNG_UP))
            elif self._taken < most:
                self._taken += 1
                one.turn.set_result(None)
            elif now - one.since + (self._taken + len(staying) + 1) * each > self._patience * IN_ALL:
                one.turn.set_exception(self._busy())
            else:
                staying.append(one)
        self._waiting = staying

    def _busy(self) -> Unreachable:
        text = "many zones are coming back at once, and this one could not be answered in time; come again later"
        return Unreachable("busy", text, transient=True, retry_after=self._later())


_HUNG_UP = "it hung up before its turn came"
