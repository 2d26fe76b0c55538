"""The store: single commits against group commit against raw sqlite3, scans of guests, reads, backup, PostgreSQL.

All in one go in one temporary folder (TMPDIR chooses the disk), so that the ratios mean something on any machine.
GUESTS (argument 1, default 100000) are recorded as a scan does, 1,000 to a unit.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median, quantiles
from time import perf_counter

from banyan.core.guest import Guest, GuestState
from banyan.core.identity import SYSTEM
from banyan.core.ids import RackCode
from banyan.core.journal import Event
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.backup import backup
from banyan.store.inline import InlineStore, no_pause
from banyan.store.open import open_store
from banyan.store.store import SqlStore

EVENT = Event("measured", "zone", SYSTEM, "a line of ordinary length, as a decision has", {"reason": "bench"})
RACK = RackCode(7)
BATCH = 1_000


def append(u: Unit) -> None:
    u.journal.append(Wall(1.0), EVENT)


async def singles(store: SqlStore | InlineStore, seconds: float = 2.0) -> float:
    """Units a second, each awaited before the next."""
    began, done = perf_counter(), 0
    while perf_counter() - began < seconds:
        await store.write("line", append)
        done += 1
    return done / (perf_counter() - began)


async def crowd(store: SqlStore, callers: int, seconds: float = 2.0) -> float:
    """Units a second of so many callers, each awaiting its own before its next."""
    began, done = perf_counter(), 0

    async def caller() -> None:
        nonlocal done
        while perf_counter() - began < seconds:
            await store.write("line", append)
            done += 1

    await asyncio.gather(*(caller() for _ in range(callers)))
    return done / (perf_counter() - began)


async def reads(store: SqlStore, callers: int, seconds: float = 1.0) -> float:
    began, done = perf_counter(), 0

    async def caller() -> None:
        nonlocal done
        while perf_counter() - began < seconds:
            await store.read(lambda u: u.journal.last())
            done += 1

    await asyncio.gather(*(caller() for _ in range(callers)))
    return done / (perf_counter() - began)


def guests(count: int) -> list[Guest]:
    """Random ids and names in no order, as a standing cloud has them; 500 projects, 10,000 hosts."""
    random = Random(2)
    return [
        Guest(
            f"{random.getrandbits(128):032x}",
            f"vm-{random.getrandbits(40):x}",
            f"{random.randrange(500):032x}",
            GuestState.ACTIVE,
            f"{random.randrange(10_000):032x}",
            "m1.medium",
            2,
            4096,
            20,
            1.5e9 + n,
        )
        for n in range(count)
    ]


async def scan(store: SqlStore, number: int, seen: list[Guest]) -> float:
    """Guests a second, swept at the end."""
    began = perf_counter()
    for at in range(0, len(seen), BATCH):
        batch = seen[at : at + BATCH]
        await store.write("scan.guests", lambda u, batch=batch: u.guests.put(RACK, number, batch))  # type: ignore[misc]  # mypy infers no type beside a default
    await store.write("scan.sweep", lambda u: u.guests.sweep(RACK, number))
    return len(seen) / (perf_counter() - began)


async def beside(store: SqlStore, work: Awaitable[float]) -> tuple[float, list[float]]:
    """What `work` gives, and the seconds that small units took meanwhile, ten milliseconds apart."""
    task, taken = asyncio.ensure_future(work), []
    while not task.done():
        began = perf_counter()
        await store.write("line", append)
        taken.append(perf_counter() - began)
        await asyncio.wait([task], timeout=0.01)
    return await task, taken


def written() -> int:
    """Bytes that this process had written to disks so far."""
    for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
        if line.startswith("write_bytes"):
            return int(line.split()[1])
    return 0


def raw_lines(path: Path, per_commit: int, seconds: float = 1.0) -> float:
    """The journal's own row by the sqlite3 module alone: no chain, no savepoint, no thread."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=16384"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(
        "CREATE TABLE lines (number INTEGER PRIMARY KEY, at, kind, target, actor, token, address, request, text, "
        "facts, outcome, digest)"
    )
    for column in ("kind", "target", "actor"):
        connection.execute(f"CREATE INDEX lines_{column} ON lines ({column}, number)")
    row = (1.0, EVENT.kind, EVENT.target, "system", "", "", "", EVENT.text, '{"reason":"bench"}', "done", bytes(32))
    began, done = perf_counter(), 0
    while perf_counter() - began < seconds:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            f"INSERT INTO lines VALUES ({','.join('?' * 12)})", ((done + n, *row) for n in range(per_commit))
        )
        connection.execute("COMMIT")
        done += per_commit
    connection.close()
    return done / (perf_counter() - began)


