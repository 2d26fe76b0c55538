"""The directory's rows on SQLite and PostgreSQL. Rules stand in core/directory_rows.py, tables in directory_tables.py.

One class serves every kind of record that has an id; memberships, implications and grants are their own keys. Nothing
here knows what a role may.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    delete,
    func,
    literal,
    not_,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from banyan.core import directory
from banyan.core.directory import ActorKind, Credential, Grant, Project, User
from banyan.core.directory_rows import Filters
from banyan.core.errors import Conflict
from banyan.core.principal import ScopeKind
from banyan.core.time import Wall
from banyan.store import directory_tables as tables
from banyan.store.keys import Seal
from banyan.store.rows import Codec, expired, page_limit

R = TypeVar("R")

# Values of one IN (…): PostgreSQL's protocol and SQLite's default both end at some 32,000 parameters.
_MANY = 5_000


def _insert(connection: Connection, table: Table, values: Mapping[str, object]) -> bool:
    """False if any of the table's unique keys is taken. No error, so that the unit's transaction stands."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    # Without RETURNING of our own, PostgreSQL's dialect adds one for the key, and then counts no rows.
    key = next(iter(table.primary_key))
    return connection.execute(insert(table).on_conflict_do_nothing().returning(key), values).first() is not None


def _where(table: Table, filters: Filters) -> list[ColumnElement[bool]]:
    return [
        table.c[name].is_(None) if value is None else table.c[name] == value for name, value in sorted(filters.items())
    ]


class _Statements:
    """What every login asks of a kind of record, built once: building a statement costs more than running it."""

    def __init__(self, codec: Codec[Any]) -> None:
        key = codec.table.c.id
        self.get = codec.select().where(key == bindparam("id"))
        self.some = codec.select().where(key.in_(bindparam("ids", expanding=True)))
        # Where the id stands in a row.
        self.id_at = [column.name for column in codec.columns].index("id")


_statements = cache(_Statements)


class SqlRecords(Generic[R]):
    """core.directory_rows.Rows of one record type. A codec is made once, not for each unit."""

    def __init__(self, connection: Connection, codec: Codec[R]) -> None:
        self._connection = connection
        self._codec = codec
        self._table = codec.table
        self._statements = _statements(codec)

    def _record(self, row: Sequence[object]) -> R:
        return self._codec.record(row)

    def _values(self, record: R) -> dict[str, object]:
        return self._codec.values(record)

    def get(self, id: str) -> R | None:
        row = self._connection.execute(self._statements.get, {"id": id}).first()
        return None if row is None else self._record(row)

    def some(self, ids: Collection[str]) -> Mapping[str, R]:
        found: dict[str, R] = {}
        wanted = sorted(set(ids))
        for begin in range(0, len(wanted), _MANY):
            rows = self._connection.execute(self._statements.some, {"ids": wanted[begin : begin + _MANY]})
            found.update({row[self._statements.id_at]: self._record(row) for row in rows})
        return found

    def find(self, filters: Filters) -> R | None:
        found = self.page(filters, "", 1)
        return found[0] if found else None

    def page(self, filters: Filters, after: str, limit: int) -> Sequence[R]:
        return self._page(_where(self._table, filters), after, limit)

    def _page(self, conditions: Sequence[ColumnElement[bool]], after: str, limit: int) -> list[R]:
        key = self._table.c.id
        statement = self._codec.select().where(*conditions, key > after).order_by(key).limit(page_limit(limit))
        return [self._record(row) for row in self._connection.execute(statement)]

    def add(self, record: R) -> bool:
        return _insert(self._connection, self._table, self._values(record))

    def put(self, record: R) -> None:
        values = self._values(record)
        id = values.pop("id")
        try:
            self._connection.execute(update(self._table).where(self._table.c.id == id).values(values))
        except IntegrityError as error:
            raise Conflict("name-taken", "another one of that name is there already; choose another name") from error

    def delete(self, id: str) -> bool:
        return self._connection.execute(delete(self._table).where(self._table.c.id == id)).rowcount == 1

    def delete_some(self, filters: Filters, limit: int) -> int:
        key = self._table.c.id
        first = select(key).where(*_where(self._table, filters)).order_by(key).limit(page_limit(limit))
        return self._connection.execute(delete(self._table).where(key.in_(first))).rowcount

    def count(self, filters: Filters) -> int:
        counted = select(func.count()).select_from(self._table).where(*_where(self._table, filters))
        return int(self._connection.execute(counted).scalar_one())


