"""Shares of orders: what members were asked for, and which word is owed to them; and what became of orders here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, literal, select

from banyan.core.shares import HERE, ShareKey, ShareRow, ShareState
from banyan.core.time import Wall
from banyan.store import tables
from banyan.store.bulk import BulkPut
from banyan.store.rows import page_limit

_T = tables.shares
_PUT = BulkPut(_T)


def _is(state: ShareState) -> Any:
    return _T.c.state == literal(state.value, literal_execute=True)


_ROWS = select(_T.c.member, _T.c.id, _T.c.order_id, _T.c.state, _T.c.at, _T.c.group_id)
_GET = _ROWS.where(_T.c.member == bindparam("of"), _T.c.id == bindparam("share"))
_OF_ORDER = _ROWS.where(_T.c.order_id == bindparam("order"), _T.c.member != HERE).order_by(_T.c.member, _T.c.id)
_DROP = delete(_T).where(_T.c.member == bindparam("of"), _T.c.id == bindparam("share"))
_DECIDED = _is(ShareState.CONFIRM) | _is(ShareState.CANCEL)
_OF_GROUP = (
    _ROWS.where(
        _T.c.group_id == bindparam("group"),
        _T.c.group_id != literal("", literal_execute=True),
        _T.c.member != HERE,
        _DECIDED,
    )
    .order_by(_T.c.member, _T.c.id)
    .limit(1_000)
)
_OWED = (
    _ROWS.where(_T.c.member == bindparam("of"), _T.c.id > bindparam("after"), _DECIDED)
    .order_by(_T.c.id)
    .limit(bindparam("limit"))
)
_OWING = select(_T.c.member).where(_T.c.member != HERE, _DECIDED).distinct().order_by(_T.c.member)
_ASKED = (
    select(_T.c.order_id)
    .where(_is(ShareState.ASKED), _T.c.order_id > bindparam("after"))
    .distinct()
    .order_by(_T.c.order_id)
    .limit(bindparam("limit"))
)
_HELD = select(func.count(), func.min(_T.c.at)).where(_is(ShareState.HELD))
_OLD = (
    select(_T.c.id)
    .where(_T.c.member == HERE, _T.c.at < bindparam("before"))
    .order_by(_T.c.id)
    .limit(bindparam("limit"))
)
_SWEEP = delete(_T).where(_T.c.member == HERE, _T.c.id.in_(_OLD))


class SqlShares:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, rows: Sequence[ShareRow]) -> None:
        _PUT(self._connection, [(row.member, row.id, row.order, row.state.value, row.at, row.group) for row in rows])

    def get(self, member: int, id: str) -> ShareRow | None:
        row = self._connection.execute(_GET, {"of": member, "share": id}).first()
        return None if row is None else _row(row)

    def of_order(self, order: str) -> Sequence[ShareRow]:
        return [_row(row) for row in self._connection.execute(_OF_ORDER, {"order": order})]

    def of_group(self, group: str) -> Sequence[ShareRow]:
        return [_row(row) for row in self._connection.execute(_OF_GROUP, {"group": group})]

    def drop(self, keys: Sequence[ShareKey]) -> None:
        if keys:
            self._connection.execute(_DROP, [{"of": member, "share": id} for member, id in keys])

    def owed(self, member: int, after: str, limit: int) -> Sequence[ShareRow]:
        bound = {"of": member, "after": after, "limit": page_limit(limit)}
        return [_row(row) for row in self._connection.execute(_OWED, bound)]

    def owing(self) -> Sequence[int]:
        return list(self._connection.execute(_OWING).scalars())

    def asked(self, after: str, limit: int) -> Sequence[str]:
        bound = {"after": after, "limit": page_limit(limit)}
        return list(self._connection.execute(_ASKED, bound).scalars())

    def held(self) -> tuple[int, Wall | None]:
        count, since = self._connection.execute(_HELD).one()
        return int(count), None if since is None else Wall(since)

    def sweep(self, before: Wall, limit: int) -> int:
        return self._connection.execute(_SWEEP, {"before": before, "limit": page_limit(limit)}).rowcount


def _row(row: Sequence[Any]) -> ShareRow:
    member, id, order, state, at, group = row
    return ShareRow(member, id, order, ShareState(state), Wall(at), group)
