"""What befalls links and disks: a Dialer and its Wires with weather between, and the instants of a store.

A link is TCP under TLS: frames come in order or the wire ends. So a *cut* link breaks its wires and refuses
new ones; a *silent* one holds every frame, with nobody told, and gives them late when it is healed; a
*tampered* one has an attacker (or a bug) in the middle of the session, which TLS would forbid. A disk may
be full or slow, and a process may die just before or just after the commit of a named unit of work.
Nothing here decides when: script.py and chaos.py do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from banyan.core.errors import Unreachable
from banyan.core.ports import Clock, Credentials, Dialer, Ids, Peer, Wire, WireClosed
from banyan.core.records import StoreFull
from banyan.core.time import Mono

Tamper = Callable[[bytes], Sequence[bytes]]
"""What arrives instead of one frame: nothing, itself, twice itself, something else."""


class Path(StrEnum):
    """How a link is now."""

    OPEN = "open"
    CUT = "cut"
    SILENT = "silent"


@dataclass(slots=True)
class Weather:
    """One link, in both directions. Change it through its methods: the wires on it are told.

    `delay` is (low, high) seconds one way. `upward` and `downward` tamper with frames to and from the parent.
    """

    path: Path = Path.OPEN
    delay: tuple[float, float] = (0.0, 0.0)
    upward: Tamper | None = None
    downward: Tamper | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    wires: dict[WeatheredWire, None] = field(default_factory=dict)
    dials: int = 0
    frames: int = 0
    bytes: int = 0

    def set(self, path: Path) -> None:
        self.path = path
        self.notify()
        if path is Path.CUT:
            self.break_wires("the link was cut")

    def notify(self) -> None:
        """Wakes whatever waits for the weather to change."""
        self.changed.set()
        self.changed = asyncio.Event()

    def break_wires(self, reason: str, to: str | None = None) -> None:
        """Every wire (to that address) ends for both sides, as after a reset; new ones may be dialled."""
        for wire in list(self.wires):
            if to is None or wire.address == to:
                wire.broken(reason)

    def hang_wires(self, to: str | None = None) -> None:
        """An end of every wire (to that address) lost its power: nothing passes any more, and nobody is told."""
        for wire in self.wires:
            wire.hung = wire.hung or to is None or wire.address == to


class WeatheredDialer:
    """core.ports.Dialer of one child machine. `weather(address)` is the link on the way to that address."""

    def __init__(self, inner: Dialer, weather: Callable[[str], Weather], clock: Clock, ids: Ids) -> None:
        self._inner = inner
        self._weather = weather
        self._clock = clock
        self._ids = ids

    async def dial(
        self,
        address: str,
        *,
        purpose: str,
        credentials: Credentials | None,
        bundle: Sequence[bytes],
        timeout: float,
    ) -> Wire:
        weather = self._weather(address)
        weather.dials += 1
        began = self._clock.now()
        while weather.path is Path.SILENT:
            left = began + timeout - self._clock.now()
            if left <= 0 or not await _within(weather.changed.wait(), left):
                raise Unreachable("no-answer", f"{address} did not answer within {timeout:g} s", transient=True)
        if weather.path is Path.CUT:
            raise Unreachable("no-route", f"there is no route to {address}: the link is cut", transient=True)
        wire = await self._inner.dial(address, purpose=purpose, credentials=credentials, bundle=bundle, timeout=timeout)
        return WeatheredWire(wire, address, weather, self._clock, self._ids)


class WeatheredWire:
    """The child's end of a wire; what passes through it, either way, meets the link's weather."""

    def __init__(self, inner: Wire, address: str, weather: Weather, clock: Clock, ids: Ids) -> None:
        self.address = address
        self._inner = inner
        self._weather = weather
        self._clock = clock
        self._ids = ids
        self._broken = asyncio.Event()
        self._reason = ""
        self.hung = False
        self._arrived: list[bytes] = []
        self._sending = asyncio.Lock()
        self._ended: str | None = None
        self._loop = asyncio.get_running_loop()
        self._closing: asyncio.Task[None] | None = None
        weather.wires[self] = None

    @property
    def peer(self) -> Peer:
        return self._inner.peer

    @property
    def ended(self) -> bool:
        return self._inner.ended

    def allow(self, size: int) -> None:
        self._inner.allow(size)

    async def send(self, frame: bytes) -> None:
        async with self._sending:
            await self._pass()
            self._weather.frames += 1
            self._weather.bytes += len(frame)
            tamper = self._weather.upward
            for one in (frame,) if tamper is None else tamper(frame):
                await self._inner.send(one)

    async def receive(self) -> bytes:
        while not self._arrived:
            if self._ended is None:
                try:
                    frame = await self._inner.receive()
                except WireClosed as closed:
                    self._ended = closed.reason
            if self._ended is not None:
                # The news that a wire ended crosses the link as well.
                await self._pass()
                self._weather.wires.pop(self, None)
                raise WireClosed(self._ended)
            self._weather.frames += 1
            self._weather.bytes += len(frame)
            tamper = self._weather.downward
            self._arrived += (frame,) if tamper is None else tamper(frame)
        # A frame that arrived stays here while it is delayed: a cancelled receive loses nothing.
        await self._pass()
        return self._arrived.pop(0)

    async def close(self, reason: str = "") -> None:
        if not self.hung:
            self._weather.wires.pop(self, None)
            await self._inner.close(reason)

    def broken(self, reason: str) -> None:
        """The link broke: both ends learn it now."""
        self._weather.wires.pop(self, None)
        if not self._broken.is_set():
            self._reason = reason
            self._broken.set()
            self._weather.notify()
            self._closing = self._loop.create_task(self._inner.close(reason))

    async def _pass(self) -> None:
        """Waits as long as the link holds frames and then its delay. Raises WireClosed if it broke meanwhile."""
        while (self.hung or self._weather.path is Path.SILENT) and not self._broken.is_set():
            await self._weather.changed.wait()
        low, high = self._weather.delay
        if high > 0 and not self._broken.is_set():
            await self._clock.sleep_until(Mono(self._clock.now() + self._ids.uniform(low, high)))
        if self._broken.is_set():
            raise WireClosed(self._reason)


class Instant(StrEnum):
    """When a process dies, relative to the commit of a unit of work."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(slots=True)
