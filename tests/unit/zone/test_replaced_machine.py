"""The machine that was replaced: its session may stand when its successor's row is stored, and says nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from banyan.core.lineage import Ledger, UseRow
from banyan.core.records import StoreFull
from banyan.core.secret import Secret
from banyan.core.zone import Child, ChildState
from banyan.trust.keys import fingerprint, public_key
from tests.unit.zone.household import ADMIN, Household, Kid, delta
from tests.unit.zone.test_at_once import Door, Held, code


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household(addresses=("192.0.2.1:8740",))
    yield made
    made.close()


Say = Callable[[Kid], Coroutine[Any, Any, object]]


def while_replaced(house: Household, say: Say) -> tuple[Kid, Kid, str, Child]:
    """The old machine speaks when its successor is stored and memory does not know yet."""
    old = house.kid("lab")
    old.open()
    old.report(lineage=delta([old.itself()]))
    door, new = Door(house, name="lab", replace=True), house.stranger("lab")

    async def both() -> str:
        go = asyncio.Event()

        async def pause(instant: str) -> None:
            if instant == "answer parent.admitted":
                await go.wait()

        house.pause = pause
        first = asyncio.ensure_future(door.enrol(new))
        await house.nap(0.1)
        second = asyncio.ensure_future(code(say(old)))
        await house.nap(0.1)
        go.set()
        await first
        return await second

    said = house.run(both())
    row = house.run(house.store.read(lambda unit: unit.children.get(old.code)))
    assert row is not None
    return old, new, said, row


def renew(kid: Kid) -> Coroutine[Any, Any, object]:
    assert kid.wire is not None
    return kid.house.zone.children.renew(kid.wire, kid.renewal())


def leave(kid: Kid) -> Coroutine[Any, Any, object]:
    return kid.say(kid.words(condition="leaving"))


def complain(kid: Kid) -> Coroutine[Any, Any, object]:
    return kid.say(kid.words(condition="unavailable", reason="no rack answers"))


@pytest.mark.parametrize("say", [renew, leave, complain])
def test_its_word_does_not_change_the_row(house: Household, say: Say) -> None:
    _, new, said, row = while_replaced(house, say)
    assert said == "replaced"
    assert (row.fingerprint, row.state) == (fingerprint(public_key(new.seed)), ChildState.JOINING)
    assert row.health_reason == ""


def test_what_it_reports_is_not_its_successors(house: Household) -> None:
    below = house.stranger("below")

    def report(kid: Kid) -> Coroutine[Any, Any, object]:
        use = UseRow(kid.code, "p1", "crew", 1, 1, 1, 1)
        return kid.say(kid.words(lineage=delta([below.row(kid.code)], since=1, until=2), ledger=Ledger(0, 1, (use,))))

    old, _, said, _ = while_replaced(house, report)
    assert said == "replaced"
    assert house.run(house.store.read(lambda unit: unit.lineage.via(old.code, None, 10))) == []
    assert house.run(house.store.read(lambda unit: unit.streams.generations(old.code))) == (0, 0)


def test_a_session_goes_on_with_a_key_that_it_was_renewed_to(house: Household) -> None:
    kid = house.kid("lab")
    kid.open()
    kid.seed = Secret(house.ids.token(32))
    kid.renew()
    kid.report(condition="unavailable", reason="no rack answers")
    assert house.zone.roster.live[kid.code].child.health_reason == "no rack answers"


def test_a_hello_that_is_given_up_leaves_no_session(house: Household) -> None:
    kid = house.kid("lab")

    async def late() -> None:
        held = Held(house, "parent.connected", first=True)
        said = asyncio.ensure_future(kid.say_hello())
        await house.nap(0.1)
        said.cancel()
        held.let_go()
        await asyncio.wait([said])

    house.run(late())
    assert house.zone.roster.live[kid.code].session is None


def test_of_one_that_is_banned_no_more_it_is_not_said(house: Household) -> None:
    kid = house.kid("lab")
    house.run(house.zone.words.apply(ADMIN, "zone.ban", kid.code, {}))
    house.start()
    house.go(3_600.0)
    assert house.zone.roster.live[kid.code].child.reason.endswith("; it is banned")
    house.run(house.zone.words.apply(ADMIN, "zone.unban", kid.code, {}))
    assert "banned" not in house.zone.roster.live[kid.code].child.reason


@pytest.mark.parametrize("word", ["zone.retire", "zone.ban", "zone.rename"])
def test_nobody_is_told_what_was_not_stored(house: Household, word: str) -> None:
    kid = house.kid("lab")
    kid.open()
    house.store.fail(StoreFull)
    arguments = {"name": "other"} if word == "zone.rename" else {}
    assert house.run(code(house.zone.words.apply(ADMIN, word, kid.code, arguments))) == "store-full"
    live = house.zone.roster.live[kid.code]
    assert kid.wire is not None
    assert (live.session, kid.wire.cuts) == (kid.wire, [])
