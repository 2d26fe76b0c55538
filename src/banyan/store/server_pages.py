"""One page of servers: what a column can decide the database decides, the rest is looked at row by row.

Ordered by the query's sort keys, then by id, descending: ids begin with the instant of creation, so that is "the
newest first". A page goes on after the sort values of the last row that was looked at, not after a number of rows:
what comes or goes meanwhile moves nothing. At most MAX_LOOKED_AT rows are looked at for one page, and its
patterns take at most MAX_STEPS: what strangers ask for holds up a reader for so long, and then it is others' turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, Table, and_, false, func, or_, select

from banyan.core.pattern import Pattern, literal
from banyan.core.server import Server, ServerPage, ServerQuery, Sort, SortKey
from banyan.core.server_order import full_order, read_place, write_place
from banyan.store.bulk import storable
from banyan.store.rows import page_limit

MAX_LOOKED_AT = 20_000
# Steps of all patterns of a page (core/pattern.py): some tenths of a second. The last text may go beyond it.
MAX_STEPS = 500_000
# Rows read at once when some are only found not to match when they are looked at.
_STEP = 1_000


class Pages:
    """`columns`: those that are read; `record` makes a server of them."""

    def __init__(self, table: Table, columns: Sequence[Column[Any]], record: Callable[[Row[Any]], Server]) -> None:
        self._c = table.c
        self._columns = list(columns)
        self._record = record

    def __call__(self, connection: Connection, query: ServerQuery) -> ServerPage:
        """Raises BadInput: "bad-pattern", "bad-marker"."""
        limit = page_limit(query.limit)
        order = full_order(query.sort)
        patterns: list[Pattern] = []

        def pattern(text: str) -> Callable[[str], bool]:
            patterns.append(Pattern(text))
            return patterns[-1].found_in

        named = pattern(query.name) if query.name else None
        tests = _judge(query, pattern)
        fits = None if named is None and tests is None else tests or _every
        values: Sequence[object] | None = read_place(query.after, len(order))
        conditions = self._conditions(query)
        conditions += self._narrowed(query.name, connection.dialect.name)
        found: list[Server] = []
        looked = 0
        while True:
            step = limit + 1 - len(found) if fits is None else min(max(_STEP, limit), MAX_LOOKED_AT)
            statement = self._select(conditions, order, values).limit(step)
            rows = connection.execute(statement).all()
            for row in rows:
                if len(found) == limit or (patterns and sum(one.steps for one in patterns) > MAX_STEPS):
                    return ServerPage(tuple(found), _place(values))
                values = self._values(row, order)
                # Before a server is made of it: where many are looked at, few have the name.
                if named is not None and not named(row.name):
                    continue
                one = self._record(row)
                if fits is None or fits(one):
                    found.append(one)
            looked += len(rows)
            if len(rows) < step:
                return ServerPage(tuple(found))
            if looked >= MAX_LOOKED_AT:
                return ServerPage(tuple(found), _place(values))

    def _select(
        self, conditions: list[ColumnElement[bool]], order: Sequence[Sort], values: Sequence[object] | None
    ) -> Select[Any]:
        statement = select(*self._columns).where(*conditions)
        if values is not None:
            statement = statement.where(self._beyond(order, values))
        return statement.order_by(
            *(self._key(sort).desc() if sort.descending else self._key(sort).asc() for sort in order)
        )

    def _key(self, sort: Sort) -> ColumnElement[Any]:
        # What was never launched sorts before all that was.
        column = self._c[_COLUMNS[sort.key]]
        return func.coalesce(column, 0.0) if sort.key is SortKey.LAUNCHED else column

    def _beyond(self, order: Sequence[Sort], values: Sequence[object]) -> ColumnElement[bool]:
        """Rows after these values: the first key beyond, or the same and the next beyond, and so on."""
        ways: list[ColumnElement[bool]] = []
        same: list[ColumnElement[bool]] = []
        for sort, value in zip(order, values, strict=True):
            key = self._key(sort)
            ways.append(and_(*same, key < value if sort.descending else key > value))
            same.append(key == value)
        return or_(*ways)

    def _narrowed(self, name: str, dialect: str) -> list[ColumnElement[bool]]:
        """What a database can say of a pattern. Not by LIKE: SQLite's takes letters of both cases for one."""
        known = literal(name)
        if known is None or not known[0] or storable(known[0]) != known[0]:
            return []
        text, whole = known
        if whole:
            return [self._c.name == text]
        place = func.strpos if dialect == "postgresql" else func.instr
        return [place(self._c.name, text) > 0]

    def _values(self, row: Row[Any], order: Sequence[Sort]) -> list[object]:
        found = [getattr(row, _COLUMNS[sort.key]) for sort in order]
        return [0.0 if value is None else value for value in found]

    def _conditions(self, query: ServerQuery) -> list[ColumnElement[bool]]:
        c, q = self._c, query
        wanted: list[ColumnElement[bool]] = [c.unconfirmed.is_(False)]
        if q.issuer or not q.every_project:
            wanted.append(c.issuer == q.issuer)
        if q.project:
            wanted.append(c.project == q.project)
        elif not q.every_project:
            wanted.append(false())
        if q.deleted:
            wanted.append(c.deleted_at.is_not(None))
        elif q.changed_since is None:
            wanted.append(c.deleted_at.is_(None))
        for column, value in (
            (c.flavor, q.flavor),
            (c.image, q.image),
            (c.host, q.host),
            (c.availability_zone, q.availability_zone),
            (c.group_id, q.group),
            (c.user, q.user),
        ):
            if value:
                wanted.append(column == value)
        if q.ids:
            wanted.append(c.id.in_(q.ids))
        if q.states:
            wanted.append(c.state.in_([state.value for state in q.states]))
        if q.tasks is not None:
            wanted.append(c.task.in_([task.value for task in q.tasks]))
        if q.changed_since is not None:
            wanted.append(c.updated >= q.changed_since)
        if q.changed_before is not None:
            wanted.append(c.updated <= q.changed_before)
        if q.locked is not None:
            wanted.append(c.locked.is_(q.locked))
        if q.power is not None:
            wanted.append(c.power == q.power.value)
        if q.launched is not None:
            wanted.append(c.launched == q.launched)
        return wanted


