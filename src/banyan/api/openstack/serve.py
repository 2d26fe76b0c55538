"""One request of an OpenStack API from its first byte to its last. All services go this way; none has another.

Order: request id, a place among the bounded number in work, head within bounds, row by path and method, microversion,
token, policy (as far as it can be known without the target), body, handler. No place is kept while a body is on its way
(door.py). A failure is worded as the service words
it; what is not a BanyanError is logged under the request id and shows nothing of itself. Tokens are never logged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import structlog
from starlette.types import Receive, Scope, Send

from banyan.api.context import Limits
from banyan.api.door import Door, Seat
from banyan.api.faults import INTERNAL, NotJson, TooLarge, TooSlow
from banyan.api.intake import (
    GIVEN_ID,
    WHOLE,
    Disconnected,
    RawQuery,
    body_size,
    check_head,
    check_path,
    nothing,
    raw_query,
    receive_body,
    unread,
)
from banyan.api.measure import Meter
from banyan.api.openstack import faults
from banyan.api.openstack.call import Answer, Call, Gate, Offered, Reply, Surfaces
from banyan.api.openstack.microversion import UNVERSIONED, Version
from banyan.api.openstack.service import Service
from banyan.api.openstack.table import OPEN, Operation, by_key, choose
from banyan.core.errors import BadInput, BanyanError, Broken, Refused, Unauthenticated, Unreachable
from banyan.core.identity import Caller
from banyan.core.ids import RISING_CHANCE, rising_id
from banyan.core.permissions import could, forbidden
from banyan.core.ports import Clock, Ids
from banyan.core.principal import AllowedRequest, Principal

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("banyan.api")

_HOST = re.compile(r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?\Z")
_ALWAYS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_NO_TOKEN = "The request you have made requires authentication."
# JSON may spell it, no database takes it.
_NUL = b"\\u0000"


@dataclass(frozen=True, slots=True)
class Face:
    """How the cloud shows itself. `public_url`: scheme, host and port for links and the catalogue; "" takes the
    client's own Host header. `listen`: the same for those who gave none. `region` stands in every catalogue row."""

    public_url: str = ""
    listen: str = "https://127.0.0.1:8780"
    region: str = "RegionOne"


# Journals a refusal: who (None is a stranger), from where, at what, which error.
Refusals = Callable[[Caller | None, str, str, str], Awaitable[None]]


def new_id(ids: Ids, clock: Clock) -> str:
    """A request id in the form that OpenStack's clients and their logs know. It rises with the machine's time, since
    rows are found by it."""
    raw = rising_id(clock.wall(), ids.token(RISING_CHANCE))
    return f"req-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"


class Cloud:
    """The OpenStack services of one zone, on the port of its own API."""

    def __init__(
        self,
        services: Iterable[Service],
        gate: Gate,
        refusals: Refusals,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        meter: Meter,
        face: Face = Face(),
        surfaces: Surfaces = Surfaces(),  # noqa: B008 - frozen
    ) -> None:
        self.surfaces = surfaces
        self.services = {service.prefix: service for service in services}
        self.offered = tuple(Offered(one.prefix, one.title, one.endpoint) for one in self.services.values())
        self.gate = gate
        self.refusals = refusals
        self.clock = clock
        self.ids = ids
        self.limits = limits
        self.meter = meter
        self.face = face

    def service(self, path: str) -> Service | None:
        """The service that `path` belongs to."""
        return self.services.get(path[1:].partition("/")[0]) if path.startswith("/") else None

    async def serve(
        self, service: Service, scope: Scope, receive: Receive, send: Send, door: Door, *, local: bool
    ) -> None:
        request = str(scope.get(GIVEN_ID) or new_id(self.ids, self.clock))
        began = self.clock.now()
        work = _Request(self, service, scope, receive, request, local)
        seat = Seat(door, work.address)
        try:
            status, head, body = await work.answer(seat)
            whole = scope.get(WHOLE) if work.stream is None and scope["method"] != "HEAD" else None
            if whole is None or not whole(status, head, body):
                await send({"type": "http.response.start", "status": status, "headers": head})
                if scope["method"] == "HEAD":
                    body = b""
                elif work.stream is not None and not await self._streamed(work, receive, send):
                    return
                await send({"type": "http.response.body", "body": body})
            self.meter.count(work.name, status, self.clock.now() - began)
        except Disconnected:
            return
        finally:
            if work.stream is not None and hasattr(work.stream, "aclose"):
                await work.stream.aclose()
            seat.leave()

    async def fail(self, service: Service, scope: Scope, send: Send, error: BanyanError) -> None:
        """Answers a request with `error`, as the service words it, without looking at it any further."""
        work = _Request(self, service, scope, nothing, str(scope.get(GIVEN_ID) or new_id(self.ids, self.clock)), False)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        status, head, body = work.failed(error, headers)
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
        self.meter.count(work.name, status, 0.0)

    async def _streamed(self, work: _Request, receive: Receive, send: Send) -> bool:
        """False if it was broken off: an answer that never becomes whole, which the client can tell from its length."""
        assert work.stream is not None
        gone = asyncio.ensure_future(_gone(receive))
        try:
            async for chunk in work.stream:
                if gone.done():
                    return False
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except BanyanError as error:
            log.warning(
                "answer broken off", request=work.request, route=work.name, code=error.code, detail=error.detail
            )
            return False
        finally:
            gone.cancel()
        return True