class SqlProjects(SqlRecords[Project]):
    def tagged(
        self,
        filters: Filters,
        after: str,
        limit: int,
        *,
        all_of: Sequence[str] = (),
        any_of: Sequence[str] = (),
        not_all_of: Sequence[str] = (),
        none_of: Sequence[str] = (),
    ) -> Sequence[Project]:
        """Reads all projects that the other filters leave: tags are a JSON list in the row, and have no index."""
        conditions = _where(self._table, filters)
        if all_of:
            conditions.append(and_(*map(self._has, all_of)))
        if any_of:
            conditions.append(or_(*map(self._has, any_of)))
        if not_all_of:
            conditions.append(not_(and_(*map(self._has, not_all_of))))
        if none_of:
            conditions.append(not_(or_(*map(self._has, none_of))))
        return self._page(conditions, after, limit)

    def _has(self, tag: str) -> ColumnElement[bool]:
        # An element begins after a bracket or a comma, and no tag has a comma: within one, a quote is escaped. LIKE
        # would ignore case on SQLite.
        quoted = msgspec.json.encode(tag).decode()
        find = func.instr if self._connection.dialect.name == "sqlite" else func.strpos
        return or_(*(find(self._table.c.tags, literal(before + quoted)) > 0 for before in ("[", ",")))


class SqlUsers(SqlRecords[User]):
    def forget_project(self, project: str) -> None:
        mine = self._table.c.default_project == project
        self._connection.execute(update(self._table).where(mine).values(default_project=None))


@dataclass(frozen=True, slots=True)
class _SealedCredential:
    id: str
    owner: str
    project: str | None
    kind: str
    access: str
    blob: bytes
    extra: directory.Extra


_CREDENTIALS = Codec(_SealedCredential, tables.credentials)


class SqlCredentials(SqlRecords[Credential]):
    """Blobs are sealed, each under its row's id."""

    def __init__(self, connection: Connection, seal: Seal) -> None:
        super().__init__(connection, _CREDENTIALS)  # type: ignore[arg-type]  # rows are read and written below
        self._seal = seal

    def _record(self, row: Sequence[object]) -> Credential:
        held = _CREDENTIALS.record(row)
        blob = self._seal.open(f"credential {held.id}", held.blob)
        return Credential(held.id, held.owner, held.project, held.kind, blob, held.access, held.extra)

    def _values(self, record: Credential) -> dict[str, object]:
        values = {field.name: getattr(record, field.name) for field in fields(_SealedCredential)}
        values["blob"] = self._seal.close(f"credential {record.id}", record.blob)
        return _CREDENTIALS.values(_SealedCredential(**values))


_M = tables.memberships.c
_GROUPS_OF = select(_M.group_id).where(_M.user_id == bindparam("user")).order_by(_M.group_id)


class SqlMemberships:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._table = tables.memberships

    def add(self, group: str, user: str) -> bool:
        return _insert(self._connection, self._table, {"group_id": group, "user_id": user})

    def remove(self, group: str, user: str) -> bool:
        return self._connection.execute(delete(self._table).where(*self._one(group, user))).rowcount == 1

    def has(self, group: str, user: str) -> bool:
        return self._connection.execute(select(literal(1)).where(*self._one(group, user))).first() is not None

    def groups(self, user: str) -> Sequence[str]:
        return list(self._connection.execute(_GROUPS_OF, {"user": user}).scalars())

    def users(self, group: str, after: str, limit: int) -> Sequence[str]:
        c = self._table.c
        statement = select(c.user_id).where(c.group_id == group, c.user_id > after).order_by(c.user_id)
        return list(self._connection.execute(statement.limit(page_limit(limit))).scalars())

    def _one(self, group: str, user: str) -> tuple[ColumnElement[bool], ...]:
        return self._table.c.group_id == group, self._table.c.user_id == user


_I = tables.implications.c
_IMPLICATIONS = select(_I.prior, _I.implied).order_by(_I.prior, _I.implied)


class SqlImplications:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._table = tables.implications

    def all(self) -> Sequence[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._connection.execute(_IMPLICATIONS)]

    def add(self, prior: str, implied: str) -> bool:
        return _insert(self._connection, self._table, {"prior": prior, "implied": implied})

    def remove(self, prior: str, implied: str) -> bool:
        c = self._table.c
        done = self._connection.execute(delete(self._table).where(c.prior == prior, c.implied == implied))
        return done.rowcount == 1


