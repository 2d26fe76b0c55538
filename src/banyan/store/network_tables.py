"""Tables of core/network.py and core/network_quota.py, beside those of tables.py and by the same rules.

A row for each network, subnet, port, router, floating IP and rule; for each address that a port has; and for each gap
between them in a pool (`free_spans`), so that taking an address costs the same in a full subnet as in an empty one.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Index, Table, text
from sqlalchemy.schema import SchemaItem

from banyan.store.tables import Instant, Text, metadata


def _thing(name: str, *more: SchemaItem) -> Table:
    """What all of them have, and their own."""
    return Table(
        name,
        metadata,
        Column("id", Text, primary_key=True),
        Column("project", Text, nullable=False),
        Column("description", Text, nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("updated_at", Instant, nullable=False),
        Column("revision", BigInteger, nullable=False),
        *more,
        Index(f"{name}_project", "project", "id"),
    )


def _texts(*names: str) -> list[SchemaItem]:
    return [Column(name, Text, nullable=False) for name in names]


def _truths(*names: str) -> list[SchemaItem]:
    return [Column(name, Boolean, nullable=False) for name in names]


def _number(name: str, *, nullable: bool = False) -> SchemaItem:
    return Column(name, BigInteger, nullable=nullable)


networks = _thing(
    "networks",
    *_texts("name", "reach", "zones", "network_type", "physical", "zone_hints", "tags"),
    *_truths("admin_up", "shared", "external", "default", "port_security"),
    _number("mtu"),
    _number("segment", nullable=True),
    Index(
        "networks_segment",
        "network_type",
        "physical",
        "segment",
        unique=True,
        sqlite_where=text("segment IS NOT NULL"),
        postgresql_where=text("segment IS NOT NULL"),
    ),
)

subnets = _thing(
    "subnets",
    *_texts("network", "name", "cidr", "gateway", "pools", "dns", "routes", "ra_mode", "address_mode", "pool"),
    *_texts("service_types", "tags"),
    *_truths("dhcp"),
    _number("version"),
    _number("used"),
    Index("subnets_network", "network", "id"),
    Index("subnets_pool", "pool", "id"),
)

subnet_pools = _thing(
    "subnet_pools",
    *_texts("name", "prefixes", "tags"),
    *_truths("shared", "default"),
    *(_number(name) for name in ("version", "least_length", "most_length", "default_length")),
    _number("quota", nullable=True),
)

ports = _thing(
    "ports",
    *_texts("network", "name", "mac", "status", "device", "owner", "addresses", "groups", "pairs", "options"),
    *_texts("host", "vnic", "profile", "tag", "tags"),
    *_truths("admin_up", "port_security", "ours"),
    _number("place"),
    Index("ports_mac", "network", "mac", unique=True),
    Index("ports_device", "device", "id"),
    Index("ports_owner", "network", "owner"),
    Index(
        "ports_place",
        "device",
        "place",
        unique=True,
        sqlite_where=text("place >= 0"),
        postgresql_where=text("place >= 0"),
    ),
)

routers = _thing(
    "routers",
    *_texts("name", "gateway", "gateway_port", "routes", "zone_hints", "tags"),
    *_truths("admin_up", "snat"),
    Index("routers_gateway", "gateway", "id"),
)

floating_ips = _thing(
    "floating_ips",
    *_texts("network", "address", "outer_port", "port", "fixed", "router", "tags"),
    Index("floating_ips_port", "port", "id"),
    Index("floating_ips_router", "router", "id"),
    Index(
        "floating_ips_fixed",
        "port",
        "fixed",
        "network",
        unique=True,
        sqlite_where=text("port <> ''"),
        postgresql_where=text("port <> ''"),
    ),
)

security_groups = _thing(
    "security_groups",
    *_texts("name", "tags"),
    *_truths("stateful"),
    Index(
        "security_groups_default",
        "project",
        unique=True,
        sqlite_where=text("name = 'default'"),
        postgresql_where=text("name = 'default'"),
    ),
)

security_rules = _thing(
    "security_rules",
    *_texts("group", "direction", "ethertype", "protocol", "prefix", "remote", "same"),
    _number("least", nullable=True),
    _number("most", nullable=True),
    Index("security_rules_same", "group", "same", unique=True),
    Index("security_rules_remote", "remote", "id"),
)

port_groups = Table(
    "port_groups",
    metadata,
    Column("group", Text, primary_key=True),
    Column("port", Text, primary_key=True),
    Index("port_groups_port", "port"),
    sqlite_with_rowid=False,
)

addresses = Table(
    "addresses",
    metadata,
    Column("subnet", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("port", Text, nullable=False),
    Index("addresses_port", "port"),
    Index("addresses_address", "address"),
    sqlite_with_rowid=False,
)

free_spans = Table(
    "free_spans",
    metadata,
    Column("subnet", Text, primary_key=True),
    Column("first", Text, primary_key=True),
    Column("last", Text, nullable=False),
    sqlite_with_rowid=False,
)

network_limits = Table(
    "network_limits",
    metadata,
    Column("project", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("most", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

network_use = Table(
    "network_use",
    metadata,
    Column("project", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("counted", BigInteger, nullable=False),
    CheckConstraint("counted >= 0", name="network_use_above_zero"),
    sqlite_with_rowid=False,
)
