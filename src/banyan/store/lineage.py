"""Rows of the zones below, by the direct child that reports them. As many as the tree has zones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from sqlalchemy import Connection, and_, bindparam, delete, exists, or_, select

from banyan.core.ids import RackCode, ZoneCode
from banyan.core.lineage import Row
from banyan.core.zone import ChildState
from banyan.store import tables
from banyan.store.bulk import BulkPut, OfMany, batches
from banyan.store.rows import page_limit

_T = tables.lineage
_VIA = (
    select(_T.c.content)
    .where(_T.c.via == bindparam("via"), _T.c.code > bindparam("after"))
    .order_by(_T.c.code)
    .limit(bindparam("limit"))
)
_CARRIERS = select(_T.c.via).where(_T.c.code == bindparam("code")).order_by(_T.c.via)
_OTHER = _T.alias("other")
_CARRIER, _OTHERS, _ITSELF = (tables.children.alias(name) for name in ("carrier", "others", "itself"))
_RETIRED = ChildState.RETIRED.value
_DOUBLED = (
    select(_T.c.code, _T.c.via)
    .join(_CARRIER, and_(_CARRIER.c.code == _T.c.via, _CARRIER.c.state != _RETIRED))
    .where(
        _T.c.via != _T.c.code,
        or_(
            exists().where(_ITSELF.c.code == _T.c.code, _ITSELF.c.state != _RETIRED),
            exists().where(
                _OTHER.c.code == _T.c.code,
                _OTHER.c.via != _T.c.via,
                _OTHERS.c.code == _OTHER.c.via,
                _OTHERS.c.state != _RETIRED,
            ),
        ),
    )
    .order_by(_T.c.code, _T.c.via)
    .limit(bindparam("limit"))
)
_PUT = BulkPut(_T)
_DELETE = OfMany(_T.c.code, lambda listed: delete(_T).where(_T.c.via == bindparam("via"), listed))
_OWNERS = tables.rack_owners
_OWNERS_PAGE = (
    select(_OWNERS.c.rack, _OWNERS.c.zone)
    .where(_OWNERS.c.rack > bindparam("after"))
    .order_by(_OWNERS.c.rack)
    .limit(bindparam("limit"))
)
_PUT_OWNERS = BulkPut(_OWNERS)
_DELETE_OWNERS = OfMany(_OWNERS.c.rack, lambda listed: delete(_OWNERS).where(listed))
_ROW = msgspec.msgpack.Decoder(Row)


class SqlLineage:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def via(self, child: ZoneCode, after: ZoneCode | None, limit: int) -> Sequence[Row]:
        bound = {"via": child, "after": -1 if after is None else after, "limit": page_limit(limit)}
        return [_ROW.decode(content) for content in self._connection.execute(_VIA, bound).scalars()]

    def carriers(self, code: ZoneCode) -> Sequence[ZoneCode]:
        return [ZoneCode(via) for via in self._connection.execute(_CARRIERS, {"code": code}).scalars()]

    def put(self, child: ZoneCode, rows: Iterable[Row]) -> None:
        for batch in batches(rows):
            _PUT(self._connection, [(child, row.code, msgspec.msgpack.encode(row)) for row in batch])

    def delete(self, child: ZoneCode, codes: Iterable[ZoneCode]) -> None:
        for batch in batches(codes):
            _DELETE(self._connection, batch, {"via": child})

    def doubled(self, limit: int) -> Sequence[tuple[ZoneCode, ZoneCode]]:
        rows = self._connection.execute(_DOUBLED, {"limit": page_limit(limit)})
        return [(ZoneCode(code), ZoneCode(via)) for code, via in rows]

    def rack_owners(self, after: RackCode | None, limit: int) -> Sequence[tuple[RackCode, ZoneCode]]:
        bound = {"after": -1 if after is None else after, "limit": page_limit(limit)}
        return [(RackCode(rack), ZoneCode(zone)) for rack, zone in self._connection.execute(_OWNERS_PAGE, bound)]

    def put_rack_owners(self, owners: Mapping[RackCode, ZoneCode | None]) -> None:
        for batch in batches([(rack, zone) for rack, zone in owners.items() if zone is not None]):
            _PUT_OWNERS(self._connection, batch)
        for gone in batches([rack for rack, zone in owners.items() if zone is None]):
            _DELETE_OWNERS(self._connection, gone, {})
