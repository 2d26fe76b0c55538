"""Opening: the schema is made, an unknown one is refused untouched, and only the right seal key opens."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

import banyan.store.migrations
from banyan import __version__
from banyan.core.errors import BadInput, Broken, Refused
from banyan.core.ids import ZoneCode
from banyan.core.records import Self
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.store import tables
from banyan.store.engine import APPLICATION_ID, database
from banyan.store.location import parse_location
from banyan.store.migrations.upgrade import HEAD
from banyan.store.open import open_database
from tests.contract.store.conftest import Kept, Run, opened
from tests.contract.store.postgresql import Server

SELF = Self(ZoneCode(1), "top", Wall(1.0))


def statement(location: str, *statements: str) -> None:
    """Changes the database behind the program's back."""
    built = open_database(parse_location(location))
    with built.writer.connect() as connection, connection.begin():
        for one in statements:
            connection.execute(text(one))
    built.dispose()


def test_the_migrations_make_exactly_the_tables(location: str) -> None:
    built = open_database(parse_location(location))
    with built.writer.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "target_metadata": tables.metadata}
        )
        assert compare_metadata(context, tables.metadata) == []
    built.dispose()


def test_the_head_is_the_newest_revision() -> None:
    config = Config()
    config.set_main_option("script_location", banyan.store.migrations.__path__[0])
    config.set_main_option("path_separator", "newline")
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_opening_again_changes_nothing(location: str, tmp_path: Path, run: Run) -> None:
    for _ in range(3):
        store = opened(tmp_path / "zone", location)
        run(store.write("put", lambda u: u.self_.put(SELF)))
        run(store.close())
    store = opened(tmp_path / "zone", location)
    assert run(store.read(lambda u: u.self_.get())) == SELF
    run(store.close())


def test_a_newer_database_is_refused_untouched(location: str, tmp_path: Path, run: Run) -> None:
    run(opened(tmp_path / "zone", location).close())
    statement(
        location,
        "UPDATE alembic_version SET version_num = '0999'",
        "UPDATE about SET value = '9.9.9' WHERE key = 'program'",
    )
    look = _looker(location)
    before = look()
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            opened(tmp_path / "zone", location)
        assert refused.value.code == "database-newer"
        for word in ("banyan 9.9.9", "0999", __version__, HEAD, "restore"):
            assert word in refused.value.text
    assert look() == before
    statement_unchecked(location, f"UPDATE alembic_version SET version_num = '{HEAD}'")
    run(opened(tmp_path / "zone", location).close())


def statement_unchecked(location: str, one: str) -> None:
    built = database(parse_location(location))
    with built.writer.connect() as connection, connection.begin():
        connection.execute(text(one))
    built.dispose()


def _looker(location: str) -> Callable[[], str]:
    """What the database holds: on SQLite, every byte of its file."""
    if location.startswith("sqlite"):
        path = Path(location.removeprefix("sqlite:///"))
        return lambda: hashlib.sha256(path.read_bytes()).hexdigest()

    def dump() -> str:
        with psycopg.connect(location) as connection:
            return str(
                [connection.execute(f"SELECT * FROM {t.name}").fetchall() for t in tables.metadata.sorted_tables]
            )

    return dump


def test_another_programs_database_is_refused_untouched(location: str, tmp_path: Path, server: Server) -> None:
    if location.startswith("sqlite"):
        path = tmp_path / "foreign.db"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE customers (id)")
        connection.close()
        foreign = f"sqlite:///{path}"
    else:
        foreign = server.new_database("template0")
        with psycopg.connect(foreign) as postgresql:
            postgresql.execute("CREATE TABLE customers (id int)")
    look = _looker(foreign) if location.startswith("sqlite") else lambda: ""
    before = look()
    with pytest.raises(Refused, match="another program's tables") as refused:
        opened(tmp_path / "zone", foreign)
    assert refused.value.code == "database-foreign"
    assert look() == before


def test_an_empty_file_is_a_new_database(tmp_path: Path, run: Run) -> None:
    (tmp_path / "zone").mkdir()
    (tmp_path / "zone" / "banyan.db").touch()
    run(opened(tmp_path / "zone").close())
    with sqlite3.connect(tmp_path / "zone" / "banyan.db") as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


