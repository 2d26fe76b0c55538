"""Messages over a Wire: frames out by priority and pace, frames in within limits, everything counted.

A `Stream` is one session's wire as both ends use it. Its queue is bounded in bytes; `pump` alone sends.
It never judges a message: that is for `session`. The wires themselves: `memory_wire`, `websocket_wire`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields

from banyan.core.errors import Unreachable
from banyan.core.messages import (
    MAX_FRAME,
    Admitted,
    Answer,
    Bye,
    Enrol,
    Greet,
    Hello,
    HelloAck,
    Message,
    Renew,
    Renewed,
    Report,
    Request,
    Welcome,
)
from banyan.core.ports import Clock, Credentials, Peer, Wire, WireClosed
from banyan.link.codec import SESSION, STRANGER, Limits, decode, encode, join
from banyan.link.pace import Bucket, Priority

# A heartbeat waits at most for one frame before it; so frames are filled to this and no further.
FULL_FRAME = 64 * 1024
MAX_QUEUE = 1024 * 1024
# Larger answers and requests are bulk: a page of a list, not a word.
SMALL = 8 * 1024
FRAME_HEAD = 3
OPENING = (Greet, Welcome, Hello, Enrol, HelloAck, Admitted)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a parent shows on its wires, and whom it believes: its server certificate, its children's CAs (DER)."""

    credentials: Credentials
    authorities: tuple[bytes, ...]


