"""The link on real sockets: bytes of an idle child, heartbeats and openings per CPU second, against a bare echo.

Bytes are TCP payload (TLS included) as a relay between child and parent counts them. CPU and memory are the parent's
process alone. The comparison is the websockets library by itself, an echo under the same TLS on the same machine:
what the link adds is the ratio. Arguments: how many children (50 without), how many heartbeats each (100), the loop
(uvloop, as `serve` runs on, or asyncio).

    python -m bench.link 200 100 asyncio
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import ssl
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import uvloop
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from banyan.core.errors import BanyanError
from banyan.core.ids import ZoneCode
from banyan.core.messages import (
    Ack,
    Admitted,
    Answer,
    Beat,
    BeatAck,
    Enrol,
    Generations,
    Grant,
    Greet,
    Hello,
    HelloAck,
    Renew,
    Renewed,
    Report,
    Request,
    Welcome,
)
from banyan.core.ports import Credentials, ParentSession, Peer, Wire
from banyan.core.secret import Secret
from banyan.core.time import BUILD_DATE, Mono, Wall
from banyan.link.child import ChildLink, ChildSettings, Route
from banyan.link.codec import encode, join
from banyan.link.parent import ParentLink, ParentSettings
from banyan.link.session import Timing
from banyan.link.sockets import split_address
from banyan.link.tls import server_context, session_context
from banyan.link.websocket_wire import ListenSettings, WebSocketDialer, WebSocketListener
from banyan.link.wire import Identity
from banyan.serve.clock import SystemClock, SystemIds
from banyan.trust.authority import Issuer, ca_certificate, issue_child, issue_server
from banyan.trust.keys import public_key

NOW = Wall(BUILD_DATE + 86_400.0)
TOP = Issuer(ZoneCode(1), Secret(b"bench".ljust(32, b".")))
CA = ca_certificate(TOP, serial=(1).to_bytes(16, "big"), now=NOW)
TICKS = os.sysconf("SC_CLK_TCK")
GRANT = Grant(15_000, 600_000, 6_000, 1)
BEATS_COUNTED = 200
REPORT = 6.0  # seconds between two heartbeats of an idle child


def identity() -> Identity:
    seed = Secret(b"controller".ljust(32, b"."))
    leaf = issue_server(TOP, public_key(seed), serial=(2).to_bytes(16, "big"), now=NOW)
    return Identity(Credentials(leaf, seed, (CA,)), (CA,))


def child_of(code: int) -> Credentials:
    seed = Secret(str(code).encode().ljust(32, b"."))
    serial = code.to_bytes(16, "big")
    return Credentials(issue_child(TOP, ZoneCode(code), public_key(seed), serial=serial, now=NOW), seed)


class Top:
    """A parent's side that knows nothing and answers at once; `report` is the pace it names, in milliseconds."""

    def __init__(self, report: int) -> None:
        self._report = report
        self._ids = SystemIds()

    async def welcome(self, greet: Greet, peer: Peer) -> Welcome:
        chain = (peer.local or b"", CA)
        return Welcome(1, ZoneCode(1), "top", 1_800_000_000_000, self._ids.token(16), chain, (), bytes(64))

    async def enrol(self, greet: Greet, welcome: Welcome, enrol: Enrol, peer: Peer) -> Admitted:
        raise AssertionError("not in this measurement")

    async def hello(self, hello: Hello, session: ParentSession) -> HelloAck:
        return HelloAck(Grant(15_000, 600_000, self._report, 1), Generations(), "child", "top/child")

    async def reported(self, session: ParentSession, report: Report | Beat) -> Ack | BeatAck:
        return BeatAck(report.seq, self._report)

    async def renew(self, session: ParentSession, renew: Renew) -> Renewed:
        raise AssertionError("not in this measurement")

    async def ended(self, session: ParentSession, reason: str) -> None:
        pass


