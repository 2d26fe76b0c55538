"""One receiver on virtual time: a zone's store and journal in memory, and another side that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from banyan.core.journal import Line
from banyan.core.receiver import Notice, ReceiverKind, ReceiverRow, ReceiverSpec, Sender
from banyan.core.time import Mono, Wall
from banyan.simulate.clock import VirtualClock
from banyan.simulate.ids import SeededIds
from banyan.simulate.loop import VirtualLoop
from banyan.store.inline import Image, InlineStore
from banyan.zone.own import Own, open_own
from banyan.zone.receivers import Receivers
from banyan.zone.reconcile.telling import Telling

T = TypeVar("T")

SPEC = ReceiverSpec("siem", ReceiverKind.WEBHOOK, "https://siem.example/hook/s3cret", "https://siem.example")


class Recorded:
    """core.receiver.Sender and Senders. `fails` is raised instead of taking, `hangs` never answers; `before` runs at
    each attempt."""

    def __init__(self) -> None:
        self.taken: list[Notice] = []
        self.offered: list[Notice] = []
        self.at: list[float] = []
        self.fails: Exception | None = None
        self.hangs = False
        self.closed = False
        self.before: Callable[[Notice], None] = lambda _: None

    def make(self, spec: ReceiverSpec) -> Sender:
        return self

    async def send(self, notice: Notice, now: Wall) -> None:
        self.offered.append(notice)
        self.at.append(now)
        self.before(notice)
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.fails is not None:
            raise self.fails
        self.taken.append(notice)

    async def close(self) -> None:
        self.closed = True


class Lab:
    """`go_on` lets the receiver's loop run; `restart` is the process's death and its next start."""

    def __init__(self, spec: ReceiverSpec = SPEC) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop, "lab")
        self.other = Recorded()
        self.specs: tuple[ReceiverSpec, ...] = (spec,)
        self.starts = 0
        self.store = self._open(None)
        self.begin()

    def close(self) -> None:
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_task(work, 10_000.0)

    def begin(self) -> None:
        self.starts += 1
        ids = SeededIds(self.starts, "lab")
        self.own: Own = self.run(open_own(self.store, self.clock, ids, "lab", {}))
        self.receivers = Receivers(
            self.own, self.store, self.clock, ids, self.specs, self.other, lambda: "top/lab"
        )  # fmt: skip
        self.run(self.receivers.load())

    def restart(self, *specs: ReceiverSpec) -> None:
        self.specs = specs or self.specs
        self.store = self._open(self.store.image())
        self.begin()

    @property
    def told(self) -> Telling:
        return self.receivers.told["siem"]

    def go_on(self, seconds: float) -> None:
        """As the loop does: activations when they are due, for so long."""
        end = self.loop.time() + seconds
        while (left := end - self.loop.time()) > 0:
            wake = self.run(self.told.activate(self.clock.now()))
            assert wake is not None
            # An activation that wants to run at once has done something; nothing may turn for ever.
            self.loop.run_until(self.loop.time() + min(left, max(wake - self.clock.now(), 0.01)))

    def write(self, kind: str, *targets: str, text: str = "as it is") -> None:
        events = [self.own.event(kind, target, text) for target in targets]
        self.run(self.store.write("test", lambda unit: self.own.write_all(unit, events)))

    def lines(self, kind: str) -> Sequence[Line]:
        return self.run(self.store.read(lambda unit: unit.journal.page(0, 10_000, {"kind": kind})))

    def row(self) -> ReceiverRow:
        row = self.run(self.store.read(lambda unit: unit.receivers.get("siem")))
        assert row is not None
        return row

    @property
    def targets(self) -> list[str]:
        return [notice.target for notice in self.other.taken]

    def now(self) -> Mono:
        return self.clock.now()

    def _open(self, image: Image | None) -> InlineStore:
        async def pause(instant: str) -> None:
            return

        return InlineStore(SeededIds(1, "store"), pause, image=image)
