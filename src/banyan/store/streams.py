"""What each child last reported: its digest as flat counters, and how far its streams are whole here."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from sqlalchemy import Connection, bindparam, delete, select

from banyan.core.ids import ZoneCode
from banyan.store import tables
from banyan.store.rows import Put

_T = tables.streams
_MINE = _T.c.child == bindparam("child")
_DIGEST = select(_T.c.digest, _T.c.counters).where(_MINE)
_PUT_DIGEST = Put(_T, ("child", "digest", "counters"))
_GENERATIONS = select(_T.c.lineage, _T.c.ledger).where(_MINE)
_PUT_GENERATIONS = Put(_T, ("child", "lineage", "ledger"))
_FORGET = (
    delete(_T).where(_MINE),
    delete(tables.lineage).where(tables.lineage.c.via == bindparam("child")),
    delete(tables.ledger).where(tables.ledger.c.via == bindparam("child")),
)
_COUNTERS = msgspec.msgpack.Decoder(dict[str, int])


class SqlStreams:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def digest(self, child: ZoneCode) -> tuple[int, Mapping[str, int]] | None:
        row = self._connection.execute(_DIGEST, {"child": child}).first()
        if row is None or row.digest is None:
            return None
        return row.digest, _COUNTERS.decode(row.counters)

    def put_digest(self, child: ZoneCode, generation: int, counters: Mapping[str, int]) -> None:
        packed = msgspec.msgpack.encode(dict(counters))
        _PUT_DIGEST(self._connection, {"child": child, "digest": generation, "counters": packed})

    def generations(self, child: ZoneCode) -> tuple[int, int]:
        row = self._connection.execute(_GENERATIONS, {"child": child}).first()
        return (0, 0) if row is None else (row.lineage, row.ledger)

    def put_generations(self, child: ZoneCode, lineage: int, ledger: int) -> None:
        _PUT_GENERATIONS(self._connection, {"child": child, "lineage": lineage, "ledger": ledger})

    def forget(self, child: ZoneCode) -> None:
        for statement in _FORGET:
            self._connection.execute(statement, {"child": child})
