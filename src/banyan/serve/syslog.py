"""Tells a syslog receiver: RFC 5424 over UDP (RFC 5426), TCP (RFC 6587, octets counted), TLS (RFC 5425), or a local
socket.

Nobody acknowledges a syslog message: it has been told when the system took it. A connection that its other end has
closed is noticed before the next message, which then goes over a new one; what was on its way is lost, and over UDP
nothing is noticed. Who needs to know that an alarm arrived uses a webhook.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from banyan import __version__
from banyan.core.receiver import Notice, ReceiverSpec, SendFailed
from banyan.core.text import printable
from banyan.core.time import Wall, iso
from banyan.serve.receiver_settings import PORTS
from banyan.serve.webhook import trust

APP: Final = "banyan"
# Bytes of a message: what a receiver should take (RFC 5424, 6.1; RFC 5425, 4.3.1), and what fits datagrams.
MOST: Final = 8_192
MOST_DATAGRAM: Final = 2_048
_NIL: Final = "-"


def message(notice: Notice, facility: int, host: str, process: int, most: int = MOST) -> bytes:
    """One message of at most `most` bytes: what is too long is cut at its end, between characters."""
    priority = facility * 8 + notice.severity.syslog
    kind = _name(notice.kind, 32)
    # Both elements are registered (RFC 5424, 7.2 and 7.3). A sequenceId begins at 1.
    structured = f'[origin software="{APP}" swVersion="{_value(__version__)}"]'
    structured += f'[meta sequenceId="{notice.last % 0x7FFF_FFFF or 1}"]'
    head = f"<{priority}>1 {iso(notice.at)} {_name(host, 255)} {APP} {process} {kind} {structured} "
    return _cut(head.encode() + b"\xef\xbb\xbf" + text(notice).encode("utf-8", "replace"), most)


def text(notice: Notice) -> str:
    """What a person reads: the thing, what happened, what was done and is held, the next command; then the rest."""
    facts = " ".join(f"{key}={_quoted(value)}" for key, value in notice.facts.items())
    parts = [
        f"{notice.zone}: {notice.kind} {notice.target}: {notice.text}",
        f"{notice.means} Done: {notice.done} Held: {notice.held} Next: {notice.next}",
        f"id={notice.id} severity={notice.severity} outcome={notice.outcome} count={notice.count} "
        f"since={iso(notice.since)} actor={_quoted(notice.actor)}",
    ]
    return printable(" | ".join([*parts, facts] if facts else parts))


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _value(value: str) -> str:
    """As a PARAM-VALUE (RFC 5424, 6.3.3)."""
    return "".join("\\" + c if c in '"\\]' else c for c in value)


def _name(value: str, most: int) -> str:
    """As PRINTUSASCII without spaces."""
    return "".join(c if "!" <= c <= "~" else "_" for c in value)[:most] or _NIL


def _cut(whole: bytes, most: int) -> bytes:
    return whole if len(whole) <= most else whole[:most].decode("utf-8", "ignore").encode()


class Syslog:
    """core.receiver.Sender for udp://, tcp://, tls:// with host and port, and unix: with a path."""

    def __init__(self, spec: ReceiverSpec, host: Callable[[], str] = socket.gethostname) -> None:
        """Raises BadInput("bad-ca-file")."""
        self._spec = spec
        self._host = host
        parts = urlsplit(spec.address)
        self._scheme, self._path = parts.scheme, parts.path
        self._name, self._port = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
        self._tls = trust(spec) if self._scheme == "tls" else None
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._datagrams: socket.socket | None = None

    async def send(self, notice: Notice, now: Wall) -> None:
        datagram = self._scheme in ("udp", "unix")
        whole = message(
            notice, self._spec.facility, self._host(), os.getpid(), MOST_DATAGRAM if self._scheme == "udp" else MOST
        )
        try:
            await (self._throw(whole) if datagram else self._write(whole))
        except (OSError, ValueError) as error:
            self._forget()
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
            raise SendFailed(f"{self._spec.where} could not be told: {reason}") from error
        except BaseException:
            # Cut in the middle of a message: what follows on the same line would be part of it.
            self._forget()
            raise

    async def close(self) -> None:
        self._forget()

    def _forget(self) -> None:
        if self._line is not None:
            self._line[1].close()
        if self._datagrams is not None:
            self._datagrams.close()
        self._line = self._datagrams = None

    async def _throw(self, whole: bytes) -> None:
        loop = asyncio.get_running_loop()
        if self._datagrams is None:
            self._datagrams = await self._connected(loop)
        await loop.sock_sendall(self._datagrams, whole)

    async def _connected(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        if self._scheme == "unix":
            family, address = socket.AF_UNIX, self._path
        else:
            found = await loop.getaddrinfo(self._name, self._port, type=socket.SOCK_DGRAM)
            family, address = found[0][0], found[0][4]  # type: ignore[assignment]  # an address is what its family says
        made = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            made.setblocking(False)
            await loop.sock_connect(made, address)
        except BaseException:
            made.close()
            raise
        return made

    async def _write(self, whole: bytes) -> None:
        line = self._line
        if line is not None and (line[0].at_eof() or line[1].is_closing()):
            self._forget()
            line = None
        if line is None:
            line = self._line = await asyncio.open_connection(
                self._name, self._port, ssl=self._tls, server_hostname=self._name if self._tls else None, limit=1_024
            )
        line[1].write(b"%d %b" % (len(whole), whole))
        await line[1].drain()
