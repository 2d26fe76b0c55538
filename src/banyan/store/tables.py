"""The schema as SQLAlchemy tables. Migrations make it; a test compares the two.

Text compares and sorts by bytes on both databases (PostgreSQL: COLLATE "C"), so that names are compared
exactly and pages from many zones merge in one order. Whole records that only the program reads are
MessagePack blobs; what is searched, counted or conditionally updated is a column.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    text,
)
from sqlalchemy.dialects.postgresql import VARCHAR

metadata = MetaData()

Text = String().with_variant(VARCHAR(collation="C"), "postgresql")
Code = BigInteger()
Count = BigInteger()
Instant: Double[float] = Double()
# A rowid on SQLite only if it is spelled INTEGER.
Number = BigInteger().with_variant(Integer(), "sqlite")

# `about` keeps this form for ever: older programs read it to say which newer one wrote the database.
about = Table("about", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

sequences = Table(
    "sequences", metadata, Column("name", Text, primary_key=True), Column("value", BigInteger, nullable=False)
)

zone = Table(
    "zone",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1", name="one_zone"), primary_key=True, autoincrement=False),
    Column("code", Code, nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("labels", Text, nullable=False),
    Column("time", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("restored_at", Instant),
)

keys = Table("keys", metadata, Column("name", Text, primary_key=True), Column("sealed", LargeBinary, nullable=False))

authorities = Table(
    "authorities",
    metadata,
    Column("fingerprint", LargeBinary, primary_key=True),
    Column("certificate", LargeBinary, nullable=False),
    Column("key", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("not_after", Instant, nullable=False),
    Column("current", Boolean, nullable=False),
    Column("cross", Text, nullable=False),
    Column("leaked", Boolean, nullable=False),
    Index(
        "authorities_current", "current", unique=True, sqlite_where=text("current"), postgresql_where=text("current")
    ),
)

uplinks = Table(
    "uplinks",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("addresses", Text, nullable=False),
    Column("pin", LargeBinary, nullable=False),
    Column("home", Boolean, nullable=False),
    Column("parent_code", Code),
    Column("parent_name", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("certificate", LargeBinary, nullable=False),
    Column("bundle", Text, nullable=False),
    Column("known_epoch", BigInteger, nullable=False),
    Column("proof", Text, nullable=False),
    Column("mark", LargeBinary, nullable=False),
    Column("next_mark", LargeBinary, nullable=False),
    Column("joined_at", Instant),
    Column("read_only", Boolean, nullable=False),
    Column("last_error", Text, nullable=False),
    Column("shapes", Text, nullable=False),
)

children = Table(
    "children",
    metadata,
    Column("code", Number, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
    Column("admin", Text, nullable=False),
    Column("admin_reason", Text, nullable=False),
    Column("admin_by", Text, nullable=False),
    Column("maintenance_until", Instant),
    Column("health", Text, nullable=False),
    Column("health_reason", Text, nullable=False),
    Column("quarantined", Boolean, nullable=False),
    Column("rolled_back", Boolean, nullable=False),
    Column("labels", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("mark", LargeBinary, nullable=False),
    Column("home", Boolean, nullable=False),
    Column("joined_at", Instant),
    Column("heard_at", Instant),
    Column("certificate_until", Instant),
    Index("children_state", "state"),
)
# A retired child's code is a tombstone; its name and key may be taken again.
_LISTED = text("state <> 'retired'")
Index("children_name", children.c.name, unique=True, sqlite_where=_LISTED, postgresql_where=_LISTED)
_BANNED = children.c.admin == "banned"
Index("children_banned", children.c.fingerprint, sqlite_where=_BANNED, postgresql_where=_BANNED)
Index("children_fingerprint", children.c.fingerprint, unique=True, sqlite_where=_LISTED, postgresql_where=_LISTED)

streams = Table(
    "streams",
    metadata,
    Column("child", Number, primary_key=True, autoincrement=False),
    Column("digest", BigInteger),
    Column("counters", LargeBinary),
    Column("lineage", BigInteger, nullable=False, server_default="0"),
    Column("ledger", BigInteger, nullable=False, server_default="0"),
)

lineage = Table(
    "lineage",
    metadata,
    Column("via", Code, primary_key=True),
    Column("code", Code, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Index("lineage_code", "code"),
    sqlite_with_rowid=False,
)

# Of a rack that several zones below name, the one that named it first; of others the lineage says it.
rack_owners = Table(
    "rack_owners",
    metadata,
    Column("rack", Number, primary_key=True, autoincrement=False),
    Column("zone", Code, nullable=False),
)

ledger = Table(
    "ledger",
    metadata,
    Column("via", Code, primary_key=True),
    Column("issuer", Code, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("guests", Count, nullable=False),
    Column("vcpu", Count, nullable=False),
    Column("memory_mib", Count, nullable=False),
    Column("disk_gib", Count, nullable=False),
    sqlite_with_rowid=False,
)

racks = Table(
    "racks",
    metadata,
    Column("code", Number, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("driver", Text, nullable=False),
    Column("options", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("owner", Text, nullable=False),
    Column("health", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("capacity", Text, nullable=False),
    Column("basis", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("scanned_at", Instant),
    Column("facts", Text, nullable=False),
)

# Hosts and guests are numbered as they are first seen, and stored in that order: a bottom's random ids would
# spread each batch over the whole table. Which scan last saw a row stands apart, in a table so narrow that a scan
# that finds nothing new writes 20 bytes per guest and not the guests (measured: 0.1 MB against 5.8 MB per 1,000).
hosts = Table(
    "hosts",
    metadata,
    Column("n", Number, primary_key=True, autoincrement=False),
    Column("rack", Code, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Index("hosts_id", "rack", "id", unique=True),
    Index("hosts_name", "rack", "name", "id"),
)

# What people said about hosts (core.host.HostWord). A host that a scan does not see keeps its word: it may come back.
host_words = Table(
    "host_words",
    metadata,
    Column("rack", Code, primary_key=True),
    Column("host", Text, primary_key=True),
    Column("disabled", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    Column("forced_down", Boolean, nullable=False),
    Column("author", Text, nullable=False),
    Column("said_at", Instant, nullable=False),
    sqlite_with_rowid=False,
)

host_scans = Table(
    "host_scans",
    metadata,
    Column("rack", Code, primary_key=True),
    Column("n", BigInteger, primary_key=True),
    Column("scan", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

guests = Table(
    "guests",
    metadata,
    Column("n", Number, primary_key=True, autoincrement=False),
    Column("rack", Code, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("flavor", Text, nullable=False),
    Column("vcpu", Count, nullable=False),
    Column("memory_mib", Count, nullable=False),
    Column("disk_gib", Count, nullable=False),
    Column("created", Instant, nullable=False),
    Column("native", Boolean, nullable=False),
    Column("move", BigInteger, nullable=False),
    Column("offered", Boolean, nullable=False),
    Index("guests_id", "rack", "id", unique=True),
    # Sums per state and project read the table: an index that holds them was measured to save nothing, and to cost
    # a third of all writing.
    Index("guests_name", "rack", "name", "id"),
)

guest_scans = Table(
    "guest_scans",
    metadata,
    Column("rack", Code, primary_key=True),
    Column("n", BigInteger, primary_key=True),
    Column("scan", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

catalogue = Table(
    "catalogue",
    metadata,
    Column("rack", Code, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# Ids grow with time, so new rows come at the end. `content` (what was ordered) and `user_data` seldom change; `life`
# is the rest that is only read. Deleted rows stay for a while: the lists of those that live do not meet them.
servers = Table(
    "servers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("issuer", Code, nullable=False),
    Column("project", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("rack", Code, nullable=False),
    Column("host", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("kept_host", Text, nullable=False),
    Column("kept_shape", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("power", Text, nullable=False),
    Column("wanted", Text, nullable=False),
    Column("locked", Boolean, nullable=False),
    Column("unconfirmed", Boolean, nullable=False),
    Column("flavor", Text, nullable=False),
    Column("image", Text, nullable=False),
    Column("availability_zone", Text, nullable=False),
    Column("group_id", Text, nullable=False),
    Column("created", Instant, nullable=False),
    Column("updated", Instant, nullable=False),
    Column("launched", Instant),
    Column("terminated", Instant),
    Column("deleted_at", Instant),
    Column("move", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("order_id", Text, nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("progress", BigInteger, nullable=False),
    Column("life", LargeBinary, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("user_data", Text, nullable=False),
)
_LIVES, _GONE = text("deleted_at IS NULL"), text("deleted_at IS NOT NULL")
Index(
    "servers_live",
    servers.c.issuer,
    servers.c.project,
    servers.c.id,
    sqlite_where=_LIVES,
    postgresql_where=_LIVES,
)
Index("servers_gone", servers.c.deleted_at, servers.c.id, sqlite_where=_GONE, postgresql_where=_GONE)
_BUSY = text("task <> ''")
Index("servers_busy", servers.c.rack, servers.c.id, sqlite_where=_BUSY, postgresql_where=_BUSY)
_GROUPED = text("group_id <> ''")
Index(
    "servers_group",
    servers.c.issuer,
    servers.c.group_id,
    servers.c.host,
    sqlite_where=_GROUPED,
    postgresql_where=_GROUPED,
)
Index("servers_host", servers.c.host)

server_actions = Table(
    "server_actions",
    metadata,
    Column("server", Text, primary_key=True),
    Column("request", Text, primary_key=True),
    Column("started", Instant, nullable=False),
    Column("content", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

orders = Table(
    "orders",
    metadata,
    Column("id", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("request", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Index("orders_at", "at"),
    Index("orders_request", "request"),
)
_CLAIMED = text("state = 'claimed'")
Index("orders_claimed", orders.c.id, sqlite_where=_CLAIMED, postgresql_where=_CLAIMED)

# What members were asked for, and which word is owed to them; member 0: what became of an order here (core/shares.py).
shares = Table(
    "shares",
    metadata,
    Column("member", BigInteger, primary_key=True, autoincrement=False),
    Column("id", Text, primary_key=True),
    Column("order_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("group_id", Text, nullable=False),
    Index("shares_order", "order_id"),
    sqlite_with_rowid=False,
)
_OPEN = text("state IN ('asked', 'held')")
Index("shares_open", shares.c.state, shares.c.order_id, sqlite_where=_OPEN, postgresql_where=_OPEN)
Index("shares_group", shares.c.group_id, sqlite_where=_GROUPED, postgresql_where=_GROUPED)

# Requests that may be repeated: a day's, some thousands to a project.
retries = Table(
    "retries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("issuer", Code, nullable=False),
    Column("project", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Index("retries_project", "issuer", "project", "at"),
    Index("retries_at", "at"),
)

codes = Table(
    "codes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("issued", Instant, nullable=False),
    Column("expires", Instant, nullable=False),
    Column("uses", BigInteger),
    Column("used", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("driver", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("replace", Boolean, nullable=False),
    Column("revoked", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    CheckConstraint("uses IS NULL OR used <= uses", name="codes_used_up"),
    Index("codes_expires", "expires"),
)

code_uses = Table(
    "code_uses",
    metadata,
    Column("code", Text, ForeignKey("codes.id", ondelete="CASCADE"), primary_key=True),
    Column("fingerprint", LargeBinary, primary_key=True),
    Column("used_at", Instant, nullable=False),
)

known_keys = Table(
    "known_keys",
    metadata,
    Column("fingerprint", LargeBinary, primary_key=True),
    Column("name", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("replace", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
)

rules = Table(
    "rules",
    metadata,
    Column("id", Text, primary_key=True),
    Column("priority", BigInteger, nullable=False),
    Column("verifier", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("driver", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("set_labels", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("reason", Text, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("subject", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("under", Code),
    Column("path", Text, nullable=False),
    Column("issued", Instant, nullable=False),
    Column("expires", Instant, nullable=False),
    Column("revoked", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("issuer", Code),
    Index("tokens_expires", "expires"),
)

# Append-only by triggers (migrations), hash-chained by core.journal.chain.
journal = Table(
    "journal",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=False),
    Column("at", Instant, nullable=False),
    Column("kind", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Index("journal_kind", "kind", "number"),
    Index("journal_target", "target", "number"),
    Index("journal_actor", "actor", "number"),
    Index(
        "journal_request",
        "request",
        "number",
        sqlite_where=text("request <> ''"),
        postgresql_where=text("request <> ''"),
    ),
    Index(
        "journal_outcome",
        "outcome",
        "number",
        sqlite_where=text("outcome <> 'done'"),
        postgresql_where=text("outcome <> 'done'"),
    ),
)
