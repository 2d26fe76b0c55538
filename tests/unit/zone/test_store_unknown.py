"""A commit whose fate is not known: the store is asked again, and memory, sessions and answers follow what it says."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from banyan.core.errors import Unreachable
from banyan.core.identity import Role
from banyan.core.ids import ZoneCode
from banyan.core.messages import Ack, Admitted
from banyan.core.ports import Peer
from banyan.core.records import StoreUnknown, Unit
from banyan.core.time import BUILD_DATE
from banyan.core.zone import Admin, ChildState, Health, Uplink
from banyan.trust.authority import ca_certificate, issue_child
from banyan.trust.certificate import read
from banyan.zone.again import LOOKS
from banyan.zone.views import KnownKeyView, RuleView
from banyan.zone.zone import Up
from tests.unit.zone.household import ADMIN, Household, Kid, delta
from tests.unit.zone.test_at_once import Door, Siblings, carriers, code, via
from tests.unit.zone.test_session_life import Above


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


# --- what else is stored before memory follows -------------------------------------------------------


def authorities(house: Household) -> list[bytes]:
    return [row.fingerprint for row in house.run(house.store.read(lambda unit: unit.authorities.all())) if row.current]


@pytest.mark.parametrize("away", [False, True])
def test_a_rotation_of_unknown_fate_is_followed(house: Household, away: bool) -> None:
    before = house.zone.own.authority.row.fingerprint
    house.start()
    house.go(1.0)
    house.store.fail(*(AWAY if away else [StoreUnknown]))
    said = house.run(code(house.zone.certificates.rotate(ADMIN, leaked=False)))
    assert said == ("store-unknown" if away else "")
    house.go(60.0)
    own = house.zone.own
    assert [own.authority.row.fingerprint] == authorities(house) != [before]
    shown = house.zone.certificates.credentials
    assert shown is not None
    assert read(shown.certificate, "own").issuer == own.authority.row.fingerprint
    assert own.authorities[0].row.cross, "the older one signed the newer"


ACCESS: list[tuple[str, Callable[[Household], Coroutine[Any, Any, object]], Callable[[Unit], object]]] = [
    (
        "code",
        lambda house: house.zone.access.create_code(
            ADMIN, name="*", driver="*", labels={}, uses=1, expires=60.0, mode="observe", replace=False
        ),
        lambda unit: unit.codes.page(None, 9),
    ),
    (
        "rule",
        lambda house: house.zone.access.put_rule(
            ADMIN, RuleView("r1", 1, "*", "*", "*", {}, "admit", {}, "observe", "")
        ),
        lambda unit: unit.rules.all(),
    ),
    (
        "key",
        lambda house: house.zone.access.put_known_key(ADMIN, KnownKeyView("ab" * 32, "lab", {}, "observe", False, "")),
        lambda unit: unit.known_keys.page(None, 9),
    ),
    (
        "token",
        lambda house: house.zone.tokens.create(ADMIN, "bob", Role.VIEWER, house.zone.own.code, None),
        lambda unit: unit.tokens.page(None, 9),
    ),
]


@pytest.mark.parametrize(("make", "rows"), [row[1:] for row in ACCESS], ids=[row[0] for row in ACCESS])
def test_what_lets_strangers_in_is_answered_by_what_was_kept(
    house: Household,
    make: Callable[[Household], Coroutine[Any, Any, object]],
    rows: Callable[[Unit], object],
) -> None:
    house.store.fail(StoreUnknown)
    assert house.run(code(make(house))) == ""
    assert house.run(house.store.read(rows))


def test_what_is_taken_back_is_answered_by_what_was_kept(house: Household) -> None:
    access, tokens = house.zone.access, house.zone.tokens
    made = [house.run(make(house)) for _, make, _ in ACCESS]
    ids = [str(getattr(one, "id", "")) for one in made]
    for undo in (
        access.revoke_code(ADMIN, ids[0]),
        access.delete_rule(ADMIN, ids[1]),
        access.delete_known_key(ADMIN, "ab" * 32),
        tokens.revoke(ADMIN, ids[3]),
    ):
        house.store.fail(StoreUnknown)
        assert house.run(code(undo)) == ""
    [made_code] = house.run(house.store.read(lambda unit: unit.codes.page(None, 9)))
    [made_token] = house.run(house.store.read(lambda unit: unit.tokens.page(None, 9)))
    assert (made_code.revoked, made_token.revoked) == (True, True)


class Joining:
    """A zone with one uplink, and a parent in the test's hands."""

    def __init__(self, house: Household, admitted: bool) -> None:
        self.above = Above(house, lived=0.0)
        self.side, self.house = self.above.side, house
        bundle = (ca_certificate(self.above.parent.ca, serial=bytes(16), now=BUILD_DATE, lifetime=9e9),)
        row = replace(self.side.row, bundle=bundle, **({} if admitted else {"certificate": b""}))
        self.side.row = row
        house.run(house.store.write("test", lambda unit: unit.uplinks.put(row)))
        house.zone.ups[row.id] = Up(self.side, Idle())

    def row(self) -> Uplink | None:
        return self.house.run(self.house.store.read(lambda unit: unit.uplinks.get(1)))

    def admitted(self, own_code: ZoneCode | None = None) -> str:
        own, parent = self.house.zone.own, self.above.parent
        mine = issue_child(
            parent.ca, own_code or own.code, own.public, serial=bytes(16), now=own.wall(), lifetime=9_000.0
        )
        word = Admitted(mine, self.side.row.bundle, "child", "top/child", {}, "observe", False)
        return self.house.run(code(self.side.admitted(word, Peer(b"", "192.0.2.1"))))


