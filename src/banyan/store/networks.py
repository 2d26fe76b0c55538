"""Rows of core/network.py on SQLite and PostgreSQL. What each promises stands in core/network_rows.py, tables in
network_tables.py; who has which address is in network_addresses.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from banyan.core import addresses as arithmetic
from banyan.core.errors import Conflict
from banyan.core.network import (
    FloatingIp,
    Kind,
    Network,
    Port,
    Router,
    SecurityGroup,
    SecurityRule,
    Subnet,
    SubnetPool,
)
from banyan.core.network_quota import NetworkLimits
from banyan.core.network_rows import Listing, Value
from banyan.core.quota import UNLIMITED
from banyan.store import network_tables as tables
from banyan.store.directory import SqlRecords
from banyan.store.network_addresses import SqlAddresses
from banyan.store.quotas import insert_new
from banyan.store.rows import Codec, Put, page_limit

T = TypeVar("T", Network, Subnet, SubnetPool, Port, Router, FloatingIp, SecurityGroup, SecurityRule)

_NETWORKS = Codec(Network, tables.networks)
_SUBNETS = Codec(Subnet, tables.subnets)
_POOLS = Codec(SubnetPool, tables.subnet_pools)
_PORTS = Codec(Port, tables.ports)
_ROUTERS = Codec(Router, tables.routers)
_FLOATING = Codec(FloatingIp, tables.floating_ips)
_GROUPS = Codec(SecurityGroup, tables.security_groups)
_RULES = Codec(SecurityRule, tables.security_rules)

_NET, _PG, _ADDRESSES = tables.networks.c, tables.port_groups.c, tables.addresses.c
# Counted where addresses are taken, not written with the rest of the row.
_COUNTED = "used"


def _in(column: ColumnElement[object], values: Iterable[Value]) -> ColumnElement[bool]:
    some = list(values)
    plain = [one for one in some if one is not None]
    ways = [column.in_(plain)] if plain else []
    return or_(*ways, column.is_(None)) if len(plain) < len(some) else or_(*ways) if ways else column.in_([])


class SqlThings(SqlRecords[T]):
    """core.network_rows.ThingRows of one kind."""

    def listed(self, listing: Listing) -> Sequence[T]:
        c = self._table.c
        conditions = [_in(c[name], values) for name, values in sorted(listing.where.items())]
        if listing.project is not None:
            conditions.append(self._seen_by(listing.project))
        conditions.extend(self._tagged(listing))
        conditions.extend(self._more(listing))
        sort = [*((name, down) for name, down in listing.sort if name != "id"), *_id_order(listing)]
        if listing.after is not None:
            conditions.append(self._beyond(sort, listing.after))
        order = [c[name].desc() if down else c[name].asc() for name, down in sort]
        statement = self._codec.select().where(*conditions).order_by(*order).limit(page_limit(listing.limit))
        return [self._record(row) for row in self._connection.execute(statement)]

    def _beyond(self, sort: Sequence[tuple[str, bool]], after: object) -> ColumnElement[bool]:
        """Rows that come behind one, by the sort keys; none of them is ever null."""
        c = self._table.c
        values = self._values(after)  # type: ignore[arg-type]  # a record of this kind
        ways: list[ColumnElement[bool]] = []
        same: list[ColumnElement[bool]] = []
        for name, down in sort:
            value = literal(values[name], c[name].type)
            ways.append(and_(*same, c[name] < value if down else c[name] > value))
            same.append(c[name] == value)
        return or_(*ways)

    def _seen_by(self, project: str) -> ColumnElement[bool]:
        c = self._table.c
        mine: ColumnElement[bool] = c.project == project
        if self._table is tables.networks:
            return or_(mine, c.shared.is_(True), c.external.is_(True))
        if self._table is tables.subnet_pools:
            return or_(mine, c.shared.is_(True))
        if self._table is tables.subnets:
            return or_(mine, c.network.in_(select(_NET.id).where(or_(_NET.shared.is_(True), _NET.project == project))))
        if self._table is tables.ports:
            # Whoever owns a network sees what is on it.
            return or_(mine, c.network.in_(select(_NET.id).where(_NET.project == project)))
        return mine

    def _tagged(self, listing: Listing) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = []
        if listing.tags:
            found.append(and_(*map(self._has, listing.tags)))
        if listing.tags_any:
            found.append(or_(*map(self._has, listing.tags_any)))
        if listing.not_tags:
            found.append(not_(and_(*map(self._has, listing.not_tags))))
        if listing.not_tags_any:
            found.append(not_(or_(*map(self._has, listing.not_tags_any))))
        return found

    def _has(self, tag: str) -> ColumnElement[bool]:
        # An element begins after a bracket or a comma, and no tag has a comma. LIKE would ignore case on SQLite.
        quoted = msgspec.json.encode(tag).decode()
        find = func.instr if self._connection.dialect.name == "sqlite" else func.strpos
        return or_(*(find(self._table.c.tags, literal(before + quoted)) > 0 for before in ("[", ",")))

    def _more(self, listing: Listing) -> list[ColumnElement[bool]]:
        if self._table is not tables.ports:
            return []
        id = self._table.c.id
        found: list[ColumnElement[bool]] = []
        if listing.addresses:
            parsed = [arithmetic.address(one) for one in listing.addresses]
            keys = [arithmetic.key(one) for one in parsed if one is not None]
            # Of both at once, one address must have both.
            wanted = [_ADDRESSES.address.in_(keys)]
            if listing.subnets:
                wanted.append(_ADDRESSES.subnet.in_(listing.subnets))
            found.append(id.in_(select(_ADDRESSES.port).where(*wanted)))
        elif listing.subnets:
            found.append(id.in_(select(_ADDRESSES.port).where(_ADDRESSES.subnet.in_(listing.subnets))))
        if listing.groups:
            found.append(id.in_(select(_PG.port).where(_PG.group.in_(listing.groups))))
        return found

    def change(self, old: T, new: T) -> bool:
        values = self._values(new)
        id = values.pop("id")
        values.pop(_COUNTED, None)
        c = self._table.c
        try:
            one = update(self._table).where(c.id == id, c.revision == old.revision).values(values)
            return self._connection.execute(one).rowcount == 1
        except IntegrityError as error:
            raise Conflict("name-taken", "another one has what must be unique; choose other values") from error


def _id_order(listing: Listing) -> list[tuple[str, bool]]:
    return [("id", next((down for name, down in listing.sort if name == "id"), False))]


_LIMITS, _USE = tables.network_limits, tables.network_use
_PUT_LIMIT = Put(_LIMITS)
_COUNT = (
    update(_USE)
    .where(
        _USE.c.project == bindparam("of"),
        _USE.c.kind == bindparam("what"),
        or_(
            bindparam("most", type_=BigInteger()) == UNLIMITED,
            _USE.c.counted + bindparam("more", type_=BigInteger()) <= bindparam("most", type_=BigInteger()),
        ),
    )
    .values(counted=_USE.c.counted + bindparam("more", type_=BigInteger()))
)
_UNCOUNT = (
    update(_USE)
    .where(
        _USE.c.project == bindparam("of"),
        _USE.c.kind == bindparam("what"),
        _USE.c.counted >= bindparam("fewer", type_=BigInteger()),
    )
    .values(counted=_USE.c.counted - bindparam("fewer", type_=BigInteger()))
)
_KINDS = {kind.value: kind for kind in Kind}


class SqlNetworks:
    """core.network_rows.NetworkRows on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.networks = SqlThings(connection, _NETWORKS)
        self.subnets = SqlThings(connection, _SUBNETS)
        self.pools = SqlThings(connection, _POOLS)
        self.ports = SqlThings(connection, _PORTS)
        self.routers = SqlThings(connection, _ROUTERS)
        self.floating_ips = SqlThings(connection, _FLOATING)
        self.groups = SqlThings(connection, _GROUPS)
        self.rules = SqlThings(connection, _RULES)
        self.addresses = SqlAddresses(connection)

    def join(self, port: str, groups: Sequence[str]) -> None:
        self._connection.execute(delete(tables.port_groups).where(_PG.port == port))
        rows = [{"group": group, "port": port} for group in dict.fromkeys(groups)]
        if rows:
            self._connection.execute(insert(tables.port_groups), rows)

    def members(self, group: str) -> int:
        one = select(literal(1)).where(_PG.group == group).limit(1)
        return 0 if self._connection.execute(one).first() is None else 1

    def add_ports(self, ports: Sequence[Port]) -> Sequence[str]:
        taken = self.macs_taken(ports[0].network, [port.mac for port in ports]) if ports else ()
        if taken or not ports:
            return taken
        self._connection.execute(insert(tables.ports), [_PORTS.values(port) for port in ports])
        rows = [{"group": group, "port": port.id} for port in ports for group in dict.fromkeys(port.groups)]
        if rows:
            self._connection.execute(insert(tables.port_groups), rows)
        return ()

    def server_ports(self, owner: str, after: str, limit: int) -> Sequence[Port]:
        return self.ports.page({"owner": owner}, after, limit)

    def macs_taken(self, network: str, macs: Sequence[str]) -> Sequence[str]:
        c = tables.ports.c
        return list(self._connection.execute(select(c.mac).where(c.network == network, c.mac.in_(macs))).scalars())

    def limits(self, project: str) -> NetworkLimits:
        rows = self._connection.execute(select(_LIMITS.c.kind, _LIMITS.c.most).where(_LIMITS.c.project == project))
        return {_KINDS[kind]: int(most) for kind, most in rows if kind in _KINDS}

    def limited(self, after: str, limit: int) -> Sequence[str]:
        some = select(_LIMITS.c.project).where(_LIMITS.c.project > after).distinct().order_by(_LIMITS.c.project)
        return list(self._connection.execute(some.limit(page_limit(limit))).scalars())

    def set_limits(self, project: str, limits: NetworkLimits) -> None:
        for kind, most in sorted(limits.items()):
            _PUT_LIMIT(self._connection, {"project": project, "kind": kind.value, "most": most})

    def clear_limits(self, project: str) -> None:
        self._connection.execute(delete(_LIMITS).where(_LIMITS.c.project == project))

    def count(self, project: str, kind: Kind, more: int, most: int) -> bool:
        insert_new(self._connection, _USE, {"project": project, "kind": kind.value, "counted": 0})
        bound = {"of": project, "what": kind.value, "more": more, "most": most}
        return self._connection.execute(_COUNT, bound).rowcount == 1

    def uncount(self, project: str, kind: Kind, fewer: int) -> None:
        self._connection.execute(_UNCOUNT, {"of": project, "what": kind.value, "fewer": fewer})

    def counted(self, project: str) -> Mapping[Kind, int]:
        rows = self._connection.execute(select(_USE.c.kind, _USE.c.counted).where(_USE.c.project == project))
        return {_KINDS[kind]: int(counted) for kind, counted in rows if kind in _KINDS}
