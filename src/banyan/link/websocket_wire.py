"""Wires over WebSocket and TLS 1.3: `WebSocketDialer` for children, `WebSocketListener` for their parent.

One binary message is one frame; no compression, no pings of WebSocket's own (the session's heartbeats do that).
What TLS proves is checked before the first byte of HTTP. Contexts follow the identity: a renewed certificate or a
rotated CA holds from the next wire on. Strangers are bounded from the moment that their connection is accepted.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import structlog
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import Server, ServerConnection
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.http11 import Request, Response
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from banyan.core.errors import BadInput, BanyanError, Unreachable
from banyan.core.messages import MAX_STRANGER_FRAME
from banyan.core.ports import Clock, Credentials, Peer, Wire, WireClosed
from banyan.core.time import Mono
from banyan.link.door import Door
from banyan.link.handshake import check_name, not_the_parent
from banyan.link.pace import Turnstile
from banyan.link.sockets import (
    DSCP_LE,
    Proxy,
    connect_through,
    dial,
    join_address,
    listen,
    mark,
    plain_host,
    split_address,
)
from banyan.link.tls import enrol_context, server_context, session_context
from banyan.link.wire import Identity
from banyan.trust.authority import server_name
from banyan.trust.certificate import read

if TYPE_CHECKING:
    from ssl import SSLContext

log = structlog.get_logger("banyan.link.wire")

PATHS = {"session": "/link/v1/session", "enrol": "/link/v1/enrol"}
PURPOSES = {path: purpose for purpose, path in PATHS.items()}
# A peer that does not say goodbye is left after this; seconds.
CLOSING = 2.0
# Frames that may wait to be read: a few, since a session reads as it comes.
QUEUE = 4
# RFC 6455 §5.5: a close frame's payload has 125 bytes, two of them the code.
MAX_REASON = 123

Serve = Callable[[Wire, str], Awaitable[None]]


class WebSocketWire:
    """core.ports.Wire."""

    def __init__(self, connection: Connection, peer: Peer) -> None:
        self._connection = connection
        self._peer = peer

    @property
    def peer(self) -> Peer:
        return self._peer

    @property
    def ended(self) -> bool:
        return self._connection.protocol.state is not OPEN

    def allow(self, size: int) -> None:
        self._connection.protocol.max_message_size = size

    async def send(self, frame: bytes) -> None:
        try:
            await self._connection.send(frame)
        except ConnectionClosed as closed:
            raise WireClosed(_reason(closed)) from closed

    async def receive(self) -> bytes:
        try:
            frame = await self._connection.recv()
        except ConnectionClosed as closed:
            raise WireClosed(_reason(closed)) from closed
        if isinstance(frame, str):
            await self._close(1003, "frames are binary")
            raise WireClosed("a text message came, frames are binary")
        return frame

    async def close(self, reason: str = "") -> None:
        await self._close(1000, reason.encode()[:MAX_REASON].decode(errors="ignore"))

    async def _close(self, code: int, reason: str) -> None:
        try:
            # A close waits for the buffer to drain: a peer that does not read would keep us for ever.
            async with asyncio.timeout(CLOSING):
                await self._connection.close(code, reason)
        except TimeoutError:
            self._connection.transport.abort()


def _reason(closed: ConnectionClosed) -> str:
    """The peer's word if it said one, else what the transport says."""
    if closed.rcvd is not None and closed.rcvd.reason:
        return closed.rcvd.reason
    if closed.rcvd is None and closed.sent is None:
        cause = closed.__cause__
        return f"the connection broke: {cause}" if cause is not None and str(cause) else "the connection broke"
    return str(closed)


# --- the child's end ------------------------------------------------------------------------------


class _Dialled(ClientConnection):
    """A client's connection that remembers what ended it."""

    lost: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc
        super().connection_lost(exc)


