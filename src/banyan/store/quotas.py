"""Limits, the ceiling of each project's use, and tallies: conditional updates, so that no limit is passed by a race.

What it promises stands in core/compute_rows.py. Every check is part of the UPDATE that takes: under READ COMMITTED the
second of two waits at the row and sees what the first took.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import BigInteger, Connection, Table, and_, bindparam, case, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from banyan.core.compute_rows import Tally
from banyan.core.quota import COUNTED, UNLIMITED, Limits, Quota, Use, UseRow
from banyan.store import compute_tables as tables
from banyan.store.plain import Plain
from banyan.store.rows import Put

_LIMITS, _USE, _TALLIES = tables.quota_limits, tables.quota_use, tables.tallies
_PUT_LIMIT = Put(_LIMITS)
_NAMES = [quota.value for quota in COUNTED]
_QUOTAS = {quota.value: quota for quota in Quota}
_LIMITS_OF = Plain(select(_LIMITS.c.quota, _LIMITS.c.most).where(_LIMITS.c.project == bindparam("of")))


def insert_new(connection: Connection, table: Table, values: Mapping[str, object]) -> bool:
    """False, and nothing written, if any of the table's unique keys is taken."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    # Without RETURNING of our own, PostgreSQL's dialect adds one for the key, and then counts no rows.
    key = next(iter(table.primary_key))
    return connection.execute(insert(table).on_conflict_do_nothing().returning(key), values).first() is not None


_TAKE = (
    update(_USE)
    .where(
        _USE.c.project == bindparam("of"),
        *(
            or_(
                bindparam(f"most_{name}", type_=BigInteger()) == UNLIMITED,
                bindparam(f"want_{name}", type_=BigInteger()) <= 0,
                _USE.c[name] + bindparam(f"want_{name}", type_=BigInteger())
                <= bindparam(f"most_{name}", type_=BigInteger()),
            )
            for name in _NAMES
        ),
    )
    .values({name: _USE.c[name] + bindparam(f"want_{name}", type_=BigInteger()) for name in _NAMES})
)


def _lowered(name: str) -> object:
    back = bindparam(f"back_{name}", type_=BigInteger())
    return case((_USE.c[name] > back, _USE.c[name] - back), else_=0)


_GIVE = update(_USE).where(_USE.c.project == bindparam("of")).values({name: _lowered(name) for name in _NAMES})
_RECOUNT = (
    update(_USE)
    .where(and_(_USE.c.project == bindparam("of"), _USE.c.revision == bindparam("seen", type_=BigInteger())))
    .values({**{name: _lowered(name) for name in _NAMES}, "revision": _USE.c.revision + 1})
)
_TALLY = (
    update(_TALLIES)
    .where(
        _TALLIES.c.kind == bindparam("what"),
        _TALLIES.c.owner == bindparam("of"),
        or_(
            bindparam("most", type_=BigInteger()) == UNLIMITED,
            _TALLIES.c.counted < bindparam("most", type_=BigInteger()),
        ),
    )
    .values(counted=_TALLIES.c.counted + 1)
)
_UNTALLY = (
    update(_TALLIES)
    .where(_TALLIES.c.kind == bindparam("what"), _TALLIES.c.owner == bindparam("of"), _TALLIES.c.counted > 0)
    .values(counted=_TALLIES.c.counted - 1)
)


class SqlQuotas:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def limits(self, project: str) -> Limits:
        # Asked twice for each order that takes of its project's ceiling.
        rows = _LIMITS_OF.all(self._connection, of=project)
        return {_QUOTAS[name]: int(most) for name, most in rows if name in _QUOTAS}

    def set(self, project: str, limits: Limits) -> None:
        for quota, most in sorted(limits.items()):
            _PUT_LIMIT(self._connection, {"project": project, "quota": quota.value, "most": most})

    def clear(self, project: str) -> None:
        self._connection.execute(delete(_LIMITS).where(_LIMITS.c.project == project))

    def use(self, project: str) -> UseRow | None:
        row = self._connection.execute(select(_USE).where(_USE.c.project == project)).first()
        if row is None:
            return None
        return UseRow(row.project, Use(int(row.servers), int(row.vcpu), int(row.memory_mib)), int(row.revision))

    def take(self, project: str, wanted: Use, limits: Limits) -> bool:
        bound: dict[str, object] = {"of": project}
        for quota in COUNTED:
            bound[f"want_{quota.value}"] = wanted.of(quota)
            bound[f"most_{quota.value}"] = limits[quota]
        return self._connection.execute(_TAKE, bound).rowcount == 1

    def give(self, project: str, back: Use) -> None:
        self._connection.execute(_GIVE, {"of": project, **_back(back)})

    def recount(self, project: str, revision: int, excess: Use) -> bool:
        bound = {"of": project, "seen": revision, **_back(excess)}
        return self._connection.execute(_RECOUNT, bound).rowcount == 1

    def begin(self, project: str, use: Use) -> bool:
        values = {"project": project, "revision": 1, **{quota.value: use.of(quota) for quota in COUNTED}}
        return insert_new(self._connection, _USE, values)

    def tally(self, what: Tally, owner: str, most: int) -> bool:
        insert_new(self._connection, _TALLIES, {"kind": what.value, "owner": owner, "counted": 0})
        return self._connection.execute(_TALLY, {"what": what.value, "of": owner, "most": most}).rowcount == 1

    def untally(self, what: Tally, owner: str) -> None:
        self._connection.execute(_UNTALLY, {"what": what.value, "of": owner})

    def tallied(self, what: Tally, owner: str) -> int:
        one = select(_TALLIES.c.counted).where(_TALLIES.c.kind == what.value, _TALLIES.c.owner == owner)
        return int(self._connection.execute(one).scalar() or 0)


def _back(use: Use) -> dict[str, int]:
    return {f"back_{quota.value}": use.of(quota) for quota in COUNTED}
