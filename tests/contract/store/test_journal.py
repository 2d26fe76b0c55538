"""The journal: numbered, chained, never changed; a change behind its back is named by line."""

from __future__ import annotations

import pytest

from banyan.core.errors import BadInput
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.core.journal import Event, Line, chain
from banyan.core.records import Unit
from banyan.core.time import Wall
from banyan.store.journal import Break, verify
from tests.contract.store.conftest import Kept

ANN = Caller("ann", Role.ADMIN, ZoneCode(5), ZoneCode(6), "tok", "192.0.2.1:5", "req-1")


def event(kind: str = "child-disabled", target: str = "east", outcome: str = "done") -> Event:
    return Event(kind, target, ANN, "she said: dïsk", {"b": "2", "a": "1"}, outcome)


def fill(kept: Kept, count: int) -> None:
    kept.write(lambda u: [u.journal.append(Wall(1_800_000_000.1 + n), event(target=f"z{n}")) for n in range(count)])


def test_a_line_holds_who_what_and_why_and_its_digest(kept: Kept) -> None:
    assert kept.read(lambda u: u.journal.last()) is None
    line = kept.write(lambda u: u.journal.append(Wall(0.1), event()))
    assert line == Line(
        1,
        Wall(0.1),
        "child-disabled",
        "east",
        "ann",
        "tok",
        "192.0.2.1:5",
        "req-1",
        "she said: dïsk",
        {"a": "1", "b": "2"},
        "done",
        chain(b"", 1, Wall(0.1), event()),
    )
    second = kept.write(lambda u: u.journal.append(Wall(0.2), event("other")))
    kept.again()
    assert kept.read(lambda u: u.journal.page(0, 10, {})) == [line, second]
    assert kept.read(lambda u: u.journal.last()) == second
    assert second.digest == chain(line.digest, 2, Wall(0.2), event("other"))


def test_lines_of_units_that_failed_leave_no_gap(kept: Kept) -> None:
    def fails(u: Unit) -> None:
        u.journal.append(Wall(1.0), event("never"))
        raise LookupError

    fill(kept, 2)
    with pytest.raises(LookupError):
        kept.write(fails)
    fill(kept, 2)
    assert [line.number for line in kept.read(lambda u: u.journal.page(0, 10, {}))] == [1, 2, 3, 4]
    assert kept.read(lambda u: verify(u.journal)) is None


def test_pages_and_exact_filters(kept: Kept) -> None:
    def work(u: Unit) -> None:
        for n in range(6):
            u.journal.append(
                Wall(n), event("even" if n % 2 == 0 else "odd", f"z{n % 3}", "refused" if n == 4 else "done")
            )

    kept.write(work)

    def numbers(after: int, limit: int, **filters: str) -> list[int]:
        return [line.number for line in kept.read(lambda u: u.journal.page(after, limit, filters))]

    assert numbers(2, 3) == [3, 4, 5]
    assert numbers(0, 10, kind="even") == [1, 3, 5]
    assert numbers(1, 10, kind="even", target="z2") == [3]
    assert numbers(0, 10, outcome="refused") == [5]
    assert numbers(0, 10, actor="ann") == [1, 2, 3, 4, 5, 6]
    assert numbers(0, 10, actor="an") == numbers(0, 10, kind="EVEN") == []
    assert numbers(2, 2, request=kept.read(lambda u: u.journal.last()).request) == [3, 4]
    assert numbers(0, 10, request="req") == []
    with pytest.raises(BadInput, match="kind, target, actor, outcome, request"):
        numbers(0, 10, text="x")


def test_a_whole_journal_is_verified_over_many_pages(kept: Kept) -> None:
    fill(kept, 2_100)
    last = kept.read(lambda u: u.journal.last())
    assert kept.read(lambda u: verify(u.journal)) is None
    assert kept.read(lambda u: verify(u.journal, (last.number, last.digest))) is None
    assert kept.read(lambda u: verify(u.journal, (last.number + 1, b"x"))).number == 2_101
    assert kept.read(lambda u: verify(u.journal, (7, b"another history"))).number == 7


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("UPDATE journal SET text = 'nothing happened' WHERE number = 3", 3),
        ("UPDATE journal SET actor = 'bob' WHERE number = 3", 3),
        ("UPDATE journal SET at = at + 1 WHERE number = 3", 3),
        ("UPDATE journal SET facts = '{}' WHERE number = 3", 3),
        ("UPDATE journal SET outcome = 'failed' WHERE number = 5", 5),
        ("DELETE FROM journal WHERE number = 3", 3),
        ("DELETE FROM journal WHERE number = 1", 1),
        ("UPDATE journal SET digest = (SELECT digest FROM journal WHERE number = 1) WHERE number = 4", 4),
    ],
)
def test_a_change_is_refused_and_behind_the_triggers_back_it_is_found(kept: Kept, statement: str, number: int) -> None:
    fill(kept, 5)

    def change(u: Unit) -> None:
        u.journal._connection.exec_driver_sql(statement)

    def behind(u: Unit) -> None:
        connection = u.journal._connection
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TRIGGER IF EXISTS journal_no_update")
            connection.exec_driver_sql("DROP TRIGGER IF EXISTS journal_no_delete")
        else:
            connection.exec_driver_sql("ALTER TABLE journal DISABLE TRIGGER ALL")
        connection.exec_driver_sql(statement)

    with pytest.raises(Exception, match="refused a") as refused:
        kept.write(change)
    assert "append-only" in refused.value.detail
    assert kept.read(lambda u: verify(u.journal)) is None
    kept.write(behind)
    found = kept.read(lambda u: verify(u.journal))
    assert isinstance(found, Break)
    assert found.number == number
