"""A bounded queue between event loops and the threads that hold connections.

Loops put jobs in without ever waiting; a full lane refuses. Threads take them out in order. Answers go
back to the loop that asked, many in one wake-up. Nothing here knows what a job does.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from banyan.core.errors import BanyanError, Unreachable
from banyan.store.transactor import Outcome, Work

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Job(Generic[T]):
    name: str
    work: Work[T]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[T]
    started: bool = False
    abandoned: bool = False


class Lane:
    """`capacity` jobs may wait; `what` names the store in refusals."""

    def __init__(self, what: str, capacity: int) -> None:
        self._what = what
        self._capacity = capacity
        self._jobs: deque[Job[object]] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._jobs)

    async def run(self, name: str, work: Work[T], patience: float, late: Callable[[], BanyanError]) -> T:
        """Waits for the job's answer at most `patience` seconds.

        Raises Unreachable("store-busy") if it was not even begun by then, `late()` if it was. A caller
        that is cancelled before the job begins takes it out of the lane; after that it runs its course.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = Job(name, work, loop, future)
        self._offer(job)  # type: ignore[arg-type]  # a lane holds jobs of every type
        timer = loop.call_later(patience, self._expire, job, late)
        try:
            return await future
        except asyncio.CancelledError:
            self._abandon(job)
            raise
        finally:
            timer.cancel()

    def wait(self) -> Job[object] | None:
        """The next job; None when the lane is closed and empty."""
        with self._changed:
            while True:
                job = self._next()
                if job is not None or self._closed:
                    return job
                self._changed.wait()

    def poll(self) -> Job[object] | None:
        """The next job, if one is waiting."""
        if not self._jobs:
            return None
        with self._changed:
            return self._next()

    def close(self) -> None:
        """Takes no more jobs; those that wait are still served."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Blocks the calling thread for a while; less if the lane is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)

    def _next(self) -> Job[object] | None:
        while self._jobs:
            job = self._jobs.popleft()
            if not job.abandoned:
                job.started = True
                return job
        return None

    def _offer(self, job: Job[object]) -> None:
        with self._changed:
            if self._closed:
                raise Unreachable("store-closed", f"{self._what} is closed: this zone is stopping")
            if len(self._jobs) >= self._capacity:
                raise Unreachable(
                    "store-busy",
                    f"{self._what} has {self._capacity} units of work waiting: nothing was done; try again",
                    transient=True,
                    retry_after=1.0,
                )
            self._jobs.append(job)
            self._changed.notify()

    def _abandon(self, job: Job[T]) -> bool:
        """Takes a job out that no thread has begun. The lane drops it when it comes to it."""
        with self._changed:
            if job.started:
                return False
            job.abandoned = True
            return True

    def _expire(self, job: Job[T], late: Callable[[], BanyanError]) -> None:
        if job.future.done():
            return
        if self._abandon(job):
            job.future.set_exception(
                Unreachable(
                    "store-busy",
                    f"{self._what} did not come to it in time: nothing was done; try again",
                    transient=True,
                )
            )
        else:
            job.future.set_exception(late())


def answer(jobs: Sequence[Job[object]], outcomes: Sequence[Outcome[object]]) -> None:
    """Hands each job its outcome on the loop that asked, one wake-up per loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Job[object], Outcome[object]]]] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        by_loop.setdefault(job.loop, []).append((job, outcome))
    for loop, answers in by_loop.items():
        try:
            loop.call_soon_threadsafe(_deliver, answers)
        except RuntimeError:
            # The loop is closed: nobody waits there any more.
            continue


def _deliver(answers: Sequence[tuple[Job[object], Outcome[object]]]) -> None:
    for job, outcome in answers:
        if job.future.done():
            continue
        if outcome.error is None:
            job.future.set_result(outcome.value)
        elif isinstance(outcome.error, StopIteration):
            # A future can not carry one.
            job.future.set_exception(RuntimeError(f"unit {job.name!r} raised StopIteration"))
        else:
            job.future.set_exception(outcome.error)
