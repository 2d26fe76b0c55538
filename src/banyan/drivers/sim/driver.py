"""The `sim` driver: a Fleet behind the Driver port, with its latency and its failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import chain

from banyan.core.deed import Deed, Operation, Sighting
from banyan.core.errors import BadInput
from banyan.core.guest import Guest, GuestState
from banyan.core.host import Host
from banyan.core.ids import code_text
from banyan.core.ports import Finding
from banyan.core.rack import Capacity, GuestBatch, HostBatch, RackHealth, Scan, ScanItem
from banyan.core.records import DriverUnavailable
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU
from banyan.core.server import Power, Server
from banyan.core.time import Mono, Wall
from banyan.drivers.registry import DriverContext
from banyan.drivers.sim.book import FileBook
from banyan.drivers.sim.fleet import Fleet
from banyan.drivers.sim.hands import Hands
from banyan.drivers.sim.machines import Machines
from banyan.drivers.sim.options import SimOptions
from banyan.drivers.sim.script import Condition, Fail, condition

_STATES = {
    Power.RUNNING: GuestState.ACTIVE,
    Power.PAUSED: GuestState.PAUSED,
    Power.SUSPENDED: GuestState.SUSPENDED,
    Power.OFF: GuestState.STOPPED,
}

# Sizes of batches. A batch of hosts ends early when so many guests live on them.
BATCH_HOSTS = 20
BATCH_GUESTS = 500
_GUESTS_OF_A_BATCH = 1_000
# A deed fails with the rack's control, however many batches a scan still gets.
_AT_ONCE = 1 << 30
# Hosts and guests worked out between two turns of the loop: about 2 ms, so that heartbeats are never starved.
ROWS_IN_A_TURN = 200


class SimDriver:
    """A rack of simulated hosts. Ids follow from the rack's code (or its name, before it has one) and the seed."""

    kind = "sim"
    capacity = Capacity.EXCLUSIVE

    operations = frozenset(Operation)

    def __init__(self, options: SimOptions, context: DriverContext, machines: Machines | None = None) -> None:
        """`machines`: what Banyan had these hosts do, where somebody else keeps it; else it is kept in the folder."""
        self._options = options
        self._context = context
        self._clock = context.clock
        self._made_at = context.clock.now()
        self._made_wall = context.clock.wall()
        self._closed = False
        self._rows = 0
        # Where no script and no churn changes anything, one for good.
        self._always: Condition | None = None
        identity = code_text(context.code) if context.code else context.rack
        try:
            self._fleet = Fleet(options, identity, context.share)
        except ValueError as error:
            raise BadInput("bad-driver-option", f"rack {context.rack!r}: driver sim: {error}") from error
        if machines is None:
            machines = Machines(FileBook(context.folder / "machines") if context.folder is not None else None)
        self.machines = machines
        self.at_once = options.at_once
        self._hands = Hands(
            options, context.clock, self._fleet, machines, self._condition, lambda: self._alive(_AT_ONCE)
        )

    async def scan(self) -> AsyncIterator[ScanItem]:
        started_at = Wall(self._clock.wall())
        self._alive()
        self.machines.open(self._clock.now())
        now = self._condition()
        requests = 0
        hosts: list[Host] = []
        crowded: list[tuple[int, bool]] = []
        waiting = 0
        for number in range(now.hosts):
            host, guests = self._fleet.host(number, now)
            guests += self.machines.count(host.id)
            await self._worked(1 + guests)
            hosts.append(host)
            waiting += guests
            if guests:
                crowded.append((number, host.offered))
            if len(hosts) == BATCH_HOSTS or waiting >= _GUESTS_OF_A_BATCH or number == now.hosts - 1:
                await self._request(requests)
                requests += 1
                yield HostBatch(tuple(hosts))
                async for batch in self._guests(crowded, now, requests):
                    requests += 1
                    yield batch
                hosts, crowded, waiting = [], [], 0
        await self._request(requests)
        yield Scan(
            started_at=started_at,
            finished_at=Wall(max(started_at, self._clock.wall())),
            flavors=self._fleet.flavors(),
            images=self._fleet.images(),
            networks=self._fleet.networks(),
            projects=self._fleet.projects(),
            facts={"seed": str(self._options.seed), "simulated": "yes"},
            requests=requests + 1,
        )

    async def _guests(
        self, hosts: Sequence[tuple[int, bool]], now: Condition, requests: int
    ) -> AsyncIterator[GuestBatch]:
        batch: list[Guest] = []
        for number, offered in hosts:
            ours = self._ours(self._fleet.host_id(number), offered)
            for guest in chain(self._fleet.guests(number, offered, now, self._made_wall), ours):
                batch.append(guest)
                await self._worked(1)
                if len(batch) == BATCH_GUESTS:
                    await self._request(requests)
                    requests += 1
                    yield GuestBatch(tuple(batch))
                    batch = []
        if batch:
            await self._request(requests)
            yield GuestBatch(tuple(batch))

    def _ours(self, host: str, offered: bool) -> Iterator[Guest]:
        """Guests that Banyan had this host run. One that moves is told where it runs, not where a copy is kept."""
        for machine, copy in self.machines.on(host, self._clock.now()):
            if copy is not machine.kept:
                needs = {str(cls): need for cls, need in copy.needs}
                yield Guest(
                    id=machine.guest,
                    name=machine.name,
                    project=machine.project,
                    state=_STATES[copy.power],
                    host=host,
                    flavor=machine.flavor,
                    vcpu=needs.get(VCPU, 0),
                    memory_mib=needs.get(MEMORY_MIB, 0),
                    disk_gib=needs.get(DISK_GIB, 0),
                    created=machine.created,
                    native=False,
                    move=copy.move,
                    offered=offered,
                )

    async def perform(self, deed: Deed) -> Sighting | None:
        return await self._hands.perform(deed)

    async def sight(self, guests: Sequence[str]) -> Mapping[str, Sighting]:
        return await self._hands.sight(guests)

    async def console(self, server: Server, lines: int | None) -> str:
        return await self._hands.console(server, lines)

    async def probe(self) -> tuple[RackHealth, str]:
        if self._closed:
            return RackHealth.UNAVAILABLE, f"the driver of rack {self._context.rack!r} is closed"
        await self._wait()
        failure = self._condition().failure
        if failure is None:
            return RackHealth.AVAILABLE, ""
        return RackHealth.UNAVAILABLE, _text(self._context.rack, failure)

    async def check(self) -> Sequence[Finding]:
        health, reason = await self.probe()
        state = self._condition()
        return (
            Finding(
                "simulated hosts",
                health is RackHealth.AVAILABLE,
                reason or f"{state.hosts} hosts and {state.guests} servers from seed {self._options.seed}",
                "" if health is RackHealth.AVAILABLE else "wait for a `recover` step, or take the `fail` step out",
            ),
        )

    async def close(self) -> None:
        self._closed = True
        self.machines.close()

    def _condition(self) -> Condition:
        o = self._options
        if self._always is not None:
            return self._always
        now = self._conditions(o)
        if not o.script and not o.churn:
            self._always = now
        return now

    def _conditions(self, o: SimOptions) -> Condition:
        return condition(
            o.script,
            elapsed=self._clock.now() - self._made_at,
            hosts=o.hosts,
            guests=o.guests,
            churn=o.churn,
            latency=o.latency,
        )

    async def _worked(self, rows: int) -> None:
        """So many more rows were worked out: gives the loop a turn when it is time for one."""
        self._rows += rows
        if self._rows >= ROWS_IN_A_TURN:
            self._rows = 0
            await self._clock.sleep_until(self._clock.now())

    async def _wait(self) -> None:
        # Also with no latency: the loop gets its turn.
        await self._clock.sleep_until(Mono(self._clock.now() + self._condition().latency))

    async def _request(self, before: int) -> None:
        """One simulated request, `before` of them were answered in this scan. Raises DriverUnavailable."""
        await self._wait()
        self._alive(before)

    def _alive(self, before: int = 0) -> None:
        if self._closed:
            raise DriverUnavailable("driver-closed", f"the driver of rack {self._context.rack!r} is closed")
        failure = self._condition().failure
        if failure is not None and before >= failure.after_batches:
            raise DriverUnavailable("sim-fails", _text(self._context.rack, failure), transient=True)


def _text(rack: str, failure: Fail) -> str:
    return f"rack {rack!r} (sim): {failure.reason} (since {failure.at:g} s of its script)"
