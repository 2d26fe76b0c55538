"""One connection between an API process and its zone: frames out in few writes, frames in, and silence noticed.

Sending never blocks: what is large waits for credit and for `ready` before it is handed over, so what may be waiting
here is bounded by the requests that may be open. Nothing here knows what a frame means.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec
import structlog

from banyan.api.queue.frames import BEAT, SILENCE, BadFrame, Splitter, framed

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("banyan.queue")


class End(Protocol):
    """What sits on a wire."""

    def came(self, content: bytes) -> None:
        """A frame's content. Raises BadFrame or msgspec's errors for what is none."""

    def beat(self) -> msgspec.Struct | None:
        """What to say so that the other end hears something; None says nothing yet."""

    def begun(self) -> None: ...

    def lost(self) -> None: ...


class Wire(asyncio.Protocol):
    def __init__(self, end: Callable[[Wire], End], *, silence: float = SILENCE) -> None:
        self._silence = silence
        self._splitter = Splitter()
        self._out: list[bytes] = []
        self._writable = asyncio.Event()
        self._writable.set()
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None
        self.end = end(self)

    def send(self, frame: msgspec.Struct) -> None:
        """Goes out with whatever else is said in this turn of the loop."""
        if self.transport is None or self.transport.is_closing():
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(framed(frame))

    async def ready(self) -> None:
        """Returns when the other end keeps up, or is gone."""
        await self._writable.wait()

    def cut(self, why: str = "") -> None:
        """Ends the connection, after what was said."""
        if self.transport is not None and not self.transport.is_closing():
            self._flush()
            if why:
                log.warning("queue connection cut", reason=why)
            self.transport.close()
            # One that does not read would keep it for ever.
            self._loop.call_later(1.0, self.transport.abort)

    def _flush(self) -> None:
        if self._out and self.transport is not None and not self.transport.is_closing():
            self.transport.write(b"".join(self._out))
        self._out.clear()

    def _tick(self) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if self._loop.time() - self._heard > self._silence:
            log.warning("queue connection cut", reason=f"nothing was heard for {self._silence:g} seconds")
            self.transport.abort()
            return
        frame = self.end.beat()
        if frame is not None:
            self.send(frame)
        self._timer = self._loop.call_later(BEAT, self._tick)

    # --- asyncio.Protocol -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # streams only: it serves no other transport
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(BEAT, self._tick)
        self.end.begun()

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        try:
            for content in self._splitter.feed(data):
                self.end.came(content)
        except (BadFrame, msgspec.MsgspecError, ValueError) as error:
            self.cut(str(error)[:300])

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._out.clear()
        self._writable.set()
        self.end.lost()


class Flow:
    """One body on its way out, in pieces, no faster than it is taken."""

    def __init__(self, wire: Wire, window: int) -> None:
        self._wire = wire
        self._credit = window
        self._more = asyncio.Event()
        self.ended = False

    def add(self, size: int) -> None:
        self._credit += size
        self._more.set()

    def end(self) -> None:
        """Nobody reads any more: who waits goes on, and finds `ended`."""
        self.ended = True
        self._more.set()

    async def opened(self) -> None:
        """Returns when anything may go, or nothing ever will."""
        while self._credit <= 0 and not self.ended:
            self._more.clear()
            await self._more.wait()

    async def room(self, wanted: int) -> int:
        """How many bytes may go now, at least one unless `ended`."""
        await self._wire.ready()
        await self.opened()
        size = min(wanted, max(0, self._credit))
        self._credit -= size
        return size


class Intake:
    """One body on its way in. What was taken is credited to the sender, in few frames."""

    def __init__(self, credit: Callable[[int], None], window: int) -> None:
        self._credit = credit
        self._window = window
        self._pieces: deque[tuple[bytes, bool]] = deque()
        self._held = 0
        self._taken = 0
        self._came = asyncio.Event()
        self.gone = False

    def put(self, body: bytes, more: bool) -> None:
        """Raises BadFrame if more comes than there is credit for."""
        self._held += len(body)
        if self._held > self._window:
            raise BadFrame("a body came faster than it was taken")
        self._pieces.append((body, more))
        self._came.set()

    def break_off(self) -> None:
        self.gone = True
        self._came.set()

    async def take(self) -> tuple[bytes, bool] | None:
        """The next piece, and whether more come; None when it was broken off. What came before is taken first."""
        while not self._pieces:
            if self.gone:
                return None
            self._came.clear()
            await self._came.wait()
        body, more = self._pieces.popleft()
        self._held -= len(body)
        self._taken += len(body)
        if more and self._taken >= self._window // 4:
            self._credit(self._taken)
            self._taken = 0
        return body, more
