"""What befalls links and disks, as wrappers around the ports: a Dialer and its Wires, a Store.

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
from typing import TypeVar

from banyan.core.errors import Unreachable
from banyan.core.ports import Clock, Credentials, Dialer, Ids, Peer, Store, Wire, WireClosed
from banyan.core.records import StoreFull, Unit
from banyan.core.time import Mono

T = TypeVar("T")

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
        self.changed.set()
        self.changed = asyncio.Event()
        if path is Path.CUT:
            self.break_wires("the link was cut")

    def break_wires(self, reason: str) -> None:
        """Every wire on this link ends for both sides, as after a reset; new ones may be dialled."""
        for wire in list(self.wires):
            wire.broken(reason)


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
        return WeatheredWire(wire, weather, self._clock, self._ids)


class WeatheredWire:
    """The child's end of a wire; what passes through it, either way, meets the link's weather."""

    def __init__(self, inner: Wire, weather: Weather, clock: Clock, ids: Ids) -> None:
        self._inner = inner
        self._weather = weather
        self._clock = clock
        self._ids = ids
        self._broken = asyncio.Event()
        self._reason = ""
        self._arrived: list[bytes] = []
        self._sending = asyncio.Lock()
        self._ended: str | None = None
        self._loop = asyncio.get_running_loop()
        self._closing: asyncio.Task[None] | None = None
        weather.wires[self] = None

    @property
    def peer(self) -> Peer:
        return self._inner.peer

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
        self._weather.wires.pop(self, None)
        await self._inner.close(reason)

    def broken(self, reason: str) -> None:
        """The link broke: both ends learn it now."""
        self._weather.wires.pop(self, None)
        if not self._broken.is_set():
            self._reason = reason
            self._broken.set()
            self._closing = self._loop.create_task(self._inner.close(reason))

    async def _pass(self) -> None:
        """Waits as long as the link holds frames and then its delay. Raises WireClosed if it broke meanwhile."""
        while self._weather.path is Path.SILENT and not self._broken.is_set():
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
class Disk:
    """One zone's disk, and when its process is to die. `crash` ends the process; the call then never returns.

    `seen` are the names of the units that were committed, in order of first appearance, with their count.
    """

    full: bool = False
    slow: float = 0.0
    dead: bool = False
    doom: tuple[Instant, str, int] | None = None
    crash: Callable[[str], None] = lambda _: None
    seen: dict[str, int] = field(default_factory=dict)
    writing: str = ""


class _Doomed(Exception):
    """Raised inside a unit of work so that its transaction rolls back."""


class FaultyStore:
    """core.ports.Store over another one."""

    def __init__(self, inner: Store, disk: Disk, clock: Clock) -> None:
        self._inner = inner
        self._disk = disk
        self._clock = clock

    async def write(self, name: str, work: Callable[[Unit], T]) -> T:
        disk = self._disk
        await self._ready()
        if disk.full:
            raise StoreFull("disk-full", f"no space left for {name}: free some, nothing was written", transient=True)
        doomed = self._doomed(name)

        def staged(unit: Unit) -> T:
            result = work(unit)
            if doomed is Instant.BEFORE:
                raise _Doomed(name)
            return result

        try:
            result = await self._inner.write(name, staged)
        except _Doomed:
            await self._die(f"before {name}")
            raise
        disk.seen[name] = disk.seen.get(name, 0) + 1
        if doomed is Instant.AFTER:
            await self._die(f"after {name}")
        return result

    async def read(self, work: Callable[[Unit], T]) -> T:
        await self._ready()
        return await self._inner.read(work)

    async def close(self) -> None:
        if not self._disk.dead:
            await self._inner.close()

    def _doomed(self, name: str) -> Instant | None:
        """Counts the unit down; the instant if this very one is the last of this process."""
        if self._disk.doom is None or self._disk.doom[1] != name:
            return None
        instant, _, left = self._disk.doom
        if left > 1:
            self._disk.doom = (instant, name, left - 1)
            return None
        self._disk.doom = None
        return instant

    async def _ready(self) -> None:
        if self._disk.slow and not self._disk.dead:
            await self._clock.sleep_until(Mono(self._clock.now() + self._disk.slow))
        if self._disk.dead:
            await _never()

    async def _die(self, why: str) -> None:
        self._disk.crash(why)
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
