"""The table of receivers of alarms, beside those of tables.py."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Table

from banyan.store.tables import Instant, Text, metadata

# Where each receiver is in the journal (core.receiver.ReceiverRow): as many rows as the settings name.
receivers = Table(
    "receivers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("address", Text, nullable=False),
    Column("upto", BigInteger, nullable=False),
    Column("storms", Text, nullable=False),
    Column("failing_since", Instant),
    Column("dead", Boolean, nullable=False),
    Column("gone", Boolean, nullable=False),
    Column("last_error", Text, nullable=False),
    Column("last_sent", Instant),
)
