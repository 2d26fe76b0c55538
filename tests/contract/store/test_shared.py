"""Several stores, and several connections, on one database: what two controllers of one zone do to each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from banyan.core.identity import SYSTEM
from banyan.core.ids import ZoneCode
from banyan.core.journal import Event
from banyan.core.policy import CodeRecord
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.core.zone import Child
from banyan.store.journal import verify
from banyan.store.keys import Seal
from banyan.store.store import SqlStore
from banyan.store.unit import unit
from tests.contract.store.conftest import Run, opened
from tests.contract.store.fakes import SeededIds
from tests.contract.store.postgresql import Server

NOW = Wall(100.0)
EVENT = Event("kind", "target", SYSTEM, "text", {})


def code(uses: int | None = 1) -> CodeRecord:
    return CodeRecord("code", b"h", Wall(0.0), Wall(200.0), uses)


@pytest.fixture
def pair(location: str, tmp_path: Path, run: Run) -> Iterator[tuple[SqlStore, SqlStore]]:
    first = opened(tmp_path / "one", location)
    second = opened(tmp_path / "two", location, seal_key=tmp_path / "one" / "seal.key", seed=2)
    yield first, second
    run(first.close())
    run(second.close())


def test_two_keys_at_two_stores_race_for_the_last_use(pair: tuple[SqlStore, SqlStore], run: Run) -> None:
    run(pair[0].write("put", lambda u: u.codes.put(code(3))))

    async def race() -> list[bool]:
        return await asyncio.gather(
            *(pair[n % 2].write("use", lambda u, n=n: u.codes.use("code", bytes([n]), NOW)) for n in range(40))
        )

    assert sum(run(race())) == 3
    assert run(pair[1].read(lambda u: u.codes.get("code"))).used == 3


def test_two_stores_race_for_one_name(pair: tuple[SqlStore, SqlStore], run: Run) -> None:
    async def race() -> list[object]:
        return await asyncio.gather(
            *(
                pair[n % 2].write("join", lambda u, n=n: u.children.put(Child(ZoneCode(n), "east", bytes([n]))))
                for n in range(40)
            ),
            return_exceptions=True,
        )

    answers = run(race())
    assert answers.count(None) == 1
    assert {getattr(answer, "code", None) for answer in answers} == {None, "name-taken"}


def test_two_stores_write_one_unbroken_journal_and_lose_no_update(pair: tuple[SqlStore, SqlStore], run: Run) -> None:
    run(pair[0].write("put", lambda u: u.children.put(Child(ZoneCode(1), "east", b"k", epoch=0))))

    def work(u: Unit) -> None:
        before = u.children.get(ZoneCode(1))
        u.journal.append(NOW, EVENT)
        u.children.put(Child(ZoneCode(1), "east", b"k", epoch=before.epoch + 1))

    async def many() -> None:
        await asyncio.gather(*(pair[n % 2].write("raise", work) for n in range(200)))

    run(many())
    assert run(pair[1].read(lambda u: (u.children.get(ZoneCode(1)).epoch, u.journal.last().number))) == (200, 200)
    assert run(pair[0].read(lambda u: verify(u.journal))) is None


def test_the_update_itself_decides_without_any_lock_of_ours(server: Server) -> None:
    """PostgreSQL at READ COMMITTED, no writers' lock: many transactions at once take uses of one code."""
    url = server.new_database()
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
    seal = Seal(Secret(bytes(32)), SeededIds())
    with engine.connect() as connection:
        unit(connection, seal).codes.put(code(4))
        connection.commit()
    together = threading.Barrier(12)

    def use(key: bytes) -> bool:
        with engine.connect() as connection:
            connection.begin()
            together.wait(20)
            won = unit(connection, seal).codes.use("code", key, NOW)
            connection.commit()
            return won

    with ThreadPoolExecutor(12) as pool:
        # Twelve transactions, six keys, each key twice.
        answers = list(pool.map(use, [bytes([n // 2]) for n in range(12)]))
    assert sum(answers) == 8, "four keys won, and each was told so twice"
    with engine.connect() as connection:
        assert unit(connection, seal).codes.get("code").used == 4
    engine.dispose()
