"""How fast a link may speak, and how soon it may come back. Pure: `now` and chance are arguments.

A `Bucket` bounds bytes per second and lets heartbeats pass first. A `Backoff` spreads returns, so that
an outage of a parent of thousands does not end in a second one. `Turnstile` is the parent's half of that.
A `Toll` bounds what a peer costs that speaks without end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from banyan.core.ports import Ids
from banyan.core.time import Mono


class Priority(IntEnum):
    """What goes first when there is not room for all. Lower first."""

    HEARTBEAT = 0
    DELTA = 1
    BULK = 2


# The share of a full bucket that each priority must leave to those before it.
_KEEP = {Priority.HEARTBEAT: -1.0, Priority.DELTA: 0.25, Priority.BULK: 0.5}


class Bucket:
    """A token bucket of bytes. `rate` in bytes per second (inf: no bound), `burst` in bytes.

    Heartbeats never wait; they may run the bucket into debt, at most one burst of it. The others wait
    until their share is there. A message larger than the bucket goes when the bucket is full.
    """

    def __init__(self, rate: float, burst: float, now: Mono) -> None:
        if rate <= 0 or burst <= 0:
            raise ValueError("a bucket needs a positive rate and burst")
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = now

    def _fill(self, now: Mono) -> None:
        if now > self._at:
            gained = math.inf if math.isinf(self._rate) else (now - self._at) * self._rate
            self._level = min(self._burst, self._level + gained)
            self._at = now

    def allowance(self, priority: Priority, now: Mono) -> int:
        """Bytes that may go at once."""
        if math.isinf(self._rate):
            return int(self._burst)
        self._fill(now)
        return max(0, int(self._level - _KEEP[priority] * self._burst))

    def wait(self, size: int, priority: Priority, now: Mono) -> float:
        """Seconds until `size` bytes may go; 0 is now."""
        if priority is Priority.HEARTBEAT or math.isinf(self._rate):
            return 0.0
        self._fill(now)
        need = min(size + _KEEP[priority] * self._burst, self._burst)
        lack = need - self._level
        # Less than a byte is nothing: who waited just so long must not be sent back by a rounding error.
        return 0.0 if lack < 1.0 else lack / self._rate

    def take(self, size: int, now: Mono) -> None:
        """`size` bytes went."""
        if math.isinf(self._rate):
            return
        self._fill(now)
        self._level = max(-self._burst, self._level - size)


@dataclass(frozen=True, slots=True)
class Backoff:
    """When to dial again. Seconds.

    Full jitter (uniform in [0, bound]): the bound doubles from `first` with each attempt that failed, up
    to `ceiling`. After the loss of a session it is at least `spread`, since then all siblings come at once.
    A parent's `retry_after` is a floor, never above `longest`; "never" is taken as `longest`, because a ban
    may be lifted at the parent while nobody is at the child.
    """

    first: float = 0.5
    ceiling: float = 60.0
    spread: float = 5.0
    longest: float = 300.0

    def delay(self, failures: int, ids: Ids, *, lost: bool = False, retry_after: float | None = None) -> float:
        """`failures` in a row before this; `lost`: a session stood; `retry_after` in seconds, below 0 is never."""
        grown = min(self.ceiling, self.first * 2.0 ** min(failures, 32))
        if not retry_after:
            # "As you like" (0) must not be twice a second for ever, when what the parent says no to does not change.
            return ids.uniform(0.0, max(grown, self.spread) if lost else grown)
        floor = self.longest if retry_after < 0 else min(retry_after, self.longest)
        return floor + ids.uniform(0.0, max(self.first, floor / 4))


class Toll:
    """What a peer's words cost us, paid by waiting: `rate` of that per second, `burst` at once.

    Beyond it the next word is read later, and the transport holds the peer back. Nothing is refused.
    """

    def __init__(self, rate: float, burst: float, now: Mono) -> None:
        if rate <= 0 or burst <= 0:
            raise ValueError("a toll needs a positive rate and burst")
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = now

    def pay(self, cost: float, now: Mono) -> float:
        """Seconds until the next word may be read; 0 is now."""
        if now > self._at:
            self._level = min(self._burst, self._level + (now - self._at) * self._rate)
            self._at = now
        self._level -= cost
        return max(0.0, -self._level / self._rate)


class Turnstile:
    """Lets `rate` openings per second through, `burst` at once; gives the others a time to come back.

    Each that is turned away gets the next free place of a virtual queue, so that those who obey return
    at just the rate that can be served. The queue is at most `longest` seconds long. Whoever measures what can be
    served makes it `follow`; `rate` and `burst` stay the most.
    """

    def __init__(self, rate: float, burst: float, longest: float, now: Mono) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError("a turnstile needs a positive rate and a burst of one or more")
        self._most = rate, burst
        self._rate = rate
        self._burst = burst
        self._longest = longest
        self._level = burst
        self._at = now
        # Places of the queue that were given and whose time has not come.
        self._given = 0.0

    def follow(self, rate: float, burst: float, now: Mono) -> None:
        """From now on this many, but not above what it was made for."""
        self._fill(now)
        self._rate = min(rate, self._most[0])
        self._burst = max(1.0, min(burst, self._most[1]))
        self._level = min(self._level, self._burst)

    def pause(self, now: Mono) -> float:
        """For who stays in line: takes the next place; seconds until it is its turn."""
        self._fill(now)
        self._level -= 1.0
        return max(0.0, -self._level / self._rate)

    def _fill(self, now: Mono) -> None:
        if now > self._at:
            served = (now - self._at) * self._rate
            self._level = min(self._burst, self._level + served)
            self._given = max(0.0, self._given - served)
            self._at = now

    def enter(self, now: Mono) -> float | None:
        """None: come in. Else seconds after which to come back (the caller adds jitter)."""
        self._fill(now)
        if self._level >= 1.0 - 1e-6:
            self._level -= 1.0
            return None
        return self.later(now)

    def later(self, now: Mono) -> float:
        """The next place of the queue: seconds from now."""
        self._fill(now)
        self._given = min(self._given + 1.0, self._longest * self._rate)
        return self._given / self._rate
