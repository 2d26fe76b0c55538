"""Networks, subnets, ports, routers, floating IPs, security groups; their addresses, limits and use.

What each table is for: store/network_tables.py. Revision 0007, after 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import SchemaItem

revision = "0007"
down_revision = "0006"

TEXT = sa.String().with_variant(sa.VARCHAR(collation="C"), "postgresql")


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, TEXT, nullable=False) for name in names]


def _truths(*names: str) -> list[sa.Column[bool]]:
    return [sa.Column(name, sa.Boolean(), nullable=False) for name in names]


def _counts(*names: str, nullable: bool = False) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=nullable) for name in names]


def _thing(name: str, *more: SchemaItem) -> None:
    op.create_table(
        name,
        *_texts("id", "project", "description"),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        *_counts("revision"),
        *more,
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(f"{name}_project", name, ["project", "id"])


def _unique_where(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, unique=True, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _pair(name: str, columns: tuple[str, str], *more: SchemaItem) -> None:
    op.create_table(name, *_texts(*columns), *more, sa.PrimaryKeyConstraint(*columns), sqlite_with_rowid=False)


def upgrade() -> None:
    _thing(
        "networks",
        *_texts("name", "reach", "zones", "network_type", "physical", "zone_hints", "tags"),
        *_truths("admin_up", "shared", "external", "default", "port_security"),
        *_counts("mtu"),
        *_counts("segment", nullable=True),
    )
    _unique_where("networks_segment", "networks", ["network_type", "physical", "segment"], "segment IS NOT NULL")
    _thing(
        "subnets",
        *_texts("network", "name", "cidr", "gateway", "pools", "dns", "routes", "ra_mode", "address_mode", "pool"),
        *_texts("service_types", "tags"),
        *_truths("dhcp"),
        *_counts("version", "used"),
    )
    op.create_index("subnets_network", "subnets", ["network", "id"])
    op.create_index("subnets_pool", "subnets", ["pool", "id"])
    _thing(
        "subnet_pools",
        *_texts("name", "prefixes", "tags"),
        *_truths("shared", "default"),
        *_counts("version", "least_length", "most_length", "default_length"),
        *_counts("quota", nullable=True),
    )
    _thing(
        "ports",
        *_texts("network", "name", "mac", "status", "device", "owner", "addresses", "groups", "pairs", "options"),
        *_texts("host", "vnic", "profile", "tag", "tags"),
        *_truths("admin_up", "port_security", "ours"),
        *_counts("place"),
    )
    op.create_index("ports_mac", "ports", ["network", "mac"], unique=True)
    op.create_index("ports_device", "ports", ["device", "id"])
    op.create_index("ports_owner", "ports", ["network", "owner"])
    _unique_where("ports_place", "ports", ["device", "place"], "place >= 0")
    _thing(
        "routers",
        *_texts("name", "gateway", "gateway_port", "routes", "zone_hints", "tags"),
        *_truths("admin_up", "snat"),
    )
    op.create_index("routers_gateway", "routers", ["gateway", "id"])
    _thing("floating_ips", *_texts("network", "address", "outer_port", "port", "fixed", "router", "tags"))
    op.create_index("floating_ips_port", "floating_ips", ["port", "id"])
    op.create_index("floating_ips_router", "floating_ips", ["router", "id"])
    _unique_where("floating_ips_fixed", "floating_ips", ["port", "fixed", "network"], "port <> ''")
    _thing("security_groups", *_texts("name", "tags"), *_truths("stateful"))
    _unique_where("security_groups_default", "security_groups", ["project"], "name = 'default'")
    _thing(
        "security_rules",
        *_texts("group", "direction", "ethertype", "protocol", "prefix", "remote", "same"),
        *_counts("least", "most", nullable=True),
    )
    op.create_index("security_rules_same", "security_rules", ["group", "same"], unique=True)
    op.create_index("security_rules_remote", "security_rules", ["remote", "id"])
    _pair("port_groups", ("group", "port"))
    op.create_index("port_groups_port", "port_groups", ["port"])
    _pair("addresses", ("subnet", "address"), *_texts("port"))
    op.create_index("addresses_port", "addresses", ["port"])
    op.create_index("addresses_address", "addresses", ["address"])
    _pair("free_spans", ("subnet", "first"), *_texts("last"))
    _pair("network_limits", ("project", "kind"), *_counts("most"))
    counted = sa.CheckConstraint("counted >= 0", name="network_use_above_zero")
    _pair("network_use", ("project", "kind"), *_counts("counted"), counted)
