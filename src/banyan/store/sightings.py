"""How a scan is recorded: rows, and beside them the number of the scan that last saw each (mission A5).

Hosts and guests share it. A row keeps the number `n` under which it was first written; what did not change is not
written again, only its entry among the scans is; `sweep` drops what the scan did not see. See tables.py for why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Table, bindparam, delete, func, select, tuple_

from banyan.core.ids import RackCode
from banyan.store.bulk import BulkPut, OfMany
from banyan.store.rows import page_limit

# The columns of a table of sightings begin with n, rack, id, name.
_N, _ID = 0, 2

_RESERVE = {
    "sqlite": "INSERT INTO sequences (name, value) VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET value = sequences.value + excluded.value RETURNING value",
    "postgresql": "INSERT INTO sequences (name, value) VALUES (%s, %s) "
    "ON CONFLICT (name) DO UPDATE SET value = sequences.value + excluded.value RETURNING value",
}


class Sightings:
    """The statements over `rows`, and over `scans`, which says when each was last seen."""

    def __init__(self, rows: Table, scans: Table) -> None:
        c, s = rows.c, scans.c
        self._name = rows.name
        self._known = OfMany(c.id, lambda listed: select(rows).where(c.rack == bindparam("of"), listed))
        self._put = BulkPut(rows)
        self._see = BulkPut(scans)
        unseen = (s.rack == bindparam("of"), s.scan != bindparam("seen"))
        self._sweep = (
            delete(rows).where(c.n.in_(select(s.n).where(*unseen))),
            delete(scans).where(*unseen),
        )
        self._forget = (delete(rows).where(c.rack == bindparam("of")), delete(scans).where(s.rack == bindparam("of")))
        self._count = select(func.count()).select_from(scans).where(s.rack == bindparam("of"))
        self._page = (
            select(rows)
            .where(c.rack == bindparam("of"), tuple_(c.name, c.id) > tuple_(bindparam("name"), bindparam("id")))
            .order_by(c.name, c.id)
            .limit(bindparam("limit"))
        )

    def record(self, connection: Connection, rack: RackCode, scan: int, seen: Sequence[tuple[Any, ...]]) -> None:
        """`seen`: rows in the order of the table's columns, without the first; at most bulk.BATCH of them."""
        wanted = {row[_ID - 1]: row for row in seen}
        known = {row[_ID]: tuple(row) for row in self._known(connection, list(wanted), {"of": rack})}
        numbers = {id_: row[_N] for id_, row in known.items()}
        new = [id_ for id_ in wanted if id_ not in known]
        numbers.update(zip(new, self._reserve(connection, len(new)), strict=True))
        changed = [(numbers[id_], *row) for id_, row in wanted.items() if id_ not in known or known[id_][1:] != row]
        self._put(connection, changed)
        self._see(connection, sorted((rack, numbers[id_], scan) for id_ in wanted))

    def sweep(self, connection: Connection, rack: RackCode, scan: int) -> int:
        swept = [connection.execute(statement, {"of": rack, "seen": scan}).rowcount for statement in self._sweep]
        return swept[0]

    def forget(self, connection: Connection, rack: RackCode) -> None:
        for statement in self._forget:
            connection.execute(statement, {"of": rack})

    def count(self, connection: Connection, rack: RackCode) -> int:
        return int(connection.execute(self._count, {"of": rack}).scalar_one())

    def get(self, connection: Connection, rack: RackCode, id_: str) -> Row[Any] | None:
        """The whole row."""
        return self._known(connection, [id_], {"of": rack}).first()

    def page(self, connection: Connection, rack: RackCode, after: str | None, limit: int) -> Sequence[Row[Any]]:
        """Whole rows by (name, id); `after` is "name\\x00id". Their values are typed by the table only."""
        name, _, id_ = (after or "").partition("\x00")
        bound = {"of": rack, "name": name, "id": id_, "limit": page_limit(limit)}
        return connection.execute(self._page, bound).all()

    def _reserve(self, connection: Connection, count: int) -> range:
        """Numbers that no row of this table ever had."""
        if count == 0:
            return range(0)
        statement = _RESERVE[connection.dialect.name]
        last = int(connection.exec_driver_sql(statement, (self._name, count)).scalar_one())
        return range(last - count + 1, last + 1)
