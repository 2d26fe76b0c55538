"""What a row of the route table is, and how a request finds its row.

405s, discovery, the OpenAPI document, the permissions page and the authorisation test all come from rows, so that
none of them can disagree with what is served. The rows are in routes.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec
from starlette.responses import Response

from banyan.api.context import SMALL_BODY, Context
from banyan.api.faults import NoRoute, NotAllowed
from banyan.api.intake import NoBody, NoQuery, RawQuery, read_body, read_query
from banyan.core.identity import Role

Method = Literal["GET", "POST", "PUT", "DELETE"]
Answer = msgspec.Struct | Response | None
Q = TypeVar("Q", bound=msgspec.Struct)
B = TypeVar("B", bound=msgspec.Struct)
Handler = Callable[[Context, Q, B], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """One row.

    `path` is a template; `{name}` takes one segment, `{name…}` takes one or more, so that zone paths keep their
    slashes. `action` is the word of the policy ("zone.disable"); `role` the least role, None where no credential
    is asked. `answer` is the type of the answer, of its items if `paged`; None with status 204. `media` is the
    answer's type if it is not JSON. `deadline`, if not 0, replaces Limits.deadline; `stream` has none. A `keyed`
    one may be repeated under a retry key.
    """

    method: Method
    path: str
    action: str
    role: Role | None
    summary: str
    run: Callable[[Context, RawQuery, bytes], Awaitable[Answer]]
    query: type[msgspec.Struct]
    body: type[msgspec.Struct]
    answer: type[msgspec.Struct] | None
    paged: bool = False
    status: int = 200
    media: str = "application/json"
    most: int = SMALL_BODY
    deadline: float = 0.0
    stream: bool = False
    keyed: bool = False

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the path's parameters, in order."""
        return tuple(s.strip("{}…") for s in self.path.split("/") if s.startswith("{"))

    @property
    def template(self) -> str:
        """The path as OpenAPI writes it."""
        return self.path.replace("…", "")


def route(
    method: Method,
    path: str,
    handler: Handler[Q, B],
    action: str,
    role: Role | None,
    summary: str,
    *,
    query: type[Q] = NoQuery,  # type: ignore[assignment]  # the default stands for the handler's own type
    body: type[B] = NoBody,  # type: ignore[assignment]  # NoBody is a B where a row names none
    answer: type[msgspec.Struct] | None = None,
    paged: bool = False,
    status: int = 200,
    media: str = "application/json",
    most: int = SMALL_BODY,
    deadline: float = 0.0,
    stream: bool = False,
    keyed: bool = False,
) -> Route:
    """A row around a handler, whose query and body types are forgotten here and nowhere else."""

    async def run(context: Context, raw: RawQuery, content: bytes) -> Answer:
        return await handler(context, read_query(raw, query), read_body(content, body))

    return Route(
        method,
        path,
        action,
        role,
        summary,
        run,
        query,
        body,
        answer,
        paged,
        status,
        media,
        most,
        deadline,
        stream,
        keyed,
    )


class Router:
    """Finds a row. Literal segments win over parameters, one-segment parameters over long ones."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._fixed: dict[str, dict[str, Route]] = {}
        self._open: dict[tuple[str, ...], dict[str, Route]] = {}
        for row in routes:
            held: dict[str, Route]
            if "{" in row.path:
                held = self._open.setdefault(tuple(row.path.strip("/").split("/")), {})
            else:
                held = self._fixed.setdefault(row.path, {})
            if row.method in held:
                raise ValueError(f"two rows for {row.name}")
            held[row.method] = row
        # The more literal segments, the earlier: …/actions/disable before {path…}.
        self._order = sorted(self._open, key=lambda t: (-sum(not s.startswith("{") for s in t), t))

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """The row and the path's parameters. HEAD is GET, but not of a stream. Raises NoRoute or NotAllowed."""
        row, params = self._find("GET" if method == "HEAD" else method, method, path)
        if row.stream and method == "HEAD":
            raise NotAllowed(method, path[:200], ("GET",))
        return row, params

    def _find(self, wanted: str, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        there: set[str] = set()
        held = self._fixed.get(path)
        if held is not None:
            if wanted in held:
                return held[wanted], {}
            there |= held.keys()
        segments = tuple(path.strip("/").split("/"))
        if path.startswith("/") and all(segments):
            for template in self._order:
                params = match(template, segments)
                if params is None:
                    continue
                if wanted in self._open[template]:
                    return self._open[template][wanted], params
                there |= self._open[template].keys()
        if there:
            allow = sorted(there | ({"HEAD"} if "GET" in there else set()))
            raise NotAllowed(method, path[:200], allow)
        raise NoRoute("no-route", f"no such address: {path[:200]!r}; GET /v1 lists what there is")


def match(template: tuple[str, ...], segments: tuple[str, ...]) -> Mapping[str, str] | None:
    """The parameters if `segments` fit `template`, which holds at most one long parameter."""
    params: dict[str, str] = {}
    i = 0
    for at, part in enumerate(template):
        if part.endswith("…}"):
            rest = len(template) - at - 1
            end = len(segments) - rest
            if end <= i:
                return None
            params[part[1:-2]] = "/".join(segments[i:end])
            i = end
        elif i >= len(segments):
            return None
        elif part.startswith("{"):
            params[part[1:-1]] = segments[i]
            i += 1
        elif part != segments[i]:
            return None
        else:
            i += 1
    return params if i == len(segments) else None
