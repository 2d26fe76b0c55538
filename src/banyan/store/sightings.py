"""How a scan is recorded: rows that carry the number of the scan that last saw them (mission A5).

Hosts and guests share it. What did not change has only its scan number rewritten, in one statement per
1,000 rows and without touching an index; what is new or changed is upserted; `sweep` drops the unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Table, bindparam, delete, func, select, tuple_, update

from banyan.core.ids import RackCode
from banyan.store.bulk import BulkPut
from banyan.store.rows import page_limit

# (rack, id, scan, …): the columns of a table of sightings begin so.
_SCAN = 2


class Sightings:
    """The statements over one table whose columns begin with rack, id, scan, name."""

    def __init__(self, table: Table) -> None:
        c = table.c
        self._columns = list(c)
        ids = c.id.in_(bindparam("ids", expanding=True))
        self._known = select(*self._columns).where(c.rack == bindparam("of"), ids)
        self._touch = update(table).where(c.rack == bindparam("of"), ids).values(scan=bindparam("seen"))
        self._put = BulkPut(table)
        self._sweep = delete(table).where(c.rack == bindparam("rack"), c.scan != bindparam("scan"))
        self._count = select(func.count()).select_from(table).where(c.rack == bindparam("rack"))
        self._page = (
            select(*self._columns)
            .where(c.rack == bindparam("rack"), tuple_(c.name, c.id) > tuple_(bindparam("name"), bindparam("id")))
            .order_by(c.name, c.id)
            .limit(bindparam("limit"))
        )

    def record(self, connection: Connection, rack: RackCode, scan: int, rows: Sequence[tuple[object, ...]]) -> None:
        """`rows` in the order of the table's columns; at most bulk.BATCH of them."""
        bound = {"of": rack, "ids": [row[1] for row in rows]}
        known = {row[1]: tuple(row) for row in connection.execute(self._known, bound)}
        fresh, same = [], []
        for row in rows:
            old = known.get(row[1])
            if old is not None and old[_SCAN + 1 :] == row[_SCAN + 1 :]:
                same.append(row[1])
            else:
                fresh.append(row)
        if same:
            connection.execute(self._touch, {"of": rack, "ids": same, "seen": scan})
        self._put(connection, fresh)

    def sweep(self, connection: Connection, rack: RackCode, scan: int) -> int:
        return connection.execute(self._sweep, {"rack": rack, "scan": scan}).rowcount

    def count(self, connection: Connection, rack: RackCode) -> int:
        return int(connection.execute(self._count, {"rack": rack}).scalar_one())

    def page(self, connection: Connection, rack: RackCode, after: str | None, limit: int) -> Sequence[Row[Any]]:
        """Whole rows by (name, id); `after` is "name\\x00id". Their values are typed by the table only."""
        name, _, id_ = (after or "").partition("\x00")
        bound = {"rack": rack, "name": name, "id": id_, "limit": page_limit(limit)}
        return connection.execute(self._page, bound).all()
