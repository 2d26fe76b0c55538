"""One process runs one zone: a second one on its PostgreSQL database is refused, and one that lost its lock stops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from banyan.core.errors import BanyanError, Conflict
from banyan.core.ids import ZoneCode
from banyan.core.records import Self, Unit
from banyan.core.time import Wall
from banyan.store.open import open_store
from banyan.store.store import Limits, SqlStore
from tests.contract.store.conftest import Run
from tests.contract.store.fakes import SeededIds, StillClock
from tests.contract.store.postgresql import Server

LOCKS = "SELECT pid FROM pg_locks JOIN pg_database ON oid = database WHERE locktype = 'advisory' AND datname = %s"


def alone(data: Path, url: str, key: Path | None = None) -> SqlStore:
    limits, seed = Limits(retries=1, retry_seconds=0.01), sum(data.name.encode())
    return open_store(data, url, ids=SeededIds(seed), clock=StillClock(), seal_key=key, limits=limits, sole=True)


def put(unit: Unit) -> None:
    unit.self_.put(Self(ZoneCode(1), "top", Wall(1.0)))


@pytest.fixture
def url(server: Server) -> str:
    return server.new_database()


@pytest.fixture
def first(url: str, tmp_path: Path, run: Run) -> Iterator[SqlStore]:
    store = alone(tmp_path / "one", url)
    yield store
    run(store.close())


def end(server: Server, url: str) -> None:
    """Ends the session that has the lock, as a failed network or a failover does."""
    name = url.partition("@/")[2].partition("?")[0]
    with server.connect() as connection:
        (pid,) = {pid for (pid,) in connection.execute(LOCKS, (name,)).fetchall()}
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def test_a_second_process_is_told_who_has_the_database(first: SqlStore, url: str, tmp_path: Path, run: Run) -> None:
    key = tmp_path / "one" / "seal.key"
    # One that comes in nevertheless is closed: its threads would keep the tests from ending.
    let_in: list[SqlStore] = []
    try:
        with pytest.raises(
            Conflict, match=r"'banyan \(the zone\)' from .* \(server process \d+\); .*pg_terminate"
        ) as refused:
            let_in.append(alone(tmp_path / "two", url, key))
    finally:
        for store in let_in:
            run(store.close())
    assert refused.value.code == "database-in-use"
    run(first.write("put", put))
    run(first.close())
    run(alone(tmp_path / "two", url, key).close())


def test_whoever_lost_the_lock_writes_nothing_until_it_has_it_again(
    first: SqlStore, url: str, server: Server, tmp_path: Path, run: Run
) -> None:
    run(first.write("put", put))
    end(server, url)
    # Nobody else came: it is taken again.
    run(first.write("put", put))
    end(server, url)
    second = alone(tmp_path / "two", url, tmp_path / "one" / "seal.key")
    with pytest.raises(BanyanError) as refused:
        run(first.write("put", put))
    assert refused.value.code == "store-unreachable"
    assert "in use by" in refused.value.detail
    run(second.close())
    run(first.write("put", put))


def test_a_number_that_another_session_has_is_drawn_again_and_not_waited_for(
    url: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "one").mkdir()
    drawn: list[int] = []

    class Known(SeededIds):
        def token(self, size: int) -> bytes:
            made = super().token(size)
            if size == 8:
                drawn.append(int.from_bytes(made, "big", signed=True))
            return made

    limits = Limits(retries=1, retry_seconds=0.01)

    def opened(ids: SeededIds) -> SqlStore:
        return open_store(tmp_path / "one", url, ids=ids, clock=StillClock(), limits=limits, sole=True)

    run(opened(Known(3)).close())
    with psycopg.connect(url, autocommit=True) as other:
        (mark,) = drawn
        other.execute("SELECT pg_advisory_lock(%s)", (mark,))
        store = opened(Known(3))
        try:
            run(store.write("put", put))
        finally:
            run(store.close())
    assert drawn[:2] == [mark, mark] and len(drawn) == 3, "another number was drawn"
