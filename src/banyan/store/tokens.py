"""What is kept of API tokens: never the tokens."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam

from banyan.core.policy import TokenRecord
from banyan.core.time import Wall
from banyan.store import tables
from banyan.store.rows import Codec, Put, expired, page_limit

_T = tables.tokens
_CODEC = Codec(TokenRecord, _T)
_GET = _CODEC.select().where(_T.c.id == bindparam("token"))
_PAGE = _CODEC.select().where(_T.c.id > bindparam("after")).order_by(_T.c.id).limit(bindparam("limit"))
_PUT = Put(_T)
_SWEEP = expired(_T)


class SqlTokens:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, id: str) -> TokenRecord | None:
        row = self._connection.execute(_GET, {"token": id}).first()
        return None if row is None else _CODEC.record(row)

    def page(self, after: str | None, limit: int) -> Sequence[TokenRecord]:
        bound = {"after": after or "", "limit": page_limit(limit)}
        return _CODEC.records(self._connection.execute(_PAGE, bound))

    def put(self, record: TokenRecord) -> None:
        _PUT(self._connection, _CODEC.values(record))

    def sweep(self, before: Wall, limit: int) -> int:
        bound = {"before": before, "limit": page_limit(limit)}
        return self._connection.execute(_SWEEP, bound).rowcount
