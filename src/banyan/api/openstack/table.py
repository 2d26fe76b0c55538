"""Rows of an OpenStack API, and how a request finds its row: by path, method, microversion and, for actions, body.

    op("GET", "/v3/users/{user_id}", users.show, "identity:get_user")
    op_with("POST", "/v3/users", users.create, "identity:create_user", body=UserCreate, status=201)
    op_with("POST", "/v2.1/servers/{server_id}/action", servers.start, "…", key="os-start", body=Nothing, status=202)

405s with Allow, the document of what is offered and the authorisation tests come from the rows. `/x/` is not `/x`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from banyan.api.context import SMALL_BODY
from banyan.api.faults import NoRoute, NotAllowed
from banyan.api.intake import read_body
from banyan.api.openstack.call import Answer, Call
from banyan.api.openstack.microversion import UNVERSIONED, Version, parse
from banyan.core.errors import BadInput

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]
B = TypeVar("B")
Run = Callable[[Call], Awaitable[Answer]]
JSON_KINDS = ("application/json",)

# Of a row that asks for no token.
OPEN = ""


class Nothing(msgspec.Struct, frozen=True):
    """A body, or the value of an action's key, that says nothing: {} or null."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One row.

    `path` is below the service's prefix; `{name}` takes one segment, never an empty one. `action` is the policy's
    word, OPEN where no token is asked. `first` to `last` are the microversions in which the row is there. `key`: of
    rows that share a path, the one whose body has this as its only key. `kinds`: media types of the body; `most` its
    size in bytes; `streamed`: the handler reads it by itself, up to `most`. `deadline`, if not 0, replaces the
    listener's.
    """

    method: Method
    path: str
    action: str
    run: Run
    status: int = 200
    first: Version = UNVERSIONED
    last: Version | None = None
    key: str = ""
    kinds: tuple[str, ...] = JSON_KINDS
    most: int = SMALL_BODY
    streamed: bool = False
    deadline: float = 0.0
    summary: str = ""

    @property
    def parameters(self) -> tuple[str, ...]:
        return _parameters(self.path)

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}" + (f" {self.key}" if self.key else "")

    def holds(self, version: Version) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)


def op(
    method: Method,
    path: str,
    handler: Run,
    action: str,
    *,
    status: int = 200,
    first: str = "",
    last: str = "",
    kinds: tuple[str, ...] = JSON_KINDS,
    most: int = SMALL_BODY,
    streamed: bool = False,
    deadline: float = 0.0,
) -> Operation:
    """A row whose handler takes the call alone; a body, if one comes, is left in `call.content`."""
    since, until = parse(first) if first else UNVERSIONED, parse(last) if last else None
    summary = (handler.__doc__ or "").strip().partition("\n")[0]
    return Operation(method, path, action, handler, status, since, until, "", kinds, most, streamed, deadline, summary)


def op_with(
    method: Method,
    path: str,
    handler: Callable[[Call, B], Awaitable[Answer]],
    action: str,
    *,
    body: type[B],
    key: str = "",
    status: int = 200,
    first: str = "",
    last: str = "",
    kinds: tuple[str, ...] = JSON_KINDS,
    most: int = SMALL_BODY,
    deadline: float = 0.0,
) -> Operation:
    """A row whose handler takes the call and its body; with `key`, what stands under that key."""
    decode = body if not key else None

    async def run(call: Call) -> Answer:
        if decode is not None:
            return await handler(call, read_body(call.content, decode))  # type: ignore[type-var]  # msgspec's own types
        raw = msgspec.json.decode(call.content, type=dict[str, msgspec.Raw])[key]
        inner: bytes = b"{}" if bytes(raw) == b"null" and body is Nothing else bytes(raw)
        return await handler(call, read_body(inner, body))  # type: ignore[type-var]  # msgspec's own types

    since, until = parse(first) if first else UNVERSIONED, parse(last) if last else None
    summary = (handler.__doc__ or "").strip().partition("\n")[0]
    return Operation(method, path, action, run, status, since, until, key, kinds, most, False, deadline, summary)


@lru_cache(4_096)
def _parameters(path: str) -> tuple[str, ...]:
    return tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))


class _Node:
    """One place in the tree of paths."""

    __slots__ = ("literal", "open", "rows")

    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.open: _Node | None = None
        self.rows: dict[str, list[Operation]] = {}


class Table:
    """The rows of one service. Literal segments win over parameters."""

    def __init__(self, rows: Iterable[Operation]) -> None:
        self.rows = tuple(rows)
        self._root = _Node()
        # Paths without parameters, which win over others: found by the whole of it.
        self._plain: dict[tuple[str, str], list[Operation]] = {}
        for row in self.rows:
            node = self._root
            for part in row.path.split("/"):
                if part.startswith("{"):
                    node.open = node.open or _Node()
                    node = node.open
                else:
                    node = node.literal.setdefault(part, _Node())
            held = node.rows.setdefault(row.method, [])
            if any(_overlap(row, other) for other in held):
                raise ValueError(f"two rows for {row.name}")
            held.append(row)
            if not row.parameters:
                self._plain[row.method, row.path] = held

    def find(self, method: str, path: str) -> tuple[Sequence[Operation], tuple[str, ...]]:
        """The rows of a path for a method, of all versions and keys, and the values of the path's parameters.

        `path` is raw: what is percent-encoded in a segment stays in it. HEAD is GET unless it has a row of its own.
        Raises NoRoute, NotAllowed, BadInput("bad-address").
        """
        plain = self._plain.get((method, path))
        if plain is not None:
            return plain, ()
        segments = path.split("/")
        there: set[str] = set()
        for node, values in _walk(self._root, segments, 0):
            rows = node.rows.get(method) or (node.rows.get("GET") if method == "HEAD" else None)
            if rows:
                return rows, tuple(_decoded(segments[at]) for at in values)
            there |= node.rows.keys()
        if there:
            raise NotAllowed(method, path[:200], sorted(there | ({"HEAD"} if "GET" in there else set())))
        raise NoRoute("no-route", f"The resource could not be found: there is no address {path[:200]!r}")


def choose(rows: Sequence[Operation], version: Version) -> list[Operation]:
    """The rows that are there in `version`: one, or one per key. Raises NoRoute if there is none."""
    found = [row for row in rows if row.holds(version)]
    if not found:
        raise NoRoute("no-route", f"The resource could not be found: microversion {version} has no such call")
    return found


def by_key(rows: Sequence[Operation], content: bytes) -> Operation:
    """The row that the only key of the body names. Raises BadInput."""
    if len(rows) == 1 and not rows[0].key:
        return rows[0]
    body = decode_object(content)
    known = {row.key: row for row in rows}
    named = [key for key in body if key in known]
    if len(named) == 1 and len(body) == 1:
        return known[named[0]]
    if len(body) > 1:
        raise BadInput("bad-body", f"an action's body has one key, the action; got {len(body)}")
    got = next(iter(body), "nothing")
    raise BadInput("no-action", f"There is no such action: {got[:80]}")


def decode_object(content: bytes) -> Mapping[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput("bad-json", "the body must be one JSON object in UTF-8") from error


def _overlap(row: Operation, other: Operation) -> bool:
    if row.key != other.key:
        return not (row.key and other.key)
    return (other.last is None or row.first <= other.last) and (row.last is None or other.first <= row.last)


def _walk(node: _Node, segments: Sequence[str], at: int) -> Iterator[tuple[_Node, tuple[int, ...]]]:
    """Every node that the segments lead to, literal ones first, with the places of its parameters' values."""
    if at == len(segments):
        if node.rows:
            yield node, ()
        return
    part = segments[at]
    below = node.literal.get(part)
    if below is not None:
        yield from _walk(below, segments, at + 1)
    if node.open is not None and part:
        for found, values in _walk(node.open, segments, at + 1):
            yield found, (at, *values)


def _decoded(segment: str) -> str:
    """One segment, percent-decoded. Raises BadInput for what is no UTF-8, and for NUL."""
    if "%" not in segment:
        return segment
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as error:
        raise BadInput("bad-address", "a path is percent-encoded UTF-8") from error
    if "\0" in text:
        raise BadInput("bad-address", "a path holds no NUL")
    return text
