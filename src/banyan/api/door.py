"""The queue in front of the handlers: so many requests in work, so many more waiting for a place, and the rest refused.

Who waits is let in by turns of the sources (the callers' addresses): one that sends much waits behind itself. When the
queue is full, the newest of the source that waits most gives way to one that waits less. Nobody waits for longer than
`Limits.queue_wait`; streams that stay have places of their own, and do not wait. An API process has such a queue as
well (queue/process.py), in front of the zone's.

Nobody keeps a place while its body is on its way: what senders of half a body can hold is bytes, of which no source
has more than its share (`Bodies`).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import coroutine

from banyan.api.context import Limits
from banyan.api.faults import Busy, BusyWithBodies
from banyan.core.origin import origin


class Bodies:
    """Counts bytes of bodies that are not whole yet, or whose requests wait for a place: in all, and by source."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.bodies
        self._share = limits.bodies // 4
        self._of: Counter[str] = Counter()
        self.bytes = 0
        self.refused = 0

    @contextmanager
    def held(self, source: str, size: int) -> Iterator[None]:
        """`size` bytes are on their way from `source` until this is left. Raises Busy."""
        source = origin(source)
        if self.bytes + size > self._most or self._of[source] + size > self._share:
            self.refused += 1
            raise BusyWithBodies(self._share)
        self._of[source] += size
        self.bytes += size
        try:
            yield
        finally:
            self.bytes -= size
            self._of[source] -= size
            if not self._of[source]:
                del self._of[source]


class Door:
    """Counts who is inside. Whoever entered leaves, whatever happened."""

    def __init__(self, limits: Limits) -> None:
        self._most = {False: limits.concurrency, True: limits.followers}
        self._room = limits.waiting
        self._wait = limits.queue_wait
        self.inside = {False: 0, True: 0}
        self.depth = 0
        self.refused = 0
        self.bodies = Bodies(limits)
        # By source, in the order of their turns.
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    def resize(self, concurrency: int, followers: int) -> None:
        """Other bounds from now on; who is inside stays."""
        self._most = {False: concurrency, True: followers}
        self._admit()

    async def enter(self, stream: bool, source: str) -> None:
        """Returns when there is a place. Raises Busy."""
        if self.inside[stream] < self._most[stream] and (stream or not self.depth):
            self.inside[stream] += 1
            return
        source = origin(source)
        if stream or (self.depth >= self._room and not self._displace(source)):
            raise self._busy(stream)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(source, deque()).append(place)
        self.depth += 1
        try:
            async with asyncio.timeout(self._wait):
                await place
        except BaseException as error:
            self._gave_up(source, place)
            if isinstance(error, TimeoutError):
                raise self._busy(stream) from error
            raise

    def leave(self, stream: bool) -> None:
        self.inside[stream] -= 1
        if not stream:
            self._admit()

    def measured(self, name: str) -> Mapping[str, float]:
        return {
            f'banyan_api_queue_depth{{door="{name}"}}': float(self.depth),
            f'banyan_api_queue_limit{{door="{name}"}}': float(self._room),
            f'banyan_api_queue_refused_total{{door="{name}"}}': float(self.refused),
            f'banyan_api_bodies_bytes{{door="{name}"}}': float(self.bodies.bytes),
            f'banyan_api_bodies_refused_total{{door="{name}"}}': float(self.bodies.refused),
        }

    def _admit(self) -> None:
        while self.depth and self.inside[False] < self._most[False]:
            source = next(iter(self._queues))
            queue = self._queues.pop(source)
            place = queue.popleft()
            if queue:
                self._queues[source] = queue
            self.depth -= 1
            if not place.done():
                self.inside[False] += 1
                place.set_result(None)

    def _displace(self, source: str) -> bool:
        """Whether another gave up its place in the queue for one of `source`."""
        longest = max(self._queues, key=lambda name: len(self._queues[name]), default=None)
        if longest is None or len(self._queues[longest]) <= len(self._queues.get(source, ())) + 1:
            return False
        place = self._queues[longest].pop()
        self.depth -= 1
        if not place.done():
            place.set_exception(self._busy(False))
        return True

    def _gave_up(self, source: str, place: asyncio.Future[None]) -> None:
        if place.done() and not place.cancelled():
            if place.exception() is None:
                # Let in at the very moment that it gave up.
                self.leave(False)
            return
        queue = self._queues.get(source)
        if queue is not None and place in queue:
            queue.remove(place)
            self.depth -= 1
            if not queue:
                del self._queues[source]

    def _busy(self, stream: bool) -> Busy:
        self.refused += 1
        return Busy(self._most[stream])


class Seat:
    """One request's place at a door. It leaves once, however often it is told."""

    def __init__(self, door: Door, source: str) -> None:
        self._door = door
        self._source = source
        self._inside: bool | None = None

    async def enter(self, stream: bool) -> None:
        """Raises Busy."""
        await self._door.enter(stream, self._source)
        self._inside = stream

    def leave(self) -> None:
        if self._inside is not None:
            self._door.leave(self._inside)
            self._inside = None

    async def whole(self, size: int, body: Coroutine[object, object, bytes]) -> bytes:
        """`body`, of at most `size` bytes. One that is not there yet gives the place up, and takes one again when it
        is: whoever sends half a body holds bytes, never a place. Raises Busy, and what `body` raises."""
        try:
            # What the client sent with its head is there: it is read without a task, and without a turn of the loop.
            waits = body.send(None)
        except StopIteration as done:
            content: bytes = done.value
            return content
        stream = bool(self._inside)
        try:
            with self._door.bodies.held(self._source, size):
                self.leave()
                content = await _rest(body, waits)
                await self.enter(stream)
        finally:
            body.close()
        return content


@coroutine
def _rest(body: Coroutine[object, object, bytes], waits: object) -> Generator[object, object, bytes]:
    """Carries on, in the same task, a coroutine that was begun by hand and waits for `waits`."""
    while True:
        try:
            told = yield waits
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is the body's to weigh
            step = partial(body.throw, error)
        else:
            step = partial(body.send, told)
        try:
            waits = step()
        except StopIteration as done:
            content: bytes = done.value
            return content
