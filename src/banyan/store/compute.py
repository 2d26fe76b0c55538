"""Rows of core/compute.py on SQLite and PostgreSQL: flavors, key pairs, groups, aggregates, migrations.

What each promises stands in core/compute_rows.py, tables in compute_tables.py; limits and use are in quotas.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, delete, literal, or_, select, update
from sqlalchemy.exc import IntegrityError

from banyan.core.compute import (
    MAX_AGGREGATES,
    Aggregate,
    Flavor,
    FlavorQuery,
    FlavorSort,
    KeyPair,
    Migration,
    MigrationState,
    ServerGroup,
)
from banyan.core.errors import Conflict
from banyan.core.time import Wall
from banyan.store import compute_tables as tables
from banyan.store.directory import SqlRecords
from banyan.store.quotas import SqlQuotas, insert_new
from banyan.store.rows import Codec, page_limit

R = TypeVar("R")

_NEXT = {
    "sqlite": "INSERT INTO sequences (name, value) VALUES (?, 1) "
    "ON CONFLICT (name) DO UPDATE SET value = sequences.value + 1 RETURNING value",
    "postgresql": "INSERT INTO sequences (name, value) VALUES (%s, 1) "
    "ON CONFLICT (name) DO UPDATE SET value = sequences.value + 1 RETURNING value",
}


def _next(connection: Connection, table: Table) -> int:
    """A number that no row of the table ever had."""
    return int(connection.exec_driver_sql(_NEXT[connection.dialect.name], (table.name,)).scalar_one())


_FLAVORS = Codec(Flavor, tables.flavors)
_OPEN = tables.flavor_projects
MAX_OPEN = 10_000


class SqlFlavors(SqlRecords[Flavor]):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, _FLAVORS)

    def query(self, query: FlavorQuery, after: Flavor | None, limit: int) -> Sequence[Flavor]:
        c = self._table.c
        conditions: list[ColumnElement[bool]] = [c.memory_mib >= query.least_memory, c.disk_gib >= query.least_disk]
        if query.public is not None:
            ways: list[ColumnElement[bool]] = [c.public.is_(query.public)]
            if query.public and query.project:
                ways.append(c.id.in_(select(_OPEN.c.flavor).where(_OPEN.c.project == query.project)))
            conditions.append(or_(*ways))
        key = c[query.sort.value]
        if after is not None:
            values = self._values(after)
            value, id = literal(values[key.name], key.type), literal(values["id"], c.id.type)
            beyond = key < value if query.descending else key > value
            further = c.id < id if query.descending else c.id > id
            conditions.append(further if query.sort is FlavorSort.ID else or_(beyond, and_(key == value, further)))
        order = [key, c.id] if query.sort is not FlavorSort.ID else [c.id]
        statement = self._codec.select().where(*conditions)
        statement = statement.order_by(*(one.desc() if query.descending else one.asc() for one in order))
        return [self._record(row) for row in self._connection.execute(statement.limit(page_limit(limit)))]

    def projects(self, flavor: str) -> Sequence[str]:
        statement = select(_OPEN.c.project).where(_OPEN.c.flavor == flavor).order_by(_OPEN.c.project).limit(MAX_OPEN)
        return list(self._connection.execute(statement).scalars())

    def open(self, flavor: str, project: str) -> bool:
        return insert_new(self._connection, _OPEN, {"flavor": flavor, "project": project})

    def close(self, flavor: str, project: str) -> bool:
        one = delete(_OPEN).where(_OPEN.c.flavor == flavor, _OPEN.c.project == project)
        return self._connection.execute(one).rowcount == 1

    def is_open(self, flavor: str, project: str) -> bool:
        one = select(literal(1)).where(_OPEN.c.flavor == flavor, _OPEN.c.project == project)
        return self._connection.execute(one).first() is not None


_KEYS = Codec(KeyPair, tables.key_pairs)
_K = tables.key_pairs.c


class SqlKeyPairs:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, user: str, name: str) -> KeyPair | None:
        row = self._connection.execute(_KEYS.select().where(_K.user == user, _K.name == name)).first()
        return None if row is None else _KEYS.record(row)

    def page(self, user: str, after: str, limit: int) -> Sequence[KeyPair]:
        statement = _KEYS.select().where(_K.user == user, _K.name > after).order_by(_K.name)
        return _KEYS.records(self._connection.execute(statement.limit(page_limit(limit))))

    def add(self, key: KeyPair) -> bool:
        numbered = replace(key, number=_next(self._connection, tables.key_pairs))
        return insert_new(self._connection, tables.key_pairs, _KEYS.values(numbered))

    def delete(self, user: str, name: str) -> bool:
        one = delete(tables.key_pairs).where(_K.user == user, _K.name == name)
        return self._connection.execute(one).rowcount == 1


_GROUPS = Codec(ServerGroup, tables.server_groups)
_AGGREGATES = Codec(Aggregate, tables.aggregates)
_A = tables.aggregates.c


class SqlAggregates:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> Sequence[Aggregate]:
        statement = _AGGREGATES.select().order_by(_A.id).limit(MAX_AGGREGATES)
        return _AGGREGATES.records(self._connection.execute(statement))

    def get(self, id: int) -> Aggregate | None:
        row = self._connection.execute(_AGGREGATES.select().where(_A.id == id)).first()
        return None if row is None else _AGGREGATES.record(row)

    def add(self, aggregate: Aggregate) -> Aggregate | None:
        numbered = replace(aggregate, id=_next(self._connection, tables.aggregates))
        return numbered if insert_new(self._connection, tables.aggregates, _AGGREGATES.values(numbered)) else None

    def put(self, aggregate: Aggregate) -> None:
        values = _AGGREGATES.values(aggregate)
        id = values.pop("id")
        try:
            self._connection.execute(update(tables.aggregates).where(_A.id == id).values(values))
        except IntegrityError as error:
            raise Conflict("name-taken", f"there is another aggregate named {aggregate.name!r}") from error

    def delete(self, id: int) -> bool:
        return self._connection.execute(delete(tables.aggregates).where(_A.id == id)).rowcount == 1


_MIGRATIONS = Codec(Migration, tables.migrations)
_M = tables.migrations.c
_NEWEST = (
    select(_M.number)
    .where(_M.server == bindparam("of"), _M.state == MigrationState.MOVING.value)
    .order_by(_M.number.desc())
    .limit(1)
    .scalar_subquery()
)
_SETTLE = update(tables.migrations).where(_M.number == _NEWEST)
_OLD = select(_M.number).where(_M.updated_at < bindparam("before")).order_by(_M.updated_at, _M.number)


class SqlMigrations:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, migration: Migration) -> int:
        number = _next(self._connection, tables.migrations)
        values = _MIGRATIONS.values(replace(migration, number=number))
        insert_new(self._connection, tables.migrations, values)
        return number

    def settle(self, server: str, state: MigrationState, at: Wall) -> None:
        self._connection.execute(_SETTLE.values(state=state.value, updated_at=at), {"of": server})

    def page(self, servers: Sequence[str], project: str, user: str, after: int, limit: int) -> Sequence[Migration]:
        conditions = [_M.number < after] if after else []
        if servers:
            conditions.append(_M.server.in_(list(servers)))
        if project:
            conditions.append(_M.project == project)
        if user:
            conditions.append(_M.user == user)
        statement = _MIGRATIONS.select().where(*conditions).order_by(_M.number.desc()).limit(page_limit(limit))
        return _MIGRATIONS.records(self._connection.execute(statement))

    def number(self, id: str) -> int | None:
        found: int | None = self._connection.execute(select(_M.number).where(_M.id == id)).scalar()
        return found

    def sweep(self, before: Wall, limit: int) -> int:
        old = _OLD.limit(page_limit(limit))
        done = delete(tables.migrations).where(_M.number.in_(old))
        return self._connection.execute(done, {"before": before}).rowcount


class SqlCompute:
    """core.compute_rows.ComputeRows on one connection."""

    def __init__(self, connection: Connection) -> None:
        self.flavors = SqlFlavors(connection)
        self.key_pairs = SqlKeyPairs(connection)
        self.groups = SqlRecords(connection, _GROUPS)
        self.aggregates = SqlAggregates(connection)
        self.migrations = SqlMigrations(connection)
        self.quotas = SqlQuotas(connection)
