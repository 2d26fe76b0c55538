"""An API process: callers' connections on one side, the queue to its zone on the other, and no state between.

It does what needs no zone: HTTP and its bounds, turns among sources (door.py), addresses that are not there, documents
of discovery, and tokens that no key of the zone signed, that ended, or that were revoked. Those answers are given by an
`Api` of the same tables as the zone's, with nothing behind it. All else goes to the zone, which proves the token again;
an answer begins when the zone's does, and not before: nothing is acknowledged here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import structlog
from starlette.types import Message, Receive, Scope, Send

from banyan import __version__
from banyan.api.app import Api
from banyan.api.context import SMALL_BODY, Limits
from banyan.api.door import Door
from banyan.api.intake import GIVEN_ID, Disconnected, check_head, check_path, receive_body
from banyan.api.openstack.serve import new_id
from banyan.api.openstack.service import Service
from banyan.api.openstack.table import OPEN
from banyan.api.queue import frames
from banyan.api.queue.wire import Flow, Intake, Wire
from banyan.core.errors import BanyanError, Refused, Unauthenticated, Unreachable
from banyan.core.ports import Ids

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("banyan.queue")

# gap: behind a balancer that hides addresses the journal has the balancer's; the PROXY protocol is not read
# Seconds beside the zone's own deadline: it answers by then, or its connection is as good as gone.
MARGIN = 5.0
# Strangers of whom the zone is told between two beats.
MAX_TURNED = 16
_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9._~+/=-]{1,4096})\Z")
_DECODER = msgspec.msgpack.Decoder(frames.FromZone)


class Tokens(Protocol):
    """What an API process can tell of a token. Raises Unauthenticated; what it does not know, it lets pass."""

    def believe(self, beat: frames.Beat) -> None: ...

    def revoked(self, rows: Iterable[tuple[str, float]]) -> None: ...

    def user(self, token: str) -> None: ...

    def operator(self, bearer: str) -> None: ...


def away(retry_after: float = 1.0) -> Unreachable:
    return Unreachable(
        "zone-away",
        "the zone behind this API process does not answer at the moment; nothing was done, try again",
        transient=True,
        retry_after=retry_after,
    )


def lost() -> Unreachable:
    return Unreachable(
        "zone-lost",
        "the zone went away before it answered; what was asked for may have happened: look, or repeat it with the "
        "retry key that it was sent with",
        transient=True,
        retry_after=1.0,
    )


class Link:
    """A connection to the zone. wire.End. Numbers requests, and gives frames to those that they are for."""

    def __init__(self, wire: Wire, name: str, tokens: Tokens, figures: Callable[[], dict[str, float]]) -> None:
        self.wire = wire
        self._name = name
        self._tokens = tokens
        self._figures = figures
        self._last = 0
        self.passing: dict[int, Passing] = {}
        loop = asyncio.get_running_loop()
        self.welcome: asyncio.Future[frames.Welcome] = loop.create_future()
        self.over = asyncio.Event()

    @property
    def up(self) -> bool:
        return self.welcome.done() and not self.over.is_set()

    def begun(self) -> None:
        self.wire.send(frames.Hello(frames.VERSION, frames.VERSION, self._name, __version__))

    def beat(self) -> msgspec.Struct:
        return frames.Figures(self._figures())

    def lost(self) -> None:
        self.over.set()
        if not self.welcome.done():
            self.welcome.set_exception(away())
            self.welcome.exception()  # whoever waits hears of it; nobody need
        for passing in self.passing.values():
            passing.end()

    def number(self) -> int:
        self._last += 1
        return self._last

    def came(self, content: bytes) -> None:
        frame = _DECODER.decode(content)
        match frame:
            case frames.Head() if frame.n in self.passing:
                self.passing[frame.n].begin(frame)
            case frames.Piece() if frame.n in self.passing:
                self.passing[frame.n].answer.put(frame.body, frame.more)
            case frames.Credit() if frame.n in self.passing:
                self.passing[frame.n].flow.add(frame.size)
            case frames.Gone() if frame.n in self.passing:
                self.passing[frame.n].end()
            case frames.Beat():
                self._tokens.believe(frame)
            case frames.Revoked():
                self._tokens.revoked(frame.rows)
            case frames.Welcome() if not self.welcome.done():
                self.welcome.set_result(frame)
            case frames.Refused() if not self.welcome.done():
                self.welcome.set_exception(Refused(frame.code, frame.text))
                self.wire.cut()
            case _:
                pass  # of a request that ended meanwhile


class Passing:
    """One request that was handed over: its body on the way out, its answer on the way in."""

    def __init__(self, link: Link, n: int) -> None:
        self.n = n
        # Nothing of a body is read before the zone has asked for it.
        self.flow = Flow(link.wire, 0)
        self.left = False
        self.answer = Intake(lambda size: link.wire.send(frames.Credit(n, size)), frames.WINDOW)
        self.head: asyncio.Future[frames.Head | None] = asyncio.get_running_loop().create_future()

    def begin(self, head: frames.Head) -> None:
        if not self.head.done():
            self.answer.put(head.body, head.more)
            self.head.set_result(head)

    def end(self) -> None:
        """The zone is gone, or gave up this answer."""
        self.flow.end()
        self.answer.break_off()
        if not self.head.done():
            self.head.set_result(None)


@dataclass(frozen=True, slots=True)
class Found:
    """A request that the zone shall have. `stream`: it stays; `deadline`: seconds for its answer, 0 as usual. `most`:
    bytes of a body that is read whole before; 0 where the zone reads it as it comes, or it is not known what it takes.
    """

    headers: Mapping[str, str]
    stream: bool = False
    deadline: float = 0.0
    most: int = 0


class Process:
    """The ASGI application of an API process. `own`: answers what needs no zone."""

    def __init__(self, own: Api, tokens: Tokens, ids: Ids, limits: Limits) -> None:
        self.limits = limits
        self.door = Door(limits)
        self._own = own
        self._cloud = own.cloud
        self._tokens = tokens
        self._ids = ids
        self._link: Link | None = None
        self._same_program = False
        self._deadline = limits.deadline
        self._turned_away = 0
        self._told = 0
        self._unanswered = 0

    # --- the zone ---------------------------------------------------------------------------------

    def connected(self, link: Link, welcome: frames.Welcome) -> None:
        self._link = link
        self._same_program = welcome.program == __version__
        self._own.cloud = self._cloud if welcome.services else None
        if self._cloud is not None:
            self._cloud.face = replace(self._cloud.face, public_url=welcome.public_url, region=welcome.region)
        self._deadline = welcome.deadline
        self.door.resize(welcome.requests, welcome.streams)

    def figures(self) -> dict[str, float]:
        """For the zone's /metrics, once a beat."""
        self._told = 0
        return {
            "queue_depth": float(self.door.depth),
            "queue_limit": float(self.limits.waiting),
            "queue_refused_total": float(self.door.refused),
            "in_work": float(self.door.inside[False]),
            "followers": float(self.door.inside[True]),
            "turned_away_total": float(self._turned_away),
            "unanswered_total": float(self._unanswered),
        }

    def stop(self) -> None:
        self._own.stop()

    def turned(self, address: str, what: str, code: str) -> None:
        """Tells the zone's journal of a stranger. The zone bounds how many it takes."""
        self._turned_away += 1
        if self._link is not None and self._link.up and self._told < MAX_TURNED:
            self._told += 1
            self._link.wire.send(frames.Turned(address, what, code))

    # --- requests ---------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"this application speaks HTTP, not {scope['type']}")
        own = self._own
        service = own.cloud.service(scope["path"]) if own.cloud is not None else None
        scope[GIVEN_ID] = own.request_id(scope) if service is None else new_id(self._ids, own.clock)
        began = False

        async def sending(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            if scope["path"] == "/healthz" and (self._link is None or not self._link.up):
                raise away()
            found = self._look(service, scope)
            if found is None:
                await own(scope, receive, send)
                return
            await self._hand_over(scope, receive, sending, found)
        except Disconnected:
            return
        except BanyanError as error:
            if not began:
                await own.fail(scope, send, error)

    def _look(self, service: Service | None, scope: Scope) -> Found | None:
        """None if the request is answered here: because it needs no zone, or because the zone would refuse it."""
        try:
            headers = check_head(scope, self.limits)
            path = check_path(scope["path"], strict=False)
            if service is not None:
                return self._service_row(service, scope, path, headers)
            return self._row(scope, path, headers)
        except BanyanError:
            return None

    def _service_row(self, service: Service, scope: Scope, path: str, headers: Mapping[str, str]) -> Found | None:
        raw = scope.get("raw_path")
        if raw and b"%" in raw:
            path = raw.decode("latin-1")
        try:
            rows, _ = service.table.find(scope["method"], path[len(service.prefix) + 1 :])
        except BanyanError:
            if self._same_program:
                raise
            return Found(headers)
        if rows[0].action == OPEN:
            document = rows[0].method == "GET" and self._same_program
            return None if document else Found(headers, deadline=rows[0].deadline, most=rows[0].most)
        self._tokens.user(headers.get("x-auth-token", "") or _none())
        most = 0 if rows[0].streamed else max(row.most for row in rows)
        return Found(headers, deadline=max(row.deadline for row in rows), most=most)

    def _row(self, scope: Scope, path: str, headers: Mapping[str, str]) -> Found | None:
        try:
            row, _ = self._own.router.find(scope["method"], path)
        except BanyanError:
            if self._same_program:
                raise
            return Found(headers)
        if row.role is None:
            return None if self._same_program else Found(headers)
        found = _BEARER.match(headers.get("authorization", ""))
        self._tokens.operator(found.group(1) if found else _none())
        return Found(headers, row.stream, row.deadline, row.most)

    async def _hand_over(self, scope: Scope, receive: Receive, send: Send, found: Found) -> None:
        if self._link is None or not self._link.up:
            raise away()
        client = scope.get("client") or ("", 0)
        body, more, size = b"", False, self._awaited(found)
        with self.door.bodies.held(client[0], size or 0):
            if size:
                body, more, receive = await self._whole_body(found.headers, size, receive)
            elif size is None:
                more = True
            await self.door.enter(found.stream, client[0])
        try:
            link = self._link
            if link is None or not link.up:
                raise away()
            passing = Passing(link, link.number())
            link.passing[passing.n] = passing
            try:
                target: bytes = scope.get("raw_path") or scope["path"].encode()
                if scope["query_string"]:
                    target += b"?" + scope["query_string"]
                scheme, asked = scope.get("scheme", "http"), scope[GIVEN_ID]
                head = (scope["method"], target, list(scope["headers"]), client[0], client[1], scheme, asked)
                link.wire.send(frames.Open(passing.n, *head, body, more))
                wait = 0.0 if found.stream else found.deadline or self._deadline
                await self._answer(link, passing, receive, send, more, wait)
            finally:
                link.passing.pop(passing.n, None)
        finally:
            self.door.leave(found.stream)

    def _awaited(self, found: Found) -> int | None:
        """Bytes of the body that is read whole before it is handed over, so that a slow caller is waited for here, and
        keeps no place meanwhile; None: none of it. One that is too long is left to the zone, which refuses it unread.
        """
        length = found.headers.get("content-length", "")
        if "transfer-encoding" not in found.headers and length in ("", "0"):
            return 0
        known = length.isascii() and length.isdigit()
        if not found.most:
            # A sender that waits to be let (RFC 9110 §10.1.1) may be refused by the zone.
            small = known and int(length[:20]) <= SMALL_BODY and "expect" not in found.headers
            return int(length) if small else None
        if not known:
            return found.most
        return int(length) if int(length[:20]) <= found.most else None

    async def _whole_body(self, headers: Mapping[str, str], size: int, receive: Receive) -> tuple[bytes, bool, Receive]:
        """What goes with the head, whether more follows, and where that comes from."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower() or "application/json"
        content = await receive_body(receive, headers, size, self.limits.body_wait, (kind,))
        if len(content) <= SMALL_BODY:
            return content, False, receive
        first: Message | None = {"type": "http.request", "body": content, "more_body": False}

        async def again() -> Message:
            nonlocal first
            message, first = first, None
            return message or await receive()

        return b"", True, again

    async def _answer(
        self, link: Link, passing: Passing, receive: Receive, send: Send, more: bool, deadline: float
    ) -> None:
        pump: asyncio.Task[None] | None = None
        if more or not deadline:
            pump = asyncio.ensure_future(self._pump(link, passing, receive, more))
        try:
            head = await self._head(passing, None if more or not deadline else deadline + MARGIN)
            await send({"type": "http.response.start", "status": head.status, "headers": head.headers})
            if head.more and pump is None:
                pump = asyncio.ensure_future(self._pump(link, passing, receive, False))
            while True:
                piece = await passing.answer.take()
                if piece is None:
                    # Not whole: the server closes the connection, and the caller can tell by the length.
                    return
                await send({"type": "http.response.body", "body": piece[0], "more_body": piece[1]})
                if not piece[1]:
                    return
        except BaseException:
            link.wire.send(frames.Gone(passing.n))
            raise
        finally:
            if pump is not None:
                pump.cancel()

    async def _head(self, passing: Passing, wait: float | None) -> frames.Head:
        """Raises what is told to a caller to whom nothing was promised. A body on its way has its own bounds, in the
        zone; and an end that hears nothing for long cuts the connection (wire.py)."""
        try:
            async with asyncio.timeout(wait):
                head = await passing.head
        except TimeoutError:
            head = None
        if passing.left:
            raise Disconnected
        if head is None:
            self._unanswered += 1
            raise lost()
        return head

    async def _pump(self, link: Link, passing: Passing, receive: Receive, more: bool) -> None:
        """Hands a body on as it comes, no faster than the zone takes it; then waits until the caller goes."""
        if more:
            await passing.flow.opened()
        while True:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                passing.left = True
                link.wire.send(frames.Gone(passing.n))
                passing.end()
                return
            if not more:
                continue
            body: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            while True:
                size = await passing.flow.room(min(len(body), frames.PIECE)) if body else 0
                if passing.flow.ended:
                    return
                piece, body = body[:size], body[size:]
                link.wire.send(frames.Piece(passing.n, piece, more or bool(body)))
                if not body:
                    break


def _none() -> str:
    raise Unauthenticated("no-token", "")
