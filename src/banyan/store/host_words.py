"""What people said about hosts of the zone's racks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, delete

from banyan.core.host import HostWord
from banyan.core.ids import RackCode
from banyan.store import tables
from banyan.store.bulk import OfMany
from banyan.store.rows import Codec, Put, page_limit

_T = tables.host_words
_CODEC = Codec(HostWord, _T)
_RACK = _T.c.rack == bindparam("of")
_MANY = OfMany(_T.c.host, lambda listed: _CODEC.select().where(_RACK, listed))
_PAGE = _CODEC.select().where(_RACK, _T.c.host > bindparam("after")).order_by(_T.c.host).limit(bindparam("limit"))
_PUT = Put(_T)
_DELETE = delete(_T).where(_RACK, _T.c.host == bindparam("id"))
_FORGET = delete(_T).where(_RACK)


class SqlHostWords:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(self, rack: RackCode, after: str, limit: int) -> Sequence[HostWord]:
        bound = {"of": rack, "after": after, "limit": page_limit(limit)}
        return _CODEC.records(self._connection.execute(_PAGE, bound))

    def of(self, rack: RackCode, hosts: Sequence[str]) -> Mapping[str, HostWord]:
        words = _CODEC.records(_MANY(self._connection, hosts, {"of": rack}))
        return {word.host: word for word in words}

    def put(self, word: HostWord) -> None:
        _PUT(self._connection, _CODEC.values(word))

    def delete(self, rack: RackCode, host: str) -> None:
        self._connection.execute(_DELETE, {"of": rack, "id": host})


def forget(connection: Connection, rack: RackCode) -> None:
    """All of a rack."""
    connection.execute(_FORGET, {"of": rack})
