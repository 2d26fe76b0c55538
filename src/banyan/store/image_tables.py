"""Tables of core/image.py, beside those of tables.py and by the same rules. The images' data is in files
(image_files.py), not here.

`image_graves`: ids of deleted images for a while, so that nobody makes another image under the id of one that others
still name. Properties and tags are JSON in their image's row: lists by them read what the other filters leave.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Table, text

from banyan.store.tables import Instant, Text, metadata

images = Table(
    "images",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("name", Text),
    Column("status", Text, nullable=False),
    Column("visibility", Text, nullable=False),
    Column("container_format", Text),
    Column("disk_format", Text),
    Column("size", BigInteger),
    Column("virtual_size", BigInteger),
    Column("checksum", Text),
    Column("hash_algo", Text),
    Column("hash_value", Text),
    Column("min_disk", BigInteger, nullable=False),
    Column("min_ram", BigInteger, nullable=False),
    Column("protected", Boolean, nullable=False),
    Column("hidden", Boolean, nullable=False),
    Column("properties", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("data", Text, nullable=False),
    Column("attempt", Text, nullable=False),
    Column("server", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("filled", Boolean, nullable=False),
    Column("import_failed", Boolean, nullable=False),
    Index("images_owner", "owner", "created_at", "id"),
    Index("images_visibility", "visibility", "created_at", "id"),
    Index("images_created", "created_at", "id"),
    Index("images_data", "data", sqlite_where=text("data <> ''"), postgresql_where=text("data <> ''")),
    Index("images_server", "server", "id", sqlite_where=text("server <> ''"), postgresql_where=text("server <> ''")),
    Index("images_attempt", "id", sqlite_where=text("attempt <> ''"), postgresql_where=text("attempt <> ''")),
)

image_members = Table(
    "image_members",
    metadata,
    Column("image", Text, ForeignKey("images.id", ondelete="CASCADE"), primary_key=True),
    Column("member", Text, primary_key=True),
    Column("status", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Index("image_members_member", "member", "status", "image"),
    sqlite_with_rowid=False,
)

image_tasks = Table(
    "image_tasks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("image", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("uri", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("expires", Instant, nullable=False),
    Index("image_tasks_image", "image", "created_at", "id"),
    Index("image_tasks_created", "created_at", "id"),
    Index("image_tasks_expires", "expires", "id"),
)

image_graves = Table(
    "image_graves",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at", Instant, nullable=False),
    Index("image_graves_at", "at"),
    sqlite_with_rowid=False,
)
