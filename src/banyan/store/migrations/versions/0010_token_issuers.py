"""For which zone a token was made: one that took another's place refuses those of before.

What the column is for stands in core/policy.py. Revision 0010, after 0009.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("tokens", sa.Column("issuer", sa.BigInteger(), nullable=True))
