"""kill -9 before and after every commit of every enrolment step, on both sides: it converges, and nothing is lost.

The steps are recorded from undisturbed runs and from the enrolment table: a step that is not listed here is red.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from banyan.core.errors import BanyanError
from banyan.core.zone import ENROLMENT, ChildState, EnrolEvent
from banyan.simulate.faults import Doom, Instant
from banyan.simulate.invariants import Invariants, views
from banyan.simulate.loop import OverdueError
from banyan.simulate.site import Site
from banyan.simulate.world import World

HOSTS = 6


def make_code(top: Site, name: str, *, replace: bool = False) -> str:
    return top.ask(
        lambda surface, caller: surface.create_code(
            caller, name=name, driver="*", labels={}, uses=1, expires=86_400.0, mode="place", replace=replace
        )
    ).code


@dataclass(frozen=True)
class Flow:
    """`before` brings a world to where the flow begins; `act` begins it, and gives the code to start the child with."""

    before: Callable[[World], None]
    act: Callable[[World], str | None]


def only_top(world: World) -> None:
    top = world.add("top")
    top.start()
    top.wait()
    east = world.add("top/east", hosts=HOSTS)
    # So slow that the scan is seen to begin before it ends.
    east.bottom.latency = 0.7


def joined(world: World) -> None:
    only_top(world)
    world["top/east"].start(make_code(world["top"], "east"))
    world.advance(40.0)
    assert ready(world)


def first_join(world: World) -> str:
    code = make_code(world["top"], "east")
    world["top/east"].start(code)
    return code


def reinstall(world: World) -> str:
    east = world["top/east"]
    east.crash("killed")
    east.wipe()
    code = make_code(world["top"], "east", replace=True)
    east.start(code)
    return code


def join_again(world: World) -> str:
    """With a new code, and the identity that it has."""
    east = world["top/east"]
    east.crash("killed")
    code = make_code(world["top"], "east")
    east.start(code)
    return code


FLOWS = {
    "join": Flow(only_top, first_join),
    "replace": Flow(joined, reinstall),
    "again": Flow(joined, join_again),
}

START = ("zone.created", "zone.time", "rack.added", "rack.removed")
SCAN = ("rack.scan-begun", "rack.batch", "rack.swept", "rack.scanned")
REPORT = ("parent.lineage", "parent.ledger")
STEPS: dict[str, dict[str, tuple[str, ...]]] = {
    "join": {
        "child": (
            *START,
            *SCAN,
            "child.code-stored",
            "child.parent-known",
            "child.certified",
            "child.mark-made",
            "child.established",
        ),
        "parent": (
            "code.created",
            "parent.admitted",
            "parent.connected",
            *REPORT,
            "parent.scan-begun",
            "parent.scanned",
            "parent.counted",
            "parent.digests",
        ),
    },
    "replace": {
        "child": (
            *START,
            *SCAN,
            "child.code-stored",
            "child.parent-known",
            "child.certified",
            "child.mark-made",
            "child.established",
        ),
        "parent": (
            "code.created",
            "parent.admitted",
            "parent.connected",
            *REPORT,
            "parent.scan-begun",
            "parent.scanned",
            "parent.counted",
            "parent.digests",
            "zone.time",
        ),
    },
    "again": {
        "child": (*START, *SCAN, "child.code-stored", "child.certified", "child.mark-made", "child.established"),
        "parent": (
            "code.created",
            "parent.admitted",
            "parent.connected",
            *REPORT,
            "parent.scanned",
            "parent.counted",
            "parent.digests",
            "zone.time",
        ),
    },
}


def ready(world: World) -> bool:
    top, east = world["top"], world["top/east"]
    if not (top.running and east.running):
        return False
    try:
        zones, usage = views(top)
    except (BanyanError, OverdueError):
        return False
    states = [(zone.state, zone.health) for zone in zones]
    return states == [("ready", "alive")] and usage.hosts.total == HOSTS


def perform(world: World, flow: Flow, side: str, doom: Doom | None) -> None:
    """The flow, with one death on the way; whoever died starts again, as under systemd, until all is well."""
    flow.before(world)
    invariants = Invariants(world)
    assert not invariants.broken(settled=False)
    victim = world["top/east" if side == "child" else "top"]
    victim.disk.doom = doom
    code: str | None = None
    end = world.loop.time() + 900.0
    acted = False
    while world.loop.time() < end:
        for site in world.sites.values():
            if site.state == "crashed":
                site.start(code if site.path == "top/east" else None)
                site.wait()
        if not acted:
            try:
                code = flow.act(world)
                acted = True
            except (BanyanError, OverdueError):
                pass  # the parent died while the code was made: a person asks again
        world.advance(2.0)
        assert not world.failures() + invariants.broken(settled=False)
        if acted and world.loop.time() > end - 870.0 and ready(world):
            break
    assert ready(world), f"not ready; {[str(h) for h in world.trace.tail(15)]}"
    assert victim.disk.doom is None, f"{doom} was never met"
    world.advance(60.0)
    assert not world.failures() + invariants.broken(settled=True)


def recorded(flow: str) -> dict[str, set[str]]:
    """The units that each side commits in an undisturbed run of the flow."""
    with World() as world:
        FLOWS[flow].before(world)
        for site in world.sites.values():
            site.disk.seen.clear()
        FLOWS[flow].act(world)
        world.advance(40.0)
        assert ready(world)
        return {"child": set(world["top/east"].disk.seen), "parent": set(world["top"].disk.seen)}


@pytest.mark.parametrize("flow", STEPS)
def test_every_step_has_its_case(flow: str) -> None:
    found = recorded(flow)
    for side, steps in STEPS[flow].items():
        assert found[side] == set(steps), f"the {side}'s steps of {flow} and the cases here differ"


def test_the_steps_of_the_table_are_among_the_cases() -> None:
    way: list[EnrolEvent] = [EnrolEvent.CONNECTED, EnrolEvent.SCAN_BEGUN, EnrolEvent.SCANNED, EnrolEvent.COUNTED]
    state = ChildState.JOINING
    for event in way:
        state = ENROLMENT.after(state, event)
        assert f"parent.{event}" in STEPS["join"]["parent"]
    assert state is ChildState.READY
    # What else the table knows begins or ends a life, and is a flow of its own.
    assert set(EnrolEvent) - set(way) == {EnrolEvent.JOINED_AGAIN, EnrolEvent.RETIRED}


CASES = [
    pytest.param(flow, side, instant, step, id=f"{flow}-{side}-{instant}-{step}")
    for flow, sides in STEPS.items()
    for side, steps in sides.items()
    for step in steps
    for instant in Instant
]


@pytest.mark.parametrize(("flow", "side", "instant", "step"), CASES)
def test_a_death_at_a_commit_converges(flow: str, side: str, instant: Instant, step: str) -> None:
    with World() as world:
        perform(world, FLOWS[flow], side, Doom(instant, step))
