"""What a handler of an OpenStack API gets, and what it may give back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from banyan.api.intake import RawQuery
from banyan.api.openstack.microversion import Version
from banyan.core.errors import BadInput, Broken
from banyan.core.principal import Principal
from banyan.zone.compute.compute import Compute
from banyan.zone.identity.identity import Identity
from banyan.zone.images.service import ImageService
from banyan.zone.networks.service import NetworkService


class Gate(Protocol):
    """Who a token stands for; the zone's identity implements it."""

    async def authenticate(self, token: str, address: str, request: str) -> Principal:
        """Raises Unauthenticated: also for a token that was good until a moment ago."""

    def local(self, user: str, request: str) -> Principal:
        """Who stands behind the local socket: an admin of the whole cloud."""

    def measured(self) -> Mapping[str, float]:
        """Figures for /metrics, by Prometheus name."""


@dataclass(frozen=True, slots=True)
class Surfaces:
    """What of a zone the handlers speak to: a field for each service's part of it."""

    identity: Identity | None = None
    compute: Compute | None = None
    images: ImageService | None = None
    network: NetworkService | None = None


@dataclass(frozen=True, slots=True)
class Offered:
    """A service of ours as the catalogue shows it: its type, its name, the path of its endpoint."""

    type: str
    name: str
    endpoint: str


@dataclass(slots=True)
class Reply:
    """An answer that says more than its body. `status` 0 is the row's.

    `body` is encoded as JSON unless it is bytes, then `media` says what they are. `stream` replaces it; `length` is its
    size where that is known.
    """

    body: object = None
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = "application/json"
    stream: AsyncIterator[bytes] | None = None
    length: int | None = None


# A struct, a dict or a list becomes the JSON body; None is no body.
Answer = object


@dataclass(slots=True)
class Call:
    """One request.

    `params` are the path's, decoded; `query` all values of each parameter; `headers` by lower-case name. `base` is how
    the client reaches this API: scheme, host and port, without a path. `content` is the body as it came, within the
    row's limit; of a row that streams it is empty, and `chunks` yields the body. `offered`: all services of ours.
    """

    who: Principal | None
    request: str
    address: str
    params: Mapping[str, str]
    query: RawQuery
    headers: Mapping[str, str]
    version: Version
    base: str
    service: str
    region: str
    surfaces: Surfaces
    offered: tuple[Offered, ...] = ()
    content: bytes = b""
    chunks: AsyncIterator[bytes] | None = None

    @property
    def principal(self) -> Principal:
        if self.who is None:
            raise Broken("internal", "a row without a credential asked for its principal")
        return self.who

    @property
    def identity(self) -> Identity:
        if self.surfaces.identity is None:
            raise Broken("internal", "a row of identity was called in a zone that serves none")
        return self.surfaces.identity

    @property
    def compute(self) -> Compute:
        if self.surfaces.compute is None:
            raise Broken("internal", "a row of compute was called in a zone that serves none")
        return self.surfaces.compute

    @property
    def images(self) -> ImageService:
        if self.surfaces.images is None:
            raise Broken("internal", "a row of images was called in a zone that serves none")
        return self.surfaces.images

    @property
    def network(self) -> NetworkService:
        if self.surfaces.network is None:
            raise Broken("internal", "a row of networks was called in a zone that serves none")
        return self.surfaces.network

    def link(self, path: str) -> str:
        """The whole address of `path` of this service: link("/v3/users/U")."""
        return f"{self.base}/{self.service}{path}"

    def one(self, name: str, default: str = "") -> str:
        """The value of a query parameter that may come once; `default` if it did not come."""
        values = self.query.get(name)
        if not values:
            return default
        if len(values) > 1:
            raise BadInput("repeated-parameter", f"query parameter {name!r} may come once, got {len(values)}")
        return values[0]

    def maybe(self, name: str) -> str | None:
        """As `one`, None if it did not come."""
        return self.one(name) if name in self.query else None

    def flag(self, name: str) -> bool | None:
        """A query parameter that is a truth, None if it did not come. Raises BadInput("bad-parameter")."""
        text = self.maybe(name)
        return None if text is None else truth(name, text)

    def limit(self, most: int) -> int:
        """The page size that was asked for, at most `most`; 0 asks for nothing. Raises BadInput("bad-parameter")."""
        text = self.one("limit")
        if not text:
            return most
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise BadInput("bad-parameter", f"limit must be a whole number from 0, got {text[:40]!r}")
        return min(int(text), most)


_TRUE, _FALSE = frozenset({"true", "t", "1", "yes", "y", "on", ""}), frozenset({"false", "f", "0", "no", "n", "off"})


def truth(name: str, text: str) -> bool:
    """A truth as OpenStack's clients write one. A parameter without a value (`?nocatalog`) is true."""
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise BadInput("bad-parameter", f"{name} must be true or false, got {text[:40]!r}")
