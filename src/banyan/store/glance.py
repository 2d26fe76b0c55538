"""A look into a zone's database from beside the zone, which may be running: nothing is made, locked or written."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from banyan.core.errors import Refused
from banyan.core.time import TimeBasis
from banyan.core.zone import Uplink
from banyan.store.engine import begin_with, database, sqlite_engine
from banyan.store.faults import refusal
from banyan.store.location import SqliteFile, parse_location
from banyan.store.migrations.upgrade import HEAD, current
from banyan.store.open import DATABASE_NAME
from banyan.store.own import SqlSelf
from banyan.store.uplinks import SqlUplinks

# A running zone holds its database for milliseconds at a time. Seconds.
PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Parents:
    """A zone's uplinks, in their order, and what it knows of the time."""

    time: TimeBasis = TimeBasis()
    uplinks: tuple[Uplink, ...] = ()


def parents(data: Path, location: str | None = None) -> Parents:
    """What the zone of the folder `data` has stored of its parents; nothing if there is no database yet.

    `location` as for open_store. Raises Refused("database-other") for a database of another version of this program,
    and what a database that can not be read is refused with.
    """
    where = SqliteFile(data / DATABASE_NAME) if location is None else parse_location(location)
    if isinstance(where, SqliteFile):
        if not where.path.exists():
            return Parents()
        what, engine = f"the database {where.path}", _read_only(where.path)
    else:
        opened = database(where)
        what, engine = opened.what, opened.reader
    try:
        with engine.connect() as connection, connection.begin():
            revision = current(connection)
            if revision is None:
                return Parents()
            if revision != HEAD:
                raise Refused(
                    "database-other",
                    f"{what} is at revision {revision}, this program at {HEAD}; `banyan serve` brings it up to date",
                )
            own = SqlSelf(connection).get()
            return Parents(TimeBasis() if own is None else own.time, tuple(SqlUplinks(connection).all()))
    except DBAPIError as error:
        raise refusal(error, what) from error
    finally:
        engine.dispose()


def _read_only(path: Path) -> Engine:
    def connect() -> sqlite3.Connection:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=PATIENCE)

    engine = sqlite_engine(connect)
    begin_with(engine, "BEGIN")
    return engine