def raw_guests(path: Path, seen: list[Guest]) -> float:
    """The guests' own rows and indexes by the sqlite3 module alone, 1,000 to a commit."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=16384", "cache_size=-32768"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(
        "CREATE TABLE guests (n INTEGER PRIMARY KEY, rack, id TEXT, name TEXT, project TEXT, state TEXT, host TEXT, "
        "flavor TEXT, vcpu, memory_mib, disk_gib, created, native, move, offered)"
    )
    connection.execute("CREATE UNIQUE INDEX guests_id ON guests (rack, id)")
    connection.execute("CREATE INDEX guests_name ON guests (rack, name, id)")
    began = perf_counter()
    for at in range(0, len(seen), BATCH):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            f"INSERT INTO guests VALUES ({','.join('?' * 15)})",
            (
                (
                    at + n,
                    RACK,
                    g.id,
                    g.name,
                    g.project,
                    g.state.value,
                    g.host,
                    g.flavor,
                    g.vcpu,
                    g.memory_mib,
                    g.disk_gib,
                    g.created,
                    g.native,
                    g.move,
                    g.offered,
                )
                for n, g in enumerate(seen[at : at + BATCH])
            ),
        )
        connection.execute("COMMIT")
    connection.close()
    return len(seen) / (perf_counter() - began)


def timed(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


async def exercise(store: SqlStore, seen: list[Guest]) -> dict[str, float]:
    found: dict[str, float] = {}
    found["one caller, units/s"] = await singles(store)
    found["100 callers, units/s"] = await crowd(store, 100)
    found["1000 callers, units/s"] = await crowd(store, 1_000)
    found["largest commit, units"] = store.measures().largest
    found["reads by one, /s"] = await reads(store, 1)
    found["reads by 50, /s"] = await reads(store, 50)
    before = written()
    found["first scan, guests/s"], taken = await beside(store, scan(store, 1, seen))
    found["small unit meanwhile, median ms"] = median(taken) * 1e3
    found["small unit meanwhile, p99 ms"] = quantiles(taken, n=100)[98] * 1e3 if len(taken) > 1 else 0.0
    found["first scan, MB written/1000 guests"] = (written() - before) / 1e6 / len(seen) * 1_000
    before = written()
    found["next scan, guests/s"] = await scan(store, 2, seen)
    found["next scan, MB written/1000 guests"] = (written() - before) / 1e6 / len(seen) * 1_000
    began = perf_counter()
    await store.read(lambda u: u.guests.use_by_project(RACK))
    found["use by project, ms"] = (perf_counter() - began) * 1e3
    began = perf_counter()
    await store.read(lambda u: u.guests.page(RACK, None, 1_000))
    found["a page of 1000 guests, ms"] = (perf_counter() - began) * 1e3
    return found


async def fenced(locations: tuple[str, str], folder: Path, count: int = 1_500) -> dict[str, float]:
    """What it costs that one process alone has the database (store/sole.py): unit by unit, turn about with a store that
    does not look, so that whatever else the machine does meets both."""
    stores = [
        open_store(folder / f"sole-{sole}", location, ids=SystemIds(), clock=SystemClock(), sole=sole)
        for sole, location in zip((True, False), locations, strict=True)
    ]
    taken: tuple[list[float], list[float]] = ([], [])
    try:
        for number in range(count):
            for at in (0, 1) if number % 2 else (1, 0):
                began = perf_counter()
                await stores[at].write("line", append)
                taken[at].append(perf_counter() - began)
    finally:
        for store in stores:
            await store.close()
    alone, plain = (sorted(one) for one in taken)
    return {
        "alone, median ms": median(alone) * 1e3,
        "not alone, median ms": median(plain) * 1e3,
        "alone : not, median": median(alone) / median(plain),
        "alone : not, the tenth part that is quickest": alone[count // 10] / plain[count // 10],
    }


async def inline() -> dict[str, float]:
    ids = SystemIds()
    InlineStore(ids, no_pause)
    began = perf_counter()
    stores = [InlineStore(ids, no_pause) for _ in range(50)]
    made = (perf_counter() - began) / 50
    return {"a new store, ms": made * 1e3, "one caller, units/s": await singles(stores[0], 1.0)}


def measure(folder: Path, seen: list[Guest]) -> dict[str, dict[str, float]]:
    clock, ids = SystemClock(), SystemIds()
    found: dict[str, dict[str, float]] = {}
    found["raw sqlite3"] = {
        "one row to a commit, rows/s": raw_lines(folder / "raw1.db", 1),
        "10000 rows to a commit, rows/s": raw_lines(folder / "raw2.db", 10_000),
        "first scan, guests/s": raw_guests(folder / "raw3.db", seen),
    }

    async def zone(location: str | None, data: Path) -> dict[str, float]:
        store = open_store(data, location, ids=ids, clock=clock)
        try:
            return await exercise(store, seen)
        finally:
            await store.close()

    found["sqlite"] = asyncio.run(zone(None, folder / "zone"))
    size = (folder / "zone" / "banyan.db").stat().st_size / 1e6
    seconds = timed(lambda: backup(folder / "zone", folder / "backup", Secret(b"bench"), ids=ids, now=Wall(1.0)))
    found["sqlite"] |= {"database, MB": size, "backup, MB/s": size / seconds}
    found["inline"] = asyncio.run(inline())
    with ExitStack() as stack:
        make = postgresql(stack)
        if make is not None:
            found["postgresql"] = asyncio.run(zone(make(), folder / "zone-pg"))
            found["postgresql, one process alone"] = asyncio.run(fenced((make(), make()), folder))
    raw, lite = found["raw sqlite3"], found["sqlite"]
    found["ratios"] = {
        "one unit : one raw commit": lite["one caller, units/s"] / raw["one row to a commit, rows/s"],
        "1000 callers : one caller": lite["1000 callers, units/s"] / lite["one caller, units/s"],
        "1000 callers : raw bulk": lite["1000 callers, units/s"] / raw["10000 rows to a commit, rows/s"],
        "first scan : raw": lite["first scan, guests/s"] / raw["first scan, guests/s"],
        "next scan : first": lite["next scan, guests/s"] / lite["first scan, guests/s"],
    }
    return found


def postgresql(stack: ExitStack) -> Callable[[], str] | None:
    """Makes databases of a private server that keeps what it acknowledges, where this machine has one."""
    from tests.contract.store.postgresql import SKIP, prepare, running

    if SKIP:
        return None

    server = stack.enter_context(running("fsync=on"))
    prepare(server)
    return server.new_database


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory(prefix="banyan-bench-") as folder:
        found = measure(Path(folder), guests(count))
    for part, figures in found.items():
        print(part)
        for name, value in figures.items():
            print(f"    {name:40} {value:14,.2f}")
    print(json.dumps({part: {k: round(v, 3) for k, v in figures.items()} for part, figures in found.items()}))


if __name__ == "__main__":
    main()
