"""The zone's certificate authorities: the present one and those before it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, false, update

from banyan.core.records import AuthorityRow
from banyan.store import tables
from banyan.store.rows import Codec, Put

_T = tables.authorities
_CODEC = Codec(AuthorityRow, _T)
_ALL = _CODEC.select().order_by(_T.c.created_at, _T.c.fingerprint)
_PUT = Put(_T)
_DEMOTE = update(_T).where(_T.c.current, _T.c.fingerprint != bindparam("present")).values(current=false())


class SqlAuthorities:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> Sequence[AuthorityRow]:
        """Oldest first."""
        return _CODEC.records(self._connection.execute(_ALL))

    def put(self, row: AuthorityRow) -> None:
        """A row that is `current` takes that place from any other: exactly one is."""
        if row.current:
            self._connection.execute(_DEMOTE, {"present": row.fingerprint})
        _PUT(self._connection, _CODEC.values(row))
