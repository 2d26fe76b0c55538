"""Units of work: all or nothing, answered after COMMIT, in a consistent view, refused clearly when it can not be."""

from __future__ import annotations

import asyncio

import pytest

from banyan.core.errors import BanyanError, Broken, Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.records import Self, Unit
from banyan.core.time import Wall
from banyan.core.zone import Child
from tests.contract.store.conftest import Kept


def child(n: int, name: str = "") -> Child:
    return Child(ZoneCode(n), name or f"z{n}", b"key-%d" % n)


def names(u: Unit) -> list[str]:
    return [c.name for c in u.children.page(None, 10_000)]


def test_a_unit_that_raises_leaves_nothing_and_its_error_is_its_own(kept: Kept) -> None:
    class Mine(Exception):
        pass

    def work(u: Unit) -> None:
        u.children.put(child(1))
        u.self_.put(Self(ZoneCode(1), "top", Wall(1.0)))
        raise Mine("word for word")

    with pytest.raises(Mine, match="word for word"):
        kept.write(work)
    assert kept.read(lambda u: (u.self_.get(), u.children.count())) == (None, 0)


def test_a_unit_sees_its_own_changes(kept: Kept) -> None:
    def work(u: Unit) -> list[str]:
        u.children.put(child(1))
        return names(u)

    assert kept.write(work) == ["z1"]


def test_values_and_none_are_answered(kept: Kept) -> None:
    assert kept.write(lambda u: None) is None
    assert kept.write(lambda u: 5) == 5
    assert kept.read(lambda u: "x") == "x"


def test_a_unit_that_fails_in_the_middle_of_many_leaves_the_others(kept: Kept) -> None:
    def work(n: int, u: Unit) -> int:
        u.children.put(child(n))
        if n % 7 == 3:
            raise LookupError(n)
        return n

    async def many() -> list[int | BaseException]:
        writes = (kept.store.write(f"unit-{n}", lambda u, n=n: work(n, u)) for n in range(50))
        return await asyncio.gather(*writes, return_exceptions=True)

    answers = kept.run(many())
    failed = [n for n, answer in enumerate(answers) if isinstance(answer, LookupError) and answer.args == (n,)]
    assert failed == [n for n in range(50) if n % 7 == 3]
    assert [answer for answer in answers if not isinstance(answer, BaseException)] == [
        n for n in range(50) if n % 7 != 3
    ]
    kept.again()
    assert kept.read(names) == [f"z{n}" for n in range(50) if n % 7 != 3]


def test_a_unit_that_breaks_a_rule_of_the_database_fails_alone(kept: Kept) -> None:
    def breaks(u: Unit) -> None:
        u.children.put(child(1))
        u.codes._connection.exec_driver_sql("INSERT INTO about (key, value) VALUES ('k', NULL)")

    async def both() -> list[object]:
        return await asyncio.gather(
            kept.store.write("a", breaks),
            kept.store.write("b", lambda u: u.children.put(child(2))),
            return_exceptions=True,
        )

    refused, fine = kept.run(both())
    assert isinstance(refused, Broken)
    assert refused.code == "store-rule"
    assert fine is None
    assert kept.read(names) == ["z2"]


def test_what_a_write_answered_every_later_read_sees(kept: Kept) -> None:
    async def check() -> None:
        for n in range(30):
            await kept.store.write("put", lambda u, n=n: u.children.put(child(n)))
            counts = await asyncio.gather(*(kept.store.read(lambda u: u.children.count()) for _ in range(4)))
            assert counts == [n + 1] * 4

    kept.run(check())


def test_a_read_is_one_snapshot_while_writes_go_on(kept: Kept) -> None:
    """Two children are put by each unit: no reader ever counts an odd number, or two numbers in one read."""

    def pair(n: int, u: Unit) -> None:
        u.children.put(child(2 * n))
        u.children.put(child(2 * n + 1))

    def look(u: Unit) -> tuple[int, int]:
        first = u.children.count()
        for _ in range(20):
            u.children.page(None, 1)
        return first, len(u.children.page(None, 10_000))

    async def both() -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []

        async def reader() -> None:
            while not done:
                seen.append(await kept.store.read(look))

        done: list[bool] = []
        readers = [asyncio.ensure_future(reader()) for _ in range(3)]
        for n in range(40):
            await kept.store.write("pair", lambda u, n=n: pair(n, u))
        done.append(True)
        await asyncio.gather(*readers)
        return seen

    seen = kept.run(both())
    assert seen
    assert all(first == second and first % 2 == 0 for first, second in seen)


def test_nothing_of_a_reading_unit_is_kept(kept: Kept) -> None:
    def work(u: Unit) -> None:
        u.children.put(child(1))

    try:
        kept.read(work)
    except BanyanError as error:
        assert error.code == "store-read-only"  # noqa: PT017 - a store may also just drop it
    assert kept.read(names) == []


def test_racing_for_one_name_exactly_one_child_gets_it(kept: Kept) -> None:
    async def race() -> list[object]:
        return await asyncio.gather(
            *(kept.store.write("join", lambda u, n=n: u.children.put(child(n, "east"))) for n in range(20)),
            return_exceptions=True,
        )

    answers = kept.run(race())
    assert answers.count(None) == 1
    assert {getattr(answer, "code", None) for answer in answers} == {None, "name-taken"}
    assert kept.read(names) == ["east"]


def test_a_closed_store_says_so(kept: Kept) -> None:
    kept.close()
    for call in (kept.write, kept.read):
        with pytest.raises(Unreachable, match="closed") as refused:
            call(lambda u: None)
        assert refused.value.code == "store-closed"
    kept.close()


def test_a_unit_may_raise_what_a_future_can_not_carry(kept: Kept) -> None:
    def work(u: Unit) -> None:
        next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        kept.write(work)
    assert kept.write(lambda u: 1) == 1
