"""The ASGI application: one request from its first byte to its last.

Order: request id, a place among the bounded number in work, head within bounds, row of the table, credential, least
role, query, body, handler. Nothing is read of a body before its sender may send one, and no place is kept while it is
on its way. What fails is answered by faults.py; what is not a BanyanError is logged under the request id and shows
nothing of itself. Tokens are never logged, and never leave this file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec
import structlog
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from banyan.api import faults
from banyan.api.context import Context, Limits
from banyan.api.door import Door, Seat
from banyan.api.faults import REQUEST_ID
from banyan.api.intake import (
    GIVEN_ID,
    Disconnected,
    body_size,
    check_head,
    check_path,
    nothing,
    raw_query,
    receive_body,
    unread,
)
from banyan.api.measure import Meter
from banyan.api.openstack.call import Gate, Surfaces
from banyan.api.openstack.serve import Cloud, Face
from banyan.api.openstack.service import Service
from banyan.api.routes import TABLE
from banyan.api.table import Route, Router
from banyan.core.errors import BanyanError, Broken, Refused, Unauthenticated, Unreachable
from banyan.core.identity import Caller
from banyan.core.ports import Clock, Ids
from banyan.zone.surface import Surface

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("banyan.api")

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}\Z")
_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9._~+/=-]{1,4096})\Z")
_ALWAYS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
LOCAL_ADDRESS = "local"


class Api:
    """One zone's API. The object itself is the ASGI application of the public listener; `local` that of the socket.

    The two have a place each for `limits.concurrency` requests. `stop()` ends streams, so that a server can end.
    """

    def __init__(self, surface: Surface, clock: Clock, ids: Ids, limits: Limits) -> None:
        self.limits = limits
        self.surface = surface
        self.clock = clock
        self.ids = ids
        self.router = Router(TABLE)
        self.meter = Meter()
        self.stopping = False
        self.outer = Door(limits)
        self.inner = Door(limits)
        self.cloud: Cloud | None = None
        # Figures of others that are shown with the zone's own: of API processes in front of it, of its machine.
        self.more: list[Callable[[], Mapping[str, float]]] = []

    def offer(self, services: Iterable[Service], gate: Gate, surfaces: Surfaces, face: Face) -> None:
        """Serves these OpenStack services as well, each under its prefix."""
        self.cloud = Cloud(
            services, gate, self.surface.refused, self.clock, self.ids, self.limits, self.meter, face, surfaces
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._serve(scope, receive, send, self.outer, local=False)

    async def local(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application of the local socket. Its listener lets in nobody but the zone's own user and root."""
        await self._serve(scope, receive, send, self.inner, local=True)

    def stop(self) -> None:
        """Ends streams at their next beat, or sooner. Others end by themselves."""
        self.stopping = True

    def measured(self) -> Mapping[str, float]:
        inside = self.outer.inside, self.inner.inside
        return {
            **self.meter.read(),
            **(self.cloud.gate.measured() if self.cloud is not None else {}),
            "banyan_api_in_work": float(sum(d[False] for d in inside)),
            "banyan_api_followers": float(sum(d[True] for d in inside)),
            **self.outer.measured("public"),
            **self.inner.measured("local"),
            **{name: value for read in self.more for name, value in read().items()},
        }

    async def _serve(self, scope: Scope, receive: Receive, send: Send, door: Door, *, local: bool) -> None:
        if scope["type"] != "http":
            # The listeners of listen.py turn lifespan and WebSocket off; another server may not.
            raise ValueError(f"this application speaks HTTP, not {scope['type']}")
        if self.cloud is not None and (service := self.cloud.service(scope["path"])) is not None:
            await self.cloud.serve(service, scope, receive, send, door, local=local)
            return
        request = self.request_id(scope)
        began = self.clock.now()
        work = _Request(self, scope, receive, request, door, local)
        try:
            answer = await work.answer()
        except Disconnected:
            return
        status = answer.status_code
        for name, value in _ALWAYS.items():
            answer.headers.setdefault(name, value)
        answer.headers[REQUEST_ID] = request
        if work.unread:
            answer.headers["Connection"] = "close"
        try:
            await answer(scope, receive, _without_body(send) if scope["method"] == "HEAD" else send)
        finally:
            work.seat.leave()
            self.meter.count(work.row_name, status, self.clock.now() - began)

    async def fail(self, scope: Scope, send: Send, error: BanyanError) -> None:
        """Answers a request with `error`, in the words of what its path belongs to, and looks no further at it."""
        if self.cloud is not None and (service := self.cloud.service(scope["path"])) is not None:
            await self.cloud.fail(service, scope, send, error)
            return
        answer = faults.response(error, self.request_id(scope))
        answer.headers[REQUEST_ID] = self.request_id(scope)
        for name, value in _ALWAYS.items():
            answer.headers.setdefault(name, value)
        if unread(scope):
            answer.headers["Connection"] = "close"
        await answer(scope, nothing, _without_body(send) if scope["method"] == "HEAD" else send)
        self.meter.count("", answer.status_code, 0.0)

    def request_id(self, scope: Scope) -> str:
        """That of the API process which took the request, or the caller's own if it is well-formed, or a new one."""
        if (given := scope.get(GIVEN_ID)) is not None:
            return str(given)
        wanted = REQUEST_ID.lower().encode()
        for name, value in scope["headers"]:
            if name == wanted:
                text: str = value.decode("latin-1")
                if _REQUEST_ID.match(text):
                    return text
        return f"req-{self.ids.token(10).hex()}"


