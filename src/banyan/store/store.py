"""The store that a running zone uses: one thread that writes, a few that read, none on the event loop.

Group commit: units that wait while another COMMIT is under way share the next one, each in its own savepoint.
Nobody is answered before COMMIT returned. A batch that fails as a whole is tried again unit by unit, so that one
unit that is too big for the disk, or that lost to another process, takes nobody along. Every retry has a budget.
How one transaction runs is transactor.py's.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from banyan.core.errors import BanyanError
from banyan.core.ports import Clock, Ids
from banyan.core.records import StoreUnknown
from banyan.store.engine import Database
from banyan.store.faults import Fault, unknown
from banyan.store.keys import Seal
from banyan.store.lane import Job, Lane, answer
from banyan.store.transactor import Outcome, TransactionLost, Transactor, Work

T = TypeVar("T")

Phase = Literal["before", "after"]
Observer = Callable[[Phase, tuple[str, ...]], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """`batch` units or `batch_seconds`, whichever comes first, go into one commit. `patience`: seconds until
    a caller is told that no answer came. `retries` of a transaction that lost to another or its connection."""

    waiting: int = 4_096
    batch: int = 256
    batch_seconds: float = 0.05
    readers: int = 3
    patience: float = 60.0
    retries: int = 4
    retry_seconds: float = 0.05


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Measures:
    """Counts since the start, and seconds spent in COMMIT. `largest` is the most units in one commit."""

    commits: int = 0
    units: int = 0
    failed: int = 0
    reads: int = 0
    largest: int = 0
    commit_seconds: float = 0.0
    waiting: int = 0


class SqlStore:
    """core.ports.Store on SQLite or PostgreSQL. `ids` and `clock` are called from several threads.

    `observer` is called by the writing thread around each COMMIT, with the names of its units; what it
    raises ends the store's writing. `released` is called once, when all is closed. Raises what a first
    connection may (Unreachable, StoreFull, Broken).
    """

    def __init__(
        self,
        database: Database,
        seal: Seal,
        *,
        ids: Ids,
        clock: Clock,
        observer: Observer | None = None,
        limits: Limits = DEFAULT_LIMITS,
        released: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._observer = observer
        self._limits = limits
        self._released = released
        self._measures = Measures()
        self._reads = 0
        self._writing = Lane(database.what, limits.waiting)
        self._reading = Lane(database.what, limits.waiting)
        readers = [Transactor(database, database.reader, seal) for _ in range(limits.readers)]
        writer = Transactor(database, database.writer, seal)
        try:
            # Readers first: as long as they are connected, reading needs nothing of the disk that is not there yet.
            for transactor in (*readers, writer):
                transactor.connect()
        except TransactionLost as lost:
            for transactor in (*readers, writer):
                transactor.close()
            raise lost.refusal from lost
        self._threads = [
            threading.Thread(target=self._write_all, args=(writer,), name="store-writer", daemon=True),
            *(
                threading.Thread(target=self._read_all, args=(reader,), name=f"store-reader-{n}", daemon=True)
                for n, reader in enumerate(readers)
            ),
        ]
        self._done = False
        for thread in self._threads:
            thread.start()

    async def write(self, name: str, work: Work[T]) -> T:
        return await self._writing.run(name, work, self._limits.patience, self._late)

    async def read(self, work: Work[T]) -> T:
        return await self._reading.run("read", work, self._limits.patience, self._late)

    async def close(self) -> None:
        """Serves what waits, then closes. May be called again."""
        self._writing.close()
        self._reading.close()
        await asyncio.get_running_loop().run_in_executor(None, self._join)

    def measures(self) -> Measures:
        m = self._measures
        waiting = len(self._writing) + len(self._reading)
        return Measures(m.commits, m.units, m.failed, self._reads, m.largest, m.commit_seconds, waiting)

    def _late(self) -> BanyanError:
        return unknown(self._database.what, f"no answer within {self._limits.patience:g} s")

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(self._limits.patience)
        # A thread that hangs in the database may still commit: then the folder stays ours until the process ends.
        if not self._done and not any(thread.is_alive() for thread in self._threads):
            self._done = True
            self._database.dispose()
            self._released()

    # --- writing: everything below runs in the writing thread -------------------------------------

    def _write_all(self, transactor: Transactor) -> None:
        jobs: list[Job[object]] = []
        try:
            while first := self._writing.wait():
                jobs = [first]
                outcomes = self._write(transactor, jobs, grow=True)
                answer(jobs, outcomes)
                jobs = []
        finally:
            # Only a fault of ours (or of the observer) ends it early; nobody is left waiting for it.
            self._writing.close()
            while job := self._writing.poll():
                jobs.append(job)
            answer(jobs, [Outcome(error=unknown(self._database.what, "the writing thread ended")) for _ in jobs])
            transactor.close()

    def _write(self, transactor: Transactor, jobs: list[Job[object]], *, grow: bool) -> Sequence[Outcome[object]]:
        """Commits `jobs` together; with `grow`, also jobs that wait, which are then appended to `jobs`."""
        for attempt in range(self._limits.retries + 1):
            try:
                return self._together(transactor, jobs, grow=grow and attempt == 0)
            except StoreUnknown as error:
                self._count(0, len(jobs), 0.0)
                return [Outcome(error=_again(error)) for _ in jobs]
            except TransactionLost as lost:
                if len(jobs) > 1 and lost.begun and lost.fault is not Fault.LOST:
                    return [self._write(transactor, [job], grow=False)[0] for job in jobs]
                if lost.fault not in (Fault.LOST, Fault.CONFLICT) or attempt == self._limits.retries:
                    self._count(0, len(jobs), 0.0)
                    return [Outcome(error=_again(lost.refusal, lost)) for _ in jobs]
            self._writing.pause(self._limits.retry_seconds * 2**attempt * self._ids.uniform(0.5, 1.5))
        raise AssertionError("the last attempt returned")

    def _together(self, transactor: Transactor, jobs: list[Job[object]], *, grow: bool) -> list[Outcome[object]]:
        limits, began = self._limits, self._clock.now()
        transactor.begin()
        outcomes = [transactor.attempt(job.work) for job in jobs]
        while grow and len(jobs) < limits.batch and self._clock.now() - began < limits.batch_seconds:
            job = self._writing.poll()
            if job is None:
                break
            jobs.append(job)
            outcomes.append(transactor.attempt(job.work))
        names = tuple(job.name for job, outcome in zip(jobs, outcomes, strict=True) if outcome.error is None)
        if not names:
            transactor.rollback()
            self._count(0, len(jobs), 0.0)
            return outcomes
        if self._observer is not None:
            self._observer("before", names)
        began = self._clock.now()
        transactor.commit()
        self._count(len(names), len(jobs) - len(names), self._clock.now() - began)
        if self._observer is not None:
            self._observer("after", names)
        return outcomes

    def _count(self, units: int, failed: int, seconds: float) -> None:
        m = self._measures
        self._measures = Measures(
            m.commits + (units > 0),
            m.units + units,
            m.failed + failed,
            0,
            max(m.largest, units),
            m.commit_seconds + seconds,
        )

    # --- reading: in each reading thread -----------------------------------------------------------

    def _read_all(self, transactor: Transactor) -> None:
        try:
            while job := self._reading.wait():
                answer([job], [self._read(transactor, job.work)])
                self._reads += 1
        finally:
            transactor.close()

    def _read(self, transactor: Transactor, work: Work[object]) -> Outcome[object]:
        """One snapshot; tried again when the connection was lost."""
        for attempt in range(self._limits.retries + 1):
            try:
                transactor.begin()
                outcome = transactor.look(work)
            except TransactionLost as lost:
                if lost.fault not in (Fault.LOST, Fault.CONFLICT) or attempt == self._limits.retries:
                    return Outcome(error=_again(lost.refusal, lost))
                self._reading.pause(self._limits.retry_seconds * 2**attempt * self._ids.uniform(0.5, 1.5))
            else:
                transactor.rollback()
                return outcome
        raise AssertionError("the last attempt returned")


def _again(error: BanyanError, cause: BaseException | None = None) -> BanyanError:
    """A copy for one more waiter: tracebacks grow on an exception that is raised in many places."""
    copy = type(error)(
        error.code, error.text, detail=error.detail, transient=error.transient, retry_after=error.retry_after
    )
    copy.__cause__ = cause
    return copy
