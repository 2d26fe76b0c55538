"""A parent's rows for its children. Two unique indexes over those not retired decide who has a name or a key."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, func, select
from sqlalchemy.exc import IntegrityError

from banyan.core.errors import Conflict
from banyan.core.ids import ZoneCode, code_text
from banyan.core.zone import Admin, Child, ChildState
from banyan.store import tables
from banyan.store.rows import Codec, Put, page_limit

_T = tables.children
_CODEC = Codec(Child, _T)
_LISTED = _T.c.state != ChildState.RETIRED.value
_GET = _CODEC.select().where(_T.c.code == bindparam("code"))
_BY_NAME = _CODEC.select().where(_T.c.name == bindparam("name"), _LISTED)
_BY_FINGERPRINT = _CODEC.select().where(_T.c.fingerprint == bindparam("fingerprint"), _LISTED)
_BANNED = _CODEC.select().where(_T.c.fingerprint == bindparam("fingerprint"), _T.c.admin == Admin.BANNED.value).limit(1)
_PAGE = _CODEC.select().where(_T.c.code > bindparam("after")).order_by(_T.c.code).limit(bindparam("limit"))
_COUNT = select(func.count()).select_from(_T)
_COUNT_STATE = _COUNT.where(_T.c.state == bindparam("state"))
_PUT = Put(_T)


class SqlChildren:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, code: ZoneCode) -> Child | None:
        row = self._connection.execute(_GET, {"code": code}).first()
        return None if row is None else _CODEC.record(row)

    def by_name(self, name: str) -> Child | None:
        row = self._connection.execute(_BY_NAME, {"name": name}).first()
        return None if row is None else _CODEC.record(row)

    def by_fingerprint(self, fingerprint: bytes) -> Child | None:
        """The child with that key that is not retired."""
        row = self._connection.execute(_BY_FINGERPRINT, {"fingerprint": fingerprint}).first()
        return None if row is None else _CODEC.record(row)

    def banned(self, fingerprint: bytes) -> Child | None:
        """A child with that key that is banned, retired or not."""
        row = self._connection.execute(_BANNED, {"fingerprint": fingerprint}).first()
        return None if row is None else _CODEC.record(row)

    def page(self, after: ZoneCode | None, limit: int) -> Sequence[Child]:
        """By code, retired ones included."""
        bound = {"after": -1 if after is None else after, "limit": page_limit(limit)}
        return _CODEC.records(self._connection.execute(_PAGE, bound))

    def put(self, child: Child) -> None:
        # A savepoint, because PostgreSQL takes no further word in a transaction that met an error. Spelled by hand:
        # SQLAlchemy compiles its own anew each time, which doubled this call's cost.
        connection = self._connection
        connection.exec_driver_sql("SAVEPOINT child")
        try:
            _PUT(connection, _CODEC.values(child))
        except IntegrityError as error:
            # Other errors end the unit, whose own savepoint takes this one along.
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT child")
            connection.exec_driver_sql("RELEASE SAVEPOINT child")
            raise self._taken(child) from error
        connection.exec_driver_sql("RELEASE SAVEPOINT child")

    def _taken(self, child: Child) -> Conflict:
        holder = self.by_name(child.name)
        if holder is not None and holder.code != child.code:
            return Conflict(
                "name-taken",
                f"the name {child.name!r} belongs to another zone here ({code_text(holder.code)}); "
                "choose another name, or have that one retired or replaced first",
            )
        return Conflict(
            "key-taken",
            f"zone {child.name!r} came with a key that another zone here has; every zone makes its own key: "
            "was its data folder copied?",
        )

    def count(self, state: ChildState | None = None) -> int:
        """Rows in that state; without one, all rows, retired ones included."""
        if state is None:
            return int(self._connection.execute(_COUNT).scalar_one())
        return int(self._connection.execute(_COUNT_STATE, {"state": state.value}).scalar_one())
