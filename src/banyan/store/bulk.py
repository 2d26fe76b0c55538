"""Many rows at once: one prepared statement on SQLite (executemany), one statement over arrays on PostgreSQL.

Hosts and guests of a scan pass here, 1,000 at a time; SQLAlchemy's own executemany costs more than the
insert itself. Only upserts, inserts and updates by primary key; nothing here knows what the rows mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    CursorResult,
    Double,
    Executable,
    Integer,
    LargeBinary,
    String,
    Table,
    any_,
    bindparam,
    func,
    select,
)
from sqlalchemy import Text as SqlText
from sqlalchemy.dialects.postgresql import ARRAY

from banyan.store.plain import run_many

T = TypeVar("T")

BATCH = 1_000

_ARRAYS: tuple[tuple[type, str], ...] = (
    (BigInteger, "bigint"),
    (Integer, "integer"),
    (Boolean, "boolean"),
    (Double, "double precision"),
    (LargeBinary, "bytea"),
    (String, "text"),
)


def batches(items: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


class BulkPut:
    """Inserts or replaces rows given as tuples in the order of the table's columns."""

    def __init__(self, table: Table) -> None:
        self._width = len(table.primary_key)
        names = [column.name for column in table.c]
        key = [column.name for column in table.primary_key]
        if names[: self._width] != key:
            raise TypeError(f"the key of {table.name} comes first in its columns")
        quoted = ", ".join(f'"{name}"' for name in names)
        conflict = (
            f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET "
            + ", ".join(f'"{name}" = excluded."{name}"' for name in names if name not in key)
        )  # fmt: skip
        marks = ", ".join("?" for _ in names)
        arrays = ", ".join(f"%s::{_array(column.type)}[]" for column in table.c)
        self._sqlite = f"INSERT INTO {table.name} ({quoted}) VALUES ({marks}) {conflict}"
        self._postgresql = f"INSERT INTO {table.name} ({quoted}) SELECT * FROM unnest({arrays}) {conflict}"

    def __call__(self, connection: Connection, rows: Sequence[tuple[object, ...]]) -> None:
        """The last of several rows with one key wins."""
        if not rows:
            return
        if connection.dialect.name == "sqlite":
            run_many(connection, self._sqlite, rows)
        else:
            # One statement must not meet a key twice.
            unique = {row[: self._width]: row for row in rows}
            columns = tuple(list(column) for column in zip(*unique.values(), strict=True))
            connection.exec_driver_sql(self._postgresql, columns)


class BulkInsert:
    """Inserts rows given as tuples in the order of the table's columns; a row whose key is taken is left out."""

    def __init__(self, table: Table) -> None:
        names = [column.name for column in table.c]
        quoted = ", ".join(f'"{name}"' for name in names)
        marks = ", ".join("?" for _ in names)
        arrays = ", ".join(f"%s::{_array(column.type)}[]" for column in table.c)
        into = f"INSERT INTO {table.name} ({quoted})"
        self._sqlite = f"{into} VALUES ({marks}) ON CONFLICT DO NOTHING"
        self._postgresql = f"{into} SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING"

    def __call__(self, connection: Connection, rows: Sequence[tuple[object, ...]]) -> int:
        """How many were inserted."""
        if not rows:
            return 0
        if connection.dialect.name == "sqlite":
            return run_many(connection, self._sqlite, rows)
        columns = tuple(list(column) for column in zip(*rows, strict=True))
        return connection.exec_driver_sql(self._postgresql, columns).rowcount


class BulkUpdate:
    """Changes `names` of rows by the table's key, which is one column; rows are tuples of the new values, then the key.
    No row twice in one call. With `still`, another column, only rows that hold there what the tuple ends with."""

    def __init__(self, table: Table, names: Sequence[str], still: str = "") -> None:
        (key,) = (column.name for column in table.primary_key)
        held = (key, still) if still else (key,)
        sets = ", ".join(f'"{name}" = ?' for name in names)
        self._sqlite = f"UPDATE {table.name} SET {sets} WHERE " + " AND ".join(f'"{name}" = ?' for name in held)
        news = ", ".join(f'"{name}" = new."{name}"' for name in names)
        arrays = ", ".join(f"%s::{_array(table.c[name].type)}[]" for name in (*names, *held))
        listed = ", ".join([*(f'"{name}"' for name in names), *(f'"was_{name}"' for name in held)])
        same = " AND ".join(f'{table.name}."{name}" = new."was_{name}"' for name in held)
        self._postgresql = f"UPDATE {table.name} SET {news} FROM unnest({arrays}) AS new({listed}) WHERE {same}"

    def __call__(self, connection: Connection, rows: Sequence[tuple[object, ...]]) -> int:
        """How many were changed."""
        if not rows:
            return 0
        if connection.dialect.name == "sqlite":
            return run_many(connection, self._sqlite, rows)
        columns = tuple(list(column) for column in zip(*rows, strict=True))
        return connection.exec_driver_sql(self._postgresql, columns).rowcount


class OfMany:
    """A statement about the rows whose `column` is one of many values, its text the same for any number of them.

    `build` makes it from that condition. A list of 1,000 parameters would be compiled, sent and planned anew each
    time, and planned badly by PostgreSQL.
    """

    def __init__(self, column: Column[str] | Column[int], build: Callable[[ColumnElement[bool]], Executable]) -> None:
        listed = func.json_each(bindparam("many")).table_valued("value")
        kind = BigInteger() if isinstance(column.type, Integer) else SqlText()
        self._statements = {
            "sqlite": build(column.in_(select(listed.c.value))),
            "postgresql": build(column == any_(bindparam("many", type_=ARRAY(kind)))),
        }

    def __call__(
        self, connection: Connection, many: Sequence[str] | Sequence[int], bound: Mapping[str, object]
    ) -> CursorResult[Any]:
        name = connection.dialect.name
        values = msgspec.json.encode(many).decode() if name == "sqlite" else list(many)
        return connection.execute(self._statements[name], {**bound, "many": values})


def _array(type_: object) -> str:
    for known, name in _ARRAYS:
        if isinstance(type_, known):
            return name
    raise TypeError(f"no array type for {type_!r}")


def storable(text: str) -> str:
    """`text` as both databases can hold it: no NUL, no lone surrogate (a bottom's JSON may spell both)."""
    if text.isascii():
        return text if "\x00" not in text else text.replace("\x00", "\ufffd")
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")
