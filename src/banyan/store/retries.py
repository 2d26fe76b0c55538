"""Requests with a retry key: what was asked under it, and what came of it."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, select

from banyan.core.ids import ZoneCode
from banyan.core.shares import RetryRow
from banyan.core.time import Wall
from banyan.store import tables
from banyan.store.bulk import BulkPut
from banyan.store.rows import page_limit

_T = tables.retries
_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
_DECODE = msgspec.msgpack.Decoder(RetryRow).decode
_PUT = BulkPut(_T)
_GET = select(_T.c.content).where(_T.c.id == bindparam("key"))
_DROP = delete(_T).where(_T.c.id == bindparam("key"))
_SOME = (
    select(_T.c.id)
    .where(_T.c.issuer == bindparam("of"), _T.c.project == bindparam("project_id"), _T.c.at >= bindparam("since"))
    .limit(bindparam("limit"))
    .subquery()
)
_COUNT = select(func.count()).select_from(_SOME)
_OLD = select(_T.c.id).where(_T.c.at < bindparam("before")).order_by(_T.c.at, _T.c.id).limit(bindparam("limit"))
_SWEEP = delete(_T).where(_T.c.id.in_(_OLD))


class SqlRetries:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, id: str) -> RetryRow | None:
        content = self._connection.execute(_GET, {"key": id}).scalar()
        return None if content is None else _DECODE(content)

    def put(self, row: RetryRow) -> None:
        _PUT(self._connection, [(row.id, row.issuer, row.project, row.at, _ENCODE(row))])

    def drop(self, id: str) -> None:
        self._connection.execute(_DROP, {"key": id})

    def count(self, issuer: ZoneCode, project: str, since: Wall, limit: int) -> int:
        bound = {"of": issuer, "project_id": project, "since": since, "limit": page_limit(limit)}
        return int(self._connection.execute(_COUNT, bound).scalar_one())

    def sweep(self, before: Wall, limit: int) -> int:
        return self._connection.execute(_SWEEP, {"before": before, "limit": page_limit(limit)}).rowcount
