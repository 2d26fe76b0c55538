"""A use of a join code belongs to one key: repeated by it, refused to others, never more uses than there are."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from banyan.core.policy import CodeRecord
from banyan.core.time import Wall
from tests.contract.store.conftest import Kept

NOW = Wall(100.0)
CODE = CodeRecord("code", b"h" * 32, issued=Wall(50.0), expires=Wall(200.0), uses=1)


def test_one_use_goes_to_one_key_which_may_repeat_it(kept: Kept) -> None:
    kept.write(lambda u: u.codes.put(CODE))
    assert kept.write(lambda u: u.codes.use("code", b"a", NOW))
    assert kept.write(lambda u: u.codes.use("code", b"a", NOW))
    assert not kept.write(lambda u: u.codes.use("code", b"b", NOW))
    kept.again()
    assert kept.write(lambda u: u.codes.use("code", b"a", NOW))
    assert kept.read(lambda u: u.codes.get("code")) == replace(CODE, used=1)


def test_several_uses_are_counted_once_per_key(kept: Kept) -> None:
    kept.write(lambda u: u.codes.put(replace(CODE, uses=2)))
    answers = [kept.write(lambda u, key=key: u.codes.use("code", key, NOW)) for key in (b"a", b"b", b"a", b"c", b"b")]
    assert answers == [True, True, True, False, True]
    assert kept.read(lambda u: u.codes.get("code").used) == 2


def test_unlimited_uses_end_with_the_code(kept: Kept) -> None:
    kept.write(lambda u: u.codes.put(replace(CODE, uses=None)))
    assert all(kept.write(lambda u, n=n: u.codes.use("code", bytes([n]), NOW)) for n in range(20))
    assert not kept.write(lambda u: u.codes.use("code", b"late", CODE.expires))
    assert kept.read(lambda u: u.codes.get("code").used) == 20


def test_an_expired_code_serves_only_keys_bound_before(kept: Kept) -> None:
    kept.write(lambda u: u.codes.put(replace(CODE, uses=2)))
    assert kept.write(lambda u: u.codes.use("code", b"a", NOW))
    late = Wall(CODE.expires + 1)
    assert kept.write(lambda u: u.codes.use("code", b"a", late))
    assert not kept.write(lambda u: u.codes.use("code", b"b", late))
    assert kept.read(lambda u: u.codes.get("code").used) == 1


def test_a_revoked_code_serves_nobody(kept: Kept) -> None:
    kept.write(lambda u: u.codes.put(replace(CODE, uses=2)))
    assert kept.write(lambda u: u.codes.use("code", b"a", NOW))
    kept.write(lambda u: u.codes.put(replace(u.codes.get("code"), revoked=True)))
    assert not kept.write(lambda u: u.codes.use("code", b"a", NOW))
    assert not kept.write(lambda u: u.codes.use("code", b"b", NOW))


def test_an_unknown_code_serves_nobody(kept: Kept) -> None:
    assert not kept.write(lambda u: u.codes.use("nothing", b"a", NOW))
    assert not kept.write(lambda u: u.codes.use("nothing", b"a", NOW))


def test_a_use_is_undone_with_its_unit(kept: Kept) -> None:
    kept.write(lambda u: u.codes.put(CODE))

    def work(u):
        assert u.codes.use("code", b"a", NOW)
        raise LookupError

    with pytest.raises(LookupError):
        kept.write(work)
    assert kept.write(lambda u: u.codes.use("code", b"b", NOW))


def test_of_two_keys_racing_for_the_last_use_exactly_one_wins(kept: Kept) -> None:
    kept.write(lambda u: u.codes.put(replace(CODE, uses=3)))

    async def race() -> list[bool]:
        tries = (kept.store.write("use", lambda u, n=n: u.codes.use("code", bytes([n % 20]), NOW)) for n in range(60))
        return await asyncio.gather(*tries)

    answers = kept.run(race())
    winners = {n % 20 for n, won in enumerate(answers) if won}
    assert len(winners) == 3
    assert sum(answers) == 9, "each of the three winners is told so all three times"
    assert kept.read(lambda u: u.codes.get("code").used) == 3


def test_sweeping_takes_expired_codes_and_their_uses(kept: Kept) -> None:
    kept.write(lambda u: [u.codes.put(replace(CODE, id=id, expires=Wall(end))) for id, end in (("a", 5.0), ("b", 6.0))])
    kept.write(lambda u: u.codes.use("a", b"k", Wall(1.0)))
    assert kept.write(lambda u: u.codes.sweep(Wall(6.0), 100)) == 1
    assert [code.id for code in kept.read(lambda u: u.codes.page(None, 10))] == ["b"]
    kept.write(lambda u: u.codes.put(replace(CODE, id="a")))
    assert kept.write(lambda u: u.codes.use("a", b"other", NOW)), "the swept code's binding is gone with it"


def test_a_sweep_takes_so_many_codes_at_a_time_the_oldest_first(kept: Kept) -> None:
    ends = (("a", 5.0), ("b", 3.0), ("c", 4.0))
    kept.write(lambda u: [u.codes.put(replace(CODE, id=id, expires=Wall(end))) for id, end in ends])
    assert kept.write(lambda u: u.codes.sweep(Wall(9.0), 2)) == 2
    assert [code.id for code in kept.read(lambda u: u.codes.page(None, 10))] == ["a"]
