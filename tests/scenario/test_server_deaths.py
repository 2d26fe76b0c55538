"""kill -9 before and after every commit of everything that is done to servers: it converges, and nothing is lost.

The steps are recorded from undisturbed runs: a step that is not listed here is red. The simulated hosts outlive the
zone, and their own memory is the judge: nothing ran twice, nothing runs that no row says.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from banyan.core.errors import Refused, Unreachable
from banyan.core.server import Action, Arguments, Change, VmState
from banyan.drivers.sim.script import FailBuilds
from banyan.simulate.faults import Doom, Instant
from banyan.simulate.world import World
from tests.scenario.leaves import BIG, Client

Flow = Callable[[Client], None]


def create(client: Client) -> None:
    ids = client.order("o1", 3)
    assert client.order("o1", 3) == ids
    for id in ids:
        client.rests(id, VmState.ACTIVE)
    assert len({client.show(id).name for id in ids}) == 3


def two_phase(client: Client) -> None:
    ids = client.order("o1", 2, two_phase=True)
    client.advance(3.0)
    with pytest.raises(Unreachable, match="held for its order"):
        client.show(ids[0])
    client.confirm("o1")
    client.confirm("o1")
    client.rests(ids[1], VmState.ACTIVE)


def cancelled(client: Client) -> None:
    client.order("o1", 2, two_phase=True)
    client.cancel("o1")
    client.cancel("o1")
    with pytest.raises(Refused, match="cancelled"):
        client.order("o1", 2, two_phase=True)


def cancelled_first(client: Client) -> None:
    client.cancel("o1")
    with pytest.raises(Refused, match="cancelled"):
        client.order("o1")


def cancelled_late(client: Client) -> None:
    ids = client.order("o1", 2)
    client.cancel("o1")
    for id in ids:
        client.rests(id, VmState.DELETED)


def power(client: Client) -> None:
    id = client.one()
    client.do(id, Action.STOP, VmState.STOPPED)
    client.do(id, Action.START, VmState.ACTIVE)
    client.do(id, Action.REBOOT_HARD, VmState.ACTIVE)
    client.do(id, Action.PAUSE, VmState.PAUSED)
    client.do(id, Action.UNPAUSE, VmState.ACTIVE)
    client.do(id, Action.SUSPEND, VmState.SUSPENDED)
    client.do(id, Action.RESUME, VmState.ACTIVE)
    client.do(id, Action.RESCUE, VmState.RESCUED)
    client.do(id, Action.UNRESCUE, VmState.ACTIVE)
    client.do(id, Action.REBUILD, VmState.ACTIVE, Arguments(name="new"))


def resize(client: Client) -> None:
    id = client.one()
    before = client.show(id)
    client.do(id, Action.RESIZE, VmState.RESIZED, BIG)
    client.settle()
    client.do(id, Action.REVERT_RESIZE, VmState.ACTIVE)
    back = client.show(id)
    assert (back.host, back.spec, back.resize) == (before.host, before.spec, None)
    client.do(id, Action.RESIZE, VmState.RESIZED, BIG)
    client.do(id, Action.CONFIRM_RESIZE, VmState.ACTIVE)
    assert client.show(id).spec.needs == BIG.needs


def migrate(client: Client) -> None:
    id = client.one()
    before = client.show(id)
    after = client.do(id, Action.MIGRATE, VmState.RESIZED)
    assert after.host != before.host
    client.do(id, Action.CONFIRM_RESIZE, VmState.ACTIVE)


def shelve(client: Client) -> None:
    id = client.one()
    assert client.do(id, Action.SHELVE, VmState.OFFLOADED).host == ""
    client.settle()
    assert client.do(id, Action.UNSHELVE, VmState.ACTIVE).host


def change(client: Client) -> None:
    id = client.one()
    for _ in range(2):
        client.until_answered(
            lambda site: site.servers(lambda servers, caller: servers.change(caller, id, Change(name="x", tags=("a",))))
        )
    assert (client.show(id).name, client.show(id).spec.tags) == ("x", ("a",))


def delete(client: Client) -> None:
    early, late = client.order("o1", 2)
    client.act(early, Action.DELETE)
    client.rests(late, VmState.ACTIVE)
    client.do(late, Action.DELETE, VmState.DELETED)
    client.rests(early, VmState.DELETED)


def fails_once(client: Client) -> None:
    client.site.bottom.builds = (FailBuilds(at=0.0, every=2),)
    for id in client.order("o1", 3):
        client.rests(id, VmState.ACTIVE)


FLOWS: dict[str, tuple[Flow, tuple[str, ...]]] = {
    "create": (create, ("order.claimed", "server.done")),
    "two-phase": (two_phase, ("order.claimed", "order.confirmed", "server.done")),
    "cancelled": (cancelled, ("order.claimed", "order.cancelled")),
    "cancelled first": (cancelled_first, ("order.cancelled", "order.claimed")),
    "cancelled late": (cancelled_late, ("order.claimed", "order.cancelled", "server.action", "server.done")),
    "power": (power, ("order.claimed", "server.action", "server.done")),
    "resize": (resize, ("order.claimed", "server.action", "server.done")),
    "migrate": (migrate, ("order.claimed", "server.action", "server.done")),
    "shelve": (shelve, ("order.claimed", "server.action", "server.done")),
    "change": (change, ("order.claimed", "server.changed", "server.done")),
    "delete": (delete, ("order.claimed", "server.action", "server.done")),
    "fails once": (fails_once, ("order.claimed", "server.done", "server.replaced")),
}


def seen(client: Client) -> dict[str, int]:
    return {name: n for name, n in client.site.disk.seen.items() if name.startswith(("order.", "server."))}


def undisturbed(name: str) -> dict[str, int]:
    with World() as world:
        client = Client(world)
        FLOWS[name][0](client)
        client.settle()
        return seen(client)


@pytest.mark.parametrize("name", FLOWS)
def test_every_step_has_its_case(name: str) -> None:
    assert set(undisturbed(name)) == set(FLOWS[name][1])


# Flows in which a step comes several times, each time after another action.
NTH = {"power": (1, 4, 8), "resize": (1, 2, 3, 4), "shelve": (1, 2), "migrate": (1, 2), "delete": (1, 2)}
CASES = [
    pytest.param(name, step, instant, nth, id=f"{name}-{instant}-{step}-{nth}")
    for name, (_, steps) in FLOWS.items()
    for step in steps
    for instant in Instant
    for nth in (NTH.get(name, (1,)) if step in ("server.done", "server.action") else (1,))
]


@pytest.mark.parametrize(("name", "step", "instant", "nth"), CASES)
def test_a_death_at_a_commit_loses_nothing(name: str, step: str, instant: Instant, nth: int) -> None:
    with World() as world:
        client = Client(world)
        client.site.disk.doom = Doom(instant, step, nth)
        FLOWS[name][0](client)
        client.settle()
        assert client.site.disk.doom is None, "the death was never met"
