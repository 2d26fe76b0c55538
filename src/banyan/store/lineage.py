"""Rows of the zones below, by the direct child that reports them. As many as the tree has zones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import Connection, bindparam, delete, select

from banyan.core.ids import ZoneCode
from banyan.core.lineage import Row
from banyan.store import tables
from banyan.store.bulk import BulkPut, OfMany, batches
from banyan.store.rows import page_limit

_T = tables.lineage
_VIA = (
    select(_T.c.content)
    .where(_T.c.via == bindparam("via"), _T.c.code > bindparam("after"))
    .order_by(_T.c.code)
    .limit(bindparam("limit"))
)
_CARRIERS = select(_T.c.via).where(_T.c.code == bindparam("code")).order_by(_T.c.via)
_PUT = BulkPut(_T)
_DELETE = OfMany(_T.c.code, lambda listed: delete(_T).where(_T.c.via == bindparam("via"), listed))
_ROW = msgspec.msgpack.Decoder(Row)


class SqlLineage:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def via(self, child: ZoneCode, after: ZoneCode | None, limit: int) -> Sequence[Row]:
        bound = {"via": child, "after": -1 if after is None else after, "limit": page_limit(limit)}
        return [_ROW.decode(content) for content in self._connection.execute(_VIA, bound).scalars()]

    def carriers(self, code: ZoneCode) -> Sequence[ZoneCode]:
        return [ZoneCode(via) for via in self._connection.execute(_CARRIERS, {"code": code}).scalars()]

    def put(self, child: ZoneCode, rows: Iterable[Row]) -> None:
        for batch in batches(rows):
            _PUT(self._connection, [(child, row.code, msgspec.msgpack.encode(row)) for row in batch])

    def delete(self, child: ZoneCode, codes: Iterable[ZoneCode]) -> None:
        for batch in batches(codes):
            _DELETE(self._connection, batch, {"via": child})
