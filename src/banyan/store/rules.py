"""The policy table: who is let in as what."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, and_, bindparam, delete, func, or_, select

from banyan.core.errors import Refused
from banyan.core.policy import Rule
from banyan.store import tables
from banyan.store.rows import Codec, Put, page_limit

MAX_RULES = 1_000

_T = tables.rules
_CODEC = Codec(Rule, _T)
_MINE = _T.c.id == bindparam("rule")
_GET = _CODEC.select().where(_MINE)
_ALL = _CODEC.select().order_by(_T.c.priority, _T.c.id)
_FIRST = _ALL.limit(bindparam("limit"))
_NEXT = _FIRST.where(
    or_(
        _T.c.priority > bindparam("priority"),
        and_(_T.c.priority == bindparam("priority"), _T.c.id > bindparam("after")),
    )
)
_OTHERS = select(func.count()).select_from(_T).where(_T.c.id != bindparam("rule"))
_PUT = Put(_T)
_DELETE = delete(_T).where(_MINE)


class SqlRules:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, id: str) -> Rule | None:
        row = self._connection.execute(_GET, {"rule": id}).first()
        return None if row is None else _CODEC.record(row)

    def all(self) -> Sequence[Rule]:
        return _CODEC.records(self._connection.execute(_ALL))

    def page(self, after: tuple[int, str] | None, limit: int) -> Sequence[Rule]:
        bound: dict[str, object] = {"limit": page_limit(limit)}
        if after is None:
            return _CODEC.records(self._connection.execute(_FIRST, bound))
        bound |= {"priority": after[0], "after": after[1]}
        return _CODEC.records(self._connection.execute(_NEXT, bound))

    def put(self, rule: Rule) -> None:
        """Raises Refused("too-many-rules"): every join walks all of them."""
        if self._connection.execute(_OTHERS, {"rule": rule.id}).scalar_one() >= MAX_RULES:
            raise Refused(
                "too-many-rules", f"a zone keeps at most {MAX_RULES} policy rules; delete or merge some first"
            )
        _PUT(self._connection, _CODEC.values(rule))

    def delete(self, id: str) -> None:
        self._connection.execute(_DELETE, {"rule": id})
