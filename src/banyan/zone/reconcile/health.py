"""Verdicts on silent children: alive → suspect → lost (protocols §8). Health only; disabling is a later word.

One activation for all children, woken at the earliest deadline. The judgement is health/suspicion.py's; here
it is stored, journalled and shown. A child is heard again by its own words (reconcile/children.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from banyan.core.errors import NotFound
from banyan.core.ids import ZoneCode
from banyan.core.ports import Clock
from banyan.core.time import Mono, Wall, iso
from banyan.core.zone import Admin, Child, Health
from banyan.health.suspicion import Heard, Judge, Watchlist
from banyan.zone.live import Live
from banyan.zone.own import Own
from banyan.zone.reconcile.children import Children
from banyan.zone.roster import Roster

# Children judged in one pass, so that a restart with 20,000 of them does not hold the loop.
BATCH = 500
# Verdicts written at a time. They share a commit: when a thousand children fall silent at once, a disk write for each,
# one after the other, would make the last ones late. They also share a turn of the loop, so not too many.
AT_ONCE = 32


class HealthWatch:
    """zone.loop.Activation. `signal` of its loop is Roster.woken."""

    name = "health"

    def __init__(self, own: Own, clock: Clock, roster: Roster, children: Children) -> None:
        self._own = own
        self._clock = clock
        self._roster = roster
        self._children = children
        self._judge = Judge(clock.now())
        self._watch: Watchlist[ZoneCode] = Watchlist()
        self._meant: Mono | None = None

    async def activate(self, now: Mono) -> Mono | None:
        meant = self._meant if self._meant is not None and now >= self._meant else None
        self._judge = self._judge.woke(meant, now)
        self._children.lag = self._judge.lag
        for code in self._roster.take_fresh():
            self._watch.put(code, now)
        due = self._watch.due(now, BATCH)
        try:
            while due:
                await self._look_at(due[:AT_ONCE], now)
                del due[:AT_ONCE]
        finally:
            for code in due:
                self._watch.put(code, now)
        wake = self._watch.wake()
        # Whoever was due already when this pass began, and waits for the next one, is no sign that we were away.
        self._meant = None if wake is None else max(wake, now)
        return wake

    async def _look_at(self, codes: Sequence[ZoneCode], now: Mono) -> None:
        """Judges some children together. A store that failed for one has failed for that one: the first error is raised
        when all were judged.
        """
        lives = [live for code in codes if (live := self._roster.live.get(code)) is not None]
        outcomes = await asyncio.gather(*(self._look(live, now) for live in lives), return_exceptions=True)
        for outcome in outcomes:
            # One that was retired while it waited for its turn has no verdict any more.
            if isinstance(outcome, BaseException) and not isinstance(outcome, NotFound):
                raise outcome

    async def _look(self, live: Live, now: Mono) -> None:
        child = live.child
        # A restored zone does not know what was decided since: it gives nobody work again by itself.
        if maintenance_is_over(child, self._own.wall()) and self._own.row.restored_at is None:
            line = self._own.event("child-enabled", child.name, "its maintenance is over")
            await self._roster.change(child.code, "parent.maintenance-over", self._enabled, line)
        verdict = self._judge.judge(Heard(live.granted, live.terms, live.late), now)
        # A lost child is judged again when it is heard: then `granted` moves. Looking now and then costs nothing.
        self._watch.put(child.code, verdict.until or Mono(now + live.terms.lease))
        if verdict.health is Health.ALIVE or verdict.health is child.health:
            return
        if verdict.health is Health.SUSPECT and child.health is Health.LOST:
            return
        await self._change(live, verdict.health, now)

    async def _change(self, live: Live, health: Health, now: Mono) -> None:
        child = live.child
        heard = live.heard if live.heard is not None else live.granted
        last = Wall(self._own.wall() - (now - heard)) if live.heard is not None else child.heard_at
        seen = "not heard since this zone started" if last is None else f"last heard at {iso(last)}"
        ends = "ended" if live.session is None else "is open but silent"
        # Nobody is surprised by the silence of a zone that was sent away, or that is expected to be absent.
        absent = child.admin in (Admin.MAINTENANCE, Admin.BANNED)
        reason = f"{seen}; its session {ends}" + (f"; it is {child.admin}" if absent else "")
        judged = live.granted

        def changed(row: Child) -> Child:
            if live.granted != judged:
                return row  # it was heard while this waited for its turn
            return replace(row, health=health, health_reason=reason, heard_at=last)

        event = None if absent else self._own.event(f"child-{health}", child.name, reason)
        await self._roster.change(child.code, f"parent.{health}", changed, event)

    def _enabled(self, child: Child) -> Child:
        if not maintenance_is_over(child, self._own.wall()):
            return child  # a person said something else meanwhile
        return replace(child, admin=Admin.ENABLED, admin_reason="", admin_by="system", maintenance_until=None)


def maintenance_is_over(child: Child, now: Wall) -> bool:
    return child.admin is Admin.MAINTENANCE and child.maintenance_until is not None and now >= child.maintenance_until
