"""Tables of core/compute.py and core/quota.py, beside those of tables.py and by the same rules.

What flavors, groups and aggregates a zone has is small; key pairs are a few per user; a row of use per project that
ever made a server here. Nothing in these tables grows with servers.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Double, ForeignKey, Index, Table

from banyan.store.tables import Instant, Number, Text, metadata

flavors = Table(
    "flavors",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("vcpu", BigInteger, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("disk_gib", BigInteger, nullable=False),
    Column("ephemeral_gib", BigInteger, nullable=False),
    Column("swap_mib", BigInteger, nullable=False),
    Column("public", Boolean, nullable=False),
    Column("rxtx", Double, nullable=False),
    Column("description", Text),
    Column("extra_specs", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Index("flavors_name", "name", unique=True),
)

flavor_projects = Table(
    "flavor_projects",
    metadata,
    Column("flavor", Text, ForeignKey("flavors.id", ondelete="CASCADE"), primary_key=True),
    Column("project", Text, primary_key=True),
    Index("flavor_projects_project", "project"),
    sqlite_with_rowid=False,
)

key_pairs = Table(
    "key_pairs",
    metadata,
    Column("user", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("public_key", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("number", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

server_groups = Table(
    "server_groups",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("per_host", BigInteger),
    Column("created_at", Instant, nullable=False),
    Index("server_groups_project", "project", "id"),
)

aggregates = Table(
    "aggregates",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("uuid", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("availability_zone", Text, nullable=False),
    Column("hosts", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant),
    Index("aggregates_name", "name", unique=True),
)

migrations = Table(
    "server_migrations",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("server", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("old_flavor", Text, nullable=False),
    Column("new_flavor", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("state", Text, nullable=False),
    Column("target", Text, nullable=False),
    Index("server_migrations_id", "id", unique=True),
    Index("server_migrations_server", "server", "number"),
    Index("server_migrations_updated", "updated_at"),
)

quota_limits = Table(
    "quota_limits",
    metadata,
    Column("project", Text, primary_key=True),
    Column("quota", Text, primary_key=True),
    Column("most", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

quota_use = Table(
    "quota_use",
    metadata,
    Column("project", Text, primary_key=True),
    Column("servers", BigInteger, nullable=False),
    Column("vcpu", BigInteger, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    CheckConstraint("servers >= 0 AND vcpu >= 0 AND memory_mib >= 0", name="quota_use_above_zero"),
)

tallies = Table(
    "tallies",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("counted", BigInteger, nullable=False),
    CheckConstraint("counted >= 0", name="tallies_above_zero"),
    sqlite_with_rowid=False,
)
