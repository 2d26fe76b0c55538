"""Rows of core/image.py on SQLite and PostgreSQL. What each promises stands in core/image_rows.py, tables in
image_tables.py. Nothing here decides who may see what: a query says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, false, func, literal, not_, or_, select, true
from sqlalchemy.sql.selectable import Select

from banyan.core.image import Between, Image, ImageMember, ImageQuery, ImageSort, ImageTask, Stored, Visibility
from banyan.core.time import Wall
from banyan.store import image_tables as tables
from banyan.store.directory import SqlRecords
from banyan.store.quotas import insert_new
from banyan.store.rows import Codec, Put, expired, page_limit

_IMAGES, _I = Codec(Image, tables.images), tables.images.c
_MEMBERS, _M = Codec(ImageMember, tables.image_members), tables.image_members.c
_TASKS, _T = Codec(ImageTask, tables.image_tasks), tables.image_tasks.c
_GRAVES, _G = tables.image_graves, tables.image_graves.c
_PUT_MEMBER = Put(tables.image_members)
_SWEEP = expired(tables.image_tasks)
_STORED = select(func.count(), func.coalesce(func.sum(_I.size), 0)).where(_I.owner == bindparam("of"))

# What stands for no value, so that it has a place in an order: before all others.
_NOTHING: dict[str, str | int] = {
    "name": "", "container_format": "", "disk_format": "", "size": -1, "checksum": "",
}  # fmt: skip


def _key(column: str) -> ColumnElement[Any]:
    held = _I[column]
    return func.coalesce(held, _NOTHING[column]) if column in _NOTHING else held


def _order(query: ImageQuery) -> list[tuple[str, bool]]:
    """(column, descending), which together tell any two images apart."""
    order = [(sort.value, down) for sort, down in query.sort]
    named = {column for column, _ in order}
    for column in (ImageSort.CREATED.value, ImageSort.ID.value):
        if column not in named:
            order.append((column, True))
    # What comes after an id changes nothing.
    at = next(at for at, (column, _) in enumerate(order) if column == ImageSort.ID.value)
    return order[: at + 1]


class SqlImages(SqlRecords[Image]):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, _IMAGES)
        self._find = func.instr if connection.dialect.name == "sqlite" else func.strpos

    def query(self, query: ImageQuery, after: Image | None, limit: int) -> Sequence[Image]:
        order = _order(query)
        conditions = self._conditions(query)
        if after is not None:
            conditions.append(self._beyond(order, after))
        statement = _IMAGES.select().where(*conditions)
        statement = statement.order_by(*(_key(name).desc() if down else _key(name).asc() for name, down in order))
        return [self._record(row) for row in self._connection.execute(statement.limit(page_limit(limit)))]

    def _beyond(self, order: Sequence[tuple[str, bool]], after: Image) -> ColumnElement[bool]:
        values = self._values(after)
        further: ColumnElement[bool] = false()
        for name, down in reversed(order):
            held = _NOTHING.get(name) if values[name] is None else values[name]
            value = literal(held, _I[name].type)
            key = _key(name)
            beyond = key < value if down else key > value
            further = or_(beyond, and_(key == value, further))
        return further

    def _conditions(self, query: ImageQuery) -> list[ColumnElement[bool]]:
        found = [self._seen(query)]
        if query.visibility is not None:
            found.append(_I.visibility == query.visibility.value)
        if query.hidden is not None:
            found.append(_I.hidden.is_(query.hidden))
        if query.owner is not None:
            found.append(_I.owner == query.owner)
        for column, values in (
            (_I.id, query.ids),
            (_I.name, query.names),
            (_I.status, query.statuses),
            (_I.container_format, query.container_formats),
            (_I.disk_format, query.disk_formats),
        ):
            if values:
                found.append(column.in_(list(values)))
        found += [_I[name] == value for name, value in sorted(query.exact.items())]
        if query.size_min is not None:
            found.append(_I.size >= query.size_min)
        if query.size_max is not None:
            found.append(_I.size <= query.size_max)
        found += [self._has(_I.tags, "[", _json(tag)) for tag in query.tags]
        found += [
            self._has(_I.properties, "{", f"{_json(name)}:{_json(value)}")
            for name, value in sorted(query.properties.items())
        ]
        found += [_between(_I.created_at, bounds) for bounds in query.created]
        found += [_between(_I.updated_at, bounds) for bounds in query.updated]
        return found

    def _seen(self, query: ImageQuery) -> ColumnElement[bool]:
        if query.viewer is None:
            return true()
        mine = select(_M.image).where(_M.member == query.viewer)
        if query.member_status is not None:
            mine = mine.where(_M.status == query.member_status.value)
        ways: list[ColumnElement[bool]] = [
            _I.visibility == Visibility.PUBLIC.value,
            and_(_I.visibility == Visibility.SHARED.value, _I.id.in_(mine)),
        ]
        if query.viewer:
            ways.append(_I.owner == query.viewer)
        if query.community or query.visibility is Visibility.COMMUNITY:
            ways.append(_I.visibility == Visibility.COMMUNITY.value)
        return or_(*ways)

    def _has(self, column: ColumnElement[str], opening: str, element: str) -> ColumnElement[bool]:
        # An element of the JSON begins after a bracket or a comma, and a quote within a text is escaped; LIKE would
        # ignore case on SQLite.
        return or_(*(self._find(column, literal(before + element)) > 0 for before in (opening, ",")))

    def stored(self, owner: str) -> Stored:
        images, size = self._connection.execute(_STORED, {"of": owner}).one()
        return Stored(int(images), int(size))

    def unfinished(self, after: str, limit: int) -> Sequence[Image]:
        return self._some(_I.attempt != "", after, limit)

    def awaiting(self, after: str, limit: int) -> Sequence[Image]:
        return self._some(and_(_I.server != "", _I.filled.is_(False)), after, limit)

    def of_server(self, server: str, purpose: str, after: str, limit: int) -> Sequence[Image]:
        return self._some(and_(_I.server != "", _I.server == server, _I.purpose == purpose), after, limit)

    def kept(self, purpose: str, after: str, limit: int) -> Sequence[Image]:
        return self._some(and_(_I.server != "", _I.purpose == purpose), after, limit)

    def _some(self, condition: ColumnElement[bool], after: str, limit: int) -> Sequence[Image]:
        statement = _IMAGES.select().where(condition, _I.id > after).order_by(_I.id).limit(page_limit(limit))
        return _IMAGES.records(self._connection.execute(statement))

    def files(self, names: Sequence[str]) -> frozenset[str]:
        statement = select(_I.data).where(_I.data != "", _I.data.in_(list(names)))
        return frozenset(self._connection.execute(statement).scalars())

    def bury(self, id: str, at: Wall) -> None:
        insert_new(self._connection, _GRAVES, {"id": id, "at": at})

    def buried(self, id: str) -> bool:
        return self._connection.execute(select(literal(1)).where(_G.id == id)).first() is not None

    def forget(self, before: Wall, limit: int) -> int:
        old = select(_G.id).where(_G.at < before).order_by(_G.at).limit(page_limit(limit))
        return self._connection.execute(delete(_GRAVES).where(_G.id.in_(old))).rowcount


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _between(column: ColumnElement[Any], bounds: Between) -> ColumnElement[bool]:
    parts: list[ColumnElement[bool]] = [true()]
    if bounds.least is not None:
        parts.append(column >= bounds.least)
    if bounds.below is not None:
        parts.append(column < bounds.below)
    return not_(and_(*parts)) if bounds.outside else and_(*parts)


class SqlImageMembers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, image: str, member: str) -> ImageMember | None:
        row = self._connection.execute(_MEMBERS.select().where(_M.image == image, _M.member == member)).first()
        return None if row is None else _MEMBERS.record(row)

    def of(self, image: str, after: str, limit: int) -> Sequence[ImageMember]:
        statement = _MEMBERS.select().where(_M.image == image, _M.member > after).order_by(_M.member)
        return _MEMBERS.records(self._connection.execute(statement.limit(page_limit(limit))))

    def add(self, member: ImageMember) -> bool:
        return insert_new(self._connection, tables.image_members, _MEMBERS.values(member))

    def put(self, member: ImageMember) -> None:
        _PUT_MEMBER(self._connection, _MEMBERS.values(member))

    def delete(self, image: str, member: str) -> bool:
        one = delete(tables.image_members).where(_M.image == image, _M.member == member)
        return self._connection.execute(one).rowcount == 1

    def count(self, image: str) -> int:
        counted = select(func.count()).select_from(tables.image_members).where(_M.image == image)
        return int(self._connection.execute(counted).scalar_one())


class SqlImageTasks(SqlRecords[ImageTask]):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, _TASKS)

    def newest(self, image: str, owner: str | None, after: ImageTask | None, limit: int) -> Sequence[ImageTask]:
        statement: Select[*tuple[Any, ...]] = _TASKS.select()
        if image:
            statement = statement.where(_T.image == image)
        if owner is not None:
            statement = statement.where(_T.owner == owner)
        if after is not None:
            at = literal(after.created_at, _T.created_at.type)
            statement = statement.where(or_(_T.created_at < at, and_(_T.created_at == at, _T.id < after.id)))
        statement = statement.order_by(_T.created_at.desc(), _T.id.desc()).limit(page_limit(limit))
        return _TASKS.records(self._connection.execute(statement))

    def sweep(self, before: Wall, limit: int) -> int:
        return self._connection.execute(_SWEEP, {"before": before, "limit": page_limit(limit)}).rowcount


class SqlImageRows:
    """core.image_rows.ImageRows on one connection."""

    def __init__(self, connection: Connection) -> None:
        self.images = SqlImages(connection)
        self.members = SqlImageMembers(connection)
        self.tasks = SqlImageTasks(connection)
