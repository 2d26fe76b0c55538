"""Trees of zones with servers in them, asked at the top as a client would."""

from __future__ import annotations

from collections.abc import Callable

from banyan.core.order import FlavorSnapshot, Specification
from banyan.core.server import Created, Server, Task, VmState
from banyan.simulate.invariants import Invariants
from banyan.simulate.script import read_step
from banyan.simulate.site import Site
from banyan.simulate.verbs import Stage, run_step
from banyan.simulate.world import World

SPEC = Specification(
    "web", {"vcpu": 1, "memory_mib": 512, "disk_gib": 5}, flavor=FlavorSnapshot("f1", "tiny", 1, 512, 5)
)


def plant(world: World, shape: str) -> Site:
    """As the verb `tree` of plays: 2x3x10 is a top, 2 zones below, 3 below each, 10 hosts in each of those."""
    run_step(Stage(world, Invariants(world)), read_step("here", f"tree {shape}"))
    return world["top"]


def create(site: Site, count: int = 1, spec: Specification = SPEC, **more: object) -> Created:
    return site.tree(lambda servers, caller: servers.create(caller, spec, least=1, most=count, project="p1", **more))


def show(site: Site, id: str) -> Server:
    return site.tree(lambda servers, caller: servers.show(caller, id))


def until(world: World, what: Callable[[], bool], within: float = 60.0) -> None:
    end = world.loop.time() + within
    while not what():
        assert world.loop.time() < end, "it did not come to that in time"
        world.advance(0.5)


def rests(world: World, site: Site, id: str, state: VmState) -> None:
    def so() -> bool:
        server = show(site, id)
        return (server.state, server.task) == (state, Task.NONE)

    until(world, so)
