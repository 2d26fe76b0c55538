"""The simulator has not drifted from the world: a real join writes the journal lines that a simulated one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from banyan.core.journal import Line
from banyan.simulate.world import World
from tests.wire.zones.processes import Cloud, Zone

pytestmark = pytest.mark.slow

# A bottom that takes a second for each answer: the scan begins after the join and is seen to, here and there.
LATENCY = 1.0
HOSTS = 3

# What a first start makes for users of the OpenStack APIs, which a simulated zone does not serve: no part of a join.
FOR_USERS = {"directory-created", "flavors-made"}

Written = list[tuple[str, str, str]]


def simulated() -> dict[str, Written]:
    with World() as world:
        top = world.add("top")
        top.start()
        top.wait()
        code = top.ask(
            lambda surface, caller: surface.create_code(
                caller, name="*", driver="*", labels={}, uses=1, expires=86_400.0, mode="place", replace=False
            )
        ).code
        east = world.add("top/east", hosts=HOSTS)
        east.bottom.latency = LATENCY
        east.start(code)
        world.advance(30.0)
        return {
            site.name: [of_line(line) for line in site.peek(lambda u: u.journal.page(0, 100, {}))]
            for site in (top, east)
        }


def real(folder: Path) -> dict[str, Written]:
    with Cloud(folder) as cloud:
        top = cloud.zone("top").start()
        east = cloud.zone("east", "--option", f"latency={LATENCY:g}", code=top.code(), hosts=HOSTS).start()
        top.wait_for_zone("top/east", state="ready")
        return {"top": of_zone(top), "east": of_zone(east)}


def of_line(line: Line) -> tuple[str, str, str]:
    return line.kind, named(line.kind, line.target), line.outcome


def of_zone(zone: Zone) -> Written:
    return [
        (row["kind"], named(row["kind"], row["target"]), row["outcome"])
        for row in zone.journal()
        if row["kind"] not in FOR_USERS
    ]


def named(kind: str, target: str) -> str:
    """The target, unless it is the id of a code: those are drawn. A rack has the name that its settings give it."""
    return "" if kind.startswith(("code-", "rack-")) else target


def test_a_real_join_writes_what_a_simulated_one_does(tmp_path: Path) -> None:
    assert real(tmp_path) == simulated()
