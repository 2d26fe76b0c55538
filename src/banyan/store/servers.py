"""Servers of the zone's racks: what is searched or summed is a column, the rest two blobs and the user data.

`content` is what was ordered, the same bytes for all servers of one order; `life` what else is shown. An update
writes only the columns that can have changed: most steps of a server's life touch neither what lists go by nor
`content`. Pages: server_pages.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, bindparam, delete, func, literal, select

from banyan.core.errors import Conflict
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.order import Specification
from banyan.core.server import (
    Fault,
    Holding,
    Nic,
    PendingResize,
    Power,
    Server,
    ServerPage,
    ServerQuery,
    Task,
    VmState,
)
from banyan.core.time import Wall
from banyan.store import tables
from banyan.store.bulk import BATCH, BulkInsert, BulkUpdate, OfMany, batches, storable
from banyan.store.rows import page_limit
from banyan.store.server_pages import Pages

_T = tables.servers


class _Life(msgspec.Struct, frozen=True, array_like=True):
    """The blob of what changes and is only read. Fields are only appended, with defaults."""

    description: str | None = None
    hostname: str = ""
    host_name: str = ""
    locked_by: str = ""
    locked_reason: str = ""
    fault: Fault | None = None
    nics: tuple[Nic, ...] = ()
    resize: PendingResize | None = None
    connected: bool = False


class _Content(msgspec.Struct, frozen=True, array_like=True):
    """The blob of what was ordered. Fields are only appended, with defaults."""

    specification: Specification
    request: str = ""


_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
_LIFE = msgspec.msgpack.Decoder(_Life).decode
_CONTENT = msgspec.msgpack.Decoder(_Content).decode

_ALL = [column for column in _T.c if column.name != "user_data"]
_GET = select(_T).where(_T.c.id == bindparam("id"))
_MANY = OfMany(_T.c.id, lambda listed: select(*_ALL).where(listed))
_INSERT = BulkInsert(_T)
_SHOWN = ("description", "hostname", "host_name", "locked_by", "locked_reason", "fault", "nics", "connected")
# What never changes; what most steps of a life change, and no index but that of what is busy goes by; and the rest.
_FIXED = ("id", "issuer", "project", "user", "rack", "created", "order", "index", "request")
_STEPS = ("state", "task", "power", "wanted", "updated", "launched", "move", "revision", "progress", *_SHOWN)
_OTHERS = [name for name in Server.__struct_fields__ if name not in (*_FIXED, *_STEPS)]
_fixed: Callable[[Server], tuple[object, ...]] = attrgetter(*_FIXED)
_others: Callable[[Server], tuple[object, ...]] = attrgetter(*_OTHERS)
_not_of_a_step: Callable[[Server], tuple[object, ...]] = attrgetter(*_FIXED, *_OTHERS)
_STEP = ("state", "task", "power", "wanted", "updated", "launched", "move", "revision", "progress", "life")
_KEY = ("id", "issuer", "project", "user", "rack", "created", "order_id", "place")
_WHOLE = tuple(column.name for column in _T.c if column.name not in _KEY)
# Also what was read without its user data may be changed.
_REST = tuple(name for name in _WHOLE if name != "user_data")
_UPDATES = {names: BulkUpdate(_T, names) for names in (_STEP, _REST, _WHOLE)}
_STEP_ON = BulkUpdate(_T, _STEP, "revision")
_BUSY = (
    select(_T)
    .where(
        _T.c.rack == bindparam("of"),
        _T.c.id > bindparam("after"),
        _T.c.task != literal("", literal_execute=True),
        _T.c.unconfirmed.is_(False),
    )
    .order_by(_T.c.id)
    .limit(bindparam("limit"))
)
_NEWEST = select(func.max(_T.c.id))
_LIVES = _T.c.deleted_at.is_(None)
_COUNT = select(func.count()).select_from(_T).where(_LIVES, _T.c.unconfirmed.is_(False))
_HOLDINGS = (
    select(_T.c.host, _T.c.issuer, _T.c.project, _T.c.state, _T.c.shape, func.count())
    .where(_T.c.rack == bindparam("of"), _LIVES, _T.c.unconfirmed.is_(False))
    .group_by(_T.c.host, _T.c.issuer, _T.c.project, _T.c.state, _T.c.shape)
)
_WAITING = (
    select(_T.c.host, _T.c.issuer, _T.c.project, _T.c.state, _T.c.shape, func.count())
    .where(_T.c.rack == bindparam("of"), _LIVES, _T.c.unconfirmed.is_(True))
    .group_by(_T.c.host, _T.c.issuer, _T.c.project, _T.c.state, _T.c.shape)
)
_KEPT = (
    select(_T.c.kept_host, _T.c.issuer, _T.c.project, _T.c.state, _T.c.kept_shape, func.count())
    .where(_T.c.rack == bindparam("of"), _LIVES, _T.c.kept_host != "")
    .group_by(_T.c.kept_host, _T.c.issuer, _T.c.project, _T.c.state, _T.c.kept_shape)
)
_MEMBERS = (
    select(_T.c.host, func.count())
    .where(
        _T.c.issuer == bindparam("of"),
        _T.c.group_id == bindparam("group"),
        _T.c.group_id != literal("", literal_execute=True),
        _T.c.host != "",
        _LIVES,
    )
    .group_by(_T.c.host)
)
_GROUP_RACKS = (
    select(_T.c.rack, func.count())
    .where(
        _T.c.issuer == bindparam("of"),
        _T.c.group_id == bindparam("group"),
        _T.c.group_id != literal("", literal_execute=True),
        _T.c.host != "",
        _LIVES,
    )
    .group_by(_T.c.rack)
)
_GONE = (
    select(_T.c.id)
    .where(_T.c.deleted_at < bindparam("before"))
    .order_by(_T.c.deleted_at, _T.c.id)
    .limit(bindparam("limit"))
)
_DROP = OfMany(_T.c.id, lambda listed: delete(_T).where(listed))
_DROP_ACTIONS = OfMany(tables.server_actions.c.server, lambda listed: delete(tables.server_actions).where(listed))


class SqlServers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, servers: Sequence[Server]) -> None:
        ordered: dict[int, _Ordered] = {}
        for batch in batches(servers):
            if _INSERT(self._connection, [_row(server, ordered) for server in batch]) != len(batch):
                raise Conflict("id-taken", "an id that was drawn is in use already; draw again", transient=True)

    def get(self, id: str) -> Server | None:
        row = self._connection.execute(_GET, {"id": id}).one_or_none()
        return None if row is None else _whole(row)

    def many(self, ids: Sequence[str]) -> Mapping[str, Server]:
        if len(ids) > BATCH:
            raise ValueError(f"at most {BATCH} servers at once, got {len(ids)}")
        return {row.id: server(row) for row in _MANY(self._connection, list(ids), {})}

    def update(self, *pairs: tuple[Server, Server]) -> None:
        ordered: dict[int, _Ordered] = {}
        rows: dict[tuple[str, ...], list[tuple[object, ...]]] = {}
        for before, after in pairs:
            if _differs(before, after, _fixed):
                raise ValueError(f"server {before.id}: none of {', '.join(_FIXED)} ever changes")
            if not _differs(before, after, _others):
                rows.setdefault(_STEP, []).append((*_step(after), before.id))
                continue
            names = _WHOLE if before.spec.user_data != after.spec.user_data else _REST
            row = dict(zip(_NAMES, _row(after, ordered), strict=True))
            rows.setdefault(names, []).append((*(row[name] for name in names), before.id))
        for names, changed in rows.items():
            _UPDATES[names](self._connection, changed)

    def step(self, *pairs: tuple[Server, Server]) -> bool:
        for before, after in pairs:
            if _differs(before, after, _not_of_a_step):
                raise ValueError(f"server {before.id}: this changes more than a step of its life does")
        rows = [(*_step(after), before.id, before.revision) for before, after in pairs]
        return all(_STEP_ON(self._connection, batch) == len(batch) for batch in batches(rows))

    def page(self, query: ServerQuery) -> ServerPage:
        return PAGES(self._connection, query)

    def count(self) -> int:
        return int(self._connection.execute(_COUNT).scalar_one())

    def busy(self, rack: RackCode, after: str, limit: int) -> Sequence[Server]:
        bound = {"of": rack, "after": after, "limit": page_limit(limit)}
        return [_whole(row) for row in self._connection.execute(_BUSY, bound)]

    def newest(self) -> str:
        return self._connection.execute(_NEWEST).scalar() or ""

    def holdings(self, rack: RackCode) -> Sequence[Holding]:
        found = []
        for statement, kept, waiting in ((_HOLDINGS, False, False), (_WAITING, False, True), (_KEPT, True, False)):
            for host, issuer, project, state, shape, count in self._connection.execute(statement, {"of": rack}):
                found.append(Holding(host, issuer, project, VmState(state), shape, int(count), kept, waiting))
        return found

    def members(self, issuer: ZoneCode, group: str) -> Mapping[str, int]:
        rows = self._connection.execute(_MEMBERS, {"of": issuer, "group": group})
        return {host: int(count) for host, count in rows}

    def group_racks(self, issuer: ZoneCode, group: str) -> Mapping[RackCode, int]:
        rows = self._connection.execute(_GROUP_RACKS, {"of": issuer, "group": group})
        return {RackCode(rack): int(count) for rack, count in rows}

    def drop(self, ids: Sequence[str]) -> None:
        for batch in batches(ids):
            _DROP_ACTIONS(self._connection, batch, {})
            _DROP(self._connection, batch, {})

    def is_gone(self, before: Wall) -> bool:
        return self._connection.execute(_GONE, {"before": before, "limit": 1}).first() is not None

    def sweep(self, before: Wall, limit: int) -> int:
        ids = list(self._connection.execute(_GONE, {"before": before, "limit": page_limit(limit)}).scalars())
        self.drop(ids)
        return len(ids)


_NAMES = [column.name for column in _T.c]

# What follows from a specification alone: its blob, and its shape's key.
_Ordered = tuple[bytes, str]


def _row(s: Server, ordered: dict[int, _Ordered]) -> tuple[object, ...]:
    """In the order of the table. `ordered`: worked out already, by the identity of the specification."""
    spec, resize = s.spec, s.resize
    known = ordered.get(id(spec))
    if known is None:
        lean = msgspec.structs.replace(spec, user_data="") if spec.user_data else spec
        known = ordered[id(spec)] = (_ENCODE(_Content(lean, s.request)), spec.shape.key)
    content, shape = known
    return (
        s.id,
        s.issuer,
        s.project,
        s.user,
        storable(s.name),
        s.rack,
        s.host,
        shape,
        "" if resize is None else resize.host,
        "" if resize is None else resize.spec.shape.key,
        s.state._value_,
        s.task._value_,
        s.power._value_,
        s.wanted._value_,
        s.locked,
        s.unconfirmed,
        spec.flavor.id if spec.flavor is not None else "",
        spec.image.id if spec.image is not None else "",
        s.availability_zone,
        spec.hints.group,
        s.created,
        s.updated,
        s.launched,
        s.terminated,
        s.deleted_at,
        s.move,
        s.revision,
        s.order,
        s.index,
        s.progress,
        _life(s),
        content,
        spec.user_data,
    )


def _step(s: Server) -> tuple[object, ...]:
    """In the order of _STEP."""
    return (
        s.state._value_,
        s.task._value_,
        s.power._value_,
        s.wanted._value_,
        s.updated,
        s.launched,
        s.move,
        s.revision,
        s.progress,
        _life(s),
    )


def _life(s: Server) -> bytes:
    return _ENCODE(
        _Life(
            s.description,
            s.hostname,
            s.host_name,
            s.locked_by,
            s.locked_reason,
            s.fault,
            s.nics,
            s.resize,
            s.connected,
        )
    )


def _differs(before: Server, after: Server, fields: Callable[[Server], tuple[object, ...]]) -> bool:
    """True if any of these fields does. Most are the same objects, which tuples tell by that alone."""
    return fields(before) != fields(after)


def server(row: Row[Any]) -> Server:
    """A row of the table, with or without user data, which is left out."""
    content, life = _CONTENT(row.content), _LIFE(row.life)
    return Server(
        row.id,
        ZoneCode(row.issuer),
        row.project,
        row.user,
        row.name,
        RackCode(row.rack),
        row.host,
        content.specification,
        Wall(row.created),
        Wall(row.updated),
        VmState(row.state),
        Task(row.task),
        Power(row.power),
        VmState(row.wanted),
        life.description,
        life.hostname,
        row.availability_zone,
        life.host_name,
        row.locked,
        life.locked_by,
        life.locked_reason,
        life.fault,
        life.nics,
        life.resize,
        row.launched,
        row.terminated,
        row.deleted_at,
        row.move,
        row.revision,
        row.order_id,
        row.place,
        row.progress,
        row.unconfirmed,
        content.request,
    )


def _whole(row: Row[Any]) -> Server:
    """With its user data."""
    found = server(row)
    if not row.user_data:
        return found
    spec = msgspec.structs.replace(found.spec, user_data=row.user_data)
    return msgspec.structs.replace(found, spec=spec)


PAGES = Pages(_T, _ALL, server)