class Quiet:
    """A child's side without news. Numbers of acknowledged heartbeats go to `count`."""

    def __init__(self, code: int) -> None:
        self._code = ZoneCode(code)
        self._ids = SystemIds()
        self.count = 0

    def greet(self) -> Greet:
        return Greet(1, 1, self._ids.token(16), "session")

    async def welcomed(self, greet: Greet, welcome: Welcome, peer: Peer) -> Hello:
        return Hello(self._code, "0.1.0", 1, bytes(16), bytes(16), Generations(1, 1, 1))

    async def admitted(self, admitted: Admitted, peer: Peer) -> None:
        raise AssertionError("not in this measurement")

    async def refused(self, error: BanyanError) -> None:
        raise AssertionError("not in this measurement")

    async def established(self, ack: HelloAck, sent_at: Mono) -> None:
        pass

    async def report(self, seq: int, known: Generations, budget: int) -> Beat:
        # Of a session that is some days old: the number takes three bytes, as it mostly does.
        return Beat(seq)

    async def news(self) -> None:
        await asyncio.Event().wait()

    async def acknowledged(self, ack: Ack | BeatAck, sent_at: Mono) -> None:
        self.count += 1

    async def renewal(self) -> Renew | None:
        return None

    async def renewed(self, renewed: Renewed) -> None:
        pass

    async def asked(self, request: Request) -> Answer:
        return Answer(request.id)

    async def ended(self, reason: str) -> None:
        pass


# --- bytes ----------------------------------------------------------------------------------------