@pytest.mark.parametrize("content", [b"no database at all, but long enough to have a header of one hundred bytes" * 3])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "zone").mkdir()
    (tmp_path / "zone" / "banyan.db").write_bytes(content)
    with pytest.raises(Broken, match="banyan.db.*restore") as refused:
        opened(tmp_path / "zone")
    assert refused.value.code == "database-damaged"
    assert (tmp_path / "zone" / "banyan.db").read_bytes() == content


def test_a_folder_that_can_not_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="Not a directory") as refused:
        opened(tmp_path / "file" / "zone")
    assert refused.value.code == "bad-data-folder"


def test_a_refused_opening_frees_the_folder(tmp_path: Path, run: Run) -> None:
    with pytest.raises(BadInput):
        opened(tmp_path / "zone", "postgresql://a:b@c/d")
    run(opened(tmp_path / "zone").close())


def test_the_seal_key_is_private_made_once_and_must_stay(location: str, tmp_path: Path, run: Run) -> None:
    data = tmp_path / "zone"
    store = opened(data, location)
    run(store.write("put", lambda u: u.keys.put("ca", Secret(b"seed"))))
    run(store.close())
    key = (data / "seal.key").read_bytes()
    assert len(key) == 32
    (data / "seal.key").unlink()
    with pytest.raises(Broken, match="seal.key") as missing:
        opened(data, location)
    assert missing.value.code == "seal-key-missing"
    assert not (data / "seal.key").exists(), "a new key would hide that the old one is lost"
    (data / "seal.key").write_bytes(bytes(32))
    with pytest.raises(Broken, match="seal.key") as wrong:
        opened(data, location)
    assert wrong.value.code == "seal-key-wrong"
    (data / "seal.key").write_bytes(key)
    store = opened(data, location)
    assert run(store.read(lambda u: u.keys.get("ca"))) == Secret(b"seed")
    run(store.close())


def test_the_seal_key_may_come_from_elsewhere(location: str, tmp_path: Path, run: Run) -> None:
    credential = tmp_path / "credential"
    with pytest.raises(Broken) as missing:
        opened(tmp_path / "zone", location, seal_key=credential)
    assert missing.value.code == "seal-key-missing"
    credential.write_bytes(b"k" * 32)
    store = opened(tmp_path / "zone", location, seal_key=credential)
    run(store.close())
    assert not (tmp_path / "zone" / "seal.key").exists()


def test_no_secret_stands_in_the_database(location: str, tmp_path: Path, run: Run) -> None:
    seeds = [hashlib.sha256(b"%d" % n).digest() for n in range(20)]
    store = opened(tmp_path / "zone", location)
    for n, seed in enumerate(seeds):
        run(store.write("put", lambda u, n=n, seed=seed: u.keys.put(f"key-{n % 10}", Secret(seed))))
    if location.startswith("sqlite"):
        held = b"".join(path.read_bytes() for path in tmp_path.rglob("shared.db*"))
        assert len(list(tmp_path.rglob("shared.db*"))) == 3, "the log is looked through as well"
    else:
        held = _looker(location)().encode()
    run(store.close())
    if location.startswith("sqlite"):
        held += b"".join(path.read_bytes() for path in tmp_path.rglob("shared.db*"))
    assert b"key-9" in held
    for seed in seeds:
        assert seed not in held
        assert seed.hex().encode() not in held
        assert repr(seed)[2:-1].encode() not in held


def test_sqlite_commits_are_durable(tmp_path: Path, run: Run) -> None:
    """synchronous=FULL: the log is flushed by every COMMIT (sqlite.org/pragma.html)."""
    store = opened(tmp_path / "zone")
    asked = ("synchronous", "journal_mode", "foreign_keys")
    found = run(
        store.write("ask", lambda u: [u.keys._connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in asked])
    )
    run(store.close())
    assert found == [2, "wal", 1]


@pytest.mark.parametrize(
    ("set_to", "used"), [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")]
)
def test_postgresql_commits_are_at_least_durable(
    server: Server, tmp_path: Path, run: Run, set_to: str, used: str
) -> None:
    url = server.new_database()
    with server.connect() as connection:
        name = url.partition("@/")[2].partition("?")[0]
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = '{set_to}'")
    store = opened(tmp_path / "zone", url)
    asked = "SHOW synchronous_commit"
    assert run(store.write("ask", lambda u: u.keys._connection.exec_driver_sql(asked).scalar())) == used
    run(store.close())


def test_kept_reopens(kept: Kept) -> None:
    kept.write(lambda u: u.self_.put(SELF))
    kept.again()
    assert kept.read(lambda u: u.self_.get()) == SELF
