"""What a handler gets beside its query and body: the zone, the caller, the bounds.

A handler is `async (Context, query, body) -> answer`; table.py pairs it with the types that its query and body are
read into.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from banyan.core.errors import Broken
from banyan.core.identity import Caller
from banyan.zone.surface import Surface


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what callers can cause. Sizes in bytes, times in seconds.

    `concurrency` requests are in work at a time on the public listener, and as many on the local one, so that a
    flood from outside never locks out the local admin; `waiting` more wait for a place, for `queue_wait` at the most
    (door.py). `bodies` bytes of bodies may be on their way, a quarter of them from one source. `connections` stand at a
    time, half of them from one source. `followers` are long-lived journal streams, counted apart.
    `deadline` is for one whole answer, `body_wait` for a body to arrive, `head_wait` for the header lines,
    `write_stall` for a caller that does not read, `idle` for a connection between requests.
    """

    address: int = 8 * 1024
    headers: int = 16 * 1024
    header_lines: int = 64
    concurrency: int = 64
    waiting: int = 256
    queue_wait: float = 5.0
    bodies: int = 32 * 1024 * 1024
    followers: int = 32
    connections: int = 512
    deadline: float = 30.0
    body_wait: float = 10.0
    head_wait: float = 10.0
    write_stall: float = 30.0
    idle: float = 20.0
    follow_beat: float = 15.0
    follow_end: float = 3600.0


# What a body may be: small by default; the larger one is for lists that grow with what is managed.
SMALL_BODY = 64 * 1024
LARGE_BODY = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Context:
    """One request. `who` is None only on routes that ask no credential; `params` are the path's, decoded.

    `again` proves the caller once more, for streams. `stopping` is true when the server is about to end.
    `measured` are the surface's own figures, for /metrics.
    """

    surface: Surface
    who: Caller | None
    request: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    limits: Limits
    again: Callable[[], Awaitable[Caller]]
    stopping: Callable[[], bool]
    measured: Callable[[], Mapping[str, float]]

    @property
    def caller(self) -> Caller:
        if self.who is None:
            raise Broken("internal", "a route without a credential asked for its caller")
        return self.who
