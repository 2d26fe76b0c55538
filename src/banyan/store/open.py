"""Opens a zone's store: the folder and its lock, the database and its schema, the seal key. The way in.

Blocking, before the loop runs. It refuses rather than guesses: another program's database, a newer one, a wrong
or lost seal key each end here with nothing changed. Closing the store releases the folder.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from banyan.core.errors import BadInput, Broken, Refused
from banyan.core.ports import Clock, Ids
from banyan.store.durable import make_file, make_folder, sync_folder
from banyan.store.engine import APPLICATION_ID, Database, database, named
from banyan.store.faults import refusal
from banyan.store.keys import KEY_SIZE, Seal, SqlKeys, seal_from_file
from banyan.store.location import Location, PostgresqlServer, SqliteFile, parse_location
from banyan.store.lock import FolderLock
from banyan.store.migrations.upgrade import HEAD, newer, upgrade
from banyan.store.sole import SoleProcess
from banyan.store.store import DEFAULT_LIMITS, Limits, Observer, SqlStore

DATABASE_NAME = "banyan.db"
SEAL_NAME = "seal.key"
SETTINGS_NAME = "banyan.toml"


def open_store(
    data: Path,
    location: str | None = None,
    *,
    ids: Ids,
    clock: Clock,
    seal_key: Path | None = None,
    observer: Observer | None = None,
    limits: Limits = DEFAULT_LIMITS,
    sole: bool = False,
) -> SqlStore:
    """The store of the zone whose folder is `data`; both are made when they are not there.

    `location`: see location.py; DATA/banyan.db without one. `seal_key`: a file of 32 bytes kept elsewhere (a
    systemd credential); DATA/seal.key without one. `ids` and `clock` are used from several threads. `sole`: no other
    process may have a PostgreSQL database so, from whatever folder or machine.
    Raises Conflict("folder-in-use" | "database-in-use"), Refused("database-newer" | "database-foreign"),
    Broken("seal-key-wrong" | "seal-key-missing" | "database-damaged"), BadInput("password-in-url" | …),
    Unreachable, StoreFull.
    """
    where = SqliteFile(data / DATABASE_NAME) if location is None else parse_location(location)
    try:
        make_folder(data)
        lock = FolderLock(data)
    except OSError as error:
        raise BadInput(
            "bad-data-folder", f"the data folder {data} can not be used ({error.strerror}); give another (--data)"
        ) from error
    try:
        alone = _alone(where, ids) if sole and isinstance(where, PostgresqlServer) else None

        def release() -> None:
            if alone is not None:
                alone.release()
            lock.release()

        try:
            opened = open_database(where)
            try:
                seal = _unseal(opened, data, seal_key, ids)
                if alone is not None:
                    alone.watch(opened)
                return SqlStore(opened, seal, ids=ids, clock=clock, observer=observer, limits=limits, released=release)
            except BaseException:
                opened.dispose()
                raise
        except BaseException:
            release()
            raise
    except BaseException:
        lock.release()
        raise


def _alone(server: PostgresqlServer, ids: Ids) -> SoleProcess:
    what = named(server.url)
    try:
        return SoleProcess(server, what, ids)
    except psycopg.Error as error:
        raise refusal(DBAPIError(None, None, error), what) from error


def open_database(location: Location) -> Database:
    """The database at this program's schema."""
    if isinstance(location, SqliteFile):
        _prepare_file(location.path)
    opened = database(location)
    try:
        with opened.writer.connect() as connection, connection.begin():
            _check_ours(connection, location)
            if upgrade(connection) and isinstance(location, SqliteFile):
                connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
    except DBAPIError as error:
        opened.dispose()
        raise refusal(error, opened.what) from error
    except BaseException:
        opened.dispose()
        raise
    return opened


def _prepare_file(path: Path) -> None:
    """Makes the file, private and durable, or looks at it before a connection that writes may touch it."""
    try:
        if not path.exists():
            make_folder(path.parent) if not path.parent.exists() else None
            make_file(path)
            return
        if path.stat().st_size == 0:
            return
    except OSError as error:
        raise BadInput("bad-database-url", f"the database {path} can not be made or read ({error.strerror})") from error
    look = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        (application,) = look.execute("PRAGMA application_id").fetchone()
        names = {name for (name,) in look.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if names and (application != APPLICATION_ID or not {"alembic_version", "about"} <= names):
            raise _foreign(f"the file {path}")
        if names:
            (revision,) = look.execute("SELECT version_num FROM alembic_version").fetchone()
            if revision > HEAD:
                program = look.execute("SELECT value FROM about WHERE key = 'program'").fetchone()
                raise newer(revision, program[0] if program else None)
    except sqlite3.DatabaseError as error:
        raise Broken(
            "database-damaged",
            f"the file {path} can not be read as a database ({error}); restore the newest backup (banyan restore)",
        ) from error
    finally:
        look.close()


def _check_ours(connection: Connection, location: Location) -> None:
    if isinstance(location, PostgresqlServer):
        encoding = connection.execute(text("SHOW server_encoding")).scalar()
        if encoding != "UTF8":
            raise BadInput(
                "database-encoding",
                f"{location} is encoded in {encoding}; make one with CREATE DATABASE … ENCODING 'UTF8'",
            )
    names = set(inspect(connection).get_table_names())
    if names and not {"alembic_version", "about"} <= names:
        raise _foreign(str(location))


def _foreign(what: str) -> Refused:
    return Refused(
        "database-foreign",
        f"{what} holds another program's tables; nothing was changed. Give a zone a database of its own",
    )


def _unseal(opened: Database, data: Path, elsewhere: Path | None, ids: Ids) -> Seal:
    """The seal, checked against the database; made only where nothing was sealed yet."""
    path = elsewhere or data / SEAL_NAME
    try:
        with opened.writer.connect() as connection, connection.begin():
            sealed = connection.execute(text("SELECT count(*) FROM keys")).scalar_one() > 0
            if not sealed and elsewhere is None and not path.exists():
                make_file(path, ids.token(KEY_SIZE))
            seal = seal_from_file(path, ids)
            keys = SqlKeys(connection, seal)
            if not keys.check():
                keys.sign()
    except DBAPIError as error:
        raise refusal(error, opened.what) from error
    sync_folder(data)
    return seal
