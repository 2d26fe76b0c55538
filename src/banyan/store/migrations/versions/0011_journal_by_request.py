"""Journal lines are found by the request that they are of.

Revision 0011, after 0010.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    made = sa.text("request <> ''")
    op.create_index("journal_request", "journal", ["request", "number"], sqlite_where=made, postgresql_where=made)
