"""The zone's parents, one row each."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, select

from banyan.core.zone import Uplink
from banyan.store import tables
from banyan.store.rows import Codec, Put

_T = tables.uplinks
_CODEC = Codec(Uplink, _T)
_ALL = _CODEC.select().order_by(_T.c.id)
_GET = _CODEC.select().where(_T.c.id == bindparam("id"))
_PUT = Put(_T)
_DELETE = delete(_T).where(_T.c.id == bindparam("id"))
_SEQUENCE = select(tables.sequences.c.value).where(tables.sequences.c.name == "uplinks")
_PUT_SEQUENCE = Put(tables.sequences)


class SqlUplinks:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> Sequence[Uplink]:
        return _CODEC.records(self._connection.execute(_ALL))

    def get(self, id: int) -> Uplink | None:
        row = self._connection.execute(_GET, {"id": id}).first()
        return None if row is None else _CODEC.record(row)

    def put(self, uplink: Uplink) -> None:
        _PUT(self._connection, _CODEC.values(uplink))

    def next_id(self) -> int:
        """A number that no uplink ever had: what is kept elsewhere under a deleted one's is never met again."""
        number = (self._connection.execute(_SEQUENCE).scalar() or 0) + 1
        _PUT_SEQUENCE(self._connection, {"name": "uplinks", "value": number})
        return number

    def delete(self, id: int) -> None:
        self._connection.execute(_DELETE, {"id": id})
