"""Guests of the zone's racks: one narrow row each, since a rack may have hundreds of thousands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, func, literal, select

from banyan.core.guest import Guest, GuestState
from banyan.core.ids import RackCode
from banyan.core.lineage import UseRow
from banyan.store import tables
from banyan.store.bulk import batches, storable
from banyan.store.rows import MAX_PAGE
from banyan.store.sightings import Sightings

_T = tables.guests
_P = tables.catalogue
SIGHTINGS = Sightings(_T, tables.guest_scans)
_BY_STATE = (
    select(_T.c.state, _T.c.offered, func.count())
    .where(_T.c.rack == bindparam("rack"))
    .group_by(_T.c.state, _T.c.offered)
    .order_by(_T.c.state, _T.c.offered)
)
_STRAYS = select(_T).where(_T.c.rack == bindparam("rack"), _T.c.native.is_(False)).order_by(_T.c.id).limit(MAX_PAGE)
_SUMS = (
    select(
        _T.c.project,
        func.count().label("guests"),
        func.sum(_T.c.vcpu).label("vcpu"),
        func.sum(_T.c.memory_mib).label("memory_mib"),
        func.sum(_T.c.disk_gib).label("disk_gib"),
    )
    .where(_T.c.rack == bindparam("rack"))
    .group_by(_T.c.project)
    .subquery()
)
_BY_PROJECT = (
    select(
        _SUMS.c.project,
        func.coalesce(_P.c.name, literal("")),
        _SUMS.c.guests,
        _SUMS.c.vcpu,
        _SUMS.c.memory_mib,
        _SUMS.c.disk_gib,
    )
    .select_from(
        _SUMS.outerjoin(_P, and_(_P.c.rack == bindparam("rack"), _P.c.kind == "project", _P.c.id == _SUMS.c.project))
    )
    .order_by(_SUMS.c.project)
)


class SqlGuests:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(self, rack: RackCode, after: str | None, limit: int) -> Sequence[Guest]:
        return [_guest(row) for row in SIGHTINGS.page(self._connection, rack, after, limit)]

    def put(self, rack: RackCode, scan: int, guests: Iterable[Guest]) -> None:
        for batch in batches(guests):
            SIGHTINGS.record(self._connection, rack, scan, [_row(rack, guest) for guest in batch])

    def sweep(self, rack: RackCode, scan: int) -> int:
        return SIGHTINGS.sweep(self._connection, rack, scan)

    def count_by_state(self, rack: RackCode) -> Mapping[tuple[str, bool], int]:
        rows = self._connection.execute(_BY_STATE, {"rack": rack})
        return {(state, offered): count for state, offered, count in rows}

    def strays(self, rack: RackCode) -> Sequence[Guest]:
        return [_guest(row) for row in self._connection.execute(_STRAYS, {"rack": rack})]

    def use_by_project(self, rack: RackCode) -> Sequence[UseRow]:
        rows = self._connection.execute(_BY_PROJECT, {"rack": rack})
        # PostgreSQL sums bigint as numeric.
        return [
            UseRow(rack, project, name, guests, int(vcpu), int(memory), int(disk))
            for project, name, guests, vcpu, memory, disk in rows
        ]


def _row(rack: RackCode, g: Guest) -> tuple[object, ...]:
    """In the order of tables.guests, after its number."""
    return (
        rack,
        g.id,
        storable(g.name),
        g.project,
        g.state.value,
        g.host,
        g.flavor,
        g.vcpu,
        g.memory_mib,
        g.disk_gib,
        g.created,
        g.native,
        g.move,
        g.offered,
    )


def _guest(row: Row[Any]) -> Guest:
    return Guest(
        row.id,
        row.name,
        row.project,
        GuestState(row.state),
        row.host,
        row.flavor,
        row.vcpu,
        row.memory_mib,
        row.disk_gib,
        row.created,
        row.native,
        row.move,
        row.offered,
    )
