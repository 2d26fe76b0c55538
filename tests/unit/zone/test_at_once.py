"""What two do at once, while the store is slow: each is judged as if the one before had been stored already.

A commit is held by the test, so that what comes meanwhile comes in exactly that gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
import pytest

from banyan.core.errors import BanyanError, NotFound
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.core.lineage import Ledger, Row, UseRow
from banyan.core.messages import Ack, Admitted, Beat, BeatAck, Enrol, Greet
from banyan.core.records import StoreFull, Unit
from banyan.core.time import LEASE_DRIFT, Terms, Wall
from banyan.core.zone import Admin, Child, ChildState, Health
from banyan.trust import tokens
from banyan.trust.attest import join_code
from banyan.trust.enrol import sign_request
from banyan.trust.keys import public_key
from banyan.trust.session import Session
from tests.unit.zone.household import ADMIN, Household, Kid, delta

T = TypeVar("T")

TERMS = Terms()
LOST = TERMS.lease * LEASE_DRIFT + TERMS.grace


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household(addresses=("192.0.2.1:8740",))
    yield made
    made.close()


class Held:
    """Holds the commits of one name, all that come or the first only, until `let_go`."""

    def __init__(self, house: Household, name: str, first: bool = False) -> None:
        self.waiting = 0
        self._most = 1 if first else 1_000
        self._go = asyncio.Event()
        self._name = f"commit {name}"
        house.pause = self._pause

    async def _pause(self, instant: str) -> None:
        if instant == self._name and self.waiting < self._most:
            self.waiting += 1
            await self._go.wait()

    def let_go(self) -> None:
        self._go.set()


def between(
    house: Household,
    name: str,
    one: Callable[[], Coroutine[Any, Any, T]],
    other: Callable[[], Coroutine[Any, Any, Any]],
) -> T:
    """`one`, whose first commit of that name is held while `other` is done as far as it comes."""

    async def both() -> T:
        held = Held(house, name, first=True)
        first = asyncio.ensure_future(one())
        await house.nap(0.1)
        assert held.waiting == 1
        second = asyncio.ensure_future(other())
        await house.nap(0.1)
        held.let_go()
        await asyncio.wait([second])
        try:
            return await first
        finally:
            second.result()

    return house.run(both())


def via(house: Household, kid: Kid) -> ZoneCode | None:
    node = house.zone.tree.get(kid.code)
    return None if node is None else node.via


async def code(error: Coroutine[Any, Any, object]) -> str:
    """The code of what it raises; "" if it is well."""
    try:
        await error
    except BanyanError as raised:
        return raised.code
    return ""


# --- places in the tree ---------------------------------------------------------------------------


class Siblings:
    """Two children with a session each, and a zone that both are about to report."""

    def __init__(self, house: Household) -> None:
        self.first, self.second = house.kid("first"), house.kid("second")
        self.shared = house.stranger("shared")
        for kid in (self.first, self.second):
            kid.open()
            kid.report(lineage=delta([kid.itself()]))

    def row(self, under: Kid) -> Row:
        return self.shared.row(under.code, self.first.code, self.second.code)

    async def say(self, kid: Kid) -> Ack | BeatAck:
        return await kid.say(kid.words(lineage=delta([self.row(kid)], since=1, until=2)))


def carriers(house: Household, kid: Kid) -> list[ZoneCode]:
    return list(house.run(house.store.read(lambda unit: unit.lineage.carriers(kid.code))))


def test_of_two_siblings_that_report_one_zone_in_one_instant_the_first_has_it(house: Household) -> None:
    both = Siblings(house)
    between(house, "parent.lineage", lambda: both.say(both.first), lambda: both.say(both.second))
    assert via(house, both.shared) == both.first.code
    assert carriers(house, both.shared) == [both.first.code], "and so it is after a restart"
    [line] = house.journal("lineage-refused")
    assert (line.target, line.facts["code"], line.actor) == ("shared", "diamond", "zone:second")
    # It is asked again as soon as the place is free.
    gone = msgspec.structs.replace(both.row(both.first), gone=True)
    both.first.report(lineage=delta([gone], since=2, until=3))
    ack = both.second.beat()
    assert isinstance(ack, Ack) and (ack.resend, ack.known.lineage) == (True, 0)


def test_a_zone_below_one_that_a_sibling_is_reporting_is_not_anothers(house: Household) -> None:
    both, deeper = Siblings(house), house.stranger("deeper")

    async def below() -> None:
        row = deeper.row(both.shared.code)
        await both.second.say(both.second.words(lineage=delta([row], since=1, until=2)))

    between(house, "parent.lineage", lambda: both.say(both.first), below)
    assert via(house, deeper) is None
    [line] = house.journal("lineage-refused")
    assert (line.target, line.facts["code"]) == ("deeper", "not-your-lineage")


def test_a_place_that_was_not_stored_is_given_back(house: Household) -> None:
    both = Siblings(house)

    async def fails() -> str:
        return await code(both.say(both.first))

    async def other() -> None:
        house.store.fail(None, None, StoreFull)  # the second's report and its line are stored, the first's is not
        await both.say(both.second)

    between(house, "parent.lineage", fails, other)
    assert via(house, both.shared) is None
    ack = both.second.beat()
    assert isinstance(ack, Ack) and (ack.resend, ack.known.lineage) == (True, 0), "it is asked again"
    both.second.report(lineage=delta([both.second.itself(), both.row(both.second)], until=7))
    assert via(house, both.shared) == both.second.code
    assert carriers(house, both.shared) == [both.second.code]


def test_a_place_that_becomes_free_while_a_refusal_is_stored_is_offered(house: Household) -> None:
    both = Siblings(house)
    house.run(both.say(both.first))

    async def withdraw() -> None:
        gone = msgspec.structs.replace(both.row(both.first), gone=True)
        await both.first.say(both.first.words(lineage=delta([gone], since=2, until=3)))

    ack = between(house, "parent.lineage", lambda: both.say(both.second), withdraw)
    assert isinstance(ack, Ack)
    assert (ack.resend, ack.known.lineage) == (True, 0)


def test_a_child_that_is_retired_while_its_report_is_stored_brings_nothing_back(house: Household) -> None:
    both = Siblings(house)

    async def retire() -> None:
        await house.zone.words.apply(ADMIN, "zone.retire", both.first.code, {})

    between(house, "parent.lineage", lambda: code(both.say(both.first)), retire)
    assert via(house, both.shared) is None
    use = UseRow(both.second.code, "p1", "crew", 1, 1, 1, 1)
    rest = both.second.words(ledger=Ledger(0, 1, (use,)))

    async def retire_second() -> None:
        await house.zone.words.apply(ADMIN, "zone.retire", both.second.code, {})

    between(house, "parent.ledger", lambda: code(both.second.say(rest)), retire_second)
    assert house.zone.streams.uses.total((both.second.code, "p1")).guests == 0


def test_reports_of_one_child_are_judged_one_after_the_other(house: Household) -> None:
    """Of a session that was replaced, one may be in the store still."""
    both, deeper = Siblings(house), house.stranger("deeper")

    async def next_session() -> None:
        ack = await both.first.say_hello()
        assert ack.known.lineage == 1
        late = delta([deeper.row(both.first.code)], since=1, until=9)
        said = await both.first.say(both.first.words(lineage=late))
        assert isinstance(said, Ack) and said.resend, "it was made for what was held before the other was stored"

    between(house, "parent.lineage", lambda: both.say(both.first), next_session)
    assert (via(house, both.shared), via(house, deeper)) == (both.first.code, None)


# --- strangers ------------------------------------------------------------------------------------


class Door:
    """Enrols strangers with one join code for all."""

    def __init__(self, house: Household, **changes: Any) -> None:
        plain: dict[str, Any] = {"name": "*", "driver": "*", "labels": {}, "uses": None, "expires": 3_600.0}
        plain |= {"mode": "observe", "replace": False}
        self.house = house
        self.code = tokens.parse(house.run(house.zone.access.create_code(ADMIN, **plain | changes)).code)

    async def enrol(self, kid: Kid, **changes: object) -> Admitted:
        """Raises what the parent says."""
        children, seed = self.house.zone.children, kid.seed
        greet = Greet(1, 1, self.house.ids.token(16), "enrol")
        welcome = await children.welcome(greet, kid.peer())
        session = Session.of(greet, welcome, welcome.chain[0])
        plain = Enrol(join_code.evidence(self.code, session, public_key(seed)), kid.code, kid.name, b"", b"")
        asked = sign_request(seed, session, msgspec.structs.replace(plain, **changes))
        return await children.enrol(greet, welcome, asked, kid.peer())


def test_a_stranger_is_no_child_while_a_child_is_reporting_it(house: Household) -> None:
    both, door = Siblings(house), Door(house)
    said: list[str] = []

    async def enrol() -> None:
        said.append(await code(door.enrol(both.shared)))

    between(house, "parent.lineage", lambda: both.say(both.first), enrol)
    assert said == ["diamond"]
    assert via(house, both.shared) == both.first.code
    assert both.shared.code not in house.zone.roster.live


def test_a_zone_that_is_being_let_in_is_not_somewhere_else_as_well(house: Household) -> None:
    both, door = Siblings(house), Door(house)
    between(house, "parent.admitted", lambda: door.enrol(both.shared), lambda: both.say(both.first))
    assert via(house, both.shared) == both.shared.code
    assert not carriers(house, both.shared)
    [line] = house.journal("lineage-refused")
    assert (line.target, line.facts["code"]) == ("shared", "diamond")


def test_who_is_refused_keeps_no_place(house: Household) -> None:
    """A stranger that names a zone's code, and has no right to be here, is not in the way of who reports it."""
    both, door = Siblings(house), Door(house, name="other")

    async def knock() -> None:
        assert await code(door.enrol(both.shared)) == "name-not-allowed"

    held = Held(house, "parent.admitted")
    house.run(knock())
    assert held.waiting == 0, "and costs no commit"
    house.run(both.say(both.first))
    assert via(house, both.shared) == both.first.code


