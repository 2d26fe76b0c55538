"""Records to rows and back, by field name: one codec per record type, made once.

Plain values (numbers, texts, bytes, enums) are columns; mappings, tuples and nested records are JSON in a
text column, so that an operator can read them. Whole-record blobs are MessagePack maps, so that a newer
program may add fields with defaults. See tables.py for which is used where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from sqlalchemy import Column, Connection, Delete, Select, Table, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite

R = TypeVar("R")

MAX_PAGE = 10_000


def page_limit(limit: int) -> int:
    """`limit`, checked: a page holds 1 to MAX_PAGE rows."""
    if not 1 <= limit <= MAX_PAGE:
        raise ValueError(f"a page holds 1 to {MAX_PAGE} rows, got a limit of {limit}")
    return limit


def expired(table: Table) -> Delete:
    """Deletes at most `limit` rows of `table`, by `id`, whose `expires` is below `before`; the oldest first."""
    oldest = select(table.c.id).where(table.c.expires < bindparam("before"))
    return delete(table).where(table.c.id.in_(oldest.order_by(table.c.expires, table.c.id).limit(bindparam("limit"))))


def _plain(hint: object) -> type | None:
    """The class of a plain column's values; None if the field is kept as JSON."""
    options = [arg for arg in get_args(hint) if arg is not type(None)] if get_origin(hint) is not None else []
    if len(options) == 1 and type(None) in get_args(hint):
        hint = options[0]
    hint = getattr(hint, "__supertype__", hint)
    if isinstance(hint, type) and issubclass(hint, (str, int, float, bool, bytes, Enum)):
        return hint
    return None


def _same(value: object) -> object:
    return value


class Codec(Generic[R]):
    """Between a frozen dataclass and the columns of the same names in `table`."""

    def __init__(self, record: type[R], table: Table) -> None:
        self.table = table
        self._record = record
        self._out: list[tuple[str, Callable[[object], object]]] = []
        self._in: list[tuple[str, Callable[[object], object]]] = []
        hints = get_type_hints(record)
        for field in fields(record):  # type: ignore[arg-type]  # R is a dataclass type
            if field.name not in table.c:
                raise TypeError(f"{record.__name__}.{field.name} has no column in {table.name}")
            kind = _plain(hints[field.name])
            if kind is None:
                decode = msgspec.json.Decoder(hints[field.name]).decode
                self._out.append((field.name, lambda value: msgspec.json.encode(value, order="deterministic").decode()))
                self._in.append((field.name, decode))  # type: ignore[arg-type]  # a text column gives str
            elif issubclass(kind, Enum):
                self._out.append((field.name, lambda value: value.value))  # type: ignore[attr-defined]  # an Enum has a value
                self._in.append((field.name, lambda value, kind=kind: None if value is None else kind(value)))  # type: ignore[misc]  # mypy infers no type beside a default
            else:
                self._out.append((field.name, _same))
                self._in.append((field.name, _same))
        self.columns: list[Column[object]] = [table.c[name] for name, _ in self._out]

    def select(self) -> Select[*tuple[Any, ...]]:
        """A select of this record's columns, in the order that `record` reads them."""
        return select(*self.columns)

    def values(self, record: R) -> dict[str, object]:
        return {name: out(getattr(record, name)) for name, out in self._out}

    def record(self, row: Sequence[object]) -> R:
        return self._record(*[read(value) for (_, read), value in zip(self._in, row, strict=True)])

    def records(self, rows: Iterable[Sequence[object]]) -> list[R]:
        return [self.record(row) for row in rows]


class Put:
    """INSERT … ON CONFLICT (key) DO UPDATE of one row, for both databases. `columns`: those written."""

    def __init__(self, table: Table, columns: Sequence[str] | None = None) -> None:
        names = list(columns) if columns is not None else [column.name for column in table.c]
        key = [column.name for column in table.primary_key]
        rest = [name for name in names if name not in key]
        values = {name: bindparam(name, type_=table.c[name].type) for name in names}
        lite, post = sqlite.insert(table).values(values), postgresql.insert(table).values(values)
        self._statements = {
            "sqlite": lite.on_conflict_do_update(index_elements=key, set_={n: lite.excluded[n] for n in rest}),
            "postgresql": post.on_conflict_do_update(index_elements=key, set_={n: post.excluded[n] for n in rest}),
        }

    def __call__(self, connection: Connection, values: Mapping[str, object]) -> None:
        connection.execute(self._statements[connection.dialect.name], values)