class Doom:
    """The process dies at the `nth` time from now that it commits the unit `name`."""

    instant: Instant
    name: str
    nth: int = 1


@dataclass(slots=True)
class Disk:
    """One zone's disk, as the `pause` and `observer` of its store (store.inline.InlineStore).

    `full`: commits are refused. `slow`: seconds that each unit waits before it starts. `commit`: draws how
    long a commit takes. `crash` ends the process of `doom`; the call at which it died then never returns.
    `seen`: how often each named unit was committed. `committed` is told of each.
    """

    clock: Clock
    full: bool = False
    slow: float = 0.0
    commit: Callable[[], float] | None = None
    doom: Doom | None = None
    crash: Callable[[str], None] = lambda _: None
    committed: Callable[[str], None] = lambda _: None
    seen: dict[str, int] = field(default_factory=dict)
    immediate: bool = False

    async def pause(self, instant: str) -> None:
        """Called at "start NAME", "commit NAME", "answer NAME", "start read", "answer read"."""
        if self.immediate:
            return
        when, _, name = instant.partition(" ")
        if when == "start" and self.slow:
            await self._wait(self.slow)
        if name == "read":
            return
        if when == "commit":
            if self.full:
                raise StoreFull("store-full", f"the simulated disk is full: {name} was not written", transient=True)
            if self.commit is not None:
                await self._wait(self.commit())
            await self._meet(Instant.BEFORE, name)
        elif when == "answer":
            await self._meet(Instant.AFTER, name)

    def observe(self, when: str, names: tuple[str, ...]) -> None:
        if when == "after":
            for name in names:
                self.seen[name] = self.seen.get(name, 0) + 1
                self.committed(name)

    async def _wait(self, seconds: float) -> None:
        await self.clock.sleep_until(Mono(self.clock.now() + seconds))

    async def _meet(self, instant: Instant, name: str) -> None:
        """Dies here if this is the unit and the time it is doomed at."""
        doom = self.doom
        if doom is None or (doom.instant, doom.name) != (instant, name):
            return
        if doom.nth > 1:
            doom.nth -= 1
            return
        self.doom = None
        self.crash(f"{instant} {name}")
        await _never()


async def _never() -> None:
    """A dead process does not go on. Its tasks are cancelled by whoever ended it."""
    await asyncio.get_running_loop().create_future()


async def _within(waited: Awaitable[object], seconds: float) -> bool:
    """True if the awaitable came within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await waited
    except TimeoutError:
        return False
    return True
