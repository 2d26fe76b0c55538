"""Wires without sockets: for worlds in `simulate`, and for tests. One contract suite runs on these and on WebSocket.

A `MemoryNetwork` knows addresses; a `MemoryDialer` opens wires to them, after the checks that TLS would make. It waits
only for the peer, never for time: what delays, cuts or tampers wraps the Dialer (simulate.faults).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context

from banyan.core.errors import BadInput, Refused, Unreachable
from banyan.core.messages import MAX_STRANGER_FRAME
from banyan.core.ports import Credentials, Peer, Wire, WireClosed
from banyan.link.handshake import check_client, check_possession, check_server
from banyan.link.wire import Identity

# As much as a socket's two buffers hold; a frame that is larger goes alone.
CAPACITY = 256 * 1024
PURPOSES = ("session", "enrol")

Serve = Callable[[Wire, str], Awaitable[None]]


class _Pipe:
    """One direction: frames in order, bounded in bytes."""

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.size = 0
        self.ended: str | None = None
        self.changed = asyncio.Event()

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def end(self, reason: str, *, drop: bool) -> None:
        if self.ended is None:
            self.ended = reason
        if drop:
            self.frames.clear()
            self.size = 0
        self.tell()


class MemoryWire:
    """core.ports.Wire. What was sent before a close still arrives."""

    def __init__(self, peer: Peer, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._peer = peer
        self._in = incoming
        self._out = outgoing
        self._limit = MAX_STRANGER_FRAME

    @property
    def peer(self) -> Peer:
        return self._peer

    @property
    def ended(self) -> bool:
        return self._in.ended is not None

    def allow(self, size: int) -> None:
        self._limit = size

    async def send(self, frame: bytes) -> None:
        pipe = self._out
        while pipe.ended is None and pipe.frames and pipe.size + len(frame) > CAPACITY:
            await pipe.changed.wait()
        if pipe.ended is not None:
            raise WireClosed(pipe.ended)
        pipe.frames.append(frame)
        pipe.size += len(frame)
        pipe.tell()

    async def receive(self) -> bytes:
        pipe = self._in
        while not pipe.frames:
            if pipe.ended is not None:
                raise WireClosed(pipe.ended)
            await pipe.changed.wait()
        frame = pipe.frames.popleft()
        pipe.size -= len(frame)
        pipe.tell()
        if len(frame) > self._limit:
            reason = f"a frame of {len(frame)} bytes came, {self._limit} are allowed"
            await self.close(reason)
            raise WireClosed(reason)
        return frame

    async def close(self, reason: str = "") -> None:
        self._out.end(reason or "closed by the peer", drop=False)
        self._in.end(reason or "closed", drop=True)


def wire_pair(left: Peer, right: Peer) -> tuple[MemoryWire, MemoryWire]:
    """Two ends of one wire. `left` is what the first end sees, `right` what the second sees."""
    there, back = _Pipe(), _Pipe()
    return MemoryWire(left, back, there), MemoryWire(right, there, back)


class MemoryListener:
    """One address. Its wires' tasks belong to whoever listened, not to who dialled."""

    def __init__(self, network: MemoryNetwork, address: str, identity: Callable[[], Identity], serve: Serve) -> None:
        self.address = address
        self.identity = identity
        self._network = network
        self._serve = serve
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], None] = {}

    def accept(self, wire: MemoryWire, purpose: str) -> None:
        # Without the context of its own, a wire would die with the process that dialled it.
        task = self._loop.create_task(
            self._run(wire, purpose), name=f"wire at {self.address}", context=self._context.copy()
        )
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Takes no more wires; those that are open are cancelled, and have ended on return."""
        self._network.forget(self)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, wire: MemoryWire, purpose: str) -> None:
        try:
            await self._serve(wire, purpose)
        finally:
            await wire.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            text = f"the session of a wire at {self.address} broke"
            self._loop.call_exception_handler({"message": text, "exception": error, "task": task})


class MemoryNetwork:
    """Addresses and who listens there."""

    def __init__(self) -> None:
        self._listeners: dict[str, MemoryListener] = {}

    def listen(self, address: str, identity: Callable[[], Identity], serve: Serve) -> MemoryListener:
        """Takes wires at `address` ("host:port") from now on. `identity` is asked for each, as with TLS."""
        if address in self._listeners:
            raise BadInput("address-taken", f"{address} is taken; choose another address to listen at")
        listener = MemoryListener(self, address, identity, serve)
        self._listeners[address] = listener
        return listener

    def forget(self, listener: MemoryListener) -> None:
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    def dialer(self, source: str) -> MemoryDialer:
        """A dialer whose wires come from the address `source`."""
        return MemoryDialer(self, source)

    def find(self, address: str) -> MemoryListener:
        listener = self._listeners.get(address)
        if listener is None:
            raise Unreachable("refused", f"nobody listens at {address}", transient=True)
        return listener


class MemoryDialer:
    """core.ports.Dialer."""

    def __init__(self, network: MemoryNetwork, source: str) -> None:
        self._network = network
        self._source = source

    async def dial(
        self,
        address: str,
        *,
        purpose: str,
        credentials: Credentials | None,
        bundle: Sequence[bytes],
        timeout: float,
    ) -> Wire:
        if purpose not in PURPOSES:
            raise BadInput("bad-purpose", f"a wire is for {' or '.join(PURPOSES)}, not {purpose!r}")
        listener = self._network.find(address)
        identity = listener.identity()
        server = identity.credentials.certificate
        check_possession(identity.credentials)
        shown = None
        if purpose == "session":
            check_server(server, identity.credentials.chain, bundle)
            if credentials is not None:
                check_possession(credentials)
                shown = credentials.certificate
                try:
                    check_client(shown, identity.authorities)
                except Refused as refused:
                    # With TLS, too, the one who dialled learns of this as a wire that ends.
                    raise Unreachable(
                        "handshake-refused", f"{address} refused our certificate: {refused.text}"
                    ) from refused
        ours, theirs = wire_pair(Peer(server, address, shown), Peer(shown, self._source, server))
        listener.accept(theirs, purpose)
        return ours
