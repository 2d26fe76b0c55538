"""What was asked of servers, one row for each request, its events inside."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, bindparam, select

from banyan.core.server import ActionRecord
from banyan.store import tables
from banyan.store.bulk import BulkPut
from banyan.store.rows import page_limit

_T = tables.server_actions
_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
_DECODE = msgspec.msgpack.Decoder(ActionRecord).decode
_PUT = BulkPut(_T)
_GET = select(_T.c.content).where(_T.c.server == bindparam("server"), _T.c.request == bindparam("request"))
_OF = (
    select(_T.c.content)
    .where(_T.c.server == bindparam("server"))
    .order_by(_T.c.started.desc(), _T.c.request.desc())
    .limit(bindparam("limit"))
)


class SqlActions:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, server: str, request: str) -> ActionRecord | None:
        content = self._connection.execute(_GET, {"server": server, "request": request}).scalar()
        return None if content is None else _DECODE(content)

    def of(self, server: str, limit: int) -> Sequence[ActionRecord]:
        rows = self._connection.execute(_OF, {"server": server, "limit": page_limit(limit)})
        return [_DECODE(content) for content in rows.scalars()]

    def put(self, record: ActionRecord) -> None:
        _PUT(self._connection, [(record.server, record.request, record.started, _ENCODE(record))])
