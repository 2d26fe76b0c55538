"""Random lives of servers under random faults: whatever befell, nothing acknowledged is lost, doubled or oversold.

A failing seed is run again by `pytest "tests/scenario/test_server_lives.py::test_a_random_life[7]"`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from msgspec.structs import replace

from banyan.core.errors import BanyanError
from banyan.core.order import GroupPolicy, Hints, Specification
from banyan.core.records import StoreFull, StoreUnknown
from banyan.core.server import Action, Change, NoValidHost, VmState
from banyan.drivers.sim.script import Down, FailBuilds, SlowBuilds
from banyan.simulate.faults import Doom, Instant
from banyan.simulate.world import World
from tests.scenario.leaves import BIG, SPEC, Client

STEPS = 45
UNITS = ("order.claimed", "order.confirmed", "order.cancelled", "server.action", "server.done", "server.replaced")
# A fifth of the smallest sim host, so that hosts fill up.
LARGE = replace(SPEC, needs={"memory_mib": 52_000, "vcpu": 10})
SPECS: tuple[Specification, ...] = (
    SPEC,
    LARGE,
    replace(SPEC, hints=Hints(group="g", policy=GroupPolicy.SOFT_ANTI_AFFINITY)),
    replace(LARGE, hints=Hints(group="h", policy=GroupPolicy.AFFINITY)),
)


@dataclass
class Life:
    """`owed`: servers that were acknowledged; `gone`: those of which a delete was."""

    client: Client
    draw: Random
    owed: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    waiting: dict[str, list[str]] = field(default_factory=dict)
    orders: int = 0

    def step(self) -> None:
        kinds = (self.order, self.order, self.act, self.act, self.act, self.decide, self.delete, self.change)
        if self.draw.random() < 0.75:
            try:
                self.draw.choice(kinds)()
            except (NoValidHost, StoreFull):
                pass
            except BanyanError as error:
                if error.status not in (404, 409):
                    raise
        else:
            self.befall()
        self.client.advance(self.draw.choice((0.0, 0.1, 0.4, 2.0, 20.0)))

    # --- people -------------------------------------------------------------------------------------

    def order(self) -> None:
        self.orders += 1
        id, two_phase = f"o{self.orders}", self.draw.random() < 0.3
        count = self.draw.choice((1, 1, 2, 4))
        ids = self.client.order(id, count, self.draw.choice(SPECS), two_phase=two_phase)
        if two_phase:
            self.waiting[id] = ids
        else:
            self.owed.update(ids)

    def decide(self) -> None:
        if not self.waiting:
            return
        id = self.draw.choice(sorted(self.waiting))
        if self.draw.random() < 0.5:
            self.client.confirm(id)
            self.owed.update(self.waiting.pop(id))
        else:
            self.client.cancel(id)
            del self.waiting[id]

    def one(self) -> str | None:
        living = sorted(self.owed - self.gone)
        return self.draw.choice(living) if living else None

    def act(self) -> None:
        id = self.one()
        if id is not None:
            action = self.draw.choice([a for a in Action if a not in (Action.CREATE, Action.DELETE, Action.RESET)])
            self.client.act(id, action, BIG if action is Action.RESIZE else None)

    def delete(self) -> None:
        id = self.one()
        if id is not None and self.draw.random() < 0.5:
            self.client.act(id, Action.DELETE)
            self.gone.add(id)

    def change(self) -> None:
        id = self.one()
        if id is not None:
            name = f"n{self.draw.randrange(100)}"
            self.client.until_answered(
                lambda site: site.servers(lambda servers, caller: servers.change(caller, id, Change(name=name)))
            )

    # --- fate ---------------------------------------------------------------------------------------

    def befall(self) -> None:
        site = self.client.site
        match self.draw.randrange(8):
            case 0:
                site.crash("killed")
            case 1 | 2:
                site.disk.doom = Doom(
                    self.draw.choice(list(Instant)), self.draw.choice(UNITS), self.draw.randrange(1, 3)
                )
            case 3:
                site.bottom.failure = "" if site.bottom.failure else "the API answers 503"
            case 4:
                site.bottom.builds = (FailBuilds(at=0.0, chance=self.draw.choice((0.0, 0.3, 1.0))),)
            case 5:
                site.bottom.builds = (
                    SlowBuilds(at=0.0, seconds=self.draw.choice((0.01, 5.0))),
                    Down(at=0.0, hosts="2"),
                )
            case 6:
                if site.running:
                    site.fail_commits(None, self.draw.choice((StoreFull, StoreUnknown)))
            case 7:
                site.disk.full = True
                self.client.advance(self.draw.choice((0.5, 5.0)))
                site.disk.full = False

    def heal(self) -> None:
        site = self.client.site
        site.disk.doom, site.disk.full = None, False
        site.bottom.failure, site.bottom.builds = "", ()
        for id in sorted(self.waiting):
            self.client.until_answered(lambda site: site.servers(lambda servers, caller: servers.unconfirmed()))
            self.client.confirm(id)
            self.owed.update(self.waiting.pop(id))


@pytest.mark.parametrize("seed", range(16))
def test_a_random_life(seed: int) -> None:
    with World(seed) as world:
        life = Life(Client(world, hosts=3), Random(seed))
        for _ in range(STEPS):
            life.step()
        life.heal()
        life.client.settle(within=2_000.0)
        there = {server.id for server in life.client.page()}
        assert life.owed - life.gone <= there, "an acknowledged server is lost"
        assert not life.gone & there, "a deleted server is back"
        for id in sorted(there):
            life.client.act(id, Action.DELETE)
            life.client.rests(id, VmState.DELETED)
        life.client.settle()
        assert len(life.client.site.bottom.machines) == 0
        usage = life.client.site.ask(lambda surface, caller: surface.usage(caller, ""))
        assert all(amount.used == 0 for amount in usage.resources.values())
