"""The whole first schema. What each table is for stands in store/tables.py.

Revision 0001, after nothing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

TEXT = sa.String().with_variant(sa.VARCHAR(collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_REFUSE_SQLITE = """
CREATE TRIGGER journal_no_{verb} BEFORE {VERB} ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END
"""

_REFUSE_POSTGRESQL = """
CREATE FUNCTION journal_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$
"""


def upgrade() -> None:
    current, listed, notable = sa.text("current"), sa.text("state <> 'retired'"), sa.text("outcome <> 'done'")
    op.create_table(
        "about",
        sa.Column("key", TEXT, nullable=False),
        sa.Column("value", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "authorities",
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("certificate", sa.LargeBinary(), nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("not_after", sa.Double(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("cross", TEXT, nullable=False),
        sa.Column("leaked", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint"),
    )
    op.create_index(
        "authorities_current", "authorities", ["current"], unique=True, sqlite_where=current, postgresql_where=current
    )
    op.create_table(
        "catalogue",
        sa.Column("rack", sa.BigInteger(), nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("rack", "kind", "id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "children",
        sa.Column("code", NUMBER, autoincrement=False, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("admin", TEXT, nullable=False),
        sa.Column("admin_reason", TEXT, nullable=False),
        sa.Column("admin_by", TEXT, nullable=False),
        sa.Column("maintenance_until", sa.Double(), nullable=True),
        sa.Column("health", TEXT, nullable=False),
        sa.Column("health_reason", TEXT, nullable=False),
        sa.Column("quarantined", sa.Boolean(), nullable=False),
        sa.Column("rolled_back", sa.Boolean(), nullable=False),
        sa.Column("labels", TEXT, nullable=False),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("version", TEXT, nullable=False),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("mark", sa.LargeBinary(), nullable=False),
        sa.Column("home", sa.Boolean(), nullable=False),
        sa.Column("joined_at", sa.Double(), nullable=True),
        sa.Column("heard_at", sa.Double(), nullable=True),
        sa.Column("certificate_until", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("code"),
    )
    banned = sa.text("admin = 'banned'")
    op.create_index("children_banned", "children", ["fingerprint"], sqlite_where=banned, postgresql_where=banned)
    op.create_index(
        "children_fingerprint", "children", ["fingerprint"], unique=True, sqlite_where=listed, postgresql_where=listed
    )
    op.create_index("children_name", "children", ["name"], unique=True, sqlite_where=listed, postgresql_where=listed)
    op.create_index("children_state", "children", ["state"], unique=False)
    op.create_table(
        "codes",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("issued", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("uses", sa.BigInteger(), nullable=True),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("driver", TEXT, nullable=False),
        sa.Column("labels", TEXT, nullable=False),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("replace", sa.Boolean(), nullable=False),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("uses IS NULL OR used <= uses", name="codes_used_up"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("codes_expires", "codes", ["expires"], unique=False)
    op.create_table(
        "guest_scans",
        sa.Column("rack", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("scan", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("rack", "n"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "guests",
        sa.Column("n", NUMBER, autoincrement=False, nullable=False),
        sa.Column("rack", sa.BigInteger(), nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("project", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("flavor", TEXT, nullable=False),
        sa.Column("vcpu", sa.BigInteger(), nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("disk_gib", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("native", sa.Boolean(), nullable=False),
        sa.Column("move", sa.BigInteger(), nullable=False),
        sa.Column("offered", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("n"),
    )
    op.create_index("guests_id", "guests", ["rack", "id"], unique=True)
    op.create_index("guests_name", "guests", ["rack", "name", "id"], unique=False)
    op.create_table(
        "host_scans",
        sa.Column("rack", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("scan", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("rack", "n"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "hosts",
        sa.Column("n", NUMBER, autoincrement=False, nullable=False),
        sa.Column("rack", sa.BigInteger(), nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("n"),
    )
    op.create_index("hosts_id", "hosts", ["rack", "id"], unique=True)
    op.create_index("hosts_name", "hosts", ["rack", "name", "id"], unique=False)
    op.create_table(
        "journal",
        sa.Column("number", NUMBER, autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("target", TEXT, nullable=False),
        sa.Column("actor", TEXT, nullable=False),
        sa.Column("token", TEXT, nullable=False),
        sa.Column("address", TEXT, nullable=False),
        sa.Column("request", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("facts", TEXT, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("journal_actor", "journal", ["actor", "number"], unique=False)
    op.create_index("journal_kind", "journal", ["kind", "number"], unique=False)
    op.create_index(
        "journal_outcome",
        "journal",
        ["outcome", "number"],
        unique=False,
        sqlite_where=notable,
        postgresql_where=notable,
    )
    op.create_index("journal_target", "journal", ["target", "number"], unique=False)
    op.create_table(
        "keys",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "known_keys",
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("labels", TEXT, nullable=False),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("replace", sa.Boolean(), nullable=False),
        sa.Column("created_by", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("fingerprint"),
    )
    op.create_table(
        "ledger",
        sa.Column("via", sa.BigInteger(), nullable=False),
        sa.Column("issuer", sa.BigInteger(), nullable=False),
        sa.Column("project", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("guests", sa.BigInteger(), nullable=False),
        sa.Column("vcpu", sa.BigInteger(), nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("disk_gib", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("via", "issuer", "project"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "lineage",
        sa.Column("via", sa.BigInteger(), nullable=False),
        sa.Column("code", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("via", "code"),
        sqlite_with_rowid=False,
    )
    op.create_index("lineage_code", "lineage", ["code"], unique=False)
    op.create_table(
        "racks",
        sa.Column("code", NUMBER, autoincrement=False, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("driver", TEXT, nullable=False),
        sa.Column("options", TEXT, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("health", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("capacity", TEXT, nullable=False),
        sa.Column("basis", TEXT, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("scanned_at", sa.Double(), nullable=True),
        sa.Column("facts", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("code"),
    )
    op.create_table(
        "rules",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("verifier", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("driver", TEXT, nullable=False),
        sa.Column("labels", TEXT, nullable=False),
        sa.Column("verdict", TEXT, nullable=False),
        sa.Column("set_labels", TEXT, nullable=False),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "sequences",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "streams",
        sa.Column("child", NUMBER, autoincrement=False, nullable=False),
        sa.Column("digest", sa.BigInteger(), nullable=True),
        sa.Column("counters", sa.LargeBinary(), nullable=True),
        sa.Column("lineage", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ledger", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("child"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("subject", TEXT, nullable=False),
        sa.Column("role", TEXT, nullable=False),
        sa.Column("under", sa.BigInteger(), nullable=True),
        sa.Column("path", TEXT, nullable=False),
        sa.Column("issued", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("tokens_expires", "tokens", ["expires"], unique=False)
    op.create_table(
        "uplinks",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("addresses", TEXT, nullable=False),
        sa.Column("pin", sa.LargeBinary(), nullable=False),
        sa.Column("home", sa.Boolean(), nullable=False),
        sa.Column("parent_code", sa.BigInteger(), nullable=True),
        sa.Column("parent_name", TEXT, nullable=False),
        sa.Column("path", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("certificate", sa.LargeBinary(), nullable=False),
        sa.Column("bundle", TEXT, nullable=False),
        sa.Column("known_epoch", sa.BigInteger(), nullable=False),
        sa.Column("proof", TEXT, nullable=False),
        sa.Column("mark", sa.LargeBinary(), nullable=False),
        sa.Column("next_mark", sa.LargeBinary(), nullable=False),
        sa.Column("joined_at", sa.Double(), nullable=True),
        sa.Column("read_only", sa.Boolean(), nullable=False),
        sa.Column("last_error", TEXT, nullable=False),
        sa.Column("shapes", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "zone",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("code", sa.BigInteger(), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("labels", TEXT, nullable=False),
        sa.Column("time", TEXT, nullable=False),
        sa.Column("boot_id", TEXT, nullable=False),
        sa.Column("restored_at", sa.Double(), nullable=True),
        sa.CheckConstraint("id = 1", name="one_zone"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "code_uses",
        sa.Column("code", TEXT, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("used_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["code"], ["codes.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("code", "fingerprint"),
    )
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("update", "delete"):
            op.execute(_REFUSE_SQLITE.format(verb=verb, VERB=verb.upper()))
    else:
        op.execute(_REFUSE_POSTGRESQL)
        op.execute(
            "CREATE TRIGGER journal_no_change BEFORE UPDATE OR DELETE ON journal "
            "FOR EACH ROW EXECUTE FUNCTION journal_append_only()"
        )
        op.execute(
            "CREATE TRIGGER journal_no_truncate BEFORE TRUNCATE ON journal "
            "FOR EACH STATEMENT EXECUTE FUNCTION journal_append_only()"
        )
