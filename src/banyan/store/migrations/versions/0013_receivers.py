"""Receivers of alarms: where each is in the journal.

What the table is for stands in store/tables.py. Revision 0013, after 0012.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

TEXT = sa.String().with_variant(sa.VARCHAR(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "receivers",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("address", TEXT, nullable=False),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.Column("storms", TEXT, nullable=False),
        sa.Column("failing_since", sa.Double()),
        sa.Column("dead", sa.Boolean(), nullable=False),
        sa.Column("gone", sa.Boolean(), nullable=False),
        sa.Column("last_error", TEXT, nullable=False),
        sa.Column("last_sent", sa.Double()),
        sa.PrimaryKeyConstraint("name"),
    )
