"""Orders that are cancelled at members. What the table is for stands in store/tables.py.

Revision 0005, after 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

TEXT = sa.String().with_variant(sa.VARCHAR(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "cancels",
        sa.Column("member", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("order_id", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("member", "order_id"),
        sqlite_with_rowid=False,
    )