def test_of_two_strangers_with_one_name_or_one_code_in_one_instant_one_is_let_in(house: Household) -> None:
    door = Door(house)
    one, other, copy = house.stranger("lab"), house.stranger("lab"), house.stranger("copy")
    copy.code = one.code

    async def all_at_once() -> list[str]:
        return list(await asyncio.gather(*(code(door.enrol(kid)) for kid in (one, other, copy))))

    assert house.run(all_at_once()) == ["", "name-taken", "code-taken"]
    assert list(house.zone.roster.live) == [one.code]


def test_a_code_from_before_a_restore_lets_nobody_in_while_that_is_being_noticed(house: Household) -> None:
    door, late = Door(house), house.stranger("late")
    now = house.zone.own.wall()

    def noticed(unit: Unit) -> None:
        """As `Own.raise_epoch` has it stored, and memory does not say so yet."""
        row = unit.self_.get()
        assert row is not None
        unit.self_.put(replace(row, epoch=row.epoch + 1, restored_at=now))

    house.run(house.store.write("test", noticed))
    assert house.zone.own.row.restored_at is None
    assert house.run(code(door.enrol(late))) == "code-before-restore"


# --- a slow disk ----------------------------------------------------------------------------------


def test_reports_of_many_children_and_many_strangers_wait_for_one_commit(house: Household) -> None:
    """Nobody queues behind another's place: all of them are in one group commit."""
    many, door = 20, Door(house)
    kids = [house.kid(f"z{number}") for number in range(many)]
    below = [house.stranger(f"b{number}") for number in range(many)]
    for kid in kids:
        kid.open()

    async def report() -> None:
        held = Held(house, "parent.lineage")
        said = [
            asyncio.ensure_future(kid.say(kid.words(lineage=delta([kid.itself(), one.row(kid.code)]))))
            for kid, one in zip(kids, below, strict=True)
        ]
        await house.nap(0.1)
        assert held.waiting == many
        held.let_go()
        await asyncio.gather(*said)

    house.run(report())
    assert [via(house, one) for one in below] == [kid.code for kid in kids]
    strangers = [house.stranger(f"s{number}") for number in range(many)]

    async def join() -> None:
        held = Held(house, "parent.admitted")
        asked = [asyncio.ensure_future(door.enrol(one)) for one in strangers]
        await house.nap(0.1)
        assert held.waiting == many
        held.let_go()
        await asyncio.gather(*asked)

    house.run(join())
    assert all(one.code in house.zone.roster.live for one in strangers)


