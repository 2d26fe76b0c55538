"""How long a question may still take. It goes down with the question, in seconds from then on, less at each hop.

Each zone keeps back a part for its own answer, so that one that hangs, however deep, is named by the zone that asked it
while those above still wait: what is above would else give up on all that lies between. No two zones need to agree on
what time it is (docs/contracts/link.md).
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Final

from banyan.core.errors import Unreachable

# What a zone keeps of its time to answer in, seconds; of little time a part.
MARGIN: Final = 1.0
PART: Final = 0.8
# The part of its time in which a zone begins to ask nobody else.
LEAST: Final = 0.1
# For one question of a client that takes several pages of ours, seconds; an answer of the API has 30 (api.context).
WHOLE: Final = 20.0


def to_ask(milliseconds: int, own: float) -> float:
    """Seconds that a zone has for those that it asks itself, of what it was given (core.messages.Request.deadline).

    `own`: the most that it ever takes, and what it takes where nothing was given.
    """
    given = min(milliseconds / 1000, own) if milliseconds > 0 else own
    return max(given - MARGIN, given * PART)


def check_time(seconds: float, path: str) -> float:
    """What is left for asking the zone at `path`. Raises Unreachable("no-time") if that is nothing."""
    if seconds <= 0.0:
        raise Unreachable("no-time", f"no time is left to ask {path}: it was not asked", transient=True)
    return seconds


@dataclass(frozen=True, slots=True)
class Deadline:
    """`until`: an instant of the running loop. `least`: with less than that left nothing further is begun."""

    until: float = math.inf
    least: float = 0.0

    @classmethod
    def within(cls, seconds: float) -> Deadline:
        return cls(asyncio.get_running_loop().time() + seconds, seconds * LEAST)

    def left(self) -> float:
        """Seconds; at least 0."""
        return math.inf if self.until == math.inf else max(0.0, self.until - asyncio.get_running_loop().time())

    @property
    def over(self) -> bool:
        """Whoever is asked now would have too little time, and be called absent for it."""
        return self.left() <= self.least


NEVER: Final = Deadline()
