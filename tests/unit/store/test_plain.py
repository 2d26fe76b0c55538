"""Statements that go straight to the driver fail as all others do, and give what all others give."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import BigInteger, Column, Connection, MetaData, Table, Text, bindparam, create_engine, select
from sqlalchemy.exc import IntegrityError, OperationalError

from banyan.store.faults import Fault, fault
from banyan.store.plain import Plain, run, run_many

THINGS = Table("things", MetaData(), Column("id", BigInteger, primary_key=True), Column("name", Text, nullable=False))
FIRST = Plain(select(THINGS.c.id, THINGS.c.name).where(THINGS.c.id > bindparam("after")).order_by(THINGS.c.id).limit(1))
INSERT = "INSERT INTO things VALUES (?, ?)"


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        THINGS.metadata.create_all(connection)
        yield connection
    engine.dispose()


def test_they_do_what_they_say(connection: Connection) -> None:
    assert run_many(connection, INSERT, [(1, "a"), (2, "b")]) == 2
    assert tuple(FIRST.one(connection, after=0) or ()) == (1, "a")
    assert tuple(FIRST.one(connection, after=1) or ()) == (2, "b")
    assert FIRST.one(connection, after=2) is None


def test_their_failures_are_weighed_as_all_others(connection: Connection) -> None:
    with pytest.raises(OperationalError) as refused:
        run(connection, "RELEASE SAVEPOINT nobody")
    assert fault(refused.value) is Fault.UNIT
    with pytest.raises(IntegrityError) as broken:
        run_many(connection, INSERT, [(1, None)])
    assert fault(broken.value) is Fault.UNIT and "None" not in str(broken.value)
    run(connection, "DROP TABLE things")
    with pytest.raises(OperationalError):
        FIRST.one(connection, after=0)
