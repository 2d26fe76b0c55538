"""The zone's end of the queue: requests of API processes, answered by the `Api` that answers the zone's own listener.

    sessions = Sessions(api, words)
    server = await loop.create_unix_server(sessions.local, sock=sock)       # or create_server(sessions.remote, ssl=…)

What a process says of a token is not believed: each request is proved again here. Believed is the caller's address and
the request's id, which only the process can know. A process that ends takes nothing along: what it had handed over is
worked on to its end, as when a client hangs up.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Protocol
from urllib.parse import unquote

import msgspec
import structlog
from starlette.types import Message, Scope

from banyan import __version__
from banyan.api.app import Api
from banyan.api.intake import GIVEN_ID
from banyan.api.listen import STOP_WAIT
from banyan.api.protocol import peer_user
from banyan.api.queue import frames
from banyan.api.queue.frames import BadFrame
from banyan.api.queue.wire import Flow, Intake, Wire

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("banyan.queue")

# Processes at a time, and requests of dead ones that still run count with the living at the door.
MAX_PROCESSES = 64
# Strangers told of by one process: so many at once, and between two beats.
MAX_TURNED = 16
BATCH = 1_000
_NAME = re.compile(r"[A-Za-z0-9_.:/\[\]-]{1,100}\Z")
_FIGURE = re.compile(r"[a-z_]{1,40}\Z")
MAX_FIGURES = 16
_DECODER = msgspec.msgpack.Decoder(frames.FromProcess)


class Words(Protocol):
    """What the zone tells an API process of itself."""

    def zone(self) -> str:
        """The zone's name."""

    def beat(self) -> frames.Beat: ...

    def certificate(self) -> tuple[bytes, bytes]:
        """The API's own certificate and its key, PEM; two empty ones where there is none to hand on."""

    def revoked(self) -> Iterable[tuple[str, float]]: ...

    def watch(self, tell: Callable[[str, float], None]) -> Callable[[], None]:
        """`tell` hears of each token that is revoked from now on, until what is returned is called."""


class Sessions:
    """All API processes of a zone."""

    def __init__(self, api: Api, words: Words) -> None:
        self.api = api
        self.words = words
        self.sessions: set[Session] = set()
        # Kept here so that they run to their end; each goes when it is done.
        self.tasks: set[asyncio.Task[None]] = set()
        api.more.append(self.measured)

    def local(self) -> Wire:
        """A connection over the local socket."""
        return Wire(lambda wire: Session(self, wire, local=True))

    def remote(self) -> Wire:
        """One over mutual TLS, whose certificate the listener has checked."""
        return Wire(lambda wire: Session(self, wire, local=False))

    async def close(self) -> None:
        """Cuts all connections, and lets what was handed over come to its end, for a few seconds."""
        for session in tuple(self.sessions):
            session.wire.cut()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=STOP_WAIT)
        for task in self.tasks:
            task.cancel()

    def measured(self) -> Mapping[str, float]:
        found = {"banyan_api_processes": float(len(self.sessions))}
        for session in self.sessions:
            label = f'{{process="{session.name}"}}'
            found[f"banyan_api_process_handed_over{label}"] = float(len(session.asked))
            found |= {f"banyan_api_process_{name}{label}": value for name, value in session.figures.items()}
        return found


