"""An asyncio event loop whose time is a number: when nothing is ready it jumps to the next timer.

No socket, file, thread or process may be used inside; what would need one raises OutsideError.
Ready callbacks run first in, first out; timers by (instant, order of creation); tasks hash by their
order of creation, so that asyncio's own sets of tasks iterate alike in every run. Same program, same
trace. It must never read a real clock. Next: clock.py (machines' clocks), world.py (who runs on it).
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from types import CoroutineType
from typing import Any, NoReturn, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Callbacks at one instant before it is called a livelock: a thousand zones that start at once need about 10^5.
MAX_CALLBACKS_AT_ONE_INSTANT = 5_000_000

# Work takes time. A wait of less than a float can add to the time would else come round for ever; after so many
# callbacks at one instant a millisecond has passed.
CALLBACKS_PER_MILLISECOND = 100_000
# So often in one world is no crowd any more but a loop that spins.
MAX_PUSHES = 50


class DeadlockError(RuntimeError):
    """Nothing is ready, no timer is set, and what was waited for has not come."""


class LivelockError(RuntimeError):
    """Callbacks follow on callbacks and time does not move."""


class OverdueError(RuntimeError):
    """What was waited for did not come within its virtual deadline."""


class OutsideError(RuntimeError):
    """Something inside a simulated world asked for a socket, a file, a thread or a process."""


class Owner:
    """Whose tasks these are: one run of one zone's process. Tasks made by owned tasks are owned as well."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: dict[asyncio.Task[Any], None] = {}

    def cancel(self) -> None:
        """Asks every task to end, in order of creation."""
        for task in list(self.tasks):
            task.cancel()


_OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)


def owned(owner: Owner) -> Context:
    """A context in which every task made belongs to `owner`."""
    context = copy_context()
    context.run(_OWNER.set, owner)
    return context


