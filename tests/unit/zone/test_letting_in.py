"""Who lets a zone in: out of quarantine an admin, and at a restored parent nobody by what it knew before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from banyan.core.errors import Conflict, Refused
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.core.time import Wall
from banyan.core.zone import Admin, Child, ChildState, Health, Mode
from banyan.trust.enrol import Admit, Standing
from banyan.zone.front import Front
from banyan.zone.reconcile.admission import check_restored
from tests.unit.zone.household import Household, Kid


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def odd(house: Household) -> Kid:
    kid = house.kid("odd")
    house.run(
        house.zone.roster.change(
            kid.code, "test", lambda row: replace(row, quarantined=True, admin_reason="rule q", state=ChildState.READY)
        )
    )
    return kid


def say(house: Household, role: Role, word: str) -> Child:
    front = Front(house.zone)
    caller = Caller("token:bob", role, house.zone.own.code)
    house.run(front.command(caller, f"zone.{word}", "odd", {}))
    child = next(live.child for live in house.zone.roster.live.values())
    assert isinstance(child, Child)
    return child


@pytest.mark.parametrize("word", ["enable", "admit"])
def test_an_operator_lets_nobody_out_of_quarantine(house: Household, word: str) -> None:
    odd(house)
    with pytest.raises(Refused) as refused:
        say(house, Role.OPERATOR, word)
    assert refused.value.code == "forbidden"
    child = say(house, Role.ADMIN, word)
    assert (child.quarantined, child.admin, child.reason) == (False, Admin.ENABLED, "")
    [line] = house.journal("child-released")
    assert (line.target, line.actor) == ("odd", "token:bob")
    # What an operator may do with any other zone is not touched by it.
    assert say(house, Role.OPERATOR, "disable").admin is Admin.DISABLED
    assert say(house, Role.OPERATOR, "enable").admin is Admin.ENABLED


def test_a_zone_that_was_disabled_meanwhile_is_enabled_by_one_word(house: Household) -> None:
    odd(house)
    assert say(house, Role.OPERATOR, "disable").quarantined
    child = say(house, Role.ADMIN, "enable")
    assert (child.quarantined, child.admin, child.reason) == (False, Admin.ENABLED, "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"quarantined": True}, "in quarantine; it takes no work until `banyan zone enable z`"),
        ({"quarantined": True, "admin_reason": "rule q: x"}, "in quarantine by rule q: x; it takes no work until"),
        ({"quarantined": True, "admin": Admin.DISABLED, "admin_reason": "later"}, "later"),
        ({"quarantined": True, "health": Health.LOST, "health_reason": "its session ended"}, "its session ended"),
        ({"rolled_back": True}, "rolled back: restored from a backup, or cloned; read-only until"),
    ],
)
def test_the_reason_of_a_zone_is_the_worst_of_what_stands_against_it(changes: dict[str, object], said: str) -> None:
    assert replace(Child(ZoneCode(1), "z", b""), **changes).reason.startswith(said)
    assert bool(said) == bool(replace(Child(ZoneCode(1), "z", b""), **changes).reason)


@pytest.mark.parametrize(
    ("standing", "code", "let_in"),
    [
        (Standing.NEW, "made-since", True),
        (Standing.NEW, None, False),
        (Standing.REPLACES, "made-since", False),
        (Standing.REPLACES, None, False),
    ],
)
def test_a_restored_parent_goes_by_no_key_that_was_listed_before(
    standing: Standing, code: str | None, let_in: bool
) -> None:
    verifier = "known-key" if code is None else "join-code"
    admit = Admit(ZoneCode(1), "lab", b"k", {}, Mode.OBSERVE, False, standing, code, "", verifier, "r")
    if let_in:
        check_restored(admit, "top")
        return
    with pytest.raises(Refused) as refused:
        check_restored(admit, "top")
    # It is asked again until somebody has looked: no zone gives up for this.
    assert (refused.value.code, refused.value.transient) == ("restored", True)
    assert "banyan release" in refused.value.text


def test_what_a_restored_zone_may_not_do_it_says_with_the_way_out(house: Household) -> None:
    own = house.zone.own
    own.check_released("retire a zone")
    house.run(own.raise_epoch("a test", own.row.epoch))
    with pytest.raises(Conflict, match="may not retire a zone before a person has looked.*banyan release"):
        own.check_released("retire a zone")
    house.run(own.release(Caller("ann@local", Role.ADMIN, own.code), [f"z{n}" for n in range(8)]))
    own.check_released("retire a zone")
    [line] = house.journal("zone-released")
    assert line.text.endswith("not heard since the restore: z0, z1, z2, z3, z4 and 3 more")
    assert line.facts["unheard"] == "8"


def test_who_was_not_heard_since_a_restore_is_known(house: Household) -> None:
    heard, silent = house.kid("east"), house.kid("west")
    house.go(100.0)
    instant = Wall(house.zone.own.wall())
    heard.open()
    assert house.zone.roster.unheard_since(instant) == [silent.name]
    assert house.zone.roster.unheard_since(None) == []
