"""Whose a rack is that several zones below name: stored, so that a restart of this zone changes no owner.

The lineage says who names a rack, not who did so first. A row is kept for each rack that is named by several, as long
as it is (zone/rack_routes.py judges); a database of a version before has none, and then who was read first is first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from banyan.core.ids import RackCode, ZoneCode, code_text
from banyan.core.ports import Store
from banyan.core.records import Unit
from banyan.core.time import Mono
from banyan.zone.own import Own
from banyan.zone.rack_routes import RackRoutes
from banyan.zone.tree import Tree

PAGE = 1_000

# Racks that a journal line names.
NAMED = 3

# Lines of a minute.
LINES_PER_MINUTE = 10
MINUTE = 60.0


def _page(after: RackCode | None) -> Callable[[Unit], Sequence[tuple[RackCode, ZoneCode]]]:
    return lambda unit: unit.lineage.rack_owners(after, PAGE)


class RackOwners:
    """zone.loop.Activation, signalled when there is something to store.

    `contests`: how often racks were found that several zones name. A few journal lines a minute say which; that is no
    refusal, and takes none of the lines of those. What was left out is told in one line when the minute is over.
    """

    name = "rack-owners"

    def __init__(self, own: Own, store: Store, tree: Tree) -> None:
        self.routes = RackRoutes()
        self.contests = 0
        self._minute = self._written = 0
        # What was left out and not yet told, and in which minute that began.
        self._untold = self._since = 0
        self._own = own
        self._store = store
        self._tree = tree
        self._keeping = asyncio.Lock()

    async def load(self) -> None:
        """After all lineage was read."""
        stored: dict[RackCode, ZoneCode] = {}
        after: RackCode | None = None
        while True:
            rows = await self._store.read(_page(after))
            stored.update(rows)
            if len(rows) < PAGE:
                break
            after = rows[-1][0]
        self.routes.decide(stored)

    async def activate(self, now: Mono) -> Mono | None:
        await self.keep()
        if not self._untold:
            return None
        wall = self._own.wall()
        left = MINUTE - wall % MINUTE
        if wall // MINUTE == self._since:
            return Mono(now + left)
        count = self._untold
        text = (
            f"{count} times more racks were found that several zones name, with no line of their own: "
            f"{LINES_PER_MINUTE} a minute are written, all are counted (`banyan_rack_contests_total`)"
        )
        event = self._own.event("rack-contested", "racks", text, count=str(count))
        await self._store.write("parent.rack-owners", lambda unit: self._own.write(unit, event))
        self._untold -= count
        self._since = int(wall // MINUTE)
        return Mono(now + left) if self._untold else None

    async def keep(self) -> None:
        """Stores what is not stored yet. What the store did not keep, or may have kept, is written again."""
        async with self._keeping:
            owners = self.routes.unkept()
            if not owners:
                return
            several = sorted(rack for rack, zone in owners.items() if zone is not None)
            event = None
            if several and self._may_write():
                event = self._own.event("rack-contested", self._rack(several[0]), self._text(several))

            def work(unit: Unit) -> None:
                unit.lineage.put_rack_owners(owners)
                if event is not None:
                    self._own.write(unit, event)

            await self._store.write("parent.rack-owners", work)
            self.routes.keep(owners)

    def _may_write(self) -> bool:
        self.contests += 1
        minute = int(self._own.wall() // MINUTE)
        if minute != self._minute:
            self._minute, self._written = minute, 0
        if self._written < LINES_PER_MINUTE:
            self._written += 1
            return True
        if not self._untold:
            self._since = minute
        self._untold += 1
        return False

    def _text(self, racks: list[RackCode]) -> str:
        said = []
        for rack in racks[:NAMED]:
            owner, others = self.routes.owner(rack), self.routes.waiting(rack)
            if owner is not None and others:
                more = f" and {len(others) - 1} more" if len(others) > 1 else ""
                whose, also = self._tree.path_of(owner), self._tree.path_of(others[0])
                said.append(f"{self._rack(rack)} is {whose}'s, and {also}{more} names it as well")
        more = f"; and {len(racks) - NAMED} racks more" if len(racks) > NAMED else ""
        return (
            f"{'; '.join(said)}{more}. Who named a rack first keeps it, and its servers are looked for there, until it "
            "names it no more; a copied data folder does this"
        )

    def _rack(self, rack: RackCode) -> str:
        return f"rack {code_text(rack)}"
