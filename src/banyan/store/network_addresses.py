"""Addresses of subnets: who has which, and the gaps that are free. core.network_rows.AddressRows.

`addresses` has a row for each one given, its key is (subnet, address): no address has two ports whatever else goes
wrong. `free_spans` has the gaps of the pools, none beside another; a take shortens or splits one, a give joins.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from banyan.core import addresses as arithmetic
from banyan.core.network import Span
from banyan.store import network_tables as tables
from banyan.store.quotas import insert_new

_A, _F, _S = tables.addresses.c, tables.free_spans.c, tables.subnets.c

_HOLD = (
    update(tables.subnets)
    .where(_S.id == bindparam("of"), _S.used + bindparam("more") >= 0)
    .values(used=_S.used + bindparam("more"))
)
_FIRST = select(_F.first, _F.last).where(_F.subnet == bindparam("of")).order_by(_F.first).limit(1)
# The gap that an address may lie in: the last that begins at or before it.
_AROUND = (
    select(_F.first, _F.last)
    .where(_F.subnet == bindparam("of"), _F.first <= bindparam("at"))
    .order_by(_F.first.desc())
    .limit(1)
)
_BEHIND = select(_F.first, _F.last).where(_F.subnet == bindparam("of"), _F.first == bindparam("at"))
_DROP = delete(tables.free_spans).where(_F.subnet == bindparam("of"), _F.first == bindparam("at"))
_GIVE = delete(tables.addresses).where(_A.subnet == bindparam("of"), _A.address == bindparam("at"))


def _key(address: str) -> str:
    found = arithmetic.address(address)
    if found is None:
        raise ValueError(f"no address: {address!r}")
    return arithmetic.key(found)


class SqlAddresses:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def hold(self, subnet: str, more: int) -> bool:
        return self._connection.execute(_HOLD, {"of": subnet, "more": more}).rowcount == 1

    def open(self, subnet: str, pools: Sequence[Span]) -> None:
        self._connection.execute(delete(tables.free_spans).where(_F.subnet == subnet))
        taken = self._connection.execute(select(_A.address).where(_A.subnet == subnet)).scalars()
        rows = [{"subnet": subnet, "first": a, "last": b} for a, b in arithmetic.free(pools, taken)]
        if rows:
            self._connection.execute(insert(tables.free_spans), rows)

    def close(self, subnet: str) -> None:
        self._connection.execute(delete(tables.free_spans).where(_F.subnet == subnet))
        self._connection.execute(delete(tables.addresses).where(_A.subnet == subnet))

    def take_next(self, subnet: str, ports: Sequence[str]) -> Sequence[str] | None:
        gaps = select(_F.first, _F.last).where(_F.subnet == subnet).order_by(_F.first).limit(max(1, len(ports)))
        keys: list[str] = []
        emptied: list[str] = []
        rest: tuple[str, str] | None = None
        for first, last in self._connection.execute(gaps):
            wanted = len(ports) - len(keys)
            if not wanted:
                break
            many = min(wanted, arithmetic.distance(first, last))
            keys.extend(arithmetic.after(first, n) for n in range(many))
            emptied.append(first)
            if many < arithmetic.distance(first, last):
                rest = arithmetic.after(first, many), last
        if len(keys) < len(ports):
            return None
        for first in emptied:
            self._connection.execute(_DROP, {"of": subnet, "at": first})
        if rest is not None:
            self._gap(subnet, *rest)
        rows = [{"subnet": subnet, "address": at, "port": port} for at, port in zip(keys, ports, strict=True)]
        if rows:
            self._connection.execute(insert(tables.addresses), rows)
        return [arithmetic.text(one) for one in keys]

    def take(self, subnet: str, address: str, port: str) -> bool:
        at = _key(address)
        if not insert_new(self._connection, tables.addresses, {"subnet": subnet, "address": at, "port": port}):
            return False
        around = self._connection.execute(_AROUND, {"of": subnet, "at": at}).first()
        if around is None or around.last < at:
            # It lies in no pool.
            return True
        first, last = str(around.first), str(around.last)
        self._connection.execute(_DROP, {"of": subnet, "at": first})
        if first < at:
            self._gap(subnet, first, arithmetic.after(at, -1))
        if at < last:
            self._gap(subnet, arithmetic.after(at), last)
        return True

    def give(self, subnet: str, address: str, pools: Sequence[Span]) -> bool:
        at = _key(address)
        if self._connection.execute(_GIVE, {"of": subnet, "at": at}).rowcount != 1:
            return False
        pool = next((one for one in pools if _key(one.first) <= at <= _key(one.last)), None)
        if pool is None:
            return True
        first, last = at, at
        if at > _key(pool.first):
            before = self._connection.execute(_AROUND, {"of": subnet, "at": at}).first()
            if before is not None and arithmetic.after(str(before.last)) == at:
                first = str(before.first)
                self._connection.execute(_DROP, {"of": subnet, "at": first})
        if at < _key(pool.last):
            behind = self._connection.execute(_BEHIND, {"of": subnet, "at": arithmetic.after(at)}).first()
            if behind is not None:
                last = str(behind.last)
                self._connection.execute(_DROP, {"of": subnet, "at": behind.first})
        self._gap(subnet, first, last)
        return True

    def _gap(self, subnet: str, first: str, last: str) -> None:
        self._connection.execute(insert(tables.free_spans), {"subnet": subnet, "first": first, "last": last})

    def of(self, subnet: str, address: str) -> str | None:
        one = select(_A.port).where(_A.subnet == subnet, _A.address == _key(address))
        found: str | None = self._connection.execute(one).scalar()
        return found

    def holders(self, subnet: str, limit: int) -> Sequence[tuple[str, str]]:
        some = select(_A.port, _A.address).where(_A.subnet == subnet).order_by(_A.address).limit(limit)
        return [(port, arithmetic.text(at)) for port, at in self._connection.execute(some)]

    def left(self, subnet: str) -> int:
        gaps = self._connection.execute(select(_F.first, _F.last).where(_F.subnet == subnet))
        return sum(arithmetic.distance(first, last) for first, last in gaps)
