"""How each OpenStack service words a failure. Clients read these bodies, so their shapes are promises.

    identity   {"error": {"code", "message", "title"}}
    compute    {"itemNotFound": {"code", "message"}}       the key follows from the status
    network    {"NeutronError": {"type", "message", "detail"}}
    placement  {"errors": [{"status", "title", "detail", "code", "request_id"}]}
    image      {"message", "code", "title"}, or a line of text where JSON is not accepted

What becomes of an error is decided here and in core/errors.py; what is not a BanyanError is a 500 that says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar

import msgspec

from banyan.api.faults import NotAllowed
from banyan.core.errors import BadInput, BanyanError, Refused

JSON = "application/json"


class TooMany(Refused):
    """The caller asks too often, or for more than its quota allows in one call."""

    status: ClassVar[int] = 429


class Unsupported(BadInput):
    """The API has such a call, and this zone does not offer it."""

    status: ClassVar[int] = 501


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure, as a style words it. `accept`: what the client reads; `code` is ours, kebab-case."""

    status: int
    code: str
    text: str
    request: str
    accept: str = ""

    @property
    def title(self) -> str:
        return HTTPStatus(self.status).phrase


# The body's bytes and its media type.
Style = Callable[[Failure], tuple[bytes, str]]


def failure(error: BanyanError, request: str, accept: str) -> Failure:
    return Failure(error.status, error.code, error.text, request, accept)


def head(error: BanyanError, challenge: str) -> list[tuple[bytes, bytes]]:
    """The header lines that an error brings. `challenge`: where tokens are had, for a 401."""
    lines: list[tuple[bytes, bytes]] = []
    if error.retry_after is not None:
        lines.append((b"retry-after", str(max(1, math.ceil(error.retry_after))).encode()))
    elif error.status in (429, 503):
        lines.append((b"retry-after", b"1"))
    if isinstance(error, NotAllowed):
        lines.append((b"allow", ", ".join(error.allow).encode()))
    if error.status == 401:
        lines.append((b"www-authenticate", f'Keystone uri="{challenge}"'.encode()))
    return lines


def identity(failed: Failure) -> tuple[bytes, str]:
    body = {"error": {"code": failed.status, "message": failed.text, "title": failed.title}}
    return msgspec.json.encode(body), JSON


# nova/api/openstack/wsgi.py knows the same words; a quota is 403 with the key "forbidden".
_COMPUTE = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}


def compute(failed: Failure) -> tuple[bytes, str]:
    if failed.status == 401:
        return identity(failed)
    key = _COMPUTE.get(failed.status, "computeFault")
    return msgspec.json.encode({key: {"code": failed.status, "message": failed.text}}), JSON


def network(kinds: Mapping[str, str]) -> Style:
    """`kinds`: our error codes → Neutron's names for them ("no-network" → "NetworkNotFound")."""

    def style(failed: Failure) -> tuple[bytes, str]:
        if failed.status == 401:
            return identity(failed)
        kind = kinds.get(failed.code) or f"HTTP{failed.title.replace(' ', '')}"
        body = {"NeutronError": {"type": kind, "message": failed.text, "detail": ""}}
        return msgspec.json.encode(body), JSON

    return style


def placement(failed: Failure) -> tuple[bytes, str]:
    one = {
        "status": failed.status,
        "title": failed.title,
        "detail": failed.text,
        "code": "placement.undefined_code",
        "request_id": failed.request,
    }
    return msgspec.json.encode({"errors": [one]}), JSON


def image(failed: Failure) -> tuple[bytes, str]:
    if failed.status == 401:
        return identity(failed)
    if JSON in failed.accept or "*/*" in failed.accept or not failed.accept:
        body = {"message": failed.text, "code": f"{failed.status} {failed.title}", "title": failed.title}
        return msgspec.json.encode(body), JSON
    return f"{failed.status} {failed.title}\n\n{failed.text}\n".encode(), "text/plain; charset=UTF-8"