class Meter:
    """A relay that counts what passes, as TCP payload."""

    def __init__(self, address: str) -> None:
        self._to = split_address(address)
        self.total = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        away_reader, away_writer = await asyncio.open_connection(*self._to)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._pour(reader, away_writer))
            both.create_task(self._pour(away_reader, writer))

    async def _pour(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                self.total += len(data)
                writer.write(data)
                await writer.drain()
        writer.close()


async def measure_bytes() -> dict[str, float]:
    clock, ids = SystemClock(), SystemIds()
    timing = Timing(gap=0.005)
    link = ParentLink(Top(5), clock, ids, ParentSettings(timing=timing))
    shown = identity()
    listener = WebSocketListener(link.serve, lambda: shown, clock)
    await listener.start("127.0.0.1:0")
    meter = Meter(listener.addresses[0])
    relay = await asyncio.start_server(meter.serve, "127.0.0.1", 0)
    host, port = relay.sockets[0].getsockname()[:2]
    side = Quiet(7)

    async def route() -> Route:
        return Route((f"{host}:{port}",), child_of(7), (CA,))

    child = ChildLink(side, WebSocketDialer(clock), route, clock, ids, ChildSettings(timing=timing))
    task = asyncio.create_task(child.run())
    while side.count < 1:
        await clock.sleep_until(Mono(clock.now() + 0.01))
    opening, first = meter.total, side.count
    while side.count < first + BEATS_COUNTED:
        await clock.sleep_until(Mono(clock.now() + 0.01))
    each = (meter.total - opening) / (side.count - first)
    task.cancel()
    await asyncio.wait([task])
    relay.close()
    await listener.close()
    return {
        "opening_bytes": opening,
        "heartbeat_bytes_both_ways": round(each, 1),
        "idle_kib_per_child_and_hour": round(each * 3600 / REPORT / 1024, 1),
    }


# --- CPU ------------------------------------------------------------------------------------------


def _parent(pipe: Connection, loop: str) -> None:
    async def run() -> None:
        clock, ids = SystemClock(), SystemIds()
        settings = ParentSettings(openings=1e6, openings_burst=1e6, strangers=10**6, strangers_per_address=10**6)
        link = ParentLink(Top(6_000), clock, ids, settings)
        shown = identity()
        listening = ListenSettings(strangers=10**6, per_address=10**6, accepts=1e6, accepts_burst=1e6)
        listener = WebSocketListener(link.serve, lambda: shown, clock, settings=listening)
        await listener.start("127.0.0.1:0")
        pipe.send(listener.addresses[0])
        await asyncio.Event().wait()

    _run(loop, run)


def _echo(pipe: Connection, loop: str) -> None:
    async def each(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    async def run() -> None:
        context = server_context(identity())
        options = {"compression": None, "ping_interval": None, "max_queue": 4}
        async with serve(each, "127.0.0.1", 0, ssl=context, backlog=4096, **options) as server:  # type: ignore[arg-type]  # options of the server's own
            host, port = next(iter(server.sockets)).getsockname()[:2]
            pipe.send(f"{host}:{port}")
            await asyncio.Event().wait()

    _run(loop, run)


def _run(loop: str, main: Callable[[], Coroutine[None, None, None]]) -> None:
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


@contextlib.contextmanager
def process(target: Callable[[Connection, str], None], loop: str) -> Iterator[tuple[str, int]]:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    worker = multiprocessing.get_context("spawn").Process(target=target, args=(theirs, loop), daemon=True)
    worker.start()
    try:
        yield str(ours.recv()), worker.pid or 0
    finally:
        worker.kill()
        worker.join()


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_of(pid: int) -> float:
    """Resident KiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1])
    return 0.0


async def open_link(address: str, number: int) -> Wire:
    wire = await WebSocketDialer(SystemClock()).dial(
        address, purpose="session", credentials=child_of(100 + number), bundle=(CA,), timeout=60
    )
    await wire.send(join([encode(Greet(1, 1, bytes(16), "session"))]))
    await wire.receive()
    await wire.send(join([encode(Hello(ZoneCode(100 + number), "0", 1, b"", b"", Generations()))]))
    await wire.receive()
    return wire


async def open_echo(address: str, number: int) -> Wire:
    context: ssl.SSLContext = session_context(child_of(100 + number), (CA,))
    connection = await connect(
        f"wss://{address}/", ssl=context, server_hostname="x", compression=None, ping_interval=None, proxy=None
    )
    return Bare(connection)


class Bare:
    """A connection of the library itself, under the face of a wire."""

    def __init__(self, connection: object) -> None:
        self._connection = connection

    @property
    def peer(self) -> Peer:
        return Peer(None, "")

    @property
    def ended(self) -> bool:
        return False

    def allow(self, size: int) -> None:
        pass

    async def send(self, frame: bytes) -> None:
        await self._connection.send(frame)  # type: ignore[attr-defined]  # opened before it is asked

    async def receive(self) -> bytes:
        return await self._connection.recv()  # type: ignore[attr-defined, no-any-return]  # opened before it is asked

    async def close(self, reason: str = "") -> None:
        await self._connection.close()  # type: ignore[attr-defined]  # opened before it is asked


async def talk(wire: Wire, beats: int) -> None:
    encoder = msgspec.msgpack.Encoder()
    for seq in range(1, beats + 1):
        await wire.send(encoder.encode([Beat(seq)]))
        await wire.receive()


async def measure_cpu(
    address: str, pid: int, opening: Callable[[str, int], Awaitable[Wire]], children: int, beats: int
) -> dict[str, float]:
    warm = await opening(address, 0)
    memory, cpu = memory_of(pid), cpu_of(pid)
    gate = asyncio.Semaphore(20)

    async def one(number: int) -> Wire:
        async with gate:
            return await opening(address, number)

    wires = await asyncio.gather(*(one(n) for n in range(1, children + 1)))
    opened = max(cpu_of(pid) - cpu, 1 / TICKS)
    kept = (memory_of(pid) - memory) / children
    cpu = cpu_of(pid)
    await asyncio.gather(*(talk(wire, beats) for wire in wires))
    talked = max(cpu_of(pid) - cpu, 1 / TICKS)
    await asyncio.gather(*(wire.close() for wire in (*wires, warm)))
    return {
        "openings_per_cpu_s": round(children / opened),
        "heartbeats_per_cpu_s": round(children * beats / talked),
        "kib_per_session": round(kept, 1),
    }


def main() -> None:
    children = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    beats = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    loop = sys.argv[3] if len(sys.argv) > 3 else "uvloop"
    found: dict[str, object] = {"children": children, "heartbeats_each": beats, "loop": loop}
    found.update(asyncio.run(measure_bytes()))
    results = []
    for name, target, opening in (("link", _parent, open_link), ("bare_echo", _echo, open_echo)):
        with process(target, loop) as (address, pid):
            one = asyncio.run(measure_cpu(address, pid, opening, children, beats))
        found[name] = one
        results.append(one)
    link, bare = results
    found["link_to_bare"] = {
        key.removesuffix("_per_cpu_s"): round(link[key] / bare[key], 2)
        for key in ("openings_per_cpu_s", "heartbeats_per_cpu_s")
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
