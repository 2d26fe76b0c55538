"""Who is late, who is lost (protocols §8): pure verdicts on children by their own rhythm.

Two deadlines per child, counted from when we last acknowledged it: *suspect* when its next report is
late by `slack`, *lost* when the lease granted is over (× LEASE_DRIFT) and grace has passed. Nobody is
judged for our own slowness: a judge that was away (restart, suspended machine, stopped process) gives
every child a full term from its return; one that lags behind its own loop widens all deadlines by the
lag. What follows from a verdict is decided elsewhere (zone/reconcile/children.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from banyan.core.time import LEASE_DRIFT, Mono, Terms
from banyan.core.zone import Health

C = TypeVar("C", bound=Hashable)

# A judge that wakes this much later than it meant to was away, not merely busy. Seconds.
AWAY = 3.0


@dataclass(frozen=True, slots=True)
class Heard:
    """What judging a child needs. `at`: when we sent our last acknowledgement. `terms`: what it granted.

    `terms.report` is the interval really granted with it, jitter included. `late`: how late its reports come by
    habit (`habit`), in seconds.
    """

    at: Mono
    terms: Terms
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """`until`: the instant at which the verdict changes by itself; None when only a word can change it."""

    health: Health
    until: Mono | None


@dataclass(frozen=True, slots=True)
class Judge:
    """`since`: awake without a gap since then. `lag`: how late its own loop runs now, in seconds."""

    since: Mono
    lag: float = 0.0

    def woke(self, meant: Mono | None, now: Mono) -> Judge:
        """The judge at `now`, having meant to wake at `meant` (None: was woken by a signal, on time).

        A lateness of AWAY or more is an absence: everybody's term begins again. Less is lag; it
        halves with each wake that is on time, so that one fast pass does not hide a loaded loop.
        """
        late = max(0.0, now - meant) if meant is not None else 0.0
        if late >= AWAY:
            return Judge(now, 0.0)
        return Judge(self.since, late if late > self.lag / 2 else self.lag / 2)

    def judge(self, heard: Heard, now: Mono) -> Verdict:
        """ALIVE, SUSPECT or LOST, and until when."""
        start = max(heard.at, self.since)
        suspect = Mono(start + heard.terms.report + heard.late + slack(heard.terms) + self.lag)
        lost = Mono(start + heard.terms.lease * LEASE_DRIFT + heard.terms.grace + self.lag)
        suspect = min(suspect, lost)
        if now >= lost:
            return Verdict(Health.LOST, None)
        if now >= suspect:
            return Verdict(Health.SUSPECT, lost)
        return Verdict(Health.ALIVE, suspect)


def slack(terms: Terms) -> float:
    """How late a report may be before its child is suspect, in seconds: half an interval, at least one second.

    The default terms (a report each 6 s, a lease of 15) so miss one report and stay within the lease.
    """
    return max(1.0, terms.report / 2)


def habit(before: float, at: Mono, terms: Terms, now: Mono) -> float:
    """How late a child's reports come, after one that came `now`; `at` and `terms` as granted before it.

    A link whose round trip is longer than the slack would else make a child suspect and alive again with each report.
    One late report is remembered for a dozen, so that a blip hides nothing for long; never more than a lease.
    """
    return min(max(now - at - terms.report, before * 0.8, 0.0), terms.lease)


class Watchlist(Generic[C]):
    """Many children by the instant at which they are to be judged again; one entry each.

    Hearing a child costs nothing here: an entry that comes up early is judged and put back, so that
    work is bounded by children per rhythm, not by reports.
    """

    def __init__(self) -> None:
        self._due: dict[C, Mono] = {}
        self._heap: list[tuple[Mono, int, C]] = []
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._due)

    def put(self, child: C, until: Mono | None) -> None:
        """To be judged at `until`; None: not before it is put again."""
        if until is None:
            self._due.pop(child, None)
        elif self._due.get(child) != until:
            self._due[child] = until
            self._push(until, child)

    def due(self, now: Mono, limit: int) -> list[C]:
        """Children to judge now, at most `limit`, earliest first; each leaves the list until it is put again."""
        found: list[C] = []
        while self._heap and self._heap[0][0] <= now and len(found) < limit:
            at, _, child = heapq.heappop(self._heap)
            if self._due.get(child) == at:
                del self._due[child]
                found.append(child)
        return found

    def wake(self) -> Mono | None:
        """The earliest instant at which `due` has something; None when nothing is awaited."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _push(self, at: Mono, child: C) -> None:
        if len(self._heap) > 2 * len(self._due) + 64:
            self._heap = [(due, n, c) for n, (c, due) in enumerate(self._due.items())]
            self._pushed = len(self._heap)
            heapq.heapify(self._heap)
            return
        self._pushed += 1
        heapq.heappush(self._heap, (at, self._pushed, child))
