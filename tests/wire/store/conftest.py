"""A loop per test, and the session's PostgreSQL."""

from __future__ import annotations

from tests.contract.store.conftest import run, server

__all__ = ["run", "server"]
