"""Servers, their actions, and orders. What each table is for stands in store/tables.py.

Revision 0003, after 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

TEXT = sa.String().with_variant(sa.VARCHAR(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "servers",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("issuer", sa.BigInteger(), nullable=False),
        *(sa.Column(name, TEXT, nullable=False) for name in ("project", "user", "name")),
        sa.Column("rack", sa.BigInteger(), nullable=False),
        *(
            sa.Column(name, TEXT, nullable=False)
            for name in ("host", "shape", "kept_host", "kept_shape", "state", "task", "power", "wanted")
        ),
        sa.Column("locked", sa.Boolean(), nullable=False),
        sa.Column("unconfirmed", sa.Boolean(), nullable=False),
        *(sa.Column(name, TEXT, nullable=False) for name in ("flavor", "image", "availability_zone", "group_id")),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("updated", sa.Double(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=True) for name in ("launched", "terminated", "deleted_at")),
        sa.Column("move", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("order_id", TEXT, nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("progress", sa.BigInteger(), nullable=False),
        sa.Column("life", sa.LargeBinary(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("user_data", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    _index("servers_live", "servers", ["issuer", "project", "id"], "deleted_at IS NULL")
    _index("servers_gone", "servers", ["deleted_at", "id"], "deleted_at IS NOT NULL")
    _index("servers_busy", "servers", ["rack", "id"], "task <> ''")
    _index("servers_group", "servers", ["issuer", "group_id", "host"], "group_id <> ''")
    op.create_index("servers_host", "servers", ["host"])
    op.create_table(
        "server_actions",
        sa.Column("server", TEXT, nullable=False),
        sa.Column("request", TEXT, nullable=False),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("server", "request"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "orders",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("request", TEXT, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("orders_at", "orders", ["at"])
    op.create_index("orders_request", "orders", ["request"])
    _index("orders_claimed", "orders", ["id"], "state = 'claimed'")


def _index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
