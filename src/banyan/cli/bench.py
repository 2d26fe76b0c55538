"""banyan bench create: how many servers a second this zone takes, as OpenStack's clients order them. It sizes a zone.

The servers are real ones, ordered through the Compute API over TLS; they are deleted afterwards, also after Ctrl-C.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import msgspec
from cyclopts import App, Parameter

from banyan.cli.credentials import V3, Entry, cloud_entry, drop_key
from banyan.cli.load import Connection, Reply
from banyan.cli.output import Screen, number
from banyan.cli.session import OK, PARTIAL, Session, session
from banyan.cli.target import HERE, Socket, Target
from banyan.cli.values import default_folder
from banyan.core.errors import BadInput, Broken, Refused, Unreachable
from banyan.core.ports import Clock
from banyan.core.time import Mono

T = TypeVar("T")

COMPUTE, IMAGES = "/compute/v2.1", "/image/v2/images"
VERSION = "2.79"
MOST, MOST_CLIENTS, MOST_EACH = 1_000_000, 1_024, 1_000
PAGE = 1_000
# Seconds between two looks at what is still being built.
LOOK = 0.25
# Seconds between two words about how far it is.
TELL = 2.0

app = App(name="bench", help="Measure this zone with work as its users give it.", result_action="return_value")


class Made(msgspec.Struct, frozen=True):
    id: str


class Row(msgspec.Struct, frozen=True):
    id: str
    status: str = ""


class One(msgspec.Struct, frozen=True):
    server: Made


class Rows(msgspec.Struct, frozen=True):
    servers: list[Row]


class Flavor(msgspec.Struct, frozen=True):
    id: str
    name: str
    vcpus: int
    ram: int
    disk: int


class Flavors(msgspec.Struct, frozen=True):
    flavors: list[Flavor]


class Latency(msgspec.Struct, frozen=True):
    """Milliseconds."""

    p50: float
    p90: float
    p99: float
    longest: float


class Found(msgspec.Struct, frozen=True):
    """What is printed. Times in seconds, rates per second; `refused` by the status and words of the answer.

    `active`: of the servers, so many ran before the wait was over; `deleted` is 0 with --keep. `client_cpu` is what
    this command used while it ordered: where it runs on the zone's machine, the zone had so much less.
    """

    clients: int
    requests: int
    servers_each: int
    flavor: str
    accepted: int
    refused: dict[str, int]
    ordering: float
    accepted_per_second: float
    latency_ms: Latency | None
    active: int
    until_active: float
    active_per_second: float
    deleted: int
    deleted_per_second: float
    client_cpu: float


@dataclass
class Tally:
    took: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


Clients = Annotated[int, Parameter(help="So many at a time, each with a connection of its own.", metavar="N")]
Count = Annotated[int, Parameter(help="So many orders in all.", metavar="N")]
Each = Annotated[int, Parameter(help="Servers of each order (min_count).", metavar="N")]


@app.command
def create(
    *,
    clients: Clients = 8,
    count: Count = 2_000,
    each: Each = 1,
    flavor: Annotated[
        str, Parameter(help="Name or id of a flavor (default: the smallest).", metavar="F", show_default=False)
    ] = "",
    image: Annotated[
        str, Parameter(help="Id of an image (default: one is made for it).", metavar="ID", show_default=False)
    ] = "",
    wait: Annotated[
        float, Parameter(help="Seconds to wait until all run; 0 does not wait.", metavar="SECONDS")
    ] = 300.0,
    keep: Annotated[bool, Parameter(negative="", help="Leave the servers there.", show_default=False)] = False,
    through: Annotated[
        str,
        Parameter(
            help="Address of an API process of this zone (https://HOST:PORT), to order through it.",
            metavar="URL",
            show_default=False,
        ),
    ] = "",
    target: Target = HERE,
) -> int:
    """Order servers as fast as clients can, and say how fast that was."""
    _check("--clients", clients, MOST_CLIENTS)
    _check("--count", count, MOST)
    _check("--each", each, MOST_EACH)
    _check("--count times --each", count * each, MOST)
    if not 0 <= wait <= 86_400:
        raise BadInput("bad-option", f"--wait is 0 to 86400 seconds, got {wait:g}")
    from banyan.serve.clock import SystemClock, SystemIds

    where = target.where(default_folder())
    if not isinstance(where, Socket):
        raise BadInput("bad-option", "a bench is run at the zone's own machine: use --data, not --url")
    with session(target) as s:
        name = f"bench-{SystemIds().token(4).hex()}"
        entry = cloud_entry(s.client, where.folder, name)
        try:
            found = asyncio.run(
                _measure(
                    Run(s.screen, SystemClock(), Wish(name, clients, count, each, flavor, image, wait, keep, through)),
                    entry,
                )
            )
        finally:
            drop_key(s.client, entry)
        return _show(s, found)


def _check(option: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise BadInput("bad-option", f"{option} is 1 to {most}, got {value}")


@dataclass(frozen=True, slots=True)
class Wish:
    name: str
    clients: int
    count: int
    each: int
    flavor: str
    image: str
    wait: float
    keep: bool
    through: str


@dataclass(frozen=True, slots=True)
class Run:
    screen: Screen
    clock: Clock
    wish: Wish

    async def pause(self, seconds: float) -> None:
        await self.clock.sleep_until(Mono(self.clock.now() + seconds))


async def _measure(run: Run, entry: Entry) -> Found:
    wish = run.wish
    url = str(entry["auth"]["auth_url"]) if isinstance(entry["auth"], dict) else ""
    base, certificate = wish.through or url.removesuffix("/identity/v3"), str(entry.get("cacert", ""))
    token = await _token(Connection(base, certificate), entry)
    headers = {"X-Auth-Token": token, "OpenStack-API-Version": f"compute {VERSION}"}
    lines = [Connection(base, certificate, headers) for _ in range(wish.clients)]
    try:
        flavor = await _flavor(lines[0], wish.flavor)
        # Each connection is open before the clock runs: a client's first request is not what is measured.
        await asyncio.gather(*(line.ask("GET", f"{COMPUTE}/flavors?limit=1") for line in lines))
        made, gone = 0, 0
        image = wish.image or await _make_image(lines[0], wish.name)
        try:
            tally, ordering, cpu = await _order(run, lines, flavor, image)
            made = len(tally.took) * wish.each
            active, until_active = await _wait(run, lines[0], made, ordering)
        finally:
            began = time.perf_counter()
            if not wish.keep:
                gone = await _delete(run, lines)
            deleting = time.perf_counter() - began
            if not (wish.keep or wish.image):
                await lines[0].ask("DELETE", f"{IMAGES}/{image}")
    finally:
        for line in lines:
            line.close()
    return Found(
        wish.clients,
        wish.count,
        wish.each,
        flavor.name,
        made,
        dict(tally.refused),
        round(ordering, 3),
        round(made / ordering, 1),
        _latency(tally.took),
        active,
        round(until_active, 3),
        round(active / until_active, 1) if until_active else 0.0,
        gone,
        round(gone / deleting, 1) if gone else 0.0,
        round(cpu, 3),
    )


async def _token(line: Connection, entry: Entry) -> str:
    given = entry["auth"]
    assert isinstance(given, dict)
    auth: dict[str, object]
    if entry["auth_type"] == "password":
        domain = {"id": given["user_domain_id"]}
        user = {"name": given["username"], "domain": domain, "password": given["password"]}
        auth = {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": given["project_name"], "domain": domain}},
        }
    else:
        key = {"id": given["application_credential_id"], "secret": given["application_credential_secret"]}
        auth = {"identity": {"methods": ["application_credential"], "application_credential": key}}
    reply = await line.ask("POST", f"{V3}/auth/tokens?nocatalog", msgspec.json.encode({"auth": auth}))
    line.close()
    if reply.status != 201:
        raise Refused("no-token", f"the zone gave no token: {_words(reply)}")
    return reply.headers["x-subject-token"]


async def _flavor(line: Connection, wanted: str) -> Flavor:
    rows = _read(await line.ask("GET", f"{COMPUTE}/flavors/detail"), Flavors).flavors
    fit = [row for row in rows if wanted in (row.id, row.name, "")]
    if not fit:
        raise BadInput(
            "no-flavor", f"there is no flavor {wanted[:80]!r}; there are {', '.join(r.name for r in rows[:10])}"
        )
    return min(fit, key=lambda row: (row.vcpus, row.ram, row.disk))


async def _make_image(line: Connection, name: str) -> str:
    body = {"name": name, "disk_format": "raw", "container_format": "bare", "visibility": "private"}
    reply = await line.ask("POST", IMAGES, msgspec.json.encode(body))
    if reply.status != 201:
        raise Refused("no-image", f"no image could be made: {_words(reply)}; name one with --image")
    id = msgspec.json.decode(reply.body, type=Made).id
    reply = await line.ask("PUT", f"{IMAGES}/{id}/file", b"\0" * 512, media="application/octet-stream")
    if reply.status != 204:
        raise Refused("no-image", f"the image's data was refused: {_words(reply)}; name one with --image")
    return id


async def _order(run: Run, lines: Sequence[Connection], flavor: Flavor, image: str) -> tuple[Tally, float, float]:
    """What became of each order, the seconds that all took, and the CPU seconds of this process."""
    wish = run.wish
    body: dict[str, object] = {"name": wish.name, "flavorRef": flavor.id, "imageRef": image, "networks": "none"}
    if wish.each > 1:
        body |= {"min_count": wish.each, "max_count": wish.each}
    content = msgspec.json.encode({"server": body})
    tally, left = Tally(), iter(range(wish.count))

    async def client(line: Connection) -> None:
        for _ in left:
            began = time.perf_counter()
            try:
                reply = await line.ask("POST", f"{COMPUTE}/servers", content)
            except Unreachable as error:
                tally.refused[error.text] += 1
                return
            if reply.status == 202:
                tally.took.append(time.perf_counter() - began)
            else:
                tally.refused[_words(reply)] += 1

    cpu, began = time.process_time(), time.perf_counter()
    await _beside(run, f"ordering {wish.count:,}", lambda: len(tally.took), asyncio.gather(*map(client, lines)))
    return tally, time.perf_counter() - began, time.process_time() - cpu


async def _wait(run: Run, line: Connection, made: int, ordering: float) -> tuple[int, float]:
    """How many run, and how many seconds after the first order the last of them did."""
    wish = run.wish
    if not wish.wait or not made:
        return 0, 0.0
    began, building = time.perf_counter(), True
    path = f"{COMPUTE}/servers?name=%5E{wish.name}&limit=1&status=BUILD"
    while building and time.perf_counter() - began < wish.wait:
        building = bool(_read(await line.ask("GET", path), Rows).servers)
        if building:
            await run.pause(LOOK)
    until = ordering + time.perf_counter() - began
    return len(await _ids(line, wish.name, "&status=ACTIVE")), until


async def _ids(line: Connection, name: str, more: str = "") -> list[str]:
    ids: list[str] = []
    while True:
        marker = f"&marker={ids[-1]}" if ids else ""
        path = f"{COMPUTE}/servers?name=%5E{name}&limit={PAGE}{more}{marker}"
        page = _read(await line.ask("GET", path), Rows).servers
        ids += [row.id for row in page]
        if len(page) < PAGE:
            return ids


async def _delete(run: Run, lines: Sequence[Connection]) -> int:
    """All that were made, by their names: also those of an order whose answer did not arrive."""
    name, gone = run.wish.name, set[str]()
    while ids := await _ids(lines[0], name):
        left, before = iter(ids), len(gone)

        async def client(line: Connection, left: Iterator[str] = left) -> None:
            for id in left:
                with suppress(Unreachable):  # it is listed again, and asked again
                    reply = await line.ask("DELETE", f"{COMPUTE}/servers/{id}")
                    if reply.status in (204, 404):
                        gone.add(id)

        await _beside(run, f"deleting {len(ids):,}", lambda: len(gone), asyncio.gather(*map(client, lines)))
        if len(gone) == before:
            # Those that are listed were deleted already, and their hosts are about it.
            if not gone.issuperset(ids):
                raise Broken(
                    "not-deleted", f"{len(ids)} servers named {name} were not deleted; delete them by that name"
                )
            await run.pause(LOOK)
    return len(gone)


async def _beside(run: Run, what: str, done: Callable[[], int], work: Awaitable[T]) -> T:
    """`work`, with its progress on a terminal."""

    async def tell() -> None:
        while True:
            await run.pause(TELL)
            run.screen.note(f"{what}: {done():,} done")

    telling = asyncio.ensure_future(tell())
    try:
        return await work
    finally:
        telling.cancel()


def _read(reply: Reply, into: type[T]) -> T:
    if reply.status != 200:
        raise Broken("bad-answer", f"the zone answered {_words(reply)}")
    try:
        return msgspec.json.decode(reply.body, type=into)
    except msgspec.MsgspecError as error:
        raise Broken("bad-answer", "the zone's answer is not that of a Compute API") from error


def _words(reply: Reply) -> str:
    """The status of a refusal and what it says: {"itemNotFound": {"message": …}}."""
    try:
        body = msgspec.json.decode(reply.body, type=dict[str, dict[str, object]])
        text = str(next(iter(body.values())).get("message", ""))
    except (msgspec.MsgspecError, StopIteration):
        text = ""
    return f"{reply.status} {text[:200]}".strip()


def _latency(took: Sequence[float]) -> Latency | None:
    if not took:
        return None
    rows = sorted(took)
    p50, p90, p99 = (round(1000 * rows[min(len(rows) - 1, int(len(rows) * part))], 2) for part in (0.5, 0.9, 0.99))
    return Latency(p50, p90, p99, round(1000 * rows[-1], 2))


def _show(s: Session, found: Found) -> int:
    if s.screen.json:
        s.screen.one(found)
    else:
        s.screen.show(_lines(found))
        for why, times in found.refused.items():
            s.screen.note(f"refused {times} times: {why}")
    return PARTIAL if found.refused else OK


def _lines(found: Found) -> list[tuple[str, str]]:
    latency = found.latency_ms
    lines = [
        ("orders", f"{found.requests:,} by {found.clients} clients, {found.servers_each} of {found.flavor} each"),
        (
            "accepted",
            f"{number(found.accepted)} servers in {found.ordering:g} s: {found.accepted_per_second:,} a second",
        ),
    ]
    if latency is not None:
        lines.append(
            (
                "until accepted",
                f"median {latency.p50} ms, p90 {latency.p90}, p99 {latency.p99}, longest {latency.longest}",
            )
        )
    if found.until_active:
        lines.append(
            ("active", f"{number(found.active)} after {found.until_active:g} s: {found.active_per_second:,} a second")
        )
    if found.deleted:
        lines.append(("deleted", f"{number(found.deleted)}: {found.deleted_per_second:,} a second"))
    cores = os.cpu_count() or 1
    lines.append(("this command used", f"{found.client_cpu:g} s of CPU while it ordered, of {cores} cores"))
    return lines
