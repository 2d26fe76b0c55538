"""Keys listed beforehand, as ownership vouchers."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete

from banyan.core.policy import KnownKey
from banyan.store import tables
from banyan.store.rows import Codec, Put, page_limit

_T = tables.known_keys
_CODEC = Codec(KnownKey, _T)
_MINE = _T.c.fingerprint == bindparam("key")
_GET = _CODEC.select().where(_MINE)
_PAGE = (
    _CODEC.select().where(_T.c.fingerprint > bindparam("after")).order_by(_T.c.fingerprint).limit(bindparam("limit"))
)
_PUT = Put(_T)
_DELETE = delete(_T).where(_MINE)


class SqlKnownKeys:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, fingerprint: bytes) -> KnownKey | None:
        row = self._connection.execute(_GET, {"key": fingerprint}).first()
        return None if row is None else _CODEC.record(row)

    def page(self, after: bytes | None, limit: int) -> Sequence[KnownKey]:
        bound = {"after": after or b"", "limit": page_limit(limit)}
        return _CODEC.records(self._connection.execute(_PAGE, bound))

    def put(self, key: KnownKey) -> None:
        _PUT(self._connection, _CODEC.values(key))

    def delete(self, fingerprint: bytes) -> None:
        self._connection.execute(_DELETE, {"key": fingerprint})
