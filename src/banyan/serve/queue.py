"""The zone's side of the queue: where API processes come to, and what the zone tells them of itself.

DATA/queue.sock for those of this machine, of the zone's own user or root; `queue.listen` for others, over mutual TLS
with certificates of the operator's own authority.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack

import structlog

from banyan.api.app import Api
from banyan.api.listen import QUEUE_SOCKET, local_socket, public_socket, split_address
from banyan.api.queue.frames import Beat
from banyan.api.queue.wire import Wire
from banyan.api.queue.zone_end import Sessions
from banyan.core.errors import BadInput
from banyan.serve.api_certificate import api_material
from banyan.serve.assemble import Assembled
from banyan.serve.config import QueueTable, Settings
from banyan.zone.identity.gate import Gate

log = structlog.get_logger("banyan.queue")

# gap: certificates of API processes on other machines are the operator's to make and to renew; the zone makes none
# Revoked tokens that a process is told of, the newest; older ones are refused by the zone alone.
MAX_REVOKED = 100_000


class ZoneWords:
    """zone_end.Words, of a zone."""

    def __init__(self, settings: Settings, built: Assembled, gate: Gate | None) -> None:
        self._settings = settings
        self._own = built.zone.own
        self._gate = gate

    def zone(self) -> str:
        return self._own.name

    def beat(self) -> Beat:
        own = self._own
        return Beat(own.wall(), own.code, own.row.epoch, own.token_public)

    def certificate(self) -> tuple[bytes, bytes]:
        """Of one that the settings name, the process's own settings say: what is a file stays one."""
        api, own = self._settings.api, self._own
        if not api.tls or api.certificate:
            return b"", b""
        host, _ = split_address(api.listen)
        certificate, key = api_material(
            self._settings.folder, own.api_seed, (host, *api.names), own.serial(), own.wall()
        )
        return certificate, key.reveal()

    def revoked(self) -> Iterable[tuple[str, float]]:
        return () if self._gate is None else list(self._gate.revoked())[-MAX_REVOKED:]

    def watch(self, tell: Callable[[str, float], None]) -> Callable[[], None]:
        return (lambda: None) if self._gate is None else self._gate.watch(tell)


async def open_queue(settings: Settings, built: Assembled, api: Api, stack: AsyncExitStack) -> Sessions:
    """Listens for API processes. Raises BadInput("bad-setting"), and what `public_socket` raises."""
    gate = api.cloud.gate if api.cloud is not None else None
    sessions = Sessions(api, ZoneWords(settings, built, gate if isinstance(gate, Gate) else None))
    loop = asyncio.get_running_loop()
    tls = queue_context(settings.queue, server=True) if settings.queue.listen else None
    servers = [await loop.create_unix_server(sessions.local, sock=local_socket(settings.folder, QUEUE_SOCKET))]
    if tls is not None:
        sock = public_socket(settings.queue.listen, encrypted=True)
        names = settings.queue.names
        servers.append(await loop.create_server(lambda: Named(sessions.remote(), names), sock=sock, ssl=tls))
    stack.push_async_callback(sessions.close)
    for server in servers:
        stack.callback(server.close)
    return sessions


def queue_context(table: QueueTable, *, server: bool) -> ssl.SSLContext:
    """TLS 1.3 with a certificate at both ends. Raises BadInput("bad-setting")."""
    if not (table.certificate and table.key and table.ca and table.names):
        raise BadInput(
            "bad-setting",
            "over TLS the queue needs queue.certificate, queue.key, queue.ca and queue.names, at both ends: each end "
            "shows its certificate, and believes one of that authority with one of those DNS names",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Names are looked at by `named`, the same way at both ends.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(table.certificate, table.key)
        context.load_verify_locations(table.ca)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(
            "bad-setting", f"queue.certificate, queue.key or queue.ca cannot be used: {error}; all are PEM files"
        ) from error
    return context


def named(transport: asyncio.BaseTransport, names: Iterable[str]) -> bool:
    """Whether the certificate at the other end has one of these DNS names."""
    shown = transport.get_extra_info("peercert") or {}
    held = {value.lower() for kind, value in shown.get("subjectAltName", ()) if kind == "DNS"}
    return any(name.lower() in held for name in names)


class Named(asyncio.Protocol):
    """A wire for whose certificate has one of the names; others are cut before anything is said."""

    def __init__(self, wire: Wire, names: tuple[str, ...]) -> None:
        self._wire = wire
        self._names = names
        self._good = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._good = named(transport, self._names)
        if self._good:
            self._wire.connection_made(transport)
        else:
            log.warning("queue certificate has none of the names", names=", ".join(self._names)[:300])
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self._good:
            self._wire.data_received(data)

    def pause_writing(self) -> None:
        self._wire.pause_writing()

    def resume_writing(self) -> None:
        self._wire.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wire.connection_lost(exc)
