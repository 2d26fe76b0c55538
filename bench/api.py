"""CPU per API request, without sockets: a bare ASGI app, Starlette's router, and Banyan's table with a real zone.

The zone has 1,000 zones below it in memory, and a token is verified on each request but /healthz. Microseconds of
CPU, median of rounds.

    python -m bench.api
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from banyan.api.app import build_app
from banyan.core.errors import Unreachable
from banyan.core.identity import Role
from banyan.core.ids import ZoneCode
from banyan.core.ports import Credentials, Wire
from banyan.core.zone import Admin, ChildState, Health
from banyan.drivers.registry import Drivers, Registry
from banyan.serve.assemble import Adapters, Assembled, assemble
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.inline import InlineStore, no_pause
from banyan.zone.settings import ZoneSettings
from banyan.zone.tree import Node

ZONES = 1000
ROUNDS = 7
REQUESTS = 300


class NoDialer:
    async def dial(
        self, address: str, *, purpose: str, credentials: Credentials | None, bundle: Sequence[bytes], timeout: float
    ) -> Wire:
        raise Unreachable("no-route", "nothing is dialled here")


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
    await send({"type": "http.response.body", "body": b"ok\n"})


async def plain(request: Request) -> Response:
    return Response(b"ok\n", media_type="text/plain")


async def cost(app: ASGIApp, address: str, bearer: str, wanted: int = 200) -> float:
    """Microseconds of CPU for one GET."""
    path, _, query = address.partition("?")
    headers = [(b"host", b"zone"), (b"authorization", b"Bearer " + bearer.encode())]
    statuses: set[int] = set()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.add(message["status"])

    async def once() -> None:
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "client": ("127.0.0.1", 1),
        }
        await app(scope, receive, send)

    await once()
    spent = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(REQUESTS):
            await once()
        spent.append((time.process_time() - began) / REQUESTS * 1e6)
    assert statuses == {wanted}, statuses
    return statistics.median(spent)


async def zone() -> Assembled:
    clock, ids = SystemClock(), SystemIds()
    store = InlineStore(ids=ids, pause=no_pause)
    adapters = Adapters(store, clock, ids, Drivers(Registry.installed(), clock, ids), NoDialer())
    built = await assemble(ZoneSettings(name="top"), adapters)
    root = built.zone.tree.root
    for n in range(1, ZONES + 1):
        code = ZoneCode(n)
        state = (ChildState.READY, Health.ALIVE, Admin.ENABLED)
        built.zone.tree.put(Node(code, root, code, f"z{n}", *state, "", "0.1.0", None))
    return built


async def measure() -> None:
    built = await zone()
    front = built.front
    token = (await front.create_token(front.local("bench", "req"), "bench", Role.VIEWER, "", 3600)).token
    api = build_app(front, SystemClock(), SystemIds())
    starlette = Starlette(routes=[Route(f"/r{n}", plain) for n in range(40)] + [Route("/healthz", plain)])
    for what, app, address in (
        ("bare ASGI", bare, "/"),
        ("Starlette, 41 routes", starlette, "/healthz"),
        ("Banyan, /healthz", api, "/healthz"),
        ("Banyan, usage", api, "/v1/usage"),
        ("Banyan, one zone", api, "/v1/zones/z500"),
        ("Banyan, 100 zones of 1,000", api, "/v1/zones?limit=100"),
    ):
        print(f"{what:30} {await cost(app, address, token):8.0f} µs")


def main() -> None:
    asyncio.run(measure())


if __name__ == "__main__":
    main()
