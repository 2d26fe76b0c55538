"""The zone's own row."""

from __future__ import annotations

from sqlalchemy import Connection

from banyan.core.records import Self
from banyan.store import tables
from banyan.store.rows import Codec, Put

_CODEC = Codec(Self, tables.zone)
_GET = _CODEC.select()
_PUT = Put(tables.zone)


class SqlSelf:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> Self | None:
        row = self._connection.execute(_GET).first()
        return None if row is None else _CODEC.record(row)

    def put(self, row: Self) -> None:
        _PUT(self._connection, {"id": 1, **_CODEC.values(row)})
