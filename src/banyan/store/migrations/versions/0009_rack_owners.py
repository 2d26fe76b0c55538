"""Whose a rack is that several zones below name.

What the table is for stands in store/tables.py. Revision 0009, after 0008.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "rack_owners",
        sa.Column("rack", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False, autoincrement=False),
        sa.Column("zone", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("rack"),
    )
