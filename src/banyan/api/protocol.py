"""Connections that cannot be held open for nothing: bounds that uvicorn's HTTP protocol lacks.

A client has so long, and so many bytes, for its request head; so long to read what it is sent; and there are only so
many of them, half of them from one source. The local socket's connections belong to this process's own user or to
root, by the kernel's word (SO_PEERCRED), or are cut before a byte is read. Bodies are bounded by intake.py, answers by
app.py.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import socket
import struct
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from banyan.api.context import Limits
from banyan.api.intake import WHOLE
from banyan.core.origin import origin

_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
# What no header line may hold: it would begin another (uvicorn asks the same).
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """`limits` is set by `bounded`, one subclass per listener."""

    limits = Limits()
    # Connections by source, of this listener.
    sources: ClassVar[Counter[str]] = Counter()
    _source = ""
    _head = 0
    _in_head = True
    _begun = False
    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # streams only: uvicorn binds no other transport
        super().connection_made(transport)
        if self.client is not None:
            # Not those of the local socket, which are all of one or two users.
            self._source = origin(self.client[0])
            self.sources[self._source] += 1
        most = self.limits.connections
        if len(self.connections) > most or self.sources[self._source] > max(1, most // 2):
            transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        if self._source:
            self.sources[self._source] -= 1
            if not self.sources[self._source]:
                del self.sources[self._source]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            if self._head_timer is None:
                self._await_head()
            self._head += len(data)
        super().data_received(data)
        if self._begun and self._head_timer is None:
            # The next request's head began in the same read that ended the one before.
            self._await_head()
        # One read may hold a short head and much body; only a head that is not yet whole is too long.
        if self._in_head and self._head > self.limits.headers + self.limits.address:
            self._refuse(_TOO_LONG)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = self._begun = True

    def on_headers_complete(self) -> None:
        self._in_head = self._begun = False
        self._head = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()
        if self.cycle is not None:
            # Its task does not run before this is over.
            cast(dict[str, object], self.cycle.scope)[WHOLE] = partial(write_whole, self.cycle)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True
        self._head = 0

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_timer = self.loop.call_later(self.limits.write_stall, self._stalled)

    def resume_writing(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        super().resume_writing()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.limits.head_wait, self._refuse, _TOO_SLOW)

    def _refuse(self, answer: bytes) -> None:
        self._cancel()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    def _stalled(self) -> None:
        # close() would wait for the very buffer that nobody reads.
        self.transport.abort()

    def _cancel(self) -> None:
        for timer in (self._head_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._stall_timer = None


def write_whole(cycle: RequestResponseCycle, status: int, head: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
    """Writes a whole answer as one piece: one record of TLS for head and body, and one look at each line. False if
    that is not for this answer, or not now; then nothing was written, and it goes the way of ASGI's messages."""
    if cycle.response_started or cycle.disconnected or not cycle.keep_alive or cycle.flow.write_paused:
        return False
    parts: list[bytes] = []
    length = -1
    for name, value in (*cycle.default_headers, *head):
        if name == b"content-length":
            length = int(value)
        elif name in (b"connection", b"transfer-encoding"):
            return False
        parts += (name, b": ", value, b"\r\n")
    if length != len(body) or _CONTROL.search(b"".join(parts[0::4])) or _CONTROL.search(b"".join(parts[2::4])):
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(b"".join((STATUS_LINE[status], *parts, b"\r\n", body)))
    cycle.message_event.set()
    cycle.on_response()
    return True


class LocalProtocol(BoundedProtocol):
    """The local socket: the peer's user stands in the scope's `client`, as the kernel names it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # streams only: uvicorn binds no other transport
        peer = peer_user(transport.get_extra_info("socket"))
        super().connection_made(transport)
        if peer not in (0, os.geteuid()):
            transport.abort()
            return
        self.client = (user_name(peer), 0)


def peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end of a unix socket, as it was when it connected."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return int(user)


def user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid{user}"


def bounded(protocol: type[BoundedProtocol], bounds: Limits) -> type[BoundedProtocol]:
    """`protocol` with these limits: uvicorn makes instances by itself, so they travel in the class."""

    class Bounded(protocol):  # type: ignore[valid-type, misc]  # the class is chosen at run time, by what is installed
        limits = bounds
        sources: ClassVar[Counter[str]] = Counter()

    return Bounded