async def _gone(receive: Receive) -> None:
    """Returns when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class _Request:
    """One request on its way to an answer."""

    def __init__(
        self, cloud: Cloud, service: Service, scope: Scope, receive: Receive, request: str, local: bool
    ) -> None:
        self.cloud = cloud
        self.service = service
        self.scope = scope
        self.receive = receive
        self.request = request
        self.local = local
        self.name = f"{service.prefix} none"
        self.action = ""
        self.path = ""
        self.stream: AsyncIterator[bytes] | None = None
        self.version = UNVERSIONED
        self.unread = unread(scope)
        client = scope.get("client")
        self.address: str = client[0] if client else ""

    async def answer(self, seat: Seat) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Status, header lines, body. Never raises but Disconnected."""
        who: Principal | None = None
        headers: Mapping[str, str] = {}
        try:
            headers = check_head(self.scope, self.cloud.limits)
            rows, values = self._rows()
            await seat.enter(False)
            self.version = self._negotiate(rows, headers)
            rows = choose(rows, self.version)
            row = rows[0]
            self.name = f"{self.service.prefix} {row.name if len(rows) == 1 else row.method + ' ' + row.path}"
            async with asyncio.timeout(row.deadline or self.cloud.limits.deadline):
                if row.action != OPEN:
                    who = await self._prove(headers)
                return await self._run(rows, values, who, headers, seat)
        except TimeoutError:
            error: BanyanError = Unreachable(
                "deadline", "no complete answer came in time; what was asked for may have happened", transient=True
            )
        except BanyanError as failure:
            error = failure
        except Disconnected:
            raise
        except Exception:  # the edge of the program: the caller gets an id, the log the rest
            log.exception("request failed", request=self.request, route=self.name)
            error = INTERNAL
        await self._note(who, error)
        return self.failed(error, headers)

    def failed(self, error: BanyanError, headers: Mapping[str, str]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        failed = faults.failure(error, self.request, headers.get("accept", ""))
        body, media = self.service.style(failed)
        challenge = f"{self._base(headers)}/identity"
        head = [*faults.head(error, challenge), (b"content-type", media.encode())]
        return error.status, self._head(head, len(body)), body

    def _rows(self) -> tuple[Sequence[Operation], tuple[str, ...]]:
        """By the path as it was sent: a slash that was percent-encoded is part of a name."""
        path: str = check_path(self.scope["path"], strict=False)
        raw = self.scope.get("raw_path")
        if raw and b"%" in raw:
            path = raw.decode("latin-1")
        self.path = path[len(self.service.prefix) + 1 :]
        return self.service.table.find(self.scope["method"], self.path)

    def _negotiate(self, rows: Sequence[Operation], headers: Mapping[str, str]) -> Version:
        """Discovery answers whatever version is asked for: it is where a client learns which there are."""
        versions = self.service.microversions
        return UNVERSIONED if versions is None or rows[0].action == OPEN else versions.negotiate(headers)

    async def _prove(self, headers: Mapping[str, str]) -> Principal:
        token = headers.get("x-auth-token", "")
        if not token:
            if self.local:
                return self.cloud.gate.local(self.address or "unknown", self.request)
            raise Unauthenticated("no-token", _NO_TOKEN)
        return await self.cloud.gate.authenticate(token, self.address, self.request)

    async def _run(
        self,
        rows: Sequence[Operation],
        values: tuple[str, ...],
        who: Principal | None,
        headers: Mapping[str, str],
        seat: Seat,
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        row = rows[0]
        if len(rows) == 1:
            self._permit(row, who)
        query = raw_query(self.scope["query_string"], strict=False)
        content, chunks = b"", None
        if row.streamed:
            chunks = self._chunks(row, headers)
        else:
            if self.unread:
                most = max(r.most for r in rows)
                coming = receive_body(self.receive, headers, most, self.cloud.limits.body_wait, row.kinds)
                content = await seat.whole(body_size(headers, most), coming)
                self.unread = False
            if _NUL in content:
                raise BadInput("bad-text", "a text may hold any character but NUL (U+0000)")
        if len(rows) > 1 or row.key:
            row = by_key(rows, content)
            self.name = f"{self.service.prefix} {row.name}"
            self._permit(row, who)
        call = self._call(row, values, query, headers, who, content, chunks)
        return self._answered(row, await row.run(call))

    def _permit(self, row: Operation, who: Principal | None) -> None:
        """What can be said without the target; the zone looks again when it knows it."""
        self.action = row.action
        if who is not None and who.only is not None and not self._allowed(who.only):
            raise Refused(
                "forbidden", "the application credential of this token has access rules, and none of them allows this"
            )
        if who is not None and row.action != OPEN and not could(who, row.action):
            raise forbidden(who, row.action)

    def _allowed(self, only: tuple[AllowedRequest, ...]) -> bool:
        """One's own token may be looked at and ended whatever the rules say."""
        service = self.service.prefix
        if service == "identity" and self.path.startswith("/v3/auth/"):
            return True
        return any(rule.fits(service, self.scope["method"], self.path) for rule in only)

    def _call(
        self,
        row: Operation,
        values: tuple[str, ...],
        query: RawQuery,
        headers: Mapping[str, str],
        who: Principal | None,
        content: bytes,
        chunks: AsyncIterator[bytes] | None,
    ) -> Call:
        return Call(
            who=who,
            request=self.request,
            address=self.address,
            params=dict(zip(row.parameters, values, strict=True)),
            query=query,
            headers=headers,
            version=self.version,
            base=self._base(headers),
            service=self.service.prefix,
            region=self.cloud.face.region,
            surfaces=self.cloud.surfaces,
            offered=self.cloud.offered,
            content=content,
            chunks=chunks,
        )

    def _answered(self, row: Operation, answer: Answer) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        reply = answer if isinstance(answer, Reply) else Reply(answer)
        status = reply.status or row.status
        head = [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
        if reply.stream is not None:
            self.stream = reply.stream
            head.append((b"content-type", reply.media.encode()))
            return status, self._head(head, reply.length), b""
        if reply.body is None:
            return status, self._head(head, None if status == 204 else 0), b""
        body = reply.body if isinstance(reply.body, bytes) else msgspec.json.encode(reply.body)
        head.append((b"content-type", reply.media.encode()))
        return status, self._head(head, len(body)), body

    def _head(self, head: list[tuple[bytes, bytes]], length: int | None) -> list[tuple[bytes, bytes]]:
        request = self.request.encode()
        for name in self.service.id_lines:
            head.append((name, request))
        head.extend(_ALWAYS)
        versions = self.service.microversions
        if versions is not None and self.version != UNVERSIONED:
            head.extend(versions.answered(self.version))
        if length is not None:
            head.append((b"content-length", str(length).encode()))
        if self.unread:
            head.append((b"connection", b"close"))
        return head

    def _base(self, headers: Mapping[str, str]) -> str:
        face = self.cloud.face
        if face.public_url:
            return face.public_url
        host = headers.get("host", "")
        if self.local or not _HOST.match(host):
            return face.listen
        return f"{self.scope.get('scheme', 'http')}://{host}"

    async def _chunks(self, row: Operation, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The body as it comes, at most `row.most` bytes; each piece within the listener's `body_wait`."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if row.kinds and kind not in row.kinds:
            raise NotJson("wrong-media", f"a body here must be {' or '.join(row.kinds)}, got {kind[:80]!r}")
        size = 0
        while True:
            try:
                async with asyncio.timeout(self.cloud.limits.body_wait):
                    message = await self.receive()
            except TimeoutError as error:
                raise TooSlow("slow-body", f"the body stopped coming after {size} bytes") from error
            if message["type"] == "http.disconnect":
                raise Disconnected
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > row.most:
                raise TooLarge("large-body", f"a body here may have {row.most} bytes, this one has more")
            if part:
                yield part
            if not message.get("more_body", False):
                self.unread = False
                return

    async def _note(self, who: Principal | None, error: BanyanError) -> None:
        """Refusals are journalled by the zone, which bounds how many; what broke is logged here."""
        if isinstance(error, Broken) and error is not INTERNAL:
            log.warning(
                "request not served", request=self.request, route=self.name, code=error.code, detail=error.detail
            )
        if isinstance(error, Unauthenticated) or error.code == "forbidden":
            caller = None if who is None else who.caller()
            try:
                await self.cloud.refusals(caller, self.address, self.action or self.name, error.code)
            except BanyanError as failure:
                log.warning("refusal not journalled", request=self.request, code=failure.code)
