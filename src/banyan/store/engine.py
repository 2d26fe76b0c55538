"""Engines: how each database is connected to, and how its transactions begin. Nothing above knows the difference.

SQLite (sqlite.org/wal.html): write-ahead log, synchronous=FULL, so that COMMIT returns when the change is
on the disk; one writer, readers on snapshots. PostgreSQL: psycopg 3; writers of a zone take one advisory
lock first, so that its units run one after the other as on SQLite, whatever number of controllers write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import NullPool

from banyan.store.location import Location, PostgresqlServer, SqliteFile
from banyan.store.plain import run

# "bany" in ASCII: `file` and our own opening tell a zone's database from another program's.
APPLICATION_ID = 0x62616E79

# 64 MiB. A checkpoint every 4 MiB (the default) was measured to write 2.5 times as much in all.
WAL_PAGES = 16_384

# A writer waits this long for another process (a backup, a second controller) before it says "busy". Milliseconds.
BUSY_TIMEOUT = 10_000

# The advisory lock of a zone's writers, and of its migrations.
WRITER_LOCK = APPLICATION_ID


@dataclass(frozen=True, slots=True)
class Database:
    """Two ways into one database. `what` names it in errors; `warnings` are what a server said of late; `begins` has
    a writer on a server wait for its turn."""

    what: str
    writer: Engine
    reader: Engine
    warnings: list[str] = field(default_factory=list)
    begins: Callable[[Connection], None] | None = None

    def dispose(self) -> None:
        self.writer.dispose()
        self.reader.dispose()


def database(location: Location) -> Database:
    match location:
        case SqliteFile(path):
            return _sqlite(path)
        case PostgresqlServer(url):
            return _postgresql(url)


def begin_with(engine: Engine, *statements: str) -> Callable[[Connection], None]:
    """Has every transaction of `engine` begin with these statements; the listener that does it."""

    def begin(connection: Connection) -> None:
        for statement in statements:
            run(connection, statement)

    event.listen(engine, "begin", begin)
    return begin


def on_connect(engine: Engine, *pragmas: str) -> None:
    def connected(connection: DBAPIConnection, record: object) -> None:
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
            cursor.fetchall()
        cursor.close()

    event.listen(engine, "connect", connected)


def sqlite_engine(connect: Callable[[], sqlite3.Connection]) -> Engine:
    """`connect` gives connections without implicit transactions (isolation_level=None)."""
    return create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)


def _sqlite(path: Path) -> Database:
    def connect() -> sqlite3.Connection:
        # Connected in one thread, then used by one other.
        return sqlite3.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT / 1000, check_same_thread=False)

    writer, reader = sqlite_engine(connect), sqlite_engine(connect)
    common = ("foreign_keys=ON", "temp_store=MEMORY", "trusted_schema=OFF", "mmap_size=0")
    on_connect(
        writer,
        "journal_mode=WAL",
        "synchronous=FULL",
        f"wal_autocheckpoint={WAL_PAGES}",
        f"journal_size_limit={WAL_PAGES * 4096}",
        "cache_size=-32768",
        # Secrets are sealed before they are stored, so overwriting deleted rows would only cost.
        "secure_delete=OFF",
        *common,
    )
    # Reading the schema's version maps the log's index, which on a full disk could not be made any more.
    on_connect(reader, "query_only=ON", "cache_size=-8192", *common, "schema_version")
    begin_with(writer, "BEGIN IMMEDIATE")
    begin_with(reader, "BEGIN")
    return Database(f"the database {path}", writer, reader)


# A writer that was stopped in mid-transaction must not hold the others for ever.
_OPTIONS = (
    "-c lock_timeout=10s -c idle_in_transaction_session_timeout=30s -c statement_timeout=120s "
    "-c client_min_messages=warning -c timezone=UTC -c jit=off "
    # A plan that was kept from when a table was small was measured to read all of it for each batch of a scan.
    "-c plan_cache_mode=force_custom_plan"
)
_WRITER = " -c default_transaction_isolation=read\\ committed"
_READER = " -c default_transaction_isolation=repeatable\\ read -c default_transaction_read_only=on"

# Seconds.
CONNECT_TIMEOUT = 10


def _postgresql(url: str) -> Database:
    warnings: list[str] = []

    def noticed(diagnostic: psycopg.errors.Diagnostic) -> None:
        # A COMMIT that stopped waiting for its standby succeeds with a warning: then its fate is not known.
        if diagnostic.severity_nonlocalized == "WARNING":
            warnings.append(diagnostic.message_primary or "warning")

    def connect(options: str, *, writes: bool) -> psycopg.Connection[tuple[object, ...]]:
        connection = psycopg.connect(
            url,
            connect_timeout=CONNECT_TIMEOUT,
            application_name="banyan",
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            options=_OPTIONS + options,
        )
        if writes:
            connection.add_notice_handler(noticed)
        # A server that is set to lose acknowledged commits is not followed in that; a stricter one is.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        )
        connection.commit()
        return connection

    def engine(options: str, *, writes: bool) -> Engine:
        return create_engine(
            "postgresql+psycopg://",
            creator=lambda: connect(options, writes=writes),
            poolclass=NullPool,
            hide_parameters=True,
        )

    writer, reader = engine(_WRITER, writes=True), engine(_READER, writes=False)
    begins = begin_with(writer, f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")
    return Database(named(url), writer, reader, warnings, begins)


def named(url: str) -> str:
    """The database of that URL, as errors call it."""
    parts = psycopg.conninfo.conninfo_to_dict(url)
    return f"the database {parts.get('dbname') or 'of the user'} at {parts.get('host') or 'this machine'}"