_COLUMNS = {
    SortKey.CREATED: "created",
    SortKey.UPDATED: "updated",
    SortKey.NAME: "name",
    SortKey.STATE: "state",
    SortKey.TASK: "task",
    SortKey.HOST: "host",
    SortKey.PROJECT: "project",
    SortKey.USER: "user",
    SortKey.ID: "id",
    SortKey.LAUNCHED: "launched",
    SortKey.FLAVOR: "flavor",
    SortKey.IMAGE: "image",
}


def _place(values: Sequence[object] | None) -> str:
    return "" if values is None else write_place(values)


def _every(server: Server) -> bool:
    return True


def _judge(query: ServerQuery, pattern: Callable[[str], Callable[[str], bool]]) -> Callable[[Server], bool] | None:
    """What no column decides, without the name; None if there is nothing of that. `pattern`: what matches one."""
    q = query
    tests: list[Callable[[Server], bool]] = []
    if q.address:
        address = pattern(q.address)
        tests.append(lambda s: any(address(a.address) for n in s.nics for a in n.addresses if a.version == 4))
    if q.address6:
        address6 = pattern(q.address6)
        tests.append(lambda s: any(address6(a.address) for n in s.nics for a in n.addresses if a.version == 6))
    if q.hostname:
        hostname = pattern(q.hostname)
        tests.append(lambda s: hostname(s.hostname))
    if q.description:
        description = pattern(q.description)
        tests.append(lambda s: description(s.description or ""))
    if q.key_name:
        tests.append(lambda s: s.spec.key is not None and s.spec.key.name == q.key_name)
    if q.config_drive is not None:
        tests.append(lambda s: s.spec.config_drive == q.config_drive)
    if q.tags:
        tests.append(lambda s: set(q.tags).issubset(s.spec.tags))
    if q.tags_any:
        tests.append(lambda s: not set(q.tags_any).isdisjoint(s.spec.tags))
    if q.not_tags:
        tests.append(lambda s: not set(q.not_tags).issubset(s.spec.tags))
    if q.not_tags_any:
        tests.append(lambda s: set(q.not_tags_any).isdisjoint(s.spec.tags))
    if q.metadata:
        tests.append(lambda s: all(s.spec.metadata.get(key) == value for key, value in q.metadata.items()))
    if not tests:
        return None
    return lambda server: all(test(server) for test in tests)