class _Task(asyncio.Task[T]):
    """A task whose hash is its number: sets of tasks iterate in the same order in every run."""

    _number: int = 0

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module. `failures` collects what callbacks and forgotten tasks raised; a world must look at it."""

    def __init__(self) -> None:
        super().__init__()
        self.set_debug(False)
        self._thread = threading.current_thread()
        self._cancelled_timers = 0
        self.failures: list[str] = []
        self.callbacks = 0
        self._instant = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._sequence = 0
        self._tasks_made = 0
        self._at_instant = 0
        self._pushes = 0
        self._until: float | None = None
        self.set_exception_handler(_note_failure)

    # --- time and timers ------------------------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds since the world began."""
        return self._instant

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._instant + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, timer))
        return timer

    def create_task(
        self,
        coro: Coroutine[Any, Any, T],  # type: ignore[override]  # wider than asyncio says: any coroutine
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        self._tasks_made += 1
        number = self._tasks_made
        owner = _OWNER.get() if context is None else context.get(_OWNER)
        task: _Task[T] = _Task.__new__(_Task)
        task._number = number  # before __init__, which puts the task into asyncio's set of all tasks
        task.__init__(coro, loop=self, name=str(name) if name is not None else f"task-{number}", context=context)  # type: ignore[misc]  # a task is made of a class that was chosen before
        if owner is not None:
            owner.tasks[task] = None
            task.add_done_callback(owner.tasks.pop)
        return task

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As call_soon, for asyncio's own use (it closes forgotten generators so); from a thread it is refused."""
        if threading.current_thread() is not self._thread:
            _outside("a thread (call_soon_threadsafe)")
        return self.call_soon(callback, *args, context=context)

    # --- running --------------------------------------------------------------------------------

    def run_until(self, instant: float) -> None:
        """Runs what is due up to and at `instant`, then sets time to it. An idle world is no deadlock."""
        if instant < self._instant:
            raise ValueError(f"time does not run backwards: it is {self._instant}, asked for {instant}")
        self._until = instant
        try:
            self.run_forever()
        finally:
            self._until = None
        self._instant = max(instant, self._instant)

    def run_task(self, coro: Coroutine[Any, Any, T], within: float, *, context: Context | None = None) -> T:
        """The result of `coro`, which gets `within` virtual seconds.

        Raises DeadlockError or OverdueError, which name who waits.
        """
        task = self.create_task(coro, name="the script", context=context)
        task.add_done_callback(lambda _: self.stop())
        deadline = self.call_later(within, self.stop)
        waiting = "nobody: the process that was asked has died"
        try:
            self.run_forever()
        finally:
            deadline.cancel()
            if not task.done():
                waiting = self.waiting()
                task.cancel()
                self._until = self._instant
                self.run_forever()
                self._until = None
        if task.cancelled():
            raise OverdueError(f"no answer within {within:g} virtual seconds; waiting are:\n{waiting}")
        return task.result()

    def speaker(self) -> str:
        """Whose code runs now: the owner's name, "world" for the script's own."""
        owner = _OWNER.get()
        return owner.name if owner is not None else "world"

    def waiting(self) -> str:
        """One line per unfinished task: its name and the line at which it waits."""
        tasks = sorted((t for t in asyncio.all_tasks(self) if isinstance(t, _Task)), key=hash)
        shown = [f"  {task.get_name()}: {_where(task)}" for task in tasks[:50]]
        return "\n".join(shown + ([f"  and {len(tasks) - 50} more"] if len(tasks) > 50 else []))

    def _run_once(self) -> None:
        """One turn of run_forever: what is ready now, or, if nothing is, a jump to the next timer."""
        ready = self._ready  # type: ignore[attr-defined]  # of BaseEventLoop, which types do not name
        if not ready and not self._stopping:  # type: ignore[attr-defined]  # the same
            self._jump()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                self.callbacks += 1
                self._at_instant += 1
                if self._at_instant % CALLBACKS_PER_MILLISECOND == 0:
                    self._push(handle)
                handle._run()
        if self._at_instant > MAX_CALLBACKS_AT_ONE_INSTANT:
            raise LivelockError(
                f"{self._at_instant} callbacks at {self._instant:.3f} s and no end; tasks:\n{self.waiting()}"
            )

    def _push(self, handle: asyncio.Handle) -> None:
        self._instant += 0.001
        self._pushes += 1
        if self._pushes == MAX_PUSHES:
            at = f"at {self._instant:.3f} s in {handle!r}"
            self.failures.append(f"something goes round without time passing, {at}; tasks:\n{self.waiting()}")

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers or (self._until is not None and timers[0][0] > self._until):
            if self._until is None:
                raise DeadlockError(f"nothing is ready and no timer is set at {self._instant:.3f} s:\n{self.waiting()}")
            self.stop()
            return
        if timers[0][0] > self._instant:
            self._instant = timers[0][0]
            self._at_instant = 0
        while timers and timers[0][0] <= self._instant:
            timer = heapq.heappop(timers)[2]
            if not timer.cancelled():
                self._ready.append(timer)  # type: ignore[attr-defined]  # the same

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by TimerHandle.cancel; cancelled timers leave the heap when they come up, or by compaction."""
        self._cancelled_timers += 1
        if self._cancelled_timers > 1000 and self._cancelled_timers * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0


def _outside(what: str) -> NoReturn:
    raise OutsideError(f"a simulated world has no outside: asked for {what}; use the port that the world gives")


def _forbid(name: str, what: str) -> None:
    def forbidden(self: VirtualLoop, *args: object, **kwargs: object) -> NoReturn:
        _outside(f"{what} ({name})")

    setattr(VirtualLoop, name, forbidden)


# What a world has not. Raised at the call, not when it is awaited.
for _name, _what in {
    "run_in_executor": "a thread",
    "getaddrinfo": "a name server",
    "getnameinfo": "a name server",
    "create_connection": "a socket",
    "create_server": "a socket",
    "create_unix_connection": "a socket",
    "create_unix_server": "a socket",
    "create_datagram_endpoint": "a socket",
    "sock_connect": "a socket",
    "sock_accept": "a socket",
    "connect_read_pipe": "a file",
    "connect_write_pipe": "a file",
    "add_reader": "a file",
    "add_writer": "a file",
    "add_signal_handler": "a signal",
    "subprocess_exec": "a process",
    "subprocess_shell": "a process",
}.items():
    _forbid(_name, _what)


def _note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, VirtualLoop)
    error = context.get("exception")
    task = context.get("task") or context.get("future")
    name = task.get_name() if isinstance(task, asyncio.Task) else ""
    loop.failures.append(f"{context.get('message')}: {name} {error!r}{_line_of(error)}")


def _line_of(error: object) -> str:
    trace = error.__traceback__ if isinstance(error, BaseException) else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""


def _where(task: asyncio.Task[Any]) -> str:
    """The innermost line at which a suspended task waits."""
    inner: Awaitable[Any] | Any = task.get_coro()
    line = "not begun"
    while isinstance(inner, CoroutineType):
        frame = inner.cr_frame
        if frame is not None:
            line = f"{frame.f_code.co_filename}:{frame.f_lineno} in {inner.__qualname__}"
        inner = inner.cr_await
    return line
