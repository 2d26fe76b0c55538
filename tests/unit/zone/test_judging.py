"""Many children that fall silent at the same instant: how their verdicts are written, and how soon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from banyan.core.ids import ZoneCode
from banyan.core.records import Unit
from banyan.core.time import LEASE_DRIFT, Terms
from banyan.core.zone import Child, ChildState, Health
from banyan.health.suspicion import AWAY
from banyan.zone.reconcile.health import AT_ONCE, BATCH
from tests.unit.zone.household import Household

TERMS = Terms()
LOST = TERMS.lease * LEASE_DRIFT + TERMS.grace


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def silent(house: Household, count: int) -> None:
    """So many children that were granted a lease now, and will say nothing."""
    rows = [Child(ZoneCode(n), f"z{n}", n.to_bytes(32, "big"), ChildState.READY) for n in range(1, count + 1)]

    def work(unit: Unit) -> None:
        for row in rows:
            unit.children.put(row)

    house.run(house.store.write("test", work))
    for row in rows:
        house.zone.roster.took(row)


def lost(house: Household) -> int:
    return sum(live.child.health is Health.LOST for live in house.zone.roster.live.values())


def test_verdicts_are_written_together_but_not_all(house: Household) -> None:
    silent(house, 100)
    at_once = [0, 0]

    async def slow(instant: str) -> None:
        if instant == "commit parent.lost":
            at_once[0] += 1
            at_once[1] = max(at_once)
            await house.nap(0.5)
            at_once[0] -= 1

    house.pause = slow
    house.start()
    # One after the other they would take 50 seconds.
    house.go(LOST + 4 * 0.5 + 1.0)
    assert lost(house) == 100
    assert at_once[1] == AT_ONCE


def test_children_that_wait_for_their_verdict_get_no_new_term(house: Household) -> None:
    """Three passes, each shorter than an absence; together they are longer."""
    count, each = 2 * BATCH + 50, 0.11
    silent(house, count)

    async def slow(instant: str) -> None:
        if instant == "commit parent.lost":
            await house.nap(each)

    house.pause = slow
    passes = 2 * BATCH / AT_ONCE * each
    assert passes > AWAY > passes / 2
    house.start()
    house.go(LOST + passes + AWAY)
    assert lost(house) == count
