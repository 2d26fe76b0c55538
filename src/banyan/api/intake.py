"""Reading a request: its size, its query, its body. Everything is bounded before it is believed.

Unknown query parameters and unknown body fields are errors: a mistyped filter must never select more than was
meant. Nothing here knows a route or a caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Message, Receive, Scope

from banyan.api.context import Limits
from banyan.api.faults import LongAddress, LongHeaders, NotJson, TooLarge, TooSlow
from banyan.core.errors import BadInput

S = TypeVar("S", bound=msgspec.Struct)
RawQuery = Mapping[str, tuple[str, ...]]
MAX_FIELDS = 64
# Where a scope holds a request's id that was settled before: never set from what a caller sent.
GIVEN_ID = "banyan.request"
# And what writes a whole answer at once (protocol.py), where its listener has that.
WHOLE = "banyan.whole"


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A route that takes no query parameters."""


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A route that takes no body, or an empty object."""


class Disconnected(Exception):
    """The caller went before its request was whole; there is nobody to answer."""


def unread(scope: Scope) -> bool:
    """Whether a body may be on its way."""
    for name, _ in scope["headers"]:  # noqa: SIM110 - of each request; a generator costs more
        if name == b"content-length" or name == b"transfer-encoding":
            return True
    return False


async def nothing() -> Message:
    """The `receive` of a request of which nothing more is read."""
    return {"type": "http.disconnect"}


def check_head(scope: Scope, limits: Limits) -> Mapping[str, str]:
    """The headers by lower-case name, after the address and the header lines were found within bounds.

    Of a header that comes twice the first is kept; a credential or Content-Length twice is refused.
    """
    address = len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"])
    if address > limits.address:
        raise LongAddress("long-address", f"path and query may have {limits.address} bytes, got {address}")
    lines: list[tuple[bytes, bytes]] = scope["headers"]
    size = 4 * len(lines)
    for name, value in lines:
        size += len(name) + len(value)
    if size > limits.headers or len(lines) > limits.header_lines:
        raise LongHeaders(
            "long-headers",
            f"a request may have {limits.header_lines} header lines of {limits.headers} bytes together, "
            f"got {len(lines)} of {size}",
        )
    headers: dict[str, str] = {}
    for raw_name, raw_value in lines:
        header = raw_name.decode("latin-1")
        if header not in headers:
            headers[header] = raw_value.decode("latin-1")
        elif header in ("authorization", "content-length", "x-auth-token"):
            raise BadInput("repeated-header", f"a request may have one {header} header, got several")
    return headers


_CHARACTERS: Final = {True: "printable characters only", False: "no NUL"}


def check_path(path: str, *, strict: bool = True) -> str:
    """`path` if every character can be shown. Not `strict`: if every one can be in a name, as in `raw_query`."""
    if not path.isprintable() and (strict or "\0" in path):
        raise BadInput("bad-address", f"a path holds {_CHARACTERS[strict]}")
    return path


def raw_query(query: bytes, *, strict: bool = True) -> RawQuery:
    """The parameters of a query string, each with its values in order. Not `strict`: one may come without a value, and
    may be whatever a service takes for a name, so that what can be made can be looked for; what is logged is made
    printable there."""
    if not query:
        return {}
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=strict and bool(query),
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError as error:
        raise BadInput(
            "bad-query", f"a query is name=value&…, percent-encoded UTF-8, at most {MAX_FIELDS} values"
        ) from error
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        both = name + value
        if not both.isprintable() and (strict or "\0" in both):
            raise BadInput("bad-query", f"query parameters hold {_CHARACTERS[strict]}")
        values.setdefault(name, []).append(value)
    return {name: tuple(all_of) for name, all_of in values.items()}


def read_query(raw: RawQuery, into: type[S]) -> S:
    """`raw` as an `into`. Only fields typed as tuples may come more than once."""
    hints = get_type_hints(into)
    found: dict[str, str | tuple[str, ...]] = {}
    for name, values in raw.items():
        if name not in hints:
            known = ", ".join(sorted(hints)) or "none"
            raise BadInput("unknown-parameter", f"query parameter {name[:80]!r} is not known here; known are: {known}")
        if get_origin(hints[name]) is tuple:
            found[name] = values
        elif len(values) > 1:
            raise BadInput("repeated-parameter", f"query parameter {name!r} may come once, got {len(values)}")
        else:
            found[name] = values[0]
    try:
        return msgspec.convert(found, into, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput("bad-parameter", f"a query parameter does not fit: {str(error)[:300]}") from error


def read_body(content: bytes, into: type[S]) -> S:
    """`content` as an `into`; nothing at all is an empty object."""
    try:
        return msgspec.json.decode(content or b"{}", type=into)
    except msgspec.ValidationError as error:
        raise BadInput("bad-body", f"the body does not fit: {str(error)[:300]}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput("bad-json", "the body must be one JSON object in UTF-8") from error


def body_size(headers: Mapping[str, str], most: int) -> int:
    """How many bytes a body may still have that is taken up to `most`."""
    length = headers.get("content-length", "")
    return min(int(length), most) if length.isascii() and length.isdigit() and len(length) < 19 else most


async def receive_body(
    receive: Receive, headers: Mapping[str, str], most: int, wait: float, kinds: Sequence[str] = ("application/json",)
) -> bytes:
    """The whole body, at most `most` bytes, within `wait` seconds, of one of these media types.

    Raises TooLarge (before reading, where the length is told), NotJson, TooSlow, Disconnected.
    """
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > most:
        raise TooLarge("large-body", f"a body here may have {most} bytes, this one has {length[:20]}")
    kind = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(wait):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > most:
                    raise TooLarge("large-body", f"a body here may have {most} bytes, this one has more")
                parts.append(part)
                if not message.get("more_body", False):
                    break
    except TimeoutError as error:
        raise TooSlow("slow-body", f"a body must arrive within {wait:g} seconds; {size} bytes came") from error
    content = b"".join(parts)
    if content and kind not in kinds:
        raise NotJson("not-json", f"a body must be {' or '.join(kinds)}, got {kind[:80]!r}")
    return content
