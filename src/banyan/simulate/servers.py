"""What must hold of servers in every world: the simulated hosts' own memory against the rows of zones.

Always: no host was ever asked to run a second copy of a guest, or more than it has; no guest runs in two places. Once
all has settled: what runs is what some zone's rows say, on that host and under that number; what a rack promised is
what its native guests and its servers take. Reads only: machines, disks, views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from banyan.core.errors import BanyanError
from banyan.core.identity import Caller
from banyan.core.records import Unit
from banyan.core.server import Power, Server, ServerQuery, Task, VmState
from banyan.simulate.site import Site
from banyan.zone.surface import Surface
from banyan.zone.views import UsageView

RUNS = {
    VmState.ACTIVE: Power.RUNNING,
    VmState.RESCUED: Power.RUNNING,
    VmState.PAUSED: Power.PAUSED,
    VmState.SUSPENDED: Power.SUSPENDED,
    VmState.STOPPED: Power.OFF,
}


def broken(sites: Iterable[Site]) -> list[str]:
    """What must never be, whatever befell."""
    found: list[str] = []
    running: dict[str, str] = {}
    for site in sites:
        found += [f"{site.path}: at {wrong.at:.3f} {wrong.text}" for wrong in site.bottom.machines.wrongs]
        for guest, move, host in site.bottom.machines.running(site.clock.now()):
            place = f"{site.path} on {host} as {move}"
            if guest in running:
                found.append(f"guest {guest} runs at {running[guest]} and at {place}")
            running[guest] = place
    return found


def unsettled(site: Site) -> list[str]:
    """What must hold once nothing is under way."""
    rows = {server.id: server for server in servers(site)}
    machines, now = site.bottom.machines, site.clock.now()
    found: list[str] = []
    for guest in machines.guests():
        if guest not in rows:
            found.append(f"{site.path}: a guest {guest} is there, and no server")
    for server in rows.values():
        if server.task is not Task.NONE:
            found.append(f"{site.path}: server {server.id} is still {server.task}")
            continue
        machine = machines.get(server.id, now)
        if machine is None:
            if server.state is not VmState.ERROR:
                found.append(f"{site.path}: server {server.id} is {server.state}, and there is no such guest")
            continue
        copy = machine.copy
        if server.state is not VmState.ERROR and (copy.host, copy.move) != (server.host, server.move):
            found.append(
                f"{site.path}: server {server.id} is on {server.host!r} as {server.move}, its guest on {copy.host!r} "
                f"as {copy.move}"
            )
        wanted = RUNS.get(server.state)
        if wanted is not None and copy.power is not wanted:
            found.append(f"{site.path}: server {server.id} is {server.state}, its guest {copy.power}")
        if (machine.kept is None) != (server.resize is None):
            found.append(f"{site.path}: of server {server.id} {machine.kept} is kept, its row says {server.resize}")
    pending = site.ask(_pending)
    if pending:
        found.append(f"{site.path}: {pending:g} claims are pending, and nobody waits for them")
    return found + _totals(site, list(rows.values()))


async def _pending(surface: Surface, caller: Caller) -> float:
    metrics = surface.metrics(caller)
    return sum(value for name, value in metrics.items() if name.startswith("banyan_claims_pending"))


def _totals(site: Site, rows: Sequence[Server]) -> list[str]:
    """Used resources and counted servers of a leaf without children."""
    try:
        usage: UsageView = site.ask(lambda surface, caller: surface.usage(caller, ""))
    except BanyanError:
        return []
    if usage.zones.total:
        return []
    found = []
    taken: dict[str, int] = {}
    for server in rows:
        specs = [server.spec] if server.host else []
        specs += [server.resize.spec] if server.resize is not None else []
        for spec in specs:
            for resource, need in spec.shape.needs:
                taken[resource] = taken.get(resource, 0) + need
    if not site.bottom.guests:
        for cls, amount in sorted(usage.resources.items()):
            if amount.used != taken.get(cls, 0):
                found.append(
                    f"{site.path}: {amount.used} of {cls} are counted as used, servers hold {taken.get(cls, 0)}"
                )
            if amount.used > amount.total:
                found.append(f"{site.path}: {amount.used} of {cls} are promised, of {amount.total}")
    counted = sum(usage.guests.values())
    if counted != len(rows) + site.bottom.guests:
        found.append(f"{site.path}: {counted} servers are counted, there are {len(rows) + site.bottom.guests}")
    return found


def servers(site: Site) -> list[Server]:
    """All that are not deleted, as they are on the disk now."""
    found: list[Server] = []
    after = ""
    while True:
        page = site.peek(_reader(after))
        found += page[0]
        after = page[1]
        if not after:
            return found


def _reader(after: str) -> Callable[[Unit], tuple[tuple[Server, ...], str]]:
    def read(unit: Unit) -> tuple[tuple[Server, ...], str]:
        page = unit.servers.page(ServerQuery(every_project=True, after=after))
        return page.servers, page.after

    return read
