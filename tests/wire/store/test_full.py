"""A full disk: the write says so, nothing of it is kept, reading goes on, and later writes work once there is room."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from banyan.core.host import Host
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.records import StoreFull, Unit
from banyan.core.zone import Child
from banyan.store.engine import database
from banyan.store.keys import seal_from_file
from banyan.store.location import SqliteFile
from banyan.store.store import Limits, SqlStore
from tests.contract.store.conftest import Run, opened
from tests.contract.store.fakes import SeededIds, StillClock


def child(n: int) -> Child:
    return Child(ZoneCode(n), f"z{n}", b"key-%d" % n)


def fill(u: Unit) -> None:
    """About 4 MB."""
    u.hosts.put(RackCode(1), 1, [Host(f"h{n}", "x" * 4_000, {}) for n in range(1_000)])


def exercise(run: Run, store: SqlStore, make_room: Callable[[], None]) -> None:
    run(store.write("small", lambda u: u.children.put(child(1))))

    async def together() -> list[object]:
        return await asyncio.gather(
            store.write("before", lambda u: u.children.put(child(2))),
            store.write("big", fill),
            store.write("after", lambda u: u.children.put(child(3))),
            return_exceptions=True,
        )

    before, big, after = run(together())
    assert isinstance(big, StoreFull)
    assert big.code == "store-full"
    assert "reading goes on" in big.text
    assert (before, after) == (None, None), "one unit too big for the disk takes nobody along"
    assert run(store.read(lambda u: (u.hosts.count(RackCode(1)), u.children.count()))) == (0, 3)
    make_room()
    run(store.write("big", fill))
    assert run(store.read(lambda u: u.hosts.count(RackCode(1)))) == 1_000


def test_a_full_file_system(run: Run, small_disk: Path) -> None:
    store = opened(small_disk / "zone")

    def make_room() -> None:
        subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)

    try:
        exercise(run, store, make_room)
    finally:
        run(store.close())


def test_a_file_system_with_no_room_at_all(run: Run, small_disk: Path) -> None:
    store = opened(small_disk / "zone")
    run(store.write("small", lambda u: u.children.put(child(1))))
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4_096))
    try:
        for n in range(2, 40):
            try:
                run(store.write("small", lambda u, n=n: u.children.put(child(n))))
            except StoreFull:
                break
        else:
            pytest.fail("the disk did not fill up")
        assert run(store.read(lambda u: u.children.count())) == n - 1
        with pytest.raises(StoreFull):
            run(store.write("small", lambda u: u.children.put(child(n))))
        ballast.unlink()
        run(store.write("small", lambda u: u.children.put(child(n))))
    finally:
        run(store.close())
    store = opened(small_disk / "zone")
    assert run(store.read(lambda u: u.children.count())) == n
    run(store.close())


def test_a_database_at_its_largest(run: Run, tmp_path: Path) -> None:
    """Without any privilege: SQLite's own bound answers SQLITE_FULL as a disk does."""
    run(opened(tmp_path / "zone").close())
    built = database(SqliteFile(tmp_path / "zone" / "banyan.db"))
    room = ["max_page_count=200"]

    def bound(connection: Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA {room[-1]}")

    event.listen(built.writer, "begin", bound)
    store = SqlStore(
        built,
        seal_from_file(tmp_path / "zone" / "seal.key", SeededIds()),
        ids=SeededIds(),
        clock=StillClock(),
        limits=Limits(readers=1),
    )
    try:
        exercise(run, store, lambda: room.append("max_page_count=20000"))
    finally:
        run(store.close())


_LIMITED = """
import asyncio, resource, signal, sys
from pathlib import Path
from banyan.core.records import StoreUnknown
from tests.contract.store.conftest import opened
from tests.wire.store.test_full import child

store = opened(Path(sys.argv[1]))

async def main():
    await store.write("first", lambda u: u.children.put(child(1)))
    size = sum(path.stat().st_size for path in Path(sys.argv[1]).iterdir() if path.name.endswith("-wal"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        await store.write("failing", lambda u: u.children.put(child(2)))
    except StoreUnknown as error:
        print(error.code)
    print(await store.read(lambda u: u.children.count()))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.write("later", lambda u: u.children.put(child(3)))
    print(await store.read(lambda u: u.children.count()))
    await store.close()

asyncio.run(main())
"""


def test_a_write_that_the_disk_refuses_within_commit_is_of_unknown_fate(tmp_path: Path) -> None:
    """A process that may not let its files grow: the operating system fails the log's write inside COMMIT."""
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path / "zone")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["store-unknown", "1", "2"], done.stderr
