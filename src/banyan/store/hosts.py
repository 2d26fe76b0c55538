"""Hosts of the zone's racks. Amounts, traits and the rest are one blob: columns answer questions about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import Connection

from banyan.core.host import Host
from banyan.core.ids import RackCode
from banyan.store import tables
from banyan.store.bulk import batches, storable
from banyan.store.sightings import Sightings

SIGHTINGS = Sightings(tables.hosts, tables.host_scans)
# The same host gives the same bytes, whatever order its sets and maps iterate in.
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DECODER = msgspec.msgpack.Decoder(Host)


class SqlHosts:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, rack: RackCode, id: str) -> Host | None:
        row = SIGHTINGS.get(self._connection, rack, id)
        return None if row is None else _DECODER.decode(row.content)

    def page(self, rack: RackCode, after: str | None, limit: int) -> Sequence[Host]:
        return [_DECODER.decode(row.content) for row in SIGHTINGS.page(self._connection, rack, after, limit)]

    def put(self, rack: RackCode, scan: int, hosts: Iterable[Host]) -> None:
        for batch in batches(hosts):
            rows = [(rack, host.id, storable(host.name), _ENCODER.encode(host)) for host in batch]
            SIGHTINGS.record(self._connection, rack, scan, rows)

    def sweep(self, rack: RackCode, scan: int) -> int:
        return SIGHTINGS.sweep(self._connection, rack, scan)

    def count(self, rack: RackCode) -> int:
        return SIGHTINGS.count(self._connection, rack)
