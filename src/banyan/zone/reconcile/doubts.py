"""Reads again, in the background, whatever a commit of unknown fate left in doubt, until the store has answered.

Whoever asked for the change had an answer by then: that it is not known. What the store says is followed here, as it
would have been at once: sessions of who was retired, banned or replaced end, and places are taken, or given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from banyan.core.time import Mono
from banyan.zone.own import Own
from banyan.zone.reconcile.uplinks import UplinkSide
from banyan.zone.roster import Roster

Left = Callable[[int], None]

# Children asked about at a time: they share a unit.
AT_ONCE = 32


class Doubts:
    """zone.loop.Activation, signalled when there is something in doubt. Its loop comes back while there is.

    `ups`: the sides of all uplinks; `left` is told of one that is no longer in the store.
    """

    name = "doubts"

    def __init__(self, own: Own, roster: Roster, ups: Callable[[], Iterable[UplinkSide]], left: Left) -> None:
        self._own = own
        self._roster = roster
        self._ups = ups
        self._left = left

    async def activate(self, now: Mono) -> Mono | None:
        await self._own.settle()
        for side in list(self._ups()):
            if not await side.settle() and side.leaving:
                self._left(side.row.id)
        codes = list(self._roster.doubtful)
        for first in range(0, len(codes), AT_ONCE):
            settling = (self._roster.settle(code) for code in codes[first : first + AT_ONCE])
            for outcome in await asyncio.gather(*settling, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
        return None
