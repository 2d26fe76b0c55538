"""Images, whom they are shared with, and imports. What each table is for: store/image_tables.py.

Revision 0006, after 0005.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

TEXT = sa.String().with_variant(sa.VARCHAR(collation="C"), "postgresql")


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, TEXT, nullable=nullable) for name in names]


def _counts(*names: str, nullable: bool = False) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=nullable) for name in names]


def _flags(*names: str) -> list[sa.Column[bool]]:
    return [sa.Column(name, sa.Boolean(), nullable=False) for name in names]


def _instants(*names: str) -> list[sa.Column[float]]:
    return [sa.Column(name, sa.Double(), nullable=False) for name in names]


def _some(name: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, "images", columns, sqlite_where=where, postgresql_where=where)


def upgrade() -> None:
    op.create_table(
        "images",
        *_texts("id", "owner"),
        *_texts("name", nullable=True),
        *_texts("status", "visibility"),
        *_texts("container_format", "disk_format", nullable=True),
        *_counts("size", "virtual_size", nullable=True),
        *_texts("checksum", "hash_algo", "hash_value", nullable=True),
        *_counts("min_disk", "min_ram"),
        *_flags("protected", "hidden"),
        *_texts("properties", "tags"),
        *_instants("created_at", "updated_at"),
        *_texts("data", "attempt", "server", "purpose", "request"),
        *_flags("filled", "import_failed"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("images_owner", "images", ["owner", "created_at", "id"])
    op.create_index("images_visibility", "images", ["visibility", "created_at", "id"])
    op.create_index("images_created", "images", ["created_at", "id"])
    _some("images_data", ["data"], "data <> ''")
    _some("images_server", ["server", "id"], "server <> ''")
    _some("images_attempt", ["id"], "attempt <> ''")
    op.create_table(
        "image_members",
        *_texts("image", "member", "status"),
        *_instants("created_at", "updated_at"),
        sa.ForeignKeyConstraint(["image"], ["images.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("image", "member"),
        sqlite_with_rowid=False,
    )
    op.create_index("image_members_member", "image_members", ["member", "status", "image"])
    op.create_table(
        "image_tasks",
        *_texts("id", "image", "owner", "user", "request", "method", "uri", "state", "message"),
        *_instants("created_at", "updated_at", "expires"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("image_tasks_image", "image_tasks", ["image", "created_at", "id"])
    op.create_index("image_tasks_created", "image_tasks", ["created_at", "id"])
    op.create_index("image_tasks_expires", "image_tasks", ["expires", "id"])
    op.create_table(
        "image_graves",
        *_texts("id"),
        *_instants("at"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=False,
    )
    op.create_index("image_graves_at", "image_graves", ["at"])
