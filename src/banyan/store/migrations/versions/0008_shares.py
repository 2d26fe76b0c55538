"""Shares of orders at members, in the place of cancels alone; and requests that may be repeated.

What the tables are for stands in store/tables.py. Revision 0008, after 0007.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

TEXT = sa.String().with_variant(sa.VARCHAR(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "shares",
        sa.Column("member", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("order_id", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("group_id", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("member", "id"),
        sqlite_with_rowid=False,
    )
    op.create_index("shares_order", "shares", ["order_id"])
    where = sa.text("state IN ('asked', 'held')")
    op.create_index("shares_open", "shares", ["state", "order_id"], sqlite_where=where, postgresql_where=where)
    where = sa.text("group_id <> ''")
    op.create_index("shares_group", "shares", ["group_id"], sqlite_where=where, postgresql_where=where)
    columns = "member, order_id, order_id, 'cancel', at, ''"
    op.execute(f"INSERT INTO shares (member, id, order_id, state, at, group_id) SELECT {columns} FROM cancels")
    op.drop_table("cancels")
    op.create_table(
        "retries",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("issuer", sa.BigInteger(), nullable=False),
        sa.Column("project", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("retries_project", "retries", ["issuer", "project", "at"])
    op.create_index("retries_at", "retries", ["at"])
