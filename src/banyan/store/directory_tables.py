"""The directory's tables (core/directory.py), beside those of tables.py and by the same rules.

What belongs to a user or a domain goes with it by foreign keys; grants name several kinds of things, so commands
drop them. A name is unique within its domain; a domain's among domains.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Index, LargeBinary, Table, text

from banyan.store.tables import Instant, Number, Text, metadata

_IS_DOMAIN, _IS_GLOBAL, _IS_KEY = text("domain IS NULL"), text("domain IS NULL"), text("access <> ''")


def _own(column: str, other: str, *, key: bool = False, null: bool = False) -> Column[str]:
    """A column that names a row of another table, with which its own row goes."""
    return Column(column, Text, ForeignKey(f"{other}.id", ondelete="CASCADE"), primary_key=key, nullable=null)


projects = Table(
    "projects",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("domain", Text, ForeignKey("projects.id")),
    Column("parent", Text, ForeignKey("projects.id")),
    Column("is_domain", Boolean, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("description", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("extra", Text, nullable=False),
    Index("projects_name", "domain", "name", unique=True),
    Index("projects_domain_name", "name", unique=True, sqlite_where=_IS_DOMAIN, postgresql_where=_IS_DOMAIN),
    Index("projects_parent", "parent"),
)

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("domain", Text, ForeignKey("projects.id"), nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("password", Text, nullable=False),
    Column("password_at", Instant),
    Column("epoch", Number, nullable=False),
    Column("default_project", Text),
    Column("description", Text, nullable=False),
    Column("extra", Text, nullable=False),
    Index("users_name", "domain", "name", unique=True),
    Index("users_by_name", "name"),
    Index("users_default_project", "default_project"),
)

groups = Table(
    "user_groups",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("domain", Text, ForeignKey("projects.id"), nullable=False),
    Column("description", Text, nullable=False),
    Column("extra", Text, nullable=False),
    Index("user_groups_name", "domain", "name", unique=True),
)

memberships = Table(
    "memberships",
    metadata,
    _own("group_id", "user_groups", key=True),
    _own("user_id", "users", key=True),
    Index("memberships_user", "user_id", "group_id"),
    sqlite_with_rowid=False,
)

roles = Table(
    "roles",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("domain", Text, ForeignKey("projects.id")),
    Column("description", Text, nullable=False),
    Column("extra", Text, nullable=False),
    Index("roles_name", "domain", "name", unique=True),
    Index("roles_global_name", "name", unique=True, sqlite_where=_IS_GLOBAL, postgresql_where=_IS_GLOBAL),
)

implications = Table(
    "implications",
    metadata,
    _own("prior", "roles", key=True),
    _own("implied", "roles", key=True),
    Index("implications_implied", "implied"),
    sqlite_with_rowid=False,
)

grants = Table(
    "grants",
    metadata,
    Column("actor_kind", Text, primary_key=True),
    Column("actor", Text, primary_key=True),
    Column("target_kind", Text, primary_key=True),
    Column("target", Text, primary_key=True),
    _own("role", "roles", key=True),
    Column("inherited", Boolean, primary_key=True),
    Index("grants_target", "target_kind", "target"),
    Index("grants_role", "role"),
    sqlite_with_rowid=False,
)

application_credentials = Table(
    "application_credentials",
    metadata,
    Column("id", Text, primary_key=True),
    _own("owner", "users"),
    _own("project", "projects"),
    Column("name", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("roles", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires", Instant),
    Column("description", Text, nullable=False),
    Column("unrestricted", Boolean, nullable=False),
    Column("access_rules", Text, nullable=False),
    Index("application_credentials_name", "owner", "name", unique=True),
    Index("application_credentials_project", "project"),
)

access_rules = Table(
    "access_rules",
    metadata,
    Column("id", Text, primary_key=True),
    _own("owner", "users"),
    Column("service", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("path", Text, nullable=False),
    Index("access_rules_owner", "owner", "service", "method", "path", unique=True),
)

credentials = Table(
    "credentials",
    metadata,
    Column("id", Text, primary_key=True),
    _own("owner", "users"),
    _own("project", "projects", null=True),
    Column("kind", Text, nullable=False),
    Column("access", Text, nullable=False),
    Column("blob", LargeBinary, nullable=False),
    Column("extra", Text, nullable=False),
    Index("credentials_owner", "owner", "kind"),
    # An access key names one user, whoever chose it.
    Index("credentials_access", "access", unique=True, sqlite_where=_IS_KEY, postgresql_where=_IS_KEY),
    Index("credentials_project", "project"),
)

regions = Table(
    "regions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("parent", Text, ForeignKey("regions.id")),
    Column("description", Text, nullable=False),
    Column("extra", Text, nullable=False),
    Index("regions_parent", "parent"),
)

services = Table(
    "services",
    metadata,
    Column("id", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("description", Text, nullable=False),
    Column("extra", Text, nullable=False),
)

endpoints = Table(
    "endpoints",
    metadata,
    Column("id", Text, primary_key=True),
    _own("service", "services"),
    Column("interface", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("region", Text, ForeignKey("regions.id")),
    Column("enabled", Boolean, nullable=False),
    Column("extra", Text, nullable=False),
    Index("endpoints_service", "service"),
    Index("endpoints_region", "region"),
)

revocations = Table(
    "revocations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("expires", Instant, nullable=False),
    Index("revocations_owner", "owner"),
    Index("revocations_expires", "expires"),
)
