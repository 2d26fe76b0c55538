"""A look into a zone's database from beside it: nothing is made, and what can not be read is named."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from banyan.core.errors import BanyanError
from banyan.core.ids import ZoneCode
from banyan.core.records import Self
from banyan.core.time import TimeBasis, Wall
from banyan.core.zone import Uplink
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.glance import Parents, parents
from banyan.store.open import DATABASE_NAME, open_store

ROW = Uplink(1, ("192.0.2.1:8781",), b"p" * 32, certificate=b"held", path="top/lab")
TIME = TimeBasis(-3.5, Wall(1_800_000_000.0))


def made(data: Path) -> None:
    async def make() -> None:
        store = open_store(data, ids=SystemIds(), clock=SystemClock())
        await store.write("test", lambda unit: unit.uplinks.put(ROW))
        await store.write("test", lambda unit: unit.self_.put(Self(ZoneCode(1), "lab", Wall(1.0), time=TIME)))
        await store.close()

    asyncio.run(make())


def test_where_there_is_no_zone_yet_nothing_is_found_and_nothing_made(tmp_path: Path) -> None:
    assert parents(tmp_path / "new") == Parents()
    assert not (tmp_path / "new").exists()


def test_a_zones_parents_and_its_time(tmp_path: Path) -> None:
    made(tmp_path)
    assert parents(tmp_path) == Parents(TIME, (replace(ROW),))


def test_a_database_of_another_version_is_named_and_left_alone(tmp_path: Path) -> None:
    made(tmp_path)
    database = sqlite3.connect(tmp_path / DATABASE_NAME)
    database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.commit()
    database.close()
    with pytest.raises(BanyanError) as refused:
        parents(tmp_path)
    assert refused.value.code == "database-other"
    assert "9999" in refused.value.text


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / DATABASE_NAME).write_bytes(b"not a database at all, but long enough to look" * 40)
    with pytest.raises(BanyanError):
        parents(tmp_path)
