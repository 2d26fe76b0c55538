"""HTTP to a zone: over its local socket, or over TLS with a token. Answers become views, errors become BanyanErrors.

Every wait has a deadline; redirects are not followed; nothing is retried. What the zone's answer says of itself is
believed only in its documented shape.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec

from banyan.cli.target import Remote, Socket
from banyan.core.errors import (
    BadInput,
    BanyanError,
    Broken,
    Conflict,
    NotFound,
    Refused,
    Unauthenticated,
    Unreachable,
)
from banyan.core.shares import RETRY_HEADER
from banyan.zone.views import PageView

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
Query = Mapping[str, str | int | tuple[str, ...] | None]

SOCKET_NAME = "control.sock"
MAX_SOCKET_PATH = 107
CONNECT_WAIT = 5.0
# The zone gives up on an answer after 30 s and says so; a long poll lasts up to 50 s.
ANSWER_WAIT = 90.0
PAGE = 1000


class Fault(msgspec.Struct, frozen=True):
    code: str
    text: str
    request: str = ""


class FaultBody(msgspec.Struct, frozen=True):
    error: Fault


class CloudFault(msgspec.Struct, frozen=True):
    """As the OpenStack identity API words one."""

    code: int
    message: str


class CloudFaultBody(msgspec.Struct, frozen=True):
    error: CloudFault


class Event(msgspec.Struct, frozen=True):
    """One Server-Sent Event. `id` is the number of a journal line."""

    name: str
    id: str
    data: bytes


class Client:
    """`absent` collects the paths that lists could not ask; exit status 6 comes of it."""

    def __init__(self, http: httpx.Client, place: str) -> None:
        self._http = http
        self._place = place
        self.absent: list[str] = []

    def get(self, path: str, into: type[T], **query: str | int | tuple[str, ...] | None) -> T:
        return self._decode(self._send("GET", path, query), into)

    def text(self, path: str) -> str:
        """Of what is no JSON: /metrics."""
        return self._send("GET", path, {}).text

    def post(self, path: str, body: object, into: type[T], retry_key: str = "", query: Query | None = None) -> T:
        """With a `retry_key` it may be said again."""
        headers = {RETRY_HEADER: retry_key} if retry_key else {}
        return self._decode(self._send("POST", path, query or {}, body, headers), into)

    def put(self, path: str, body: object, into: type[T]) -> T:
        return self._decode(self._send("PUT", path, {}, body), into)

    def delete(self, path: str) -> None:
        self._send("DELETE", path, {})

    def delete_into(self, path: str, into: type[T]) -> T:
        """Of what is answered with what becomes of it."""
        return self._decode(self._send("DELETE", path, {}), into)

    def raw_pages(self, path: str, limit: int | None, query: Query) -> Iterator[msgspec.Raw]:
        """The items of a list, page after page until `limit` or the end, as raw JSON.

        A `marker` in `query` is where the first page begins.
        """
        left, marker = limit, query.get("marker") or ""
        while left is None or left > 0:
            asked = PAGE if left is None else min(PAGE, left)
            page = self.get(path, PageView, **{**query, "limit": asked, "marker": marker or None})
            self.absent += [name for name in page.absent if name not in self.absent]
            yield from page.items[:asked]
            if left is not None:
                left -= len(page.items)
            if not page.marker or page.marker == marker:
                return
            marker = page.marker

    def pages(self, path: str, item: type[T], limit: int | None, query: Query) -> Iterator[T]:
        for raw in self.raw_pages(path, limit, query):
            yield self._item(bytes(raw), item)

    def events(self, path: str, last: str, query: Query) -> Iterator[Event]:
        """Server-Sent Events until the zone ends the stream. Raises as other calls do."""
        import httpx

        headers = {"Last-Event-ID": last} if last else {}
        wait = httpx.Timeout(CONNECT_WAIT, read=60.0)
        with (
            self._convert(),
            self._http.stream("GET", path, params=_params(query), headers=headers, timeout=wait) as reply,
        ):
            if reply.status_code != 200:
                reply.read()
                raise self._fault(reply)
            yield from read_events(reply.iter_lines())

    def _send(
        self, method: str, path: str, query: Query, body: object = None, more: Mapping[str, str] | None = None
    ) -> httpx.Response:
        content = None if body is None else msgspec.json.encode(body)
        headers = {**(more or {})} if content is None else {"Content-Type": "application/json", **(more or {})}
        with self._convert():
            reply = self._http.request(method, path, params=_params(query), content=content, headers=headers)
        if not reply.is_success:
            raise self._fault(reply)
        return reply

    def _decode(self, reply: httpx.Response, into: type[T]) -> T:
        return self._item(reply.content, into)

    def _item(self, content: bytes, into: type[T]) -> T:
        try:
            return msgspec.json.decode(content, type=into)
        except msgspec.MsgspecError as error:
            raise Broken(
                "strange-answer", f"{self._place} answered something that is not of this API ({error}); is it a zone?"
            ) from error

    def _fault(self, reply: httpx.Response) -> BanyanError:
        try:
            fault = msgspec.json.decode(reply.content, type=FaultBody).error
        except msgspec.MsgspecError:
            fault = self._cloud_fault(reply)
        kinds: dict[int, type[BanyanError]] = {
            401: Unauthenticated, 403: Refused, 404: NotFound, 409: Conflict, 500: Broken,
            502: Unreachable, 503: Unreachable, 504: Unreachable,
        }  # fmt: skip
        kind = kinds.get(reply.status_code, BadInput if reply.status_code < 500 else Broken)
        text = f"{fault.text} (request {fault.request})" if reply.status_code >= 500 and fault.request else fault.text
        return kind(fault.code, text)

    def _cloud_fault(self, reply: httpx.Response) -> Fault:
        try:
            return Fault("cloud", msgspec.json.decode(reply.content, type=CloudFaultBody).error.message)
        except msgspec.MsgspecError:
            return Fault("strange-answer", f"{self._place} answered HTTP {reply.status_code}; is it a zone's API?")

    @contextmanager
    def _convert(self) -> Iterator[None]:
        """Failures of the connection as errors that say what to do."""
        import httpx

        try:
            yield
        except httpx.ConnectError as error:
            raise self._unconnected(error) from error
        except httpx.TimeoutException as error:
            raise Unreachable(
                "no-answer", f"{self._place} did not answer in time; what was asked for may have happened"
            ) from error
        except httpx.HTTPError as error:
            raise Unreachable("connection-lost", f"the connection to {self._place} broke: {error}") from error

    def _unconnected(self, error: Exception) -> BanyanError:
        text = str(error)
        if "CERTIFICATE_VERIFY_FAILED" in text or "certificate verify failed" in text:
            return Refused(
                "not-trusted",
                f"the certificate of {self._place} is not signed by a CA that is trusted here; "
                "give a copy of the zone's own certificate (api.pem in its data folder) with --ca-file",
            )
        return Unreachable("cannot-connect", f"nothing answers at {self._place}: {text}")


class LocalClient(Client):
    def _unconnected(self, error: Exception) -> BanyanError:
        if "Permission denied" in str(error):
            return Refused(
                "not-yours",
                f"{self._place} belongs to another user; run this as that user or as root, or use --url with a token",
            )
        return Unreachable(
            "not-running", f"no zone runs on {self._place}; start it with `banyan serve --data {self._place}`"
        )


@contextmanager
def connect(where: Socket | Remote) -> Iterator[Client]:
    """A client for `where`. No connection is made before the first call."""
    import httpx

    timeout = httpx.Timeout(ANSWER_WAIT, connect=CONNECT_WAIT)
    if isinstance(where, Socket):
        handle = -1
        try:
            path = str(where.folder / SOCKET_NAME)
            if len(os.fsencode(path)) > MAX_SOCKET_PATH and where.folder.is_dir():
                # Too long for a socket address: the kernel finds the folder by its descriptor instead.
                handle = os.open(where.folder, os.O_RDONLY | os.O_DIRECTORY)
                path = f"/proc/self/fd/{handle}/{SOCKET_NAME}"
            # There is no TLS on the socket; a bare context spares reading all of the system's CAs.
            transport = httpx.HTTPTransport(uds=path, verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
            with httpx.Client(transport=transport, base_url="http://zone", timeout=timeout, trust_env=False) as http:
                yield LocalClient(http, str(where.folder))
        finally:
            if handle >= 0:
                os.close(handle)
        return
    headers = {"Authorization": f"Bearer {where.token.reveal().decode()}"}
    with httpx.Client(base_url=where.url, headers=headers, verify=trust(where.authority), timeout=timeout) as http:
        yield Client(http, where.url)


def trust(authority: Path | None) -> ssl.SSLContext:
    """TLS that believes in the CAs of `authority`, or in the system's. Raises BadInput."""
    try:
        context = ssl.create_default_context(cafile=str(authority) if authority else None)
    except (OSError, ssl.SSLError) as error:
        raise BadInput("bad-file", f"--ca-file {authority} must be a file of certificates in PEM: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def segment(text: str) -> str:
    """`text` as one segment of a path, slashes and all: no name that is typed can become another address."""
    if text in (".", ".."):
        raise BadInput("bad-name", f"{text!r} is no name; a zone is named by its path, its last part, or its code")
    return quote(text, safe="")


def read_events(lines: Iterator[str]) -> Iterator[Event]:
    """The events of a stream (WHATWG HTML, 9.2.6), without retry and without comments."""
    name, number, data = "message", "", ""
    for line in lines:
        if not line:
            if data:
                yield Event(name, number, data.encode())
            name, data = "message", ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "id":
                number = value
            case "data":
                data += value


def _params(query: Query) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        if isinstance(value, tuple):
            pairs += [(name, one) for one in value]
        elif value is not None and value != "":
            pairs.append((name, str(value)))
    return tuple(pairs)
