"""Use per project, by the child that reports it; `via` 0 is this zone's own racks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, bindparam, delete, select, tuple_

from banyan.core.ids import ZoneCode
from banyan.core.lineage import UseRow
from banyan.store import tables
from banyan.store.bulk import BulkPut, batches, storable
from banyan.store.rows import page_limit

_T = tables.ledger
_VIA = (
    select(_T.c.issuer, _T.c.project, _T.c.name, _T.c.guests, _T.c.vcpu, _T.c.memory_mib, _T.c.disk_gib)
    .where(
        _T.c.via == bindparam("via"),
        tuple_(_T.c.issuer, _T.c.project) > tuple_(bindparam("issuer"), bindparam("project")),
    )
    .order_by(_T.c.issuer, _T.c.project)
    .limit(bindparam("limit"))
)
_PUT = BulkPut(_T)
_DELETE = delete(_T).where(
    _T.c.via == bindparam("via"), _T.c.issuer == bindparam("issuer"), _T.c.project == bindparam("project")
)


class SqlLedger:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def via(self, child: ZoneCode, after: tuple[int, str] | None, limit: int) -> Sequence[UseRow]:
        issuer, project = (-1, "") if after is None else after
        bound = {"via": child, "issuer": issuer, "project": project, "limit": page_limit(limit)}
        return [UseRow(*row) for row in self._connection.execute(_VIA, bound)]

    def put(self, child: ZoneCode, rows: Iterable[UseRow]) -> None:
        for batch in batches(rows):
            _PUT(
                self._connection,
                [
                    (child, r.issuer, r.project, storable(r.name), r.guests, r.vcpu, r.memory_mib, r.disk_gib)
                    for r in batch
                ],
            )

    def delete(self, child: ZoneCode, keys: Iterable[tuple[int, str]]) -> None:
        for batch in batches(keys):
            self._connection.execute(
                _DELETE, [{"via": child, "issuer": issuer, "project": project} for issuer, project in batch]
            )
