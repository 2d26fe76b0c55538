"""Cancels that members have not acknowledged yet, and orders that were cancelled here."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, select

from banyan.core.ids import ZoneCode
from banyan.core.time import Wall
from banyan.store import tables
from banyan.store.bulk import BulkInsert
from banyan.store.rows import page_limit

_T = tables.cancels
_INSERT = BulkInsert(_T)
_DELETE = delete(_T).where(_T.c.member == bindparam("of"), _T.c.order_id == bindparam("order"))
_OF = (
    select(_T.c.order_id)
    .where(_T.c.member == bindparam("of"), _T.c.order_id > bindparam("after"))
    .order_by(_T.c.order_id)
    .limit(bindparam("limit"))
)
_MEMBERS = select(_T.c.member).where(_T.c.member != 0).distinct().order_by(_T.c.member)
_SWEEP = delete(_T).where(_T.c.member == bindparam("of"), _T.c.at < bindparam("before"))


class SqlCancels:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, members: Sequence[ZoneCode], order: str, at: Wall) -> None:
        _INSERT(self._connection, [(member, order, at) for member in dict.fromkeys(members)])

    def drop(self, member: ZoneCode, order: str) -> None:
        self._connection.execute(_DELETE, {"of": member, "order": order})

    def of(self, member: ZoneCode, after: str, limit: int) -> Sequence[str]:
        bound = {"of": member, "after": after, "limit": page_limit(limit)}
        return list(self._connection.execute(_OF, bound).scalars())

    def members(self) -> Sequence[ZoneCode]:
        return [ZoneCode(code) for code in self._connection.execute(_MEMBERS).scalars()]

    def forget(self, member: ZoneCode, before: Wall) -> None:
        self._connection.execute(_SWEEP, {"of": member, "before": before})
