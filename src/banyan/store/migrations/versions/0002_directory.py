"""The directory: users, projects, roles and what they may. What each table is for stands in store/directory_tables.py.

Revision 0002, after 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

TEXT = sa.String().with_variant(sa.VARCHAR(collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    bare = sa.text("domain IS NULL")
    op.create_table(
        "projects",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("domain", TEXT, nullable=True),
        sa.Column("parent", TEXT, nullable=True),
        sa.Column("is_domain", sa.Boolean(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("tags", TEXT, nullable=False),
        sa.Column("extra", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["domain"], ["projects.id"]),
        sa.ForeignKeyConstraint(["parent"], ["projects.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("projects_domain_name", "projects", ["name"], unique=True, sqlite_where=bare, postgresql_where=bare)
    op.create_index("projects_name", "projects", ["domain", "name"], unique=True)
    op.create_index("projects_parent", "projects", ["parent"])
    op.create_table(
        "users",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("domain", TEXT, nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("password", TEXT, nullable=False),
        sa.Column("password_at", sa.Double(), nullable=True),
        sa.Column("epoch", NUMBER, nullable=False),
        sa.Column("default_project", TEXT, nullable=True),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("extra", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["domain"], ["projects.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("users_by_name", "users", ["name"])
    op.create_index("users_default_project", "users", ["default_project"])
    op.create_index("users_name", "users", ["domain", "name"], unique=True)
    op.create_table(
        "user_groups",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("domain", TEXT, nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("extra", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["domain"], ["projects.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("user_groups_name", "user_groups", ["domain", "name"], unique=True)
    op.create_table(
        "roles",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("domain", TEXT, nullable=True),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("extra", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["domain"], ["projects.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("roles_global_name", "roles", ["name"], unique=True, sqlite_where=bare, postgresql_where=bare)
    op.create_index("roles_name", "roles", ["domain", "name"], unique=True)
    op.create_table(
        "memberships",
        sa.Column("group_id", TEXT, nullable=False),
        sa.Column("user_id", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["group_id"], ["user_groups.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("group_id", "user_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("memberships_user", "memberships", ["user_id", "group_id"])
    op.create_table(
        "implications",
        sa.Column("prior", TEXT, nullable=False),
        sa.Column("implied", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["prior"], ["roles.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["implied"], ["roles.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("prior", "implied"),
        sqlite_with_rowid=False,
    )
    op.create_index("implications_implied", "implications", ["implied"])
    op.create_table(
        "grants",
        sa.Column("actor_kind", TEXT, nullable=False),
        sa.Column("actor", TEXT, nullable=False),
        sa.Column("target_kind", TEXT, nullable=False),
        sa.Column("target", TEXT, nullable=False),
        sa.Column("role", TEXT, nullable=False),
        sa.Column("inherited", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["role"], ["roles.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("actor_kind", "actor", "target_kind", "target", "role", "inherited"),
        sqlite_with_rowid=False,
    )
    op.create_index("grants_role", "grants", ["role"])
    op.create_index("grants_target", "grants", ["target_kind", "target"])
    op.create_table(
        "application_credentials",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("project", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("secret", TEXT, nullable=False),
        sa.Column("roles", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=True),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("unrestricted", sa.Boolean(), nullable=False),
        sa.Column("access_rules", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["owner"], ["users.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["project"], ["projects.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("application_credentials_name", "application_credentials", ["owner", "name"], unique=True)
    op.create_index("application_credentials_project", "application_credentials", ["project"])
    op.create_table(
        "access_rules",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("service", TEXT, nullable=False),
        sa.Column("method", TEXT, nullable=False),
        sa.Column("path", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["owner"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("access_rules_owner", "access_rules", ["owner", "service", "method", "path"], unique=True)
    op.create_table(
        "credentials",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("project", TEXT, nullable=True),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("access", TEXT, nullable=False),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
        sa.Column("extra", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["owner"], ["users.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["project"], ["projects.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    key = sa.text("access <> ''")
    op.create_index(
        "credentials_access", "credentials", ["access"], unique=True, sqlite_where=key, postgresql_where=key
    )
    op.create_index("credentials_owner", "credentials", ["owner", "kind"])
    op.create_index("credentials_project", "credentials", ["project"])
    op.create_table(
        "regions",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("parent", TEXT, nullable=True),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("extra", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["parent"], ["regions.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("regions_parent", "regions", ["parent"])
    op.create_table(
        "services",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("type", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("extra", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "endpoints",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("service", TEXT, nullable=False),
        sa.Column("interface", TEXT, nullable=False),
        sa.Column("url", TEXT, nullable=False),
        sa.Column("region", TEXT, nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("extra", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["service"], ["services.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["region"], ["regions.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("endpoints_region", "endpoints", ["region"])
    op.create_index("endpoints_service", "endpoints", ["service"])
    op.create_table(
        "revocations",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("revocations_expires", "revocations", ["expires"])
    op.create_index("revocations_owner", "revocations", ["owner"])
