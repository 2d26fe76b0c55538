"""Statements straight to the driver: what begins and ends units, and the few that each unit of an order runs.

SQLAlchemy's own execution costs 15 to 40 µs for each statement whatever it does; SQLite runs most of these in two. The
driver's errors are raised as SQLAlchemy's, so that nobody above sees which way a statement went (faults.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, cast

import psycopg
from sqlalchemy import Connection, Select
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError

Row = Sequence[Any]


def run(connection: Connection, statement: str) -> None:
    """A statement without parameters or rows: BEGIN, SAVEPOINT. Raises DBAPIError."""
    try:
        driver(connection).execute(statement)
    except (sqlite3.Error, psycopg.Error) as error:
        raise _raised(connection, statement, error) from error


def run_many(connection: Connection, statement: str, rows: Sequence[tuple[object, ...]]) -> int:
    """On SQLite only, one prepared statement for each row; how many rows it changed. Raises DBAPIError."""
    try:
        return driver(connection).executemany(statement, rows).rowcount
    except sqlite3.Error as error:
        raise _raised(connection, statement, error) from error


class Plain:
    """A select of plain columns, whose values need no conversion: numbers and texts. `one` gives its first row, `all`
    every one."""

    def __init__(self, statement: Select[*tuple[Any, ...]]) -> None:
        self._statement = statement
        compiled = statement.compile(dialect=sqlite.dialect(), compile_kwargs={"render_postcompile": True})
        self._sqlite = str(compiled)
        self._names: Sequence[str] = compiled.positiontup or ()
        self._fixed: Mapping[str, object] = compiled.params

    def one(self, connection: Connection, **bound: object) -> Row | None:
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, bound).first()
        try:
            return cast(Row | None, driver(connection).execute(self._sqlite, self._values(bound)).fetchone())
        except sqlite3.Error as error:
            raise _raised(connection, self._sqlite, error) from error

    def all(self, connection: Connection, **bound: object) -> Sequence[Row]:
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, bound).all()
        try:
            return driver(connection).execute(self._sqlite, self._values(bound)).fetchall()
        except sqlite3.Error as error:
            raise _raised(connection, self._sqlite, error) from error

    def _values(self, bound: Mapping[str, object]) -> list[object]:
        return [bound[name] if name in bound else self._fixed[name] for name in self._names]


def driver(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection. That of psycopg has `execute` as well, without parameters all the same."""
    return cast(sqlite3.Connection, connection.connection.driver_connection)


def _raised(connection: Connection, statement: str, error: Exception) -> BaseException:
    base = sqlite3.Error if isinstance(error, sqlite3.Error) else psycopg.Error
    return DBAPIError.instance(statement, None, error, base, hide_parameters=True, dialect=connection.dialect)
