"""Which children may have servers of a project that their ledger here does not name (protocols §4).

An order is acknowledged before the ledger of whoever took it says so. Until then it is remembered to whom it went, by
project, and longer while nothing is heard of that child. That memory is of this process: after a start every child may
have anything, until it reported. What a child lacks itself it says with its report (`partial`), so that a zone further
up goes on asking it. Memory only, bounded: of what is over, the child may have anything until it reports again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from banyan.core.ids import RackCode, ZoneCode
from banyan.core.time import Mono
from banyan.zone.uses import Project

# A ledger that came so many seconds after an order was sent has what became of it.
LATE: Final = 120.0
# A child that took orders and reported nothing for so many seconds is not waited for: the zones above are told.
# LATE less this is longer than an order is under way.
SILENT: Final = 60.0
# Children under projects, of which it is remembered that orders went to them.
MAX_SENT: Final = 100_000


class Unreported:
    """All of it by child code. `now`: of the process's clock."""

    def __init__(self, limit: int = MAX_SENT) -> None:
        self._limit = limit
        # Those that did not report in this life of ours, or said themselves that theirs is not whole.
        self._open: set[ZoneCode] = set()
        self._settled: dict[ZoneCode, Mono] = {}
        self._sent: OrderedDict[Project, dict[ZoneCode, Mono]] = OrderedDict()
        self._pairs = 0
        self._forgotten: dict[ZoneCode, Mono] = {}
        self._latest: dict[ZoneCode, Mono] = {}
        # Own racks with servers that are not confirmed yet, which no ledger counts.
        self._waiting: set[RackCode] = set()

    def began(self, child: ZoneCode) -> None:
        """It is known from now on, and said nothing yet."""
        self._open.add(child)

    def reported(self, child: ZoneCode, now: Mono, *, partial: bool) -> None:
        """Its ledger is here to its end. `partial`: it lacks what zones below it did not tell."""
        if partial:
            self._open.add(child)
            return
        self._open.discard(child)
        self._settled[child] = now
        for held in (self._latest, self._forgotten):
            if child in held and self._has_all(child, held[child]):
                del held[child]

    def again(self, child: ZoneCode, now: Mono) -> None:
        """It has nothing to add to what it reported last."""
        if child not in self._open:
            self.reported(child, now, partial=False)

    def waits(self, rack: RackCode, *, waits: bool) -> None:
        """Whether servers of an own rack wait to be confirmed."""
        (self._waiting.add if waits else self._waiting.discard)(rack)

    def dropped(self, child: ZoneCode) -> None:
        self._open.discard(child)
        for held in (self._settled, self._forgotten, self._latest):
            held.pop(child, None)

    def sent(self, child: ZoneCode, project: Project, now: Mono) -> None:
        """An order of that project goes there."""
        children = self._sent.setdefault(project, {})
        self._sent.move_to_end(project)
        self._pairs += child not in children
        children[child] = now
        if child in self._settled:
            self._latest[child] = now
        while self._pairs > self._limit:
            _, forgotten = self._sent.popitem(last=False)
            self._pairs -= len(forgotten)
            for one, at in forgotten.items():
                self._forgotten[one] = max(at, self._forgotten.get(one, at))

    def may_hold(self, project: Project) -> set[ZoneCode]:
        """Children that may have servers of it though their ledger does not say so."""
        children = self._sent.get(project, {})
        for child in [child for child, at in children.items() if self._has_all(child, at)]:
            del children[child]
            self._pairs -= 1
        if not children:
            self._sent.pop(project, None)
        late = (child for child, at in self._forgotten.items() if not self._has_all(child, at))
        return {*self._open, *children, *late}

    def partial(self, now: Mono) -> bool:
        """Whether the ledger that goes up lacks what is not told here."""
        return bool(self._open or self._waiting) or any(now - self._settled[child] > SILENT for child in self._latest)

    def _has_all(self, child: ZoneCode, at: Mono) -> bool:
        settled = self._settled.get(child)
        return settled is not None and settled >= at + LATE
