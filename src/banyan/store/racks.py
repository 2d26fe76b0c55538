"""The racks that the zone owns."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete

from banyan.core.ids import RackCode
from banyan.core.rack import Rack
from banyan.store import guests, host_words, hosts, tables
from banyan.store.plain import Plain
from banyan.store.rows import Codec, Put

_T = tables.racks
_CODEC = Codec(Rack, _T)
_ALL = _CODEC.select().order_by(_T.c.name, _T.c.code)
_GET = Plain(_CODEC.select().where(_T.c.code == bindparam("rack")))
_PUT = Put(_T)
_DELETE = (
    delete(_T).where(_T.c.code == bindparam("rack")),
    delete(tables.catalogue).where(tables.catalogue.c.rack == bindparam("rack")),
)


class SqlRacks:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> Sequence[Rack]:
        """By name, then code."""
        return _CODEC.records(self._connection.execute(_ALL))

    def get(self, code: RackCode) -> Rack | None:
        row = _GET.one(self._connection, rack=code)
        return None if row is None else _CODEC.record(row)

    def put(self, rack: Rack) -> None:
        _PUT(self._connection, _CODEC.values(rack))

    def delete(self, code: RackCode) -> None:
        """The rack, its hosts, guests and catalogue, and what was said about its hosts."""
        for statement in _DELETE:
            self._connection.execute(statement, {"rack": code})
        hosts.SIGHTINGS.forget(self._connection, code)
        host_words.forget(self._connection, code)
        guests.SIGHTINGS.forget(self._connection, code)
