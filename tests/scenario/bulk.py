"""Orders that need several members at once, and everything that may befall them; the hosts' own memory is the judge."""

from __future__ import annotations

from collections.abc import Callable

from banyan.core.errors import BanyanError
from banyan.core.order import FlavorSnapshot, Specification
from banyan.core.server import Made, NoValidHost, ServerQuery
from banyan.simulate.faults import Doom
from banyan.simulate.invariants import Invariants
from banyan.simulate.loop import OverdueError
from banyan.simulate.site import Site
from banyan.simulate.world import World
from tests.scenario.trees import until

# One to a host: a simulated host has 256 or more.
BIG = Specification("big", {"vcpu": 200, "memory_mib": 512}, flavor=FlavorSnapshot("f9", "big", 200, 512))


def order(top: Site, least: int, most: int = 0, key: str = "", spec: Specification = BIG) -> tuple[Made, ...]:
    return top.tree(
        lambda servers, caller: servers.create(
            caller, spec, least=least, most=most or least, project="p1", retry_key=key
        )
    ).made


def tried(top: Site, least: int, most: int = 0, key: str = "") -> tuple[Made, ...] | None:
    """What a client is told; None if it is told nothing, or that nobody knows."""
    try:
        return order(top, least, most, key)
    except NoValidHost:
        return ()
    except (BanyanError, OverdueError):
        return None


def listed(top: Site) -> set[str]:
    page = top.tree(lambda servers, caller: servers.page(caller, ServerQuery(every_project=True, limit=1000)))
    assert not page.absent
    return {server.id for server in page.servers}


def there(world: World) -> set[str]:
    """Guests on all hosts, by the hosts' own memory."""
    return {guest for site in world.sites.values() for guest in site.bottom.machines.guests()}


def shares(site: Site) -> list[str]:
    """What is still to be decided or said there."""

    def work(unit):
        owed = [row for member in unit.shares.owing() for row in unit.shares.owed(member, "", 100)]
        return (
            [f"{row.state} {row.order}" for row in owed]
            + [*unit.shares.asked("", 100)]
            + ["held"] * unit.shares.held()[0]
        )

    return site.peek(work)


def settle(world: World, within: float = 400.0) -> None:
    """All zones run and are heard again; nothing is owed, claimed for nobody, or against what must hold."""

    def settled() -> bool:
        for site in world.sites.values():
            if not site.running:
                site.start()
                site.wait()
        try:
            if any(shares(site) for site in world.sites.values()):
                return False
            return not Invariants(world).broken(settled=True)
        except (BanyanError, OverdueError):
            return False

    until(world, settled, within)


def doom(site: Site, fate: Doom) -> None:
    site.disk.doom = fate


def at(site: Site, name: str, what: Callable[[], None]) -> None:
    """Does something just after the first commit of that name there."""
    note, done = site.disk.committed, []

    def committed(committed_name: str) -> None:
        note(committed_name)
        if committed_name == name and not done:
            done.append(name)
            what()

    site.disk.committed = committed
