"""SIGKILL before and after each commit of each step of a join, on the child's side (test_kill_parent.py: the other);
then the same process starts again.

The steps are the units that an undisturbed join commits, and the events that the enrolment's table has on the way to
*ready*. One that is recorded, or stands in the table, and has no case here is red; so is a case that kills nobody.
Whatever was killed, the join converges with nobody's help: one child, one use of the code, no row twice, a whole
journal on both sides.
"""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from banyan.core.records import Unit
from banyan.core.zone import ENROLMENT, ChildState, EnrolEvent
from tests.wire.zones.processes import Cloud, Zone
from tests.wire.zones.stores import check_journal, look

pytestmark = pytest.mark.slow

HOSTS = 3
# The simulated bottom takes a second for each answer, so that a scan begins before the join is done and ends after.
SLOW_RACK = ("--driver", "sim", "--hosts", str(HOSTS), "--option", "latency=1.0", "--option", "guests=4")

CHILD_STEPS = (
    "zone.created",
    "rack.added",
    "rack.removed",
    "zone.time",
    "directory.created",
    "flavors.seeded",
    "child.code-stored",
    "child.parent-known",
    "child.certified",
    "child.mark-made",
    "child.established",
    "rack.scan-begun",
    "rack.batch",
    "rack.swept",
    "rack.scanned",
)
PARENT_STEPS = (
    "zone.created",
    "rack.removed",
    "zone.time",
    "directory.created",
    "flavors.seeded",
    "code.created",
    "parent.admitted",
    "parent.connected",
    "parent.lineage",
    "parent.ledger",
    "parent.scan-begun",
    "parent.scanned",
    "parent.counted",
)
PHASES = ("before", "after")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The names of all units that an undisturbed join commits, by side."""
    folder = tmp_path_factory.mktemp("recorded")
    with Cloud(folder) as cloud:
        top = doomed(cloud.zone("top"), record=folder / "parent").start()
        lab = doomed(cloud.zone("lab", *SLOW_RACK, code=make_code(top)), record=folder / "child").spawn()
        wait_until_counted(top)
        lab.wait_for_uplink("connected")
    return {side: set((folder / side).read_text().split()) for side in ("child", "parent")}


def test_every_step_of_a_join_has_its_cases(recorded: dict[str, set[str]]) -> None:
    assert recorded["child"] <= set(CHILD_STEPS), "a step of the child's that nobody is killed at"
    assert recorded["parent"] <= set(PARENT_STEPS), "a step of the parent's that nobody is killed at"
    assert {f"parent.{event}" for event in events_to_ready()} <= set(PARENT_STEPS)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("step", CHILD_STEPS)
def test_a_child_that_is_killed_joins_all_the_same(tmp_path: Path, step: str, phase: str) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        child = doomed(cloud.zone("lab", *SLOW_RACK, code=make_code(top)), f"{phase}:{step}").spawn()
        wait_for_death(child)
        reborn(child).spawn()
        wait_until_counted(top)
        check(top, child)


def doomed(zone: Zone, doom: str = "", record: Path | None = None) -> Zone:
    zone.program = "doomed"
    zone.environment = {"DOOM": doom, "RECORD": str(record) if record else ""}
    return zone


def reborn(zone: Zone) -> Zone:
    zone.program, zone.environment = "banyan", {}
    return zone


def wait_for_death(zone: Zone) -> None:
    status = zone.wait_end()
    assert status == -signal.SIGKILL, f"it was to be killed, and ended with {status}: {zone.tail()}"


def make_code(top: Zone) -> str:
    body = {"name": "*", "driver": "*", "labels": {}, "uses": 1, "expires": 3600.0, "mode": "place", "replace": False}
    status, made = top.ask("/v1/codes", body)
    assert status in (200, 201), made
    return str(made["code"])


def wait_until_counted(top: Zone) -> None:
    top.wait_for_zone("lab", state="ready", health="alive", hosts=HOSTS, servers=4)


def events_to_ready() -> set[EnrolEvent]:
    """The events that lead from *joining* to *ready*, when nobody loses an identity and nobody is retired."""
    apart = (EnrolEvent.JOINED_AGAIN, EnrolEvent.RETIRED)
    found: set[EnrolEvent] = set()
    states = [ChildState.JOINING]
    for state in states:
        for move in ENROLMENT:
            if move.before is state and move.after is not state and move.event not in apart:
                found.add(move.event)
                states.append(move.after)
    return found


# --- what must hold afterwards --------------------------------------------------------------------


def check(top: Zone, child: Zone) -> None:
    """Both are killed first: what must hold, holds in what is durable."""
    for zone in (child, top):
        zone.kill()
    look(child.data, check_child)
    look(top.data, check_parent)


def check_child(unit: Unit) -> None:
    check_journal(unit)
    [uplink] = unit.uplinks.all()
    assert uplink.certificate and uplink.joined_at is not None
    assert unit.keys.get(f"uplink.{uplink.id}.code") is None, "the join code is forgotten once it has served"
    [rack] = unit.racks.all()
    assert unit.hosts.count(rack.code) == HOSTS
    kinds = Counter(line.kind for line in unit.journal.page(0, 1000, {}))
    for once in ("zone-created", "rack-added", "rack-scanned", "code-stored", "joined"):
        assert kinds[once] == 1, f"{once} is in the journal {kinds[once]} times"


def check_parent(unit: Unit) -> None:
    check_journal(unit)
    [child] = unit.children.page(None, 1000)
    assert (child.name, child.state) == ("lab", ChildState.READY)
    assert [code.used for code in unit.codes.page(None, 1000) if code.used] == [1], "one use of one code"
    kinds = Counter(line.kind for line in unit.journal.page(0, 1000, {}))
    assert (kinds["child-admitted"], kinds["child-ready"]) == (1, 1)
    assert [row.code for row in unit.lineage.via(child.code, None, 10)] == [child.code]
