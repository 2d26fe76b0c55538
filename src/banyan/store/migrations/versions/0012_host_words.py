"""What people said about hosts.

What the table is for stands in store/tables.py. Revision 0012, after 0011.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

TEXT = sa.String().with_variant(sa.VARCHAR(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "host_words",
        sa.Column("rack", sa.BigInteger(), nullable=False),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("forced_down", sa.Boolean(), nullable=False),
        sa.Column("author", TEXT, nullable=False),
        sa.Column("said_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("rack", "host"),
        sqlite_with_rowid=False,
    )