_GRANTS = Codec(Grant, tables.grants)
_T = tables.grants.c
_OF_ACTORS = tuple_(_T.actor_kind, _T.actor).in_(bindparam("actors", expanding=True))
_ON_TARGETS = tuple_(_T.target_kind, _T.target).in_(bindparam("targets", expanding=True))
_GRANTS_ON = _GRANTS.select().where(_OF_ACTORS, _ON_TARGETS).order_by(*tables.grants.primary_key)
_GRANTS_OF = (
    _GRANTS.select()
    .where(_OF_ACTORS, _T.target_kind == bindparam("kind"))
    .order_by(*tables.grants.primary_key)
    .limit(bindparam("limit"))
)


class SqlGrants:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._table = tables.grants

    def add(self, grant: Grant) -> bool:
        return _insert(self._connection, self._table, _GRANTS.values(grant))

    def remove(self, grant: Grant) -> bool:
        return self._connection.execute(delete(self._table).where(*self._one(grant))).rowcount == 1

    def has(self, grant: Grant) -> bool:
        return self._connection.execute(select(literal(1)).where(*self._one(grant))).first() is not None

    def on(
        self, actors: Collection[tuple[ActorKind, str]], targets: Collection[tuple[ScopeKind, str]]
    ) -> Sequence[Grant]:
        wanted = {"actors": [(kind.value, id) for kind, id in actors], "targets": [(k.value, id) for k, id in targets]}
        return _GRANTS.records(self._connection.execute(_GRANTS_ON, wanted))

    def of(self, actors: Collection[tuple[ActorKind, str]], kind: ScopeKind, limit: int) -> Sequence[Grant]:
        wanted = {"actors": [(k.value, id) for k, id in actors], "kind": kind.value, "limit": page_limit(limit)}
        return _GRANTS.records(self._connection.execute(_GRANTS_OF, wanted))

    def page(self, filters: Filters, after: Grant | None, limit: int) -> Sequence[Grant]:
        conditions = _where(self._table, filters)
        if after is not None:
            key = list(self._table.primary_key)
            values = _GRANTS.values(after)
            conditions.append(tuple_(*key) > tuple_(*(literal(values[column.name], column.type) for column in key)))
        statement = _GRANTS.select().where(*conditions).order_by(*self._table.primary_key)
        return _GRANTS.records(self._connection.execute(statement.limit(page_limit(limit))))

    def drop(self, filters: Filters) -> int:
        if not filters:
            raise ValueError("grants are dropped by at least one filter")
        return self._connection.execute(delete(self._table).where(*_where(self._table, filters))).rowcount

    def _one(self, grant: Grant) -> list[ColumnElement[bool]]:
        values = _GRANTS.values(grant)
        return [self._table.c[name] == value for name, value in values.items()]


_PROJECTS, _USERS = Codec(Project, tables.projects), Codec(User, tables.users)
_GROUPS, _ROLES = Codec(directory.Group, tables.groups), Codec(directory.Role, tables.roles)
_APPLICATION_CREDENTIALS = Codec(directory.ApplicationCredential, tables.application_credentials)
_ACCESS_RULES = Codec(directory.AccessRule, tables.access_rules)
_REGIONS, _SERVICES = Codec(directory.Region, tables.regions), Codec(directory.Service, tables.services)
_ENDPOINTS, _REVOCATIONS = Codec(directory.Endpoint, tables.endpoints), Codec(directory.Revocation, tables.revocations)
_SWEEP = expired(tables.revocations)


class SqlDirectory:
    """core.directory_rows.DirectoryRows on one connection."""

    def __init__(self, connection: Connection, seal: Seal) -> None:
        self._connection = connection
        self.projects = SqlProjects(connection, _PROJECTS)
        self.users = SqlUsers(connection, _USERS)
        self.groups = SqlRecords(connection, _GROUPS)
        self.memberships = SqlMemberships(connection)
        self.roles = SqlRecords(connection, _ROLES)
        self.implications = SqlImplications(connection)
        self.grants = SqlGrants(connection)
        self.application_credentials = SqlRecords(connection, _APPLICATION_CREDENTIALS)
        self.access_rules = SqlRecords(connection, _ACCESS_RULES)
        self.credentials = SqlCredentials(connection, seal)
        self.regions = SqlRecords(connection, _REGIONS)
        self.services = SqlRecords(connection, _SERVICES)
        self.endpoints = SqlRecords(connection, _ENDPOINTS)
        self.revocations = SqlRecords(connection, _REVOCATIONS)

    def sweep_revocations(self, now: Wall, limit: int) -> int:
        return self._connection.execute(_SWEEP, {"before": now, "limit": limit}).rowcount