class WebSocketDialer:
    """core.ports.Dialer. `dscp` marks the packets; `proxy` is the way out where there is no other."""

    def __init__(self, clock: Clock, *, proxy: Proxy | None = None, dscp: int = DSCP_LE) -> None:
        self._clock = clock
        self._proxy = proxy
        self._dscp = dscp

    async def dial(
        self,
        address: str,
        *,
        purpose: str,
        credentials: Credentials | None,
        bundle: Sequence[bytes],
        timeout: float,
    ) -> Wire:
        """Errors beside those of the port: BadInput("bad-address"), and Unreachable("handshake-refused") when the
        parent did not accept our certificate.
        """
        if purpose not in PATHS:
            raise BadInput("bad-purpose", f"a wire is for {' or '.join(PATHS)}, not {purpose!r}")
        host, port = split_address(address)
        context = self._context(purpose, credentials, bundle)
        name = server_name(read(bundle[0], "CA certificate").fingerprint) if bundle and purpose == "session" else ""
        began = self._clock.now()
        proxy = self._proxy
        first = (host, port) if proxy is None else (proxy.host, proxy.port)
        try:
            sock = await dial(*first, dscp=self._dscp, timeout=timeout, clock=self._clock)
        except Unreachable as error:
            if proxy is None:
                raise
            raise Unreachable(f"proxy-{error.code}", f"link.proxy: {error.text}", transient=error.transient) from error
        try:
            async with asyncio.timeout(max(0.1, timeout - (self._clock.now() - began))):
                if proxy is not None:
                    try:
                        await connect_through(sock, proxy, host, port)
                    except BaseException:
                        sock.close()
                        raise
                # From here on the loop owns the socket: closing it as well could hit another's descriptor.
                connection = await self._encrypt(sock, address, PATHS[purpose], context, name, timeout)
                try:
                    leaf = _shown(connection)
                    if purpose == "session":
                        check_name(leaf or b"")
                    await self._upgrade(connection, address, shown=purpose == "session")
                except BaseException:
                    connection.transport.abort()
                    raise
        except TimeoutError as error:
            text = f"{address} took the connection, but did not finish the handshake within {timeout:g} s"
            raise Unreachable("timed-out", text, transient=True) from error
        ours = credentials.certificate if credentials is not None and purpose == "session" else None
        return WebSocketWire(connection, Peer(leaf, address, ours))

    def _context(self, purpose: str, credentials: Credentials | None, bundle: Sequence[bytes]) -> SSLContext:
        if purpose == "enrol":
            return enrol_context()
        if credentials is None or not bundle:
            raise BadInput("no-certificate", "a session needs our certificate and the parent's CA; join first")
        return session_context(credentials, bundle)

    async def _encrypt(
        self, sock: socket.socket, address: str, path: str, context: SSLContext, name: str, timeout: float
    ) -> _Dialled:
        uri = parse_uri(f"wss://{address}{path}")

        protocol = ClientProtocol(uri, max_size=MAX_STRANGER_FRAME)
        made = _Dialled(protocol, ping_interval=None, close_timeout=CLOSING, max_queue=QUEUE)
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(
                lambda: made,
                sock=sock,
                ssl=context,
                server_hostname=name,
                ssl_handshake_timeout=max(1.0, timeout),
                ssl_shutdown_timeout=CLOSING,
            )
        except BaseException as error:
            if not isinstance(loop, asyncio.BaseEventLoop):
                # uvloop has closed the descriptor, and may not have told the socket object (it does so only after the
                # first turn of the loop): its end would close whatever has that number by then.
                sock.detach()
            if isinstance(error, (OSError, EOFError)) and not isinstance(error, TimeoutError):
                raise _tls_failure(error, address) from error
            raise
        return made

    async def _upgrade(self, connection: _Dialled, address: str, *, shown: bool) -> None:
        try:
            await connection.handshake(user_agent_header=None)
        except InvalidStatus as error:
            status = error.response.status_code
            text = f"{address} speaks HTTP, but is no link port (it answered {status}); check the port"
            raise Unreachable("not-a-link-port", text, transient=status >= 500) from error
        except (InvalidHandshake, ConnectionClosed, OSError, EOFError) as error:
            if not shown:
                text = f"{address} ended the connection before it was open; it may be stopping, or be no link port"
                raise Unreachable("closed-in-handshake", text, transient=True) from error
            # With TLS 1.3 a server's no to our certificate comes after its yes, and not always with an alert.
            text = (
                f"{address} ended the connection when it had seen our certificate{_alert(connection, error)}: no CA of "
                "that parent signed it (was it reinstalled, or did its CA leak? then `banyan leave --apply` here, and "
                "join again with a new code), or it is stopping"
            )
            raise Unreachable("handshake-refused", text, transient=True) from error


def _tls_failure(error: OSError | EOFError, address: str) -> BanyanError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return not_the_parent()
    if isinstance(error, ssl.SSLError):
        text = f"{address} does not speak TLS 1.3 as a parent does ({error.reason or error}); is it a link port?"
        return Unreachable("tls-failed", text, transient=True)
    text = (
        f"{address} ended the connection during the TLS handshake ({error}); it may be busy or stopping, "
        "or something in between does not let TLS pass"
    )
    return Unreachable("closed-in-handshake", text, transient=True)


def _alert(connection: _Dialled, error: BaseException) -> str:
    """The TLS alert that ended the connection, in brackets, if one did."""
    seen: BaseException | None = connection.lost or error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return f" ({str(seen.reason or seen).lower().replace('_', ' ')})"
        seen = seen.__cause__ or seen.__context__
    return ""


def _shown(connection: Connection) -> bytes | None:
    """The certificate that the peer showed, DER."""
    tls: ssl.SSLObject | None = connection.transport.get_extra_info("ssl_object")
    return None if tls is None else tls.getpeercert(binary_form=True)


# --- the parent's end -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """`opening`: seconds for TLS and HTTP. `strangers`, `per_address`: connections in these at a time. `accepts`: new
    connections per second, `accepts_burst` at once; those beyond wait in the kernel's queue, not refused.
    """

    dscp: int = DSCP_LE
    opening: float = 10.0
    strangers: int = 1000
    per_address: int = 200
    accepts: float = 150.0
    accepts_burst: float = 300.0


class _Accepted(ServerConnection):
    """A server's connection that belongs to our listener instead of websockets' own server."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Connection.connection_made(self, transport)


