"""Join codes and who used them. A use belongs to a key; the last use goes to exactly one of two racing keys."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, and_, bindparam, delete, not_, or_, select, update

from banyan.core.policy import CodeRecord
from banyan.core.time import Wall
from banyan.store import tables
from banyan.store.rows import Codec, Put, expired, page_limit

_T = tables.codes
_USES = tables.code_uses
_CODEC = Codec(CodeRecord, _T)
_GET = _CODEC.select().where(_T.c.id == bindparam("code"))
_PAGE = _CODEC.select().where(_T.c.id > bindparam("after")).order_by(_T.c.id).limit(bindparam("limit"))
_PUT = Put(_T)
_STANDING = (
    select(_T.c.revoked, _USES.c.fingerprint)
    .select_from(_T.outerjoin(_USES, and_(_USES.c.code == _T.c.id, _USES.c.fingerprint == bindparam("fingerprint"))))
    .where(_T.c.id == bindparam("code"))
)
_BIND = {
    "sqlite": "INSERT INTO code_uses (code, fingerprint, used_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
    "postgresql": "INSERT INTO code_uses (code, fingerprint, used_at) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
}
_TAKE = (
    update(_T)
    .where(
        _T.c.id == bindparam("code"),
        not_(_T.c.revoked),
        _T.c.expires > bindparam("now"),
        or_(_T.c.uses.is_(None), _T.c.used < _T.c.uses),
    )
    .values(used=_T.c.used + 1)
)
_UNBIND = delete(_USES).where(_USES.c.code == bindparam("code"), _USES.c.fingerprint == bindparam("fingerprint"))
_SWEEP = expired(_T)


class SqlCodes:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, id: str) -> CodeRecord | None:
        row = self._connection.execute(_GET, {"code": id}).first()
        return None if row is None else _CODEC.record(row)

    def page(self, after: str | None, limit: int) -> Sequence[CodeRecord]:
        bound = {"after": after or "", "limit": page_limit(limit)}
        return _CODEC.records(self._connection.execute(_PAGE, bound))

    def put(self, record: CodeRecord) -> None:
        _PUT(self._connection, _CODEC.values(record))

    def use(self, id: str, fingerprint: bytes, now: Wall) -> bool:
        """A revoked code serves nobody; a key bound before may repeat its use after the code expired.

        The binding is inserted before the use is taken: of two transactions with one key the second
        waits there and finds itself bound; of two keys the second waits at the UPDATE and sees the
        new count. So it is right without any lock of ours (READ COMMITTED or stricter).
        """
        mine = {"code": id, "fingerprint": fingerprint}
        standing = self._connection.execute(_STANDING, mine).first()
        if standing is None or standing.revoked:
            return False
        if standing.fingerprint is not None:
            return True
        bind = _BIND[self._connection.dialect.name]
        if self._connection.exec_driver_sql(bind, (id, fingerprint, now)).rowcount == 0:
            return True
        if self._connection.execute(_TAKE, {"code": id, "now": now}).rowcount == 1:
            return True
        self._connection.execute(_UNBIND, mine)
        return False

    def sweep(self, before: Wall, limit: int) -> int:
        bound = {"before": before, "limit": page_limit(limit)}
        return self._connection.execute(_SWEEP, bound).rowcount
