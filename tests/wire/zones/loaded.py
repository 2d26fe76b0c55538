"""What the nursery loads once: the whole program, and the programs that it can be asked to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import alembic.command
import httpx
import sqlalchemy.dialects.sqlite

import banyan.cli.main
import banyan.serve.run
import banyan.store.migrations.upgrade
from banyan.drivers import sim
from tests.wire.zones import doomed

LOADED = (alembic.command, httpx, sqlalchemy.dialects.sqlite, banyan.serve.run, banyan.store.migrations.upgrade, sim)

PROGRAMS: Mapping[str, Callable[[list[str]], int]] = {"banyan": banyan.cli.main.run, "doomed": doomed.main}