class WebSocketListener:
    """Takes wires and hands each to `serve(wire, purpose)`.

    `identity` is asked for each; `may_enter(address)` before TLS, which is what costs.
    """

    def __init__(
        self,
        serve: Serve,
        identity: Callable[[], Identity],
        clock: Clock,
        *,
        may_enter: Callable[[str], bool] = lambda address: True,
        settings: ListenSettings = ListenSettings(),
    ) -> None:
        self._serve = serve
        self._identity = identity
        self._clock = clock
        self._may_enter = may_enter
        self._settings = settings
        self._door = Door(settings.strangers, settings.per_address)
        self._pace = Turnstile(settings.accepts, settings.accepts_burst, 1.0, clock.now())
        self._known: tuple[Identity, SSLContext] | None = None
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving = False
        self.accepted = 0
        self.turned_away = 0
        self.failed = 0

    @property
    def addresses(self) -> tuple[str, ...]:
        """host:port of each socket; the real port where 0 was asked for."""
        return tuple(join_address(*sock.getsockname()[:2]) for sock in self._sockets)

    async def start(self, address: str) -> None:
        """Listens on host:port. Raises as link.sockets.listen."""
        self._context()
        self._sockets = listen(address, self._settings.dscp)
        self._serving = True
        for sock in self._sockets:
            self._run(self._accept(sock), f"link.accept {sock.getsockname()[:2]}")

    async def close(self) -> None:
        """Takes no more wires; those that are open are cancelled, and have ended on return."""
        self._serving = False
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for sock in self._sockets:
            sock.close()

    def is_serving(self) -> bool:
        """For websockets' handshake, which answers 503 when this is false."""
        return self._serving

    def _run(self, call: Awaitable[None], name: str) -> None:
        task = asyncio.ensure_future(call)
        if isinstance(task, asyncio.Task):
            task.set_name(name)
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            context = {"message": f"{task.get_name()} broke", "exception": error, "task": task}
            task.get_loop().call_exception_handler(context)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            wait = self._pace.pause(self._clock.now())
            if wait > 0:
                await self._clock.sleep_until(Mono(self._clock.now() + wait))
            try:
                sock, where = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    log.error("link.accept", problem=error.strerror, remedy="raise the limit of open files")
                    await self._clock.sleep_until(Mono(self._clock.now() + 1.0))
                continue
            self.accepted += 1
            address = plain_host(str(where[0]))
            if not self._door.may_enter(address) or not self._may_enter(address):
                self.turned_away += 1
                _reset(sock)
                continue
            self._run(self._take(sock, address), f"link.wire {address}")

    async def _take(self, sock: socket.socket, address: str) -> None:
        """One connection, from TLS to its end."""
        inside = self._door.enter(address)
        opening = True  # the loop owns the socket from `_encrypt` on
        connection: _Accepted | None = None
        try:
            identity, context = self._context()
            try:
                mark(sock, self._settings.dscp)
                async with asyncio.timeout(self._settings.opening):
                    connection = await self._encrypt(sock, context)
                    await connection.handshake(_route, server_header=None)
            except (OSError, EOFError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
                self.failed += 1
                log.debug("link.handshake", address=address, problem=str(error) or type(error).__name__)
                return
            if connection.protocol.state is not OPEN or connection.request is None:
                self.failed += 1
                connection.transport.close()  # after what it was told
                connection = None
                return
            peer = Peer(_shown(connection), address, identity.credentials.certificate)
            purpose = PURPOSES[connection.request.path]
            self._door.leave(inside)
            opening = False
            wire = WebSocketWire(connection, peer)
            await self._serve(wire, purpose)
            await wire.close()
        finally:
            if opening:
                self._door.leave(inside)
            if connection is not None:
                connection.transport.abort()

    async def _encrypt(self, sock: socket.socket, context: SSLContext) -> _Accepted:
        made = _Accepted(
            ServerProtocol(max_size=MAX_STRANGER_FRAME),
            cast(Server, self),
            ping_interval=None,
            close_timeout=CLOSING,
            max_queue=QUEUE,
        )
        # Not the protocol that comes back: uvloop returns its own of TLS.
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: made,
            sock,
            ssl=context,
            ssl_handshake_timeout=self._settings.opening,
            ssl_shutdown_timeout=CLOSING,
        )
        return made

    def _context(self) -> tuple[Identity, SSLContext]:
        """The context of the present identity; made anew when that has changed."""
        identity = self._identity()
        if self._known is None or (self._known[0] is not identity and self._known[0] != identity):
            self._known = (identity, server_context(identity))
        return self._known


def _route(connection: ServerConnection, request: Request) -> Response | None:
    if request.path in PURPOSES:
        return None
    return connection.respond(404, f"this is a link port of Banyan; it knows {' and '.join(PURPOSES)}\n")


def _reset(sock: socket.socket) -> None:
    """Ends a connection without leaving a trace of it on our side."""
    with suppress(OSError):  # it may have ended by itself already
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()
