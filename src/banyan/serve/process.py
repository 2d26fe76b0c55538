"""`banyan serve --role api`: a process that serves the API of a zone and holds nothing of it.

It keeps one connection to the zone's queue (api/queue), tries again for ever with pauses that grow to two seconds, and
may be killed at any time. Without a zone it answers 503 with Retry-After. It reads and writes no data folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

import structlog
import uvloop

from banyan import __version__
from banyan.api.app import build_app
from banyan.api.context import Limits
from banyan.api.listen import is_loopback, public_server, public_socket, reachable, split_address
from banyan.api.openstack.call import Surfaces
from banyan.api.openstack.serve import Face
from banyan.api.queue.frames import Beat, Welcome
from banyan.api.queue.process import Link, Process, away
from banyan.api.queue.wire import Wire
from banyan.api.services import SERVICES
from banyan.core.errors import BadInput, BanyanError, Refused, Unauthenticated
from banyan.core.identity import Caller
from banyan.core.ids import ZoneCode
from banyan.core.ports import Clock, Ids
from banyan.core.principal import Principal
from banyan.core.secret import Secret
from banyan.core.time import Mono, Wall
from banyan.serve.api_certificate import show
from banyan.serve.begin import own_certificate
from banyan.serve.clock import SystemClock, SystemIds
from banyan.serve.collect import settle
from banyan.serve.config import Settings
from banyan.serve.observe import configure
from banyan.serve.queue import Named, queue_context
from banyan.trust import signed_tokens, user_tokens
from banyan.trust.jwt import TokenKey
from banyan.zone.surface import Surface

log = structlog.get_logger("banyan.serve")

# Seconds between tries to reach the zone: doubled from the first to the last, each cut by chance to a half at the most.
FIRST_PAUSE, LAST_PAUSE = 0.05, 2.0
# Seconds for a connection and the zone's welcome.
PATIENCE = 5.0
# Tokens remembered as well signed, about 200 bytes each; and revoked ones.
MAX_KNOWN, MAX_REVOKED = 16_384, 200_000


class KnownTokens:
    """process.Tokens: by the zone's key and its time. What a token may do is for the zone to say."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._beat: Beat | None = None
        self._ahead = 0.0
        self._known: dict[bytes, tuple[float, str]] = {}
        self._revoked: dict[str, float] = {}

    def believe(self, beat: Beat) -> None:
        held = self._beat
        if held is not None and (held.code, held.epoch, held.token_public) != (
            beat.code,
            beat.epoch,
            beat.token_public,
        ):
            self._known.clear()
        self._beat = beat
        self._ahead = beat.wall - self._clock.now()

    def revoked(self, rows: Iterable[tuple[str, float]]) -> None:
        now = self._now()
        self._revoked.update({audit: ends for audit, ends in rows if ends > now})
        while len(self._revoked) > MAX_REVOKED:
            self._revoked.pop(next(iter(self._revoked)))

    def user(self, token: str) -> None:
        ends, audit = self._look(b"user", token)
        if audit in self._revoked or ends <= self._now():
            raise Unauthenticated("token-revoked", "This is not a valid token.")

    def operator(self, bearer: str) -> None:
        ends, _ = self._look(b"operator", bearer)
        if ends <= self._now():
            raise Unauthenticated("token-expired", "this token has ended; make another one")

    def _now(self) -> Wall:
        return Wall(self._clock.now() + self._ahead)

    def _look(self, kind: bytes, token: str) -> tuple[float, str]:
        """When it ends, and its id. Of a zone that was never heard nothing is known: its tokens pass."""
        beat = self._beat
        if beat is None:
            return float("inf"), ""
        digest = hashlib.sha256(kind + token.encode()).digest()
        known = self._known.get(digest)
        if known is None:
            keys, now = (TokenKey(ZoneCode(beat.code), beat.token_public),), self._now()
            if kind == b"user":
                claims = user_tokens.verify(token, keys, now)
                if claims.epoch != beat.epoch:
                    raise Unauthenticated("token-before-restore", "This is not a valid token.")
                known = claims.expires, claims.audit
            else:
                read = signed_tokens.verify(token, keys, now)
                known = read.expires, read.id
            while len(self._known) >= MAX_KNOWN:
                self._known.pop(next(iter(self._known)))
            self._known[digest] = known
        return known


class NoZone:
    """The surface and the gate of the `Api` that answers for what needs no zone: it refuses, and tells the zone so."""

    def __init__(self, tokens: KnownTokens) -> None:
        self._tokens = tokens
        self.process: Process | None = None

    async def refused(self, caller: Caller | None, address: str, what: str, error: str) -> None:
        if self.process is not None:
            self.process.turned(address, what, error)


class NoSurface(NoZone):
    async def authenticate(self, bearer: str, address: str, request: str) -> Caller:
        self._tokens.operator(bearer)
        raise away()


class NoGate(NoZone):
    async def authenticate(self, token: str, address: str, request: str) -> Principal:
        self._tokens.user(token)
        raise away()

    def local(self, user: str, request: str) -> Principal:
        raise away()

    def measured(self) -> Mapping[str, float]:
        return {}


def serve_api(settings: Settings) -> int:
    """Runs until SIGTERM or SIGINT; the exit status. Raises what it cannot start for."""
    configure(settings.log.level, settings.log.format)
    check_process(settings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings))