# --- rows -----------------------------------------------------------------------------------------


def child(house: Household, kid: Kid) -> Child:
    row = house.run(house.store.read(lambda unit: unit.children.get(kid.code)))
    assert row is not None and (row.state is ChildState.RETIRED or house.zone.roster.get(kid.code).child == row)
    return row


def change(house: Household, kid: Kid, **changes: Any) -> None:
    house.run(house.zone.roster.change(kid.code, "test", lambda row: replace(row, **changes)))


def test_a_child_that_is_heard_while_its_verdict_waits_is_not_lost(house: Household) -> None:
    kid = house.kid("east")
    kid.open()
    kid.beat()
    heard = 0

    async def pause(instant: str) -> None:
        nonlocal heard
        if instant == "start parent.suspect":
            # Before its verdict is in its unit, it speaks.
            heard += 1
            kid.seq += 1
            await kid.say(Beat(kid.seq))

    house.pause = pause
    house.start()
    house.go(LOST - 1.0)
    house.pause = _at_once
    assert heard
    assert child(house, kid).health is Health.ALIVE
    assert not house.journal("child-suspect")


async def _at_once(instant: str) -> None:
    return


def test_maintenance_that_a_person_prolongs_does_not_end(house: Household) -> None:
    kid = house.kid("east")
    kid.open()
    change(house, kid, admin=Admin.MAINTENANCE, maintenance_until=Wall(house.zone.own.wall() + 60.0))

    async def pause(instant: str) -> None:
        if instant == "start parent.maintenance-over":
            until = Wall(house.zone.own.wall() + 3_600.0)

            def work(unit: Unit) -> None:
                row = unit.children.get(kid.code)
                assert row is not None
                unit.children.put(replace(row, maintenance_until=until))

            await house.store.write("test", work)

    house.pause = pause
    house.start()
    house.go(120.0)
    assert child(house, kid).admin is Admin.MAINTENANCE
    assert not house.journal("child-enabled")


