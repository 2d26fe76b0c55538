"""The policy table: who is let in as what."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, func, select

from banyan.core.errors import Refused
from banyan.core.policy import Rule
from banyan.store import tables
from banyan.store.rows import Codec, Put

MAX_RULES = 1_000

_T = tables.rules
_CODEC = Codec(Rule, _T)
_ALL = _CODEC.select().order_by(_T.c.priority, _T.c.id)
_OTHERS = select(func.count()).select_from(_T).where(_T.c.id != bindparam("rule"))
_PUT = Put(_T)
_DELETE = delete(_T).where(_T.c.id == bindparam("rule"))


class SqlRules:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> Sequence[Rule]:
        return _CODEC.records(self._connection.execute(_ALL))

    def put(self, rule: Rule) -> None:
        """Raises Refused("too-many-rules"): every join walks all of them."""
        if self._connection.execute(_OTHERS, {"rule": rule.id}).scalar_one() >= MAX_RULES:
            raise Refused(
                "too-many-rules", f"a zone keeps at most {MAX_RULES} policy rules; delete or merge some first"
            )
        _PUT(self._connection, _CODEC.values(rule))

    def delete(self, id: str) -> None:
        self._connection.execute(_DELETE, {"rule": id})
