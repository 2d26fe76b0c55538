"""The invariants have teeth: each is broken on purpose, on the disk or on the link, and says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from banyan.core.identity import SYSTEM
from banyan.core.journal import Event
from banyan.core.records import Unit
from banyan.core.time import Wall
from banyan.core.zone import Child
from banyan.simulate.invariants import Invariants
from banyan.simulate.script import read_step
from banyan.simulate.verbs import Stage, run_step
from banyan.simulate.world import World
from banyan.store.inline import InlineStore, no_pause


class Scene:
    def __init__(self, world: World) -> None:
        self.world = world
        self.invariants = Invariants(world)
        self.stage = Stage(world, self.invariants)
        self.do("tree 2x4")
        assert self.broken(settled=True) == []

    def do(self, *lines: str) -> None:
        for line in lines:
            run_step(self.stage, read_step("test", line))

    def broken(self, *, settled: bool = False) -> list[str]:
        return self.invariants.broken(settled=settled)

    def forge(self, work: Callable[[Unit], None]) -> None:
        """Changes the disk of the top, which does not run, behind everybody's back."""
        top = self.world["top"]
        top.crash("killed")
        store = InlineStore(top.ids, no_pause, image=top.backup())
        self.world.loop.run_task(store.write("forged", work), 1.0)
        restores = top.restores
        top.replace_disk(store.image())
        top.restores = restores  # so that it is not taken for a restored backup


@pytest.fixture
def scene() -> Iterator[Scene]:
    with World() as world:
        yield Scene(world)


def first(unit: Unit) -> Child:
    return unit.children.page(None, 1)[0]


def test_a_journal_that_was_written_over(scene: Scene) -> None:
    top = scene.world["top"]
    scene.forge(lambda unit: None)
    top._image = replace(top.backup(), database=top.backup().database.replace(b"first start of", b"first START of"))
    scene.invariants._seen.clear()
    assert any("does not chain" in text for text in scene.broken())


def test_an_epoch_that_went_back(scene: Scene) -> None:
    def work(unit: Unit) -> None:
        unit.children.put(replace(first(unit), epoch=0))
        row = unit.self_.get()
        assert row is not None
        unit.self_.put(replace(row, epoch=0))

    scene.forge(work)
    broken = scene.broken()
    assert any("the epoch of child" in text for text in broken)
    assert any("its epoch went back" in text for text in broken)


def test_a_zone_that_comes_through_two_children(scene: Scene) -> None:
    def work(unit: Unit) -> None:
        one, other = unit.children.page(None, 2)
        rows = unit.lineage.via(one.code, None, 10)
        unit.lineage.put(other.code, rows)

    scene.forge(work)
    assert any("through 2 children" in text for text in scene.broken())


def test_a_child_that_claims_more_than_it_has(scene: Scene) -> None:
    scene.do("tamper top/z1 oversell factor=1000")
    for site in scene.world.sites.values():
        site.deceived = False
    scene.do("restart top/z1", "advance 20s")
    assert any("its tree never had more than 8" in text for text in scene.broken())


def test_a_tree_that_has_not_settled(scene: Scene) -> None:
    scene.do("cut top/z1", "advance 60s")
    broken = scene.broken(settled=True)
    assert any("top holds top/z1 as ready and lost" in text for text in broken)
    assert any("counts 4 hosts and 4 unknown" in text for text in broken)


def test_a_session_that_outlived_its_certificate(scene: Scene) -> None:
    def work(unit: Unit) -> None:
        for child in unit.children.page(None, 10):
            unit.children.put(replace(child, certificate_until=Wall(scene.world["top"].clock.wall() - 1000.0)))

    scene.forge(work)
    scene.do("start top")
    top = scene.world["top"]
    assert scene.broken() == []  # without a session it is nobody's fault
    top.has_session = lambda code: True
    assert any("has a session, but its certificate ended" in text for text in scene.broken())


def test_what_a_zone_logs_as_its_own_fault_is_a_failure(scene: Scene) -> None:
    scene.world.loop.call_soon(lambda: 1 / 0)
    scene.do("advance 1s")
    assert any("ZeroDivisionError" in text for text in scene.world.failures())
    assert scene.world.failures() == []


def test_a_forged_line_needs_its_place_in_the_chain(scene: Scene) -> None:
    scene.forge(lambda unit: unit.journal.append(Wall(0.0), Event("x", "y", SYSTEM, "", {})) and None)
    assert scene.broken() == []  # appended by the rules: a line like any other
