"""Which children are told the shapes that this zone counts, with which acknowledgement (protocols §4).

A child says with each report which set it holds; who holds another is sent the present one, at most RATE children in a
second, so that a change at the top of 20,000 children is no storm: the others are told with a later acknowledgement.
"""

from __future__ import annotations

import math

from banyan.core.messages import ShapeSet
from banyan.core.ports import Clock
from banyan.zone.live import Live
from banyan.zone.members import Members

# A set of 300 shapes is about 15 KB: three MB a second, and a hundred seconds for 20,000 children.
RATE = 200


class Announcing:
    """`hash` names the present set, for the opening of a session."""

    def __init__(self, clock: Clock, members: Members) -> None:
        self._clock = clock
        self._members = members
        self._second = 0
        self._told = 0

    @property
    def hash(self) -> bytes:
        return self._members.announcement.hash

    def due(self, live: Live) -> ShapeSet | None:
        """What this child is told now; None if it holds the present set, takes none, or must wait."""
        present = self._members.announcement
        if not live.shapes or live.shapes == present.hash:
            return None
        second = math.floor(self._clock.now())
        if second != self._second:
            self._second, self._told = second, 0
        if self._told >= RATE:
            return None
        self._told += 1
        return present
