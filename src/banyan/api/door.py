"""The queue in front of the handlers: so many requests in work, so many more waiting for a place, and the rest refused.

Who waits is let in by turns of the sources (the callers' addresses): one that sends much waits behind itself. When the
queue is full, the newest of the source that waits most gives way to one that waits less. Nobody waits for longer than
`Limits.queue_wait`; streams that stay have places of their own, and do not wait. An API process has such a queue as
well (queue/process.py), in front of the zone's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

from banyan.api.context import Limits
from banyan.api.faults import Busy


class Door:
    """Counts who is inside. Whoever entered leaves, whatever happened."""

    def __init__(self, limits: Limits) -> None:
        self._most = {False: limits.concurrency, True: limits.followers}
        self._room = limits.waiting
        self._wait = limits.queue_wait
        self.inside = {False: 0, True: 0}
        self.depth = 0
        self.refused = 0
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