class _Request:
    """One request on its way to an answer. `unread` is whether a body may still be on its way."""

    def __init__(self, api: Api, scope: Scope, receive: Receive, request: str, door: Door, local: bool) -> None:
        self.api = api
        self.scope = scope
        self.receive = receive
        self.request = request
        client = scope.get("client")
        self.seat = Seat(door, client[0] if client else "")
        self.local = local
        self.row_name = ""
        self.unread = unread(scope)

    async def answer(self) -> Response:
        """Never raises but Disconnected: every failure is an answer."""
        who: Caller | None = None
        row: Route | None = None
        try:
            headers = check_head(self.scope, self.api.limits)
            row, params = self.api.router.find(self.scope["method"], check_path(self.scope["path"]))
            self.row_name = row.name
            if row.path != "/healthz":
                await self.seat.enter(row.stream)
            async with asyncio.timeout(row.deadline or self.api.limits.deadline):
                if row.role is not None:
                    who = await self._prove(headers)
                    if who.role < row.role:
                        raise Refused(
                            "forbidden",
                            f"{row.action} needs the role {row.role.name.lower()}, "
                            f"this caller has {who.role.name.lower()}; ask for a token of that role",
                        )
                return await self._run(row, who, params, headers)
        except TimeoutError:
            error: BanyanError = Unreachable(
                "deadline", "no complete answer came in time; what was asked for may have happened", transient=True
            )
        except BanyanError as failure:
            error = failure
        except Disconnected:
            self.seat.leave()
            raise
        except Exception:  # the edge of the program: the caller gets an id, the log the rest
            log.exception("request failed", request=self.request, route=self.row_name)
            error = faults.INTERNAL
        await self._note(row, who, error)
        return faults.response(error, self.request)

    async def _prove(self, headers: Mapping[str, str]) -> Caller:
        client = self.scope.get("client")
        if self.local:
            return self.api.surface.local(client[0] if client else "unknown", self.request)
        given = headers.get("authorization", "")
        if not given:
            raise Unauthenticated("no-token", "this address needs the header `Authorization: Bearer TOKEN`")
        found = _BEARER.match(given)
        if found is None:
            raise Unauthenticated("bad-token", "the Authorization header must be `Bearer TOKEN`, with a token of ours")
        return await self.api.surface.authenticate(found.group(1), client[0] if client else "", self.request)

    async def _run(
        self, row: Route, who: Caller | None, params: Mapping[str, str], headers: Mapping[str, str]
    ) -> Response:
        query = raw_query(self.scope["query_string"])
        content = b""
        if self.unread:
            coming = receive_body(self.receive, headers, row.most, self.api.limits.body_wait)
            content = await self.seat.whole(body_size(headers, row.most), coming)
            self.unread = False
        context = Context(
            surface=self.api.surface,
            who=who,
            request=self.request,
            params=params,
            headers=headers,
            limits=self.api.limits,
            again=self._again(headers),
            stopping=lambda: self.api.stopping,
            measured=self.api.measured,
        )
        answer = await row.run(context, query, content)
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=row.status)
        return Response(msgspec.json.encode(answer), row.status, media_type=row.media)

    def _again(self, headers: Mapping[str, str]) -> Callable[[], Awaitable[Caller]]:
        async def again() -> Caller:
            return await self._prove(headers)

        return again

    async def _note(self, row: Route | None, who: Caller | None, error: BanyanError) -> None:
        """Refusals are journalled by the zone, which bounds how many; what broke is logged here.

        What is busy or away is only counted: callers can cause that at will.
        """
        if isinstance(error, Broken) and error is not faults.INTERNAL:
            log.warning(
                "request not served", request=self.request, route=self.row_name, code=error.code, detail=error.detail
            )
        if isinstance(error, Unauthenticated) or error.code == "forbidden":
            client = self.scope.get("client")
            address = LOCAL_ADDRESS if self.local else client[0] if client else ""
            try:
                await self.api.surface.refused(who, address, row.action if row else "", error.code)
            except BanyanError as failure:
                log.warning("refusal not journalled", request=self.request, code=failure.code)


def _without_body(send: Send) -> Send:
    """For HEAD: the head goes out as it is, the body does not."""

    async def head(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {"type": "http.response.body", "body": b"", "more_body": message.get("more_body", False)}
        await send(message)

    return head


def build_app(surface: Surface, clock: Clock, ids: Ids, limits: Limits | None = None) -> Api:
    """The application for `surface`; see Api for its two listeners and listen.py for running them."""
    return Api(surface, clock, ids, limits or Limits())