def check_process(settings: Settings) -> None:
    """Raises BadInput for settings with which there is nothing to serve."""
    queue, api = settings.queue, settings.api
    if bool(queue.zone) == bool(queue.zone_socket):
        raise BadInput(
            "bad-option",
            "an API process is told its zone by --zone-socket PATH (DATA/queue.sock of a zone on this machine) or by "
            "--zone HOST:PORT (its queue.listen); give one of them",
        )
    if queue.listen:
        raise BadInput("bad-setting", "queue.listen is the zone's, where its API processes come to; leave it out here")
    if queue.zone:
        split_address(queue.zone)
        queue_context(queue, server=False)
        if api.tls and not api.certificate:
            raise BadInput(
                "bad-setting",
                "an API process away from its zone's machine has a certificate of its own: set api.certificate and "
                "api.key",
            )
    if api.tls:
        own_certificate(settings)
    elif not is_loopback(split_address(api.listen)[0]):
        raise BadInput(
            "api-without-tls", "without TLS the API listens on a loopback address only, since callers send tokens"
        )


class Dial:
    """Keeps a connection to the zone's queue. `ready` is set by the first welcome."""

    def __init__(self, settings: Settings, process: Process, tokens: KnownTokens, clock: Clock, ids: Ids) -> None:
        self._settings = settings
        self._process = process
        self._tokens = tokens
        self._clock = clock
        self._ids = ids
        self._tls = queue_context(settings.queue, server=False) if settings.queue.zone else None
        host = os.uname().nodename
        self._name = f"{host}:{split_address(settings.api.listen)[1]}/{os.getpid()}"[-100:]
        self.context: ssl.SSLContext | None = None
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Never returns. Raises Refused if the zone says that it will never take this process."""
        pause, said = FIRST_PAUSE, ""
        while True:
            why = ""
            try:
                async with asyncio.timeout(PATIENCE):
                    link = await self._open()
                    welcome = await link.welcome
            except (OSError, TimeoutError, ssl.SSLError) as error:
                why = str(error) or type(error).__name__
            except Refused:
                raise
            except BanyanError as error:
                why = error.text
            else:
                self._welcomed(link, welcome)
                pause, said = FIRST_PAUSE, ""
                await link.over.wait()
                log.warning("zone away", zone=welcome.zone)
            if why and why != said:
                log.warning("zone not reached", where=self._where, reason=why)
                said = why
            await self._clock.sleep_until(Mono(self._clock.now() + self._ids.uniform(pause / 2, pause)))
            pause = min(2 * pause, LAST_PAUSE)

    @property
    def _where(self) -> str:
        return self._settings.queue.zone or self._settings.queue.zone_socket

    async def _open(self) -> Link:
        loop, queue = asyncio.get_running_loop(), self._settings.queue
        wire = Wire(lambda wire: Link(wire, self._name, self._tokens, self._process.figures))
        if queue.zone:
            host, port = split_address(queue.zone)
            await loop.create_connection(lambda: Named(wire, queue.names), host, port, ssl=self._tls)
        else:
            path = Path(queue.zone_socket)
            handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                await loop.create_unix_connection(lambda: wire, reachable(path.parent, path.name, handle))
            finally:
                os.close(handle)
        return cast("Link", wire.end)

    def _welcomed(self, link: Link, welcome: Welcome) -> None:
        if self._settings.api.tls and not self._settings.api.certificate:
            if not welcome.certificate:
                raise Refused(
                    "no-certificate",
                    "the zone has its API's certificate from files, or serves without TLS: set api.certificate and "
                    "api.key here, or --api-tls off",
                )
            assert self.context is not None
            show(self.context, welcome.certificate, Secret(welcome.key))
        self._process.connected(link, welcome)
        self.ready.set()
        log.info("zone reached", zone=welcome.zone, program=welcome.program)


async def _serve(settings: Settings) -> int:
    clock, ids, limits = SystemClock(), SystemIds(), Limits()
    tokens = KnownTokens(clock)
    surface, gate = NoSurface(tokens), NoGate(tokens)
    own = build_app(cast("Surface", surface), clock, ids, limits)
    host, port = split_address(settings.api.listen)
    face = Face(listen=f"{'https' if settings.api.tls else 'http'}://{_named(host)}:{port}")
    own.offer(SERVICES, gate, Surfaces(), face)
    process = Process(own, tokens, ids, limits)
    surface.process = gate.process = process
    dial = Dial(settings, process, tokens, clock, ids)
    tls: ssl.SSLContext | None = None
    if settings.api.tls:
        tls = own_certificate(settings)
        if tls is None:
            tls = dial.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.minimum_version = ssl.TLSVersion.TLSv1_2
    sock = public_socket(settings.api.listen, encrypted=tls is not None, shared=True)
    server = public_server(process, tls)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        async with asyncio.TaskGroup() as tasks:
            dialling = tasks.create_task(dial.run(), name="queue")
            stopped = tasks.create_task(stop.wait(), name="signals")
            if dial.context is not None:
                # Without a certificate nothing can be said, also not that the zone is away.
                there = tasks.create_task(dial.ready.wait(), name="first welcome")
                await asyncio.wait({there, stopped}, return_when=asyncio.FIRST_COMPLETED)
                there.cancel()
            log.info("API process is up", version=__version__, api=settings.api_url)
            settle()
            serving = tasks.create_task(server.serve(sockets=[sock]), name="api")
            await stopped
            server.should_exit = True
            await serving
            dialling.cancel()
    except BaseExceptionGroup as group:
        known = [error for error in group.exceptions if isinstance(error, BanyanError)]
        raise known[0] if known else group.exceptions[0]  # noqa: B904 - the group says nothing more
    finally:
        sock.close()
    log.info("API process stopped")
    return 0


def _named(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return os.uname().nodename
    return f"[{host}]" if ":" in host else host
