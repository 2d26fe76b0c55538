"""Counts what became known: the shapes that a parent announced, or another rack's flavors, on every rack of this zone.

Signalled by Members when what is to be counted changes. Counting goes in turns of the loop; a rack's hosts stand as
not counted for a shape until it was. What does not fit in a digest is left out, and the journal says so once.
"""

from __future__ import annotations

from banyan.core.ports import Clock, Store
from banyan.core.time import Mono
from banyan.zone.members import Members
from banyan.zone.own import Own
from banyan.zone.reconcile.recording import watched


class Shapes:
    """zone.loop.Activation."""

    name = "shapes"

    def __init__(self, own: Own, store: Store, clock: Clock, members: Members) -> None:
        self._own = own
        self._store = store
        self._clock = clock
        self._members = members
        self._told = False

    async def activate(self, now: Mono) -> Mono | None:
        while (member := self._members.lagging()) is not None and member.fold is not None:
            fold = member.fold
            await watched(fold, self._members.shapes.counted, self._clock)
            self._members.counted(member.rack.code, fold)
        choice = self._members.shapes
        if bool(choice.left_out) != self._told:
            self._told = bool(choice.left_out)
            text = choice.reason or f"all {len(choice.counted)} shapes that are known are counted again"
            event = self._own.event("shapes-left-out" if self._told else "shapes-counted", self._own.name, text)
            await self._store.write("zone.shapes", lambda unit: self._own.write(unit, event))
        return None
