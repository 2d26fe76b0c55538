"""A commit whose fate is not known: the store is asked again, and memory, sessions and answers follow what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from banyan.core.messages import Ack
from banyan.core.records import StoreUnknown
from banyan.core.zone import Admin, ChildState, Health
from banyan.zone.again import LOOKS
from tests.unit.zone.household import ADMIN, Household, Kid, delta
from tests.unit.zone.test_at_once import Door, Siblings, carriers, code, via


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household(addresses=("192.0.2.1:8740",))
    yield made
    made.close()


# The commit, and every look at what became of it while somebody waits.
AWAY = [StoreUnknown] * (1 + LOOKS)


def reporting(house: Household) -> Kid:
    kid = house.kid("lab")
    kid.open()
    kid.report(lineage=delta([kid.itself()]))
    return kid


def word(house: Household, name: str, kid: Kid) -> str:
    return house.run(code(house.zone.words.apply(ADMIN, name, kid.code, {})))


def told(kid: Kid) -> list[str]:
    assert kid.wire is not None
    return [why for why, _, _ in kid.wire.cuts]


@pytest.mark.parametrize("away", [False, True])
def test_a_retirement_of_unknown_fate_is_followed(house: Household, away: bool) -> None:
    kid = reporting(house)
    house.store.fail(*(AWAY if away else [StoreUnknown]))
    assert word(house, "zone.retire", kid) == ("store-unknown" if away else "")
    house.start()
    house.go(120.0)
    assert kid.code not in house.zone.roster.live
    assert kid.code not in house.zone.tree
    assert told(kid) == ["retired"]
    assert len(house.journal("child-retired")) == 1
    assert not house.zone.roster.doubtful


def test_a_word_that_is_said_again_before_it_was_read_again_is_done(house: Household) -> None:
    kid = reporting(house)
    house.store.fail(*AWAY)
    assert word(house, "zone.retire", kid) == "store-unknown"
    assert kid.code in house.zone.roster.live
    assert word(house, "zone.retire", kid) == ""
    assert kid.code not in house.zone.roster.live
    assert (told(kid), len(house.journal("child-retired"))) == (["retired"], 1)


@pytest.mark.parametrize("away", [False, True])
def test_a_ban_of_unknown_fate_is_followed(house: Household, away: bool) -> None:
    kid = reporting(house)
    house.store.fail(*(AWAY if away else [StoreUnknown]))
    assert word(house, "zone.ban", kid) == ("store-unknown" if away else "")
    house.start()
    house.go(60.0)
    live = house.zone.roster.live[kid.code]
    assert (live.child.admin, live.session, told(kid)) == (Admin.BANNED, None, ["banned"])


def test_a_change_that_was_not_kept_is_said_to_be_none(house: Household) -> None:
    kid = reporting(house)

    async def undone(instant: str) -> None:
        if instant == "answer parent.ban":
            house.store.fail()
            await house.store.write("test", lambda unit: unit.children.put(before))

    before = house.zone.roster.live[kid.code].child
    house.pause = undone
    house.store.fail(StoreUnknown)
    assert word(house, "zone.ban", kid) == "not-stored"
    assert house.zone.roster.live[kid.code].child == before
    assert told(kid) == []


@pytest.mark.parametrize("away", [False, True])
def test_a_childs_own_leaving_of_unknown_fate_is_followed(house: Household, away: bool) -> None:
    kid = reporting(house)
    house.store.fail(*(AWAY if away else [StoreUnknown]))
    assert house.run(code(kid.say(kid.words(condition="leaving")))) == ("store-unknown" if away else "left")
    house.start()
    house.go(60.0)
    assert kid.code not in house.zone.roster.live
    assert house.run(code(kid.say_hello())) == "retired"


def test_a_verdict_of_unknown_fate_is_followed(house: Household) -> None:
    kid = reporting(house)
    house.store.fail(*AWAY)
    change = house.zone.roster.change(kid.code, "parent.lost", lambda row: replace(row, health=Health.LOST))
    assert house.run(code(change)) == "store-unknown"
    house.start()
    house.go(5.0)
    assert house.zone.roster.live[kid.code].child.health is Health.LOST


@pytest.mark.parametrize("away", [False, True])
def test_an_admission_of_unknown_fate_is_followed(house: Household, away: bool) -> None:
    door, kid = Door(house), house.stranger("lab")
    house.store.fail(*(AWAY if away else [StoreUnknown]))
    assert house.run(code(door.enrol(kid))) == ("store-unknown" if away else "")
    house.start()
    house.go(60.0)
    assert house.zone.roster.live[kid.code].child.state is ChildState.JOINING
    assert house.run(code(door.enrol(kid))) == ""


def test_a_replacement_of_unknown_fate_is_followed(house: Household) -> None:
    old = reporting(house)
    door, new = Door(house, name="lab", replace=True), house.stranger("lab")
    house.store.fail(*AWAY)
    assert house.run(code(door.enrol(new))) == "store-unknown"
    house.start()
    house.go(60.0)
    assert told(old) == ["replaced"]
    assert not house.zone.roster.live[old.code].entry, "what the old one said is not the new one's"


@pytest.mark.parametrize("turn", [False, True])
@pytest.mark.parametrize("away", [False, True])
def test_the_place_of_a_report_of_unknown_fate_is_kept(house: Household, away: bool, turn: bool) -> None:
    both = Siblings(house)
    a, b = (both.second, both.first) if turn else (both.first, both.second)
    house.store.fail(*(AWAY if away else [StoreUnknown]))
    assert house.run(code(both.say(a))) == ("store-unknown" if away else "")
    b.report(lineage=delta([both.row(b)], since=1, until=2))
    assert carriers(house, both.shared) == [a.code]
    house.start()
    house.go(10.0)
    assert via(house, both.shared) == a.code
    ack = a.beat()
    assert isinstance(ack, Ack)
    assert (ack.resend, ack.known.lineage) == (True, 2), "it goes on from what is there"
    house.restore(house.store.image())
    assert via(house, both.shared) == a.code


def test_a_place_whose_report_was_not_kept_after_all_is_given_back(house: Household) -> None:
    both = Siblings(house)

    async def undone(instant: str) -> None:
        if instant == "answer parent.lineage":
            house.pause = at_once
            await house.store.write("test", lambda unit: unit.lineage.delete(both.first.code, [both.shared.code]))

    async def at_once(instant: str) -> None:
        return

    house.pause = undone
    house.store.fail(StoreUnknown)
    house.run(both.say(both.first))
    both.second.report(lineage=delta([both.row(both.second)], since=1, until=2))
    assert via(house, both.shared) == both.second.code


@pytest.mark.parametrize("away", [False, True])
def test_the_zones_own_row_follows_the_store(house: Household, away: bool) -> None:
    own = house.zone.own
    house.store.fail(*(AWAY if away else [StoreUnknown]))
    said = house.run(code(own.raise_epoch("met a later one", own.row.epoch)))
    assert said == ("store-unknown" if away else "")
    house.run(house.zone.doubts.activate(house.clock.now()))
    assert own.row.restored_at is not None
    assert own.row == house.run(house.store.read(lambda unit: unit.self_.get()))