@dataclass(slots=True)
class Counters:
    """What one end of a link did since its start. `refused`: turned away at the door; `late`: answers nobody waited
    for any more; `unknown`: messages of a newer version that were skipped."""

    bytes_in: int = 0
    bytes_out: int = 0
    frames_in: int = 0
    frames_out: int = 0
    unknown: int = 0
    late: int = 0
    dials: int = 0
    sessions: int = 0
    enrolled: int = 0
    failed: int = 0
    refused: int = 0
    replaced: int = 0

    def values(self) -> Mapping[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class _Part:
    """An encoded message. `alone`: in a frame of its own, since the peer reads the next ones by other limits."""

    body: bytes
    alone: bool


class SlowPeer(Exception):
    """The peer did not take a frame in time."""


def priority(message: Message, size: int) -> Priority:
    match message:
        case Report() | Renew() | Renewed():
            return Priority.DELTA
        case Request() | Answer():
            return Priority.DELTA if size <= SMALL else Priority.BULK
        case _:
            return Priority.HEARTBEAT


class Stream:
    """`send_timeout`: seconds that the peer may take for one frame. `bucket` is this session's own.

    `received`: bytes of frames so far.
    """

    def __init__(self, wire: Wire, bucket: Bucket, clock: Clock, counters: Counters, send_timeout: float) -> None:
        self._wire = wire
        self._bucket = bucket
        self._clock = clock
        self._counters = counters
        self._send_timeout = send_timeout
        self._queues: dict[Priority, deque[_Part]] = {p: deque() for p in Priority}
        self._queued = 0
        self._sending = False
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()
        self._limits: Limits = STRANGER
        self.received = 0

    @property
    def peer(self) -> Peer:
        return self._wire.peer

    @property
    def ended(self) -> bool:
        """Whether the wire is known to have ended, though not all of it was read."""
        return self._wire.ended

    def establish(self) -> None:
        """The peer is known now: it may send frames of the full size, and messages that we do not know."""
        self._limits = SESSION
        self._wire.allow(SESSION.frame)

    def put(self, message: Message, limit: int = MAX_FRAME, *, wake: bool = True) -> None:
        """Queues a message. Raises Unreachable, "busy" or "too-large" (beyond `limit` bytes): nothing was queued.

        Only a request is "busy": of reports and renewals there is one at a time, and an answer waits for its turn with
        `put_in_turn` if it is large. `wake` false: the caller calls `flush` next.
        """
        part = encode(message)
        if len(part) + FRAME_HEAD > limit:
            raise Unreachable("too-large", f"a message of {len(part)} bytes does not fit into a frame of {limit}")
        if isinstance(message, Request) and self._queued + len(part) > MAX_QUEUE:
            raise Unreachable(
                "busy", "more waits to be sent to it than may wait; nothing of this was sent", transient=True
            )
        self._queue(message, part)
        if wake:
            self._wake.set()

    async def put_in_turn(self, answer: Answer, limit: int = MAX_FRAME) -> None:
        """Queues an answer when there is room for all of it; whoever came first goes first, so a large one does too.

        Raises Unreachable("too-large"). Cancelled, nothing was queued.
        """
        part = encode(answer)
        if len(part) + FRAME_HEAD > limit:
            raise Unreachable("too-large", f"a message of {len(part)} bytes does not fit into a frame of {limit}")
        async with self._turn:
            while self._queued and self._queued + len(part) > MAX_QUEUE:
                self._room.clear()
                await self._room.wait()
            self._queue(answer, part)
        self._wake.set()

    def _queue(self, message: Message, part: bytes) -> None:
        self._queues[priority(message, len(part))].append(_Part(part, isinstance(message, OPENING)))
        self._queued += len(part)

    def allowance(self) -> int:
        """Bytes of news that may go now."""
        return self._bucket.allowance(Priority.DELTA, self._clock.now())

    def wait_for(self, size: int) -> float:
        """Seconds until `size` bytes of news may go."""
        return self._bucket.wait(size, Priority.DELTA, self._clock.now())

    async def receive(self) -> tuple[Message, ...]:
        """The messages of the next frame; maybe none. Raises WireClosed, BadInput("bad-frame")."""
        frame = await self._wire.receive()
        self._counters.frames_in += 1
        self._counters.bytes_in += len(frame)
        self.received += len(frame)
        decoded = decode(frame, self._limits)
        self._counters.unknown += decoded.unknown
        return decoded.messages

    async def pump(self) -> None:
        """Sends what is queued, for ever. Raises SlowPeer; WireClosed."""
        while True:
            self._wake.clear()
            if not self._queued or self._sending:
                await self._wake.wait()
                continue
            parts, wait = self._take()
            if parts:
                await self._send(join(parts))
            elif wait > 0:
                try:
                    async with asyncio.timeout(wait):
                        await self._wake.wait()
                except TimeoutError:
                    continue
            else:
                await self._wake.wait()

    async def flush(self) -> None:
        """Sends one frame of what is queued without the detour through the pump. Raises as the pump."""
        if not self._sending and self._queued:
            parts, _ = self._take()
            if parts:
                await self._send(join(parts))
        if self._queued:
            self._wake.set()

    async def finish(self, bye: Bye | None, reason: str, timeout: float = 2.0) -> None:
        """Sends the heartbeats that are left and the last word, and closes. The pump must have ended. Never raises."""
        left = [part.body for part in self._queues[Priority.HEARTBEAT]][:16]
        if bye is not None:
            left.append(encode(bye))
        try:
            async with asyncio.timeout(timeout):
                for body in left:
                    await self._send(join([body]))
                await self._wire.close(reason)
        except (WireClosed, SlowPeer, TimeoutError):
            await self._wire.close(reason)

    def _take(self) -> tuple[list[bytes], float]:
        """The parts of the next frame; or, if none may go now, how long to wait (0: for a new message)."""
        parts: list[bytes] = []
        size = FRAME_HEAD
        now = self._clock.now()
        for rank, queue in self._queues.items():
            while queue:
                part = queue[0].body
                alone = queue[0].alone
                if parts and (alone or size + len(part) > FULL_FRAME or len(parts) >= SESSION.messages - 1):
                    return parts, 0.0
                wait = self._bucket.wait(len(part), rank, now)
                if wait > 0:
                    return parts, 0.0 if parts else wait
                self._bucket.take(len(part), now)
                queue.popleft()
                parts.append(part)
                size += len(part)
                self._queued -= len(part)
                self._room.set()
                if alone:
                    return parts, 0.0
        return parts, 0.0

    async def _send(self, frame: bytes) -> None:
        self._sending = True
        try:
            async with asyncio.timeout(self._send_timeout):
                await self._wire.send(frame)
        except TimeoutError as error:
            raise SlowPeer(
                f"the peer did not take a frame of {len(frame)} bytes in {self._send_timeout:g} s"
            ) from error
        finally:
            self._sending = False
        self._counters.frames_out += 1
        self._counters.bytes_out += len(frame)
