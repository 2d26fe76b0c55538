"""Errors as HTTP: the one place that maps the tree of core.errors to a status and a body.

    {"error": {"code": "no-zone", "text": "…", "request": "req-…"}}

What is not a BanyanError never shows its text: the caller gets a request id, the log has the rest under it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from starlette.responses import Response

from banyan.core.errors import BadInput, BanyanError, Broken, Unauthenticated, Unreachable

REQUEST_ID = "X-Banyan-Request-Id"


class NoRoute(BadInput):
    """No route has this path."""

    status: ClassVar[int] = 404


class NotAllowed(BadInput):
    """The path is there, for other methods: `allow`."""

    status: ClassVar[int] = 405

    def __init__(self, method: str, path: str, allow: Sequence[str]) -> None:
        super().__init__("method-not-allowed", f"{path} takes {', '.join(allow)}, got {method[:20]}")
        self.allow = tuple(allow)


class TooSlow(BadInput):
    """The request did not arrive in time."""

    status: ClassVar[int] = 408


class TooLarge(BadInput):
    """The body is over the route's limit."""

    status: ClassVar[int] = 413


class LongAddress(BadInput):
    """The path and query are over the limit."""

    status: ClassVar[int] = 414


class NotJson(BadInput):
    """The body says that it is something else than JSON."""

    status: ClassVar[int] = 415


class LongHeaders(BadInput):
    """The header lines are over the limit."""

    status: ClassVar[int] = 431


class Busy(Unreachable):
    """As many requests are in work as this zone takes at a time."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            "busy",
            f"this zone works on at most {limit} requests at a time and has that many now; try again in a second",
            transient=True,
            retry_after=1.0,
        )


class BusyWithBodies(Unreachable):
    """So many bytes are on their way from one address, or from all, as this zone waits for at a time."""

    def __init__(self, share: int) -> None:
        super().__init__(
            "busy",
            f"this zone waits for bodies of at most {share} bytes from one address at a time, and from all together "
            "for four times as much; send what was begun, or try again in a second",
            transient=True,
            retry_after=1.0,
        )


INTERNAL = Broken("internal", "something failed inside the zone; its log has the reason under this request id")


class Fault(msgspec.Struct, frozen=True):
    """`code` is stable and kebab-case; `text` is for people; `request` is this request's id."""

    code: str
    text: str
    request: str


class FaultBody(msgspec.Struct, frozen=True):
    """The body of every answer that is not 2xx."""

    error: Fault


def fault(error: BanyanError, request: str) -> FaultBody:
    return FaultBody(Fault(error.code, error.text, request))


def response(error: BanyanError, request: str) -> Response:
    """The answer for `error`, with Retry-After, Allow and WWW-Authenticate where they belong."""
    headers: dict[str, str] = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    elif error.status == 503:
        headers["Retry-After"] = "1"
    if isinstance(error, NotAllowed):
        headers["Allow"] = ", ".join(error.allow)
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="banyan"'
    return Response(
        msgspec.json.encode(fault(error, request)), error.status, headers=headers, media_type="application/json"
    )