class Idle:
    async def run(self) -> None: ...

    async def enrol(self, patience: float | None = None) -> object: ...

    def traffic(self) -> tuple[int, int]:
        return 0, 0


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("away", [False, True])
def test_an_own_admission_of_unknown_fate_is_followed(house: Household, away: bool, replaces: bool) -> None:
    joining, taken = Joining(house, admitted=False), ZoneCode(77)
    house.store.fail(*(AWAY if away else [StoreUnknown]))
    assert joining.admitted(taken if replaces else None) == ("store-unknown" if away else "")
    house.start()
    house.go(60.0)
    assert joining.side.row == joining.row()
    assert joining.side.enrolled
    own = house.zone.own
    assert (own.code == taken) is replaces
    assert [own.authority.row.fingerprint] == authorities(house)


@pytest.mark.parametrize("away", [False, True])
def test_what_an_uplink_learned_of_unknown_fate_is_followed(house: Household, away: bool) -> None:
    joining = Joining(house, admitted=True)
    house.store.fail(*(AWAY if away else [StoreUnknown]))
    change = joining.side._keep(replace(joining.side.row, known_epoch=9), "child.epoch")
    assert house.run(code(change)) == ("store-unknown" if away else "")
    if away:
        # What is made of what memory says is not written over what may be there, and no session begins by it.
        other = joining.side._keep(replace(joining.side.row, path="x"), "child.epoch")
        assert house.run(code(other)) == "read-again"
        house.run(house.zone.doubts.activate(house.clock.now()))
    assert joining.side.row == joining.row()
    assert joining.side.row.known_epoch == 9


def test_a_parent_is_met_anew_after_a_change_of_unknown_fate(house: Household) -> None:
    joining = Joining(house, admitted=True)
    house.store.fail(*AWAY)
    house.run(code(joining.side._keep(replace(joining.side.row, known_epoch=9), "child.epoch")))
    with pytest.raises(Unreachable) as met:
        joining.above.meet()
    assert (met.value.code, met.value.transient) == ("read-again", True)
    assert joining.side.row.known_epoch == 9


@pytest.mark.parametrize("away", [False, True])
def test_a_leaving_of_unknown_fate_is_followed(house: Household, away: bool) -> None:
    joining = Joining(house, admitted=True)
    house.store.fail(*(AWAY if away else [StoreUnknown]))
    assert house.run(code(house.zone.leave(ADMIN))) == ("store-unknown" if away else "")
    house.run(house.zone.doubts.activate(house.clock.now()))
    assert (house.zone.ups, joining.row()) == ({}, None)
