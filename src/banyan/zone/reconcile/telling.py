"""Tells one receiver what the journal says: an activation for each, so that a dead one holds up no other.

The journal is the queue and the receiver's row the place in it (decision 0037). What is to be told next is fixed in the
row before the first of it is sent, so that a process that dies in between makes the same notices again, with the same
ids; the place moves on only when all of it was taken. What fails is tried again with growing pauses, for ever, within
the bounds of the backlog; what a bound cuts off is an event. How a notice travels is the Sender's (core/receiver.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from banyan.core.errors import BanyanError, NotFound
from banyan.core.journal import Event, Line
from banyan.core.notices import Folder
from banyan.core.ports import Clock, Ids, Store
from banyan.core.receiver import Notice, ReceiverRow, ReceiverSpec, Sender, SendFailed
from banyan.core.records import Unit
from banyan.core.time import Mono, iso
from banyan.zone.loop import contained
from banyan.zone.own import Own

# Seconds between looks for new lines.
LOOK: Final = 2.0
# A storm that still grows is waited for so long, from its first line; and after one its kinds are told so seldom.
SETTLE: Final = 10.0
HOLD: Final = 60.0
# Lines read at a time, and looked at before something is told.
PAGE: Final = 1_000
MOST: Final = 20_000
# Pauses between attempts, seconds; what a receiver asks for is granted up to an hour.
FIRST_PAUSE: Final = 1.0
LAST_PAUSE: Final = 300.0
LONGEST_WISH: Final = 3_600.0
# How often one that wants nothing any more is looked at: its row may be another's word by then.
GONE_LOOK: Final = 60.0
# Times that a notice is offered which the receiver takes from nobody.
OFFERS: Final = 5
# Lines that were not for the receiver, after which its place is written down without anything sent.
PASSED: Final = 1_000


@dataclass(slots=True)
class Counts:
    """Since the start. `told`: notices taken; `folded`: lines that were told in notices of storms."""

    told: int = 0
    failed: int = 0
    folded: int = 0
    skipped: int = 0


@dataclass(slots=True)
class _Batch:
    """What is being told: the notices of the lines after `number` up to `upto`, from `at` on."""

    number: int
    upto: int
    storms: tuple[str, ...]
    notices: Sequence[Notice]
    at: int = 0


@dataclass(frozen=True, slots=True)
class _Standing:
    row: ReceiverRow
    last: Line | None
    # The first line that was not told yet.
    first: Line | None


class Telling:
    """See the module. `path`: of this zone, as it is now. `row` and `behind` are as last looked at."""

    def __init__(
        self,
        spec: ReceiverSpec,
        sender: Sender,
        own: Own,
        store: Store,
        clock: Clock,
        ids: Ids,
        path: Callable[[], str],
    ) -> None:
        self.name = f"receiver {spec.name}"
        self.spec = spec
        self.sender = sender
        self.counts = Counts()
        self.row: ReceiverRow | None = None
        self.behind = 0
        self._own = own
        self._store = store
        self._clock = clock
        self._ids = ids
        self._path = path
        self._batch: _Batch | None = None
        # What was read and is not begun yet: a storm is waited for, and read once.
        self._waiting: Folder | None = None
        # Lines up to this one are not for the receiver, as far as they were not told.
        self._passed = 0
        self._storming: dict[str, Mono] = {}
        self._attempts = 0
        self._offers = 0
        self._later = Mono(0.0)

    def again(self) -> None:
        """The next activation does not wait for the end of a pause."""
        self._later = Mono(0.0)
        self._attempts = 0

    async def activate(self, now: Mono) -> Mono | None:
        if now < self._later:
            return self._later
        found = await self._store.read(self._standing)
        row = self.row = found.row
        end = 0 if found.last is None else found.last.number
        self.behind = max(0, end - max(row.number, self._passed))
        if row.gone:
            return Mono(now + GONE_LOOK)
        if (bound := await self._bound(found, end)) > row.number:
            await self._skip(row, bound, "more was waiting than is kept for it")
            return now
        if not row.upto:
            return await self._begin(row, now)
        batch = self._batch
        if batch is None or (batch.number, batch.upto, batch.storms) != (row.number, row.upto, row.storms):
            folder = await self._gather(self._folder(row.number), row.upto)
            batch = self._batch = _Batch(row.number, row.upto, row.storms, folder.notices(row.storms))
        return await self._tell(batch, row)

    def _standing(self, unit: Unit) -> _Standing:
        row = self._row(unit)
        first = unit.journal.page(row.number, 1, {})
        return _Standing(row, unit.journal.last(), first[0] if first else None)

    # --- what is next ---------------------------------------------------------------------------

    async def _begin(self, row: ReceiverRow, now: Mono) -> Mono:
        """Fixes what is told next, if there is anything; when to look again."""
        begin = max(row.number, self._passed)
        if self._waiting is None or self._waiting.after != begin:
            self._waiting = self._folder(begin)
        folder = self._waiting
        await self._gather(folder, begin + MOST)
        if not folder.kinds:
            self._passed, self._waiting = folder.upto, None
            if self._passed - row.number >= PASSED:
                await self._change(lambda it: replace(it, number=self._passed))
            return Mono(now + (0.0 if folder.upto - begin >= MOST else LOOK))
        self._storming = {kind: until for kind, until in self._storming.items() if until > now}
        wait = self._wait(folder, now)
        if wait is not None:
            return wait
        storms = folder.storms(self._storming)
        for kind in storms:
            self._storming[kind] = Mono(now + HOLD)
        await self._change(lambda it: replace(it, number=begin, upto=folder.upto, storms=storms))
        self._batch, self._waiting = _Batch(begin, folder.upto, storms, folder.notices(storms)), None
        return now

    def _wait(self, folder: Folder, now: Mono) -> Mono | None:
        """When to look again at a storm that still grows, or at lines of kinds that were told as storms just now."""
        if folder.count < MOST and self._storming.keys() >= set(folder.kinds):
            return Mono(min(now + LOOK, *(self._storming[kind] for kind in folder.kinds)))
        wall = self._own.wall()
        grows = folder.newest is not None and wall - folder.newest < 2 * LOOK
        young = folder.oldest is not None and wall - folder.oldest < SETTLE
        return Mono(now + LOOK) if folder.storms() and grows and young else None

    def _folder(self, after: int) -> Folder:
        return Folder(self.spec, self._path(), self._own.code, after)

    async def _gather(self, folder: Folder, upto: int) -> Folder:
        """Adds the lines that there are after those that it has, up to that one."""
        while folder.upto < upto:
            limit = min(PAGE, upto - folder.upto)
            lines = await self._lines(folder.upto, limit)
            for line in lines:
                folder.add(line)
            if len(lines) < limit:
                break
        return folder

    async def _lines(self, after: int, limit: int) -> Sequence[Line]:
        return await self._store.read(lambda unit: unit.journal.page(after, limit, {}))

    # --- telling --------------------------------------------------------------------------------

    async def _tell(self, batch: _Batch, row: ReceiverRow) -> Mono:
        while batch.at < len(batch.notices):
            notice = batch.notices[batch.at]
            try:
                await self.send(notice)
            except SendFailed as error:
                return await self._failed(row, batch, notice, error)
            batch.at += 1
            self._attempts = self._offers = 0
            self.counts.told += 1
            self.counts.folded += notice.count if notice.count > 1 else 0
            if row.failing_since is not None:
                row = await self._reached()
        sent = self._own.wall() if batch.notices else row.last_sent
        self.row = await self._change(
            lambda it: replace(it, number=batch.upto, upto=0, storms=(), last_sent=sent)
        )  # fmt: skip
        self._batch = None
        return Mono(self._clock.now() + LOOK)

    async def send(self, notice: Notice) -> None:
        """One attempt, within the deadline. Raises SendFailed."""
        try:
            async with asyncio.timeout(self.spec.deadline):
                await contained(self.sender.send(notice, self._own.wall()), self.name)
        except TimeoutError as error:
            text = f"{self.spec.where} did not answer within {self.spec.deadline:g} s"
            raise SendFailed(text) from error
        except SendFailed:
            raise
        except BanyanError as error:
            raise SendFailed(f"{self.spec.where} could not be told; this zone's log says why") from error

    async def _reached(self) -> ReceiverRow:
        """It takes what it is told: an event if it was thought not to."""

        def work(unit: Unit) -> ReceiverRow:
            row = self._row(unit)
            if row.dead or row.gone:
                since = iso(row.failing_since or self._own.wall())
                text = f"it takes what it is told again; it had not since {since}"
                self._own.write(unit, self._own.event("receiver-back", self.spec.name, text, since=since))
            row = replace(row, failing_since=None, dead=False, gone=False, last_error="")
            unit.receivers.put(row)
            return row

        return await self._store.write("receiver.back", work)

    async def _failed(self, row: ReceiverRow, batch: _Batch, notice: Notice, error: SendFailed) -> Mono:
        self.counts.failed += 1
        self._attempts += 1
        now, wall = self._clock.now(), self._own.wall()
        since = row.failing_since or wall
        if error.refused:
            self._offers += 1
            if self._offers >= OFFERS:
                self._offers = 0
                await self._refused(notice, error)
                batch.at += 1
                return now
        dead = row.dead or wall - since >= self.spec.dead_after
        after = replace(row, failing_since=since, dead=dead, gone=error.gone, last_error=error.text)
        event = None
        if error.gone:
            event = self._own.event("receiver-gone", self.spec.name, error.text, outcome="failed")
        elif dead and not row.dead:
            text = f"nothing was taken since {iso(since)}: {error.text}"
            event = self._own.event("receiver-dead", self.spec.name, text, outcome="failed", since=iso(since))
        if after != row:
            self.row = await self._change(
                lambda it: replace(it, failing_since=since, dead=dead, gone=error.gone, last_error=error.text), event
            )
        ceiling = min(LAST_PAUSE, FIRST_PAUSE * 2 ** min(self._attempts, 10))
        wish = min(error.retry_after or 0.0, LONGEST_WISH)
        self._later = Mono(now + max(self._ids.uniform(ceiling / 2, ceiling), wish))
        return self._later

    # --- what is not told -----------------------------------------------------------------------

    async def _bound(self, found: _Standing, end: int) -> int:
        """The line up to which nothing is told any more, for there is too much, or it is too old; 0 for none.

        Half of what may wait is kept, so that a receiver that stays away is not an event at every look.
        """
        row, spec = found.row, self.spec
        if end - max(row.number, self._passed) > spec.backlog:
            return end - spec.backlog // 2
        limit = self._own.wall() - spec.backlog_age
        if not row.upto or found.first is None or found.first.at >= limit:
            return 0
        number, limit = row.number, self._own.wall() - spec.backlog_age / 2
        while True:
            lines = await self._lines(number, PAGE)
            for line in lines:
                if line.at >= limit:
                    return number
                number = line.number
            if len(lines) < PAGE:
                return number

    async def _skip(self, row: ReceiverRow, upto: int, why: str) -> None:
        lost = (await self._gather(self._folder(row.number), upto)).count
        self.counts.skipped += lost
        text = (
            f"{lost:,} events in the lines {row.number + 1} to {upto} were not told: {why}; they are in the journal "
            f"(`banyan journal --after {row.number}`)"
        )
        event = self._own.event(
            "receiver-skipped", self.spec.name, text, outcome="failed", events=str(lost), first=str(row.number + 1),
            last=str(upto),
        )  # fmt: skip
        self._batch = self._waiting = None
        self.row = await self._change(lambda it: replace(it, number=upto, upto=0, storms=()), event if lost else None)

    async def _refused(self, notice: Notice, error: SendFailed) -> None:
        self.counts.skipped += notice.count
        text = f"the notice {notice.id} of kind {notice.kind} was offered {OFFERS} times and left out: {error.text}"
        event = self._own.event(
            "receiver-skipped", self.spec.name, text, outcome="failed", events=str(notice.count),
            first=str(notice.first), last=str(notice.last),
        )  # fmt: skip
        await self._store.write("receiver.refused", lambda unit: self._own.write(unit, event))

    async def _change(
        self, change: Callable[[ReceiverRow], ReceiverRow], event: Event | None = None
    ) -> ReceiverRow:  # fmt: skip
        """The row as it is in the store, changed, with a line about it."""

        def work(unit: Unit) -> ReceiverRow:
            row = change(self._row(unit))
            unit.receivers.put(row)
            if event is not None:
                self._own.write(unit, event)
            return row

        return await self._store.write("receiver.place", work)

    async def tested(self, event: Event, taken: bool) -> None:
        """Writes down a test's outcome; one that was taken ends what the receiver was thought to be."""
        self.row = await self._change(lambda row: row, event)
        if taken:
            self.row = await self._reached()
            self.again()

    def _row(self, unit: Unit) -> ReceiverRow:
        row = unit.receivers.get(self.spec.name)
        if row is None:
            text = f"the receiver {self.spec.name} has no place in the journal; restart the zone"
            raise NotFound("no-receiver", text)
        return row
