"""What a PostgreSQL server does to a zone: conflicts, deadlocks, cut connections, commits of unknown fate, a full disk.

Triggers of the test make the server raise the real conditions at the real place; sequences, which no rollback
takes back, make them happen a set number of times.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from banyan.core.errors import BadInput, Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.records import StoreFull, StoreUnknown, Unit
from banyan.core.zone import Child
from banyan.serve.config import load
from banyan.serve.run import build
from banyan.store.store import Limits, SqlStore
from tests.contract.store import postgresql
from tests.contract.store.conftest import Run, opened
from tests.contract.store.postgresql import Server

FAILS = """
CREATE SEQUENCE times;
CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('times') <= {times} THEN {action}; END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON children {when}
FOR EACH ROW WHEN (NEW.name = 'fails') EXECUTE FUNCTION fails();
"""
RAISE = "RAISE EXCEPTION 'made by a test' USING ERRCODE = '{}'"
AT_COMMIT = "DEFERRABLE INITIALLY DEFERRED"


def child(n: int, name: str = "") -> Child:
    return Child(ZoneCode(n), name or f"z{n}", b"key-%d" % n)


def names(u: Unit) -> list[str]:
    return [c.name for c in u.children.page(None, 100)]


@pytest.fixture
def url(server: Server) -> str:
    return server.new_database()


@pytest.fixture
def store(url: str, tmp_path: Path, run: Run) -> Iterator[SqlStore]:
    store = opened(tmp_path / "zone", url)
    yield store
    run(store.close())


def sql(server: Server, url: str, text: str) -> None:
    with server.connect(url.partition("@/")[2].partition("?")[0]) as connection:
        connection.execute(text)


@pytest.mark.parametrize("when", ["", AT_COMMIT])
@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_conflict_is_tried_again_and_takes_nobody_along(
    server: Server, url: str, store: SqlStore, run: Run, state: str, when: str
) -> None:
    sql(server, url, FAILS.format(times=3, action=RAISE.format(state), when=when))
    runs: list[int] = []

    async def together() -> None:
        await asyncio.gather(
            store.write("a", lambda u: u.children.put(child(1))),
            store.write("b", lambda u: (runs.append(1), u.children.put(child(2, "fails")))),
            store.write("c", lambda u: u.children.put(child(3))),
        )

    run(together())
    assert run(store.read(names)) == ["z1", "fails", "z3"]
    assert len(runs) == 4


def test_a_conflict_that_does_not_end_is_given_up(server: Server, url: str, store: SqlStore, run: Run) -> None:
    sql(server, url, FAILS.format(times=1000, action=RAISE.format("40001"), when=""))
    runs: list[int] = []
    with pytest.raises(Unreachable) as refused:
        run(store.write("b", lambda u: (runs.append(1), u.children.put(child(2, "fails")))))
    assert refused.value.code == "store-busy"
    assert refused.value.transient
    assert len(runs) == Limits().retries + 1
    run(store.write("a", lambda u: u.children.put(child(1))))
    assert run(store.read(names)) == ["z1"]


def test_a_real_deadlock_ends_with_the_write_done(server: Server, url: str, store: SqlStore, run: Run) -> None:
    for n in (1, 2):
        run(store.write("put", lambda u, n=n: u.children.put(child(n))))
    other = server.connect(url.partition("@/")[2].partition("?")[0])
    other.autocommit = False
    # The server ends whoever first looks for deadlocks: not this one.
    other.execute("SET deadlock_timeout = '60s'")
    other.execute("SELECT 1 FROM children WHERE code = 2 FOR UPDATE")
    holds_one = threading.Event()
    blocked = threading.Thread(target=lambda: other.execute("SELECT 1 FROM children WHERE code = 1 FOR UPDATE"))
    runs: list[int] = []

    def work(u: Unit) -> None:
        runs.append(1)
        u.children.put(child(1, "first"))
        if len(runs) == 1:
            blocked.start()
        holds_one.set()
        u.children.put(child(2, "second"))

    async def both() -> None:
        write = asyncio.ensure_future(store.write("both", work))
        await asyncio.to_thread(blocked_then_commit)
        await write

    def blocked_then_commit() -> None:
        holds_one.wait(20)
        blocked.join(20)
        other.commit()

    run(both())
    other.close()
    assert len(runs) == 2
    assert run(store.read(names)) == ["first", "second"]


def test_a_connection_that_is_cut_in_a_unit_is_made_again(server: Server, url: str, store: SqlStore, run: Run) -> None:
    action = "PERFORM pg_terminate_backend(pg_backend_pid())"
    sql(server, url, FAILS.format(times=1, action=action, when=""))
    run(store.write("b", lambda u: u.children.put(child(2, "fails"))))
    assert run(store.read(names)) == ["fails"]


def test_reading_goes_on_after_its_connections_were_cut(server: Server, url: str, store: SqlStore, run: Run) -> None:
    run(store.write("a", lambda u: u.children.put(child(1))))
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'banyan'"
    for _ in range(2):
        sql(server, url, cut + " AND datname = current_database()")
        assert run(store.read(names)) == ["z1"]
    run(store.write("a", lambda u: u.children.put(child(2))))
    assert run(store.read(names)) == ["z1", "z2"]


def test_a_connection_that_is_cut_in_commit_leaves_its_fate_unknown(
    server: Server, url: str, store: SqlStore, run: Run
) -> None:
    action = "PERFORM pg_terminate_backend(pg_backend_pid())"
    sql(server, url, FAILS.format(times=1, action=action, when=AT_COMMIT))

    async def together() -> list[object]:
        return await asyncio.gather(
            store.write("a", lambda u: u.children.put(child(1))),
            store.write("b", lambda u: u.children.put(child(2, "fails"))),
            return_exceptions=True,
        )

    answers = run(together())
    # They may not have shared a commit; the one that failed did, with itself at least.
    assert isinstance(answers[1], StoreUnknown)
    assert answers[1].code == "store-unknown"
    assert answers[0] is None or isinstance(answers[0], StoreUnknown)
    run(store.write("c", lambda u: u.children.put(child(3))))
    assert run(store.read(names))[-1] == "z3"


def test_a_commit_that_warned_is_of_unknown_fate(server: Server, url: str, store: SqlStore, run: Run) -> None:
    """As when the wait for a synchronous standby was cancelled: the server warns, and says that it committed."""
    sql(server, url, FAILS.format(times=1, action="RAISE WARNING 'made by a test'", when=AT_COMMIT))
    with pytest.raises(StoreUnknown) as unknown:
        run(store.write("b", lambda u: u.children.put(child(2, "fails"))))
    assert "made by a test" in unknown.value.detail
    assert run(store.read(names)) == ["fails"], "read again: it is there"


@pytest.mark.parametrize("when", ["", AT_COMMIT])
def test_a_full_server_refuses_that_write_and_reading_goes_on(
    server: Server, url: str, store: SqlStore, run: Run, when: str
) -> None:
    sql(server, url, FAILS.format(times=1, action=RAISE.format("53100"), when=when))
    run(store.write("a", lambda u: u.children.put(child(1))))
    with pytest.raises(StoreFull):
        run(store.write("b", lambda u: u.children.put(child(2, "fails"))))
    assert run(store.read(names)) == ["z1"]
    run(store.write("b", lambda u: u.children.put(child(2, "fails"))))
    assert run(store.read(names)) == ["z1", "fails"]


def test_a_server_that_is_away_is_named_and_used_again_when_it_is_back(run: Run, tmp_path: Path) -> None:
    if postgresql.SKIP:
        pytest.skip("BANYAN_TEST_POSTGRESQL=skip: this machine has no PostgreSQL server")
    with postgresql.running("fsync=off") as server:
        postgresql.prepare(server)
        url = server.new_database()
        store = opened(tmp_path / "zone", url)
        run(store.write("a", lambda u: u.children.put(child(1))))
        server.stop()
        for call in (store.write("b", lambda u: u.children.put(child(2))), store.read(names)):
            with pytest.raises(Unreachable) as refused:
                run(call)
            assert refused.value.code == "store-unreachable"
            assert refused.value.transient
        server.start()
        assert run(store.read(names)) == ["z1"]
        run(store.write("b", lambda u: u.children.put(child(2))))
        assert run(store.read(names)) == ["z1", "z2"]
        run(store.close())


def test_a_server_that_was_never_there_is_refused_at_opening(tmp_path: Path) -> None:
    (tmp_path / "nowhere").mkdir()
    with pytest.raises(Unreachable) as refused:
        opened(tmp_path / "zone", f"postgresql://banyan@/zone?host={tmp_path / 'nowhere'}")
    assert refused.value.code == "store-unreachable"
    assert f"the database zone at {tmp_path / 'nowhere'} does not answer" in refused.value.text


def test_a_bad_name_of_a_zone_leaves_nothing_in_its_database(server: Server, tmp_path: Path) -> None:
    url = server.new_database("template0")

    async def start() -> None:
        settings = load(None, {"data": str(tmp_path / "zone"), "zone.name": "edge_001", "store.url": url})
        async with AsyncExitStack() as stack:
            await build(settings, stack)

    with pytest.raises(BadInput, match="a zone name is"):
        asyncio.run(start())
    with server.connect(url.partition("@/")[2].partition("?")[0]) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
    assert not (tmp_path / "zone").exists()
