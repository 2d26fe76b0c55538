"""The time that a question has: less at each hop, never more than a zone's own, and refused when there is none."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from banyan.core.errors import Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.messages import Answer, CallerInfo
from banyan.core.server import ServerQuery
from banyan.core.time import Mono
from banyan.simulate.clock import VirtualClock
from banyan.simulate.loop import VirtualLoop
from banyan.zone.deadline import MARGIN, NEVER, Deadline, check_time, to_ask
from tests.unit.zone.household import ADMIN, Household


@pytest.mark.parametrize(
    ("milliseconds", "own", "seconds"),
    [
        (20_000, 20.0, 19.0),
        (60_000, 20.0, 19.0),
        (2_000, 20.0, 1.6),
        (10, 20.0, 0.008),
        (0, 20.0, 19.0),
        (-5, 5.0, 4.0),
    ],
)
def test_each_hop_keeps_a_part_for_its_own_answer(milliseconds: int, own: float, seconds: float) -> None:
    assert to_ask(milliseconds, own) == pytest.approx(seconds)


def test_the_deepest_tree_has_time_at_each_hop() -> None:
    left, hops = 20.0, []
    for _ in range(32):
        left = to_ask(round(left * 1000), 20.0)
        hops.append(left)
    assert all(before - after >= min(MARGIN, before * 0.19) for before, after in pairwise(hops))
    assert hops[-1] > 0.0


def test_a_deadline_is_a_span_of_the_loop() -> None:
    loop = VirtualLoop()

    async def see() -> list[float]:
        deadline = Deadline.within(3.0)
        first = deadline.left()
        await VirtualClock(loop, "z").sleep_until(Mono(2.6))
        before = float(deadline.over)
        await VirtualClock(loop, "z").sleep_until(Mono(2.8))
        assert deadline.over, "for whoever would be asked now"
        await VirtualClock(loop, "z").sleep_until(Mono(5.0))
        return [first, before, deadline.left(), float(deadline.over), float(NEVER.over), NEVER.left()]

    assert loop.run_task(see(), 100.0) == [3.0, 0.0, 0.0, 1.0, 0.0, math.inf]
    loop.close()


def test_with_no_time_left_nobody_is_asked() -> None:
    assert check_time(0.5, "top/z1") == 0.5
    with pytest.raises(Unreachable, match="top/z1: it was not asked") as raised:
        check_time(0.0, "top/z1")
    assert (raised.value.code, raised.value.transient) == ("no-time", True)


def test_what_a_child_is_asked_carries_what_is_left() -> None:
    house = Household()
    kid = house.kid("east")
    kid.open()
    spans: list[float] = []

    class Wire:
        code = ZoneCode(0)

        async def request(self, verb: str, body: bytes, caller: CallerInfo, timeout: float) -> Answer:
            spans.append(timeout)
            raise Unreachable("no-answer", "it hangs")

    house.zone.roster.get(kid.code).session = Wire()
    house.run(house.zone.tree_servers.page(ADMIN, ServerQuery(every_project=True), within=7.0))
    house.zone.roster.get(kid.code).racks = 1
    house.run(house.zone.tree_servers.page(ADMIN, ServerQuery(every_project=True), within=7.0))
    house.run(house.zone.tree_servers.page(ADMIN, ServerQuery(every_project=True)))
    house.run(house.zone.tree_servers.page(ADMIN, ServerQuery(every_project=True), within=900.0))
    house.close()
    assert spans == [7.0, 20.0, 20.0]
