"""Orders that came to this zone's racks: what became of each, and why its servers are where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import Connection, bindparam, delete, literal, select

from banyan.core.server import OrderState, StoredOrder
from banyan.core.time import Wall
from banyan.store import tables
from banyan.store.bulk import BulkInsert, BulkPut, OfMany
from banyan.store.rows import page_limit

_T = tables.orders
_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
_DECODE = msgspec.msgpack.Decoder(StoredOrder).decode
_INSERT, _PUT = BulkInsert(_T), BulkPut(_T)
_MANY = OfMany(_T.c.id, lambda listed: select(_T.c.content).where(listed))
_GET = select(_T.c.content).where(_T.c.id == bindparam("id"))
_OF_REQUEST = (
    select(_T.c.content)
    .where(_T.c.request == bindparam("request"))
    .order_by(_T.c.at, _T.c.id)
    .limit(bindparam("limit"))
)
_IS_CLAIMED = _T.c.state == literal(OrderState.CLAIMED.value, literal_execute=True)
_UNCONFIRMED = (
    select(_T.c.content).where(_IS_CLAIMED, _T.c.id > bindparam("after")).order_by(_T.c.id).limit(bindparam("limit"))
)
_OLD = (
    select(_T.c.id)
    .where(_T.c.at < bindparam("before"), ~_IS_CLAIMED)
    .order_by(_T.c.at, _T.c.id)
    .limit(bindparam("limit"))
)
_SWEEP = delete(_T).where(_T.c.id.in_(_OLD))


class SqlOrders:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, id: str) -> StoredOrder | None:
        content = self._connection.execute(_GET, {"id": id}).scalar()
        return None if content is None else _DECODE(content)

    def insert(self, *orders: StoredOrder) -> Mapping[str, StoredOrder]:
        if _INSERT(self._connection, [_row(order) for order in orders]) == len(orders):
            return {}
        found = [_DECODE(row.content) for row in _MANY(self._connection, [order.id for order in orders], {})]
        # What was written just now is found as well, and is what it was to be.
        given = {order.id: order for order in orders}
        return {order.id: order for order in found if order != given[order.id]}

    def put(self, order: StoredOrder) -> None:
        _PUT(self._connection, [_row(order)])

    def of_request(self, request: str, limit: int) -> Sequence[StoredOrder]:
        rows = self._connection.execute(_OF_REQUEST, {"request": request, "limit": page_limit(limit)})
        return [_DECODE(content) for content in rows.scalars()]

    def unconfirmed(self, after: str, limit: int) -> Sequence[StoredOrder]:
        rows = self._connection.execute(_UNCONFIRMED, {"after": after, "limit": page_limit(limit)})
        return [_DECODE(content) for content in rows.scalars()]

    def is_old(self, before: Wall) -> bool:
        return self._connection.execute(_OLD, {"before": before, "limit": 1}).first() is not None

    def sweep(self, before: Wall, limit: int) -> int:
        return self._connection.execute(_SWEEP, {"before": before, "limit": page_limit(limit)}).rowcount


def _row(order: StoredOrder) -> tuple[object, ...]:
    """In the order of the table."""
    return order.id, order.state.value, order.at, order.request, _ENCODE(order)
