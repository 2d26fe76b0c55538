"""Where each receiver of alarms is in the journal, and how it is, one row each."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete

from banyan.core.receiver import ReceiverRow
from banyan.store.receiver_tables import receivers
from banyan.store.rows import Codec, Put

_T = receivers
_CODEC = Codec(ReceiverRow, _T)
_ALL = _CODEC.select().order_by(_T.c.name)
_GET = _CODEC.select().where(_T.c.name == bindparam("named"))
_PUT = Put(_T)
_DELETE = delete(_T).where(_T.c.name == bindparam("named"))


class SqlReceivers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> Sequence[ReceiverRow]:
        return _CODEC.records(self._connection.execute(_ALL))

    def get(self, name: str) -> ReceiverRow | None:
        row = self._connection.execute(_GET, {"named": name}).first()
        return None if row is None else _CODEC.record(row)

    def put(self, row: ReceiverRow) -> None:
        _PUT(self._connection, _CODEC.values(row))

    def delete(self, name: str) -> None:
        self._connection.execute(_DELETE, {"named": name})