def test_an_operator_does_not_let_out_who_came_into_quarantine_meanwhile(house: Household) -> None:
    kid = house.kid("east")
    change(house, kid, admin=Admin.DISABLED, state=ChildState.READY)
    operator = Caller("token:bob", Role.OPERATOR, house.zone.own.code)

    async def enable() -> str:
        return await code(house.zone.words.apply(operator, "zone.enable", kid.code, {}))

    async def quarantine() -> None:
        def work(unit: Unit) -> None:
            row = unit.children.get(kid.code)
            assert row is not None
            unit.children.put(replace(row, quarantined=True))

        await house.store.write("test", work)

    assert between(house, "parent.enable", enable, quarantine) == "forbidden"
    row = house.run(house.store.read(lambda unit: unit.children.get(kid.code)))
    assert row is not None and (row.quarantined, row.admin) == (True, Admin.DISABLED)


def test_a_zone_that_is_banned_while_it_renews_is_banned_by_the_key_that_it_had(house: Household) -> None:
    kid = house.kid("east")
    kid.open()
    before = child(house, kid).fingerprint

    async def renew() -> str:
        assert kid.wire is not None
        word = kid.renewal()
        return await code(house.zone.children.renew(kid.wire, word))

    async def ban() -> None:
        await house.zone.words.apply(ADMIN, "zone.ban", kid.code, {})

    async def both() -> str:
        held = Held(house, "parent.ban", first=True)
        banning = asyncio.ensure_future(ban())
        await house.nap(0.1)
        renewing = asyncio.ensure_future(renew())
        await house.nap(0.1)
        held.let_go()
        await banning
        return await renewing

    assert house.run(both()) == "banned"
    assert child(house, kid).fingerprint == before


def test_what_is_said_of_a_zone_that_was_retired_meanwhile_changes_nothing(house: Household) -> None:
    kid = house.kid("east")

    async def both() -> None:
        held = Held(house, "parent.retired", first=True)
        retiring = asyncio.ensure_future(house.zone.words.apply(ADMIN, "zone.retire", kid.code, {}))
        await house.nap(0.1)
        renaming = asyncio.ensure_future(house.zone.words.apply(ADMIN, "zone.rename", kid.code, {"name": "west"}))
        await house.nap(0.1)
        held.let_go()
        await retiring
        with pytest.raises(NotFound):
            await renaming

    house.run(both())
    row = child(house, kid)
    assert (row.name, row.state, row.health) == ("east", ChildState.RETIRED, Health.GONE)
    assert not house.journal("child-renamed")