class Session:
    """One API process. wire.End."""

    def __init__(self, sessions: Sessions, wire: Wire, *, local: bool) -> None:
        self._sessions = sessions
        self.wire = wire
        self._local = local
        self.name = ""
        self.figures: Mapping[str, float] = {}
        self.asked: dict[int, _Asked] = {}
        self._turned = 0
        self._unwatch: Callable[[], None] = lambda: None

    def begun(self) -> None:
        transport = self.wire.transport
        assert transport is not None
        if self._local and peer_user(transport.get_extra_info("socket")) not in (0, os.geteuid()):
            transport.abort()

    def beat(self) -> msgspec.Struct | None:
        self._turned = 0
        return self._sessions.words.beat() if self.name else None

    def lost(self) -> None:
        self._unwatch()
        if self in self._sessions.sessions:
            self._sessions.sessions.discard(self)
            log.info("API process gone", process=self.name, handed_over=len(self.asked))
        for asked in self.asked.values():
            asked.end()

    def came(self, content: bytes) -> None:
        frame = _DECODER.decode(content)
        if isinstance(frame, frames.Hello):
            self._welcome(frame)
            return
        if not self.name:
            raise BadFrame("a connection begins with hello")
        match frame:
            case frames.Open():
                self._open(frame)
            case frames.Piece() if frame.n in self.asked:
                self.asked[frame.n].intake.put(frame.body, frame.more)
            case frames.Credit() if frame.n in self.asked:
                self.asked[frame.n].flow.add(frame.size)
            case frames.Gone() if frame.n in self.asked:
                self.asked[frame.n].end()
            case frames.Figures():
                self.figures = {
                    name: value for name, value in list(frame.values.items())[:MAX_FIGURES] if _FIGURE.match(name)
                }
            case frames.Turned() if self._turned < MAX_TURNED:
                self._turned += 1
                self._run(self._journal(frame))
            case _:
                pass  # of a request that ended meanwhile

    def _welcome(self, hello: frames.Hello) -> None:
        if self.name:
            raise BadFrame("hello came twice")
        wrong = frames.bad_version(hello)
        if wrong is not None:
            self.wire.send(frames.Refused(wrong.code, wrong.text))
            self.wire.cut(wrong.text)
            return
        sessions = self._sessions
        if len(sessions.sessions) >= MAX_PROCESSES:
            self.wire.send(frames.Refused("queue-full", f"this zone takes {MAX_PROCESSES} API processes; stop one"))
            self.wire.cut("too many API processes")
            return
        if not _NAME.match(hello.name):
            raise BadFrame("the name of an API process has up to 100 letters, digits, and _.:/[]-")
        self.name = hello.name
        sessions.sessions.add(self)
        words, api = sessions.words, sessions.api
        face = api.cloud.face if api.cloud is not None else None
        certificate, key = words.certificate() if self._local else (b"", b"")
        self.wire.send(
            frames.Welcome(
                frames.VERSION,
                __version__,
                words.zone(),
                api.limits.concurrency,
                api.limits.followers,
                api.limits.deadline,
                face is not None,
                face.public_url if face is not None else "",
                face.region if face is not None else "",
                certificate,
                key,
            )
        )
        self.wire.send(words.beat())
        batch: list[tuple[str, float]] = []
        for row in words.revoked():
            batch.append(row)
            if len(batch) == BATCH:
                self.wire.send(frames.Revoked(batch))
                batch = []
        self.wire.send(frames.Revoked(batch))
        self._unwatch = words.watch(lambda audit, ends: self.wire.send(frames.Revoked([(audit, ends)])))
        log.info("API process is there", process=self.name, program=hello.program, local=self._local)

    def _open(self, frame: frames.Open) -> None:
        limits = self._sessions.api.limits
        if frame.n in self.asked or len(self.asked) >= limits.concurrency + limits.followers:
            raise BadFrame("more requests came than may be open, or two of one number")
        asked = _Asked(self, frame)
        self.asked[frame.n] = asked
        self._run(asked.run())

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._sessions.tasks.add(task)
        task.add_done_callback(self._sessions.tasks.discard)

    async def _journal(self, frame: frames.Turned) -> None:
        await self._sessions.api.surface.refused(None, frame.address[:64], frame.what[:200], frame.code[:64])


class _Asked:
    """One request of an API process, as an ASGI server gives it to an application."""

    def __init__(self, session: Session, frame: frames.Open) -> None:
        self._session = session
        self._frame = frame
        self.flow = Flow(session.wire, frames.WINDOW)
        self.intake = Intake(self._took, frames.WINDOW)
        self._wanted = not frame.more
        if not frame.more:
            self.intake.put(frame.body, False)
        self._whole = False
        self._head: tuple[int, frames.Lines] | None = None
        self._sent = False

    def end(self) -> None:
        """The caller, or the process, is gone."""
        self.intake.break_off()
        self.flow.end()

    async def run(self) -> None:
        session, n = self._session, self._frame.n
        done = False
        try:
            await session._sessions.api(self._scope(), self._receive, self._send)
            done = self._whole
        except Exception:
            log.exception("request failed", request=self._frame.request)
        finally:
            session.asked.pop(n, None)
            if not done:
                session.wire.send(frames.Gone(n))

    def _scope(self) -> Scope:
        frame = self._frame
        raw, _, query = frame.target.partition(b"?")
        path = raw.decode("latin-1")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": frame.method,
            "scheme": frame.scheme,
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw,
            "query_string": query,
            "root_path": "",
            "headers": frame.headers,
            "client": (frame.host, frame.port),
            "server": None,
            GIVEN_ID: frame.request,
        }

    def _took(self, size: int) -> None:
        self._session.wire.send(frames.Credit(self._frame.n, size))

    async def _receive(self) -> Message:
        if not self._wanted:
            # The body is read from its sender from now on, and not before.
            self._wanted = True
            self._took(frames.WINDOW)
        piece = await self.intake.take()
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece[0], "more_body": piece[1]}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._head = message["status"], list(message["headers"])
            # With the body if that comes in this turn of the loop; a stream's head does not wait for its first line.
            asyncio.get_running_loop().call_soon(self._head_alone)
            return
        body: bytes = message.get("body", b"")
        more: bool = message.get("more_body", False)
        while True:
            size = await self.flow.room(min(len(body), frames.PIECE)) if body else 0
            if self.flow.ended:
                return
            piece, body = body[:size], body[size:]
            self._say(piece, more or bool(body))
            if not body:
                self._whole = not more
                return

    def _head_alone(self) -> None:
        if not self._sent and not self.flow.ended:
            self._say(b"", True)

    def _say(self, body: bytes, more: bool) -> None:
        n = self._frame.n
        if self._head is not None and not self._sent:
            self._sent = True
            self._session.wire.send(frames.Head(n, *self._head, body, more))
        elif body or not more:
            self._session.wire.send(frames.Piece(n, body, more))
