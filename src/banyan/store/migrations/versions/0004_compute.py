"""Flavors, key pairs, server groups, aggregates, migrations, quotas. What each table is for: store/compute_tables.py.

Revision 0004, after 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

TEXT = sa.String().with_variant(sa.VARCHAR(collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, TEXT, nullable=False) for name in names]


def _counts(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "flavors",
        *_texts("id", "name"),
        *_counts("vcpu", "memory_mib", "disk_gib", "ephemeral_gib", "swap_mib"),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("rxtx", sa.Double(), nullable=False),
        sa.Column("description", TEXT, nullable=True),
        *_texts("extra_specs"),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("flavors_name", "flavors", ["name"], unique=True)
    op.create_table(
        "flavor_projects",
        *_texts("flavor", "project"),
        sa.ForeignKeyConstraint(["flavor"], ["flavors.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("flavor", "project"),
        sqlite_with_rowid=False,
    )
    op.create_index("flavor_projects_project", "flavor_projects", ["project"])
    op.create_table(
        "key_pairs",
        *_texts("user", "name", "public_key", "fingerprint", "kind"),
        sa.Column("created_at", sa.Double(), nullable=False),
        *_counts("number"),
        sa.PrimaryKeyConstraint("user", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "server_groups",
        *_texts("id", "name", "policy", "project", "user"),
        sa.Column("per_host", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("server_groups_project", "server_groups", ["project", "id"])
    op.create_table(
        "aggregates",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        *_texts("uuid", "name", "availability_zone", "hosts", "metadata"),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("aggregates_name", "aggregates", ["name"], unique=True)
    op.create_table(
        "server_migrations",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        *_texts("id", "server", "kind", "project", "user", "source", "old_flavor", "new_flavor"),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        *_texts("state", "target"),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("server_migrations_id", "server_migrations", ["id"], unique=True)
    op.create_index("server_migrations_server", "server_migrations", ["server", "number"])
    op.create_index("server_migrations_updated", "server_migrations", ["updated_at"])
    op.create_table(
        "quota_limits",
        *_texts("project", "quota"),
        *_counts("most"),
        sa.PrimaryKeyConstraint("project", "quota"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "quota_use",
        *_texts("project"),
        *_counts("servers", "vcpu", "memory_mib", "revision"),
        sa.CheckConstraint("servers >= 0 AND vcpu >= 0 AND memory_mib >= 0", name="quota_use_above_zero"),
        sa.PrimaryKeyConstraint("project"),
    )
    op.create_table(
        "tallies",
        *_texts("kind", "owner"),
        *_counts("counted"),
        sa.CheckConstraint("counted >= 0", name="tallies_above_zero"),
        sa.PrimaryKeyConstraint("kind", "owner"),
        sqlite_with_rowid=False,
    )
