"""The `sim` driver: a Fleet behind the Driver port, with its latency and its failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from banyan.core.errors import BadInput
from banyan.core.guest import Guest
from banyan.core.host import Host
from banyan.core.ids import code_text
from banyan.core.ports import Finding
from banyan.core.rack import Capacity, GuestBatch, HostBatch, RackHealth, Scan, ScanItem
from banyan.core.records import DriverUnavailable
from banyan.core.time import Mono, Wall
from banyan.drivers.registry import DriverContext
from banyan.drivers.sim.fleet import Fleet
from banyan.drivers.sim.options import SimOptions
from banyan.drivers.sim.script import Condition, Fail, condition

# Sizes of batches. A batch of hosts ends early when so many guests live on them.
BATCH_HOSTS = 20
BATCH_GUESTS = 500
_GUESTS_OF_A_BATCH = 1_000
# Hosts and guests worked out between two turns of the loop: about 2 ms, so that heartbeats are never starved.
ROWS_IN_A_TURN = 200


class SimDriver:
    """A rack of simulated hosts. Ids follow from the rack's code (or its name, before it has one) and the seed."""

    kind = "sim"
    capacity = Capacity.EXCLUSIVE

    def __init__(self, options: SimOptions, context: DriverContext) -> None:
        self._options = options
        self._context = context
        self._clock = context.clock
        self._made_at = context.clock.now()
        self._made_wall = context.clock.wall()
        self._closed = False
        self._rows = 0
        identity = code_text(context.code) if context.code else context.rack
        try:
            self._fleet = Fleet(options, identity, context.share)
        except ValueError as error:
            raise BadInput("bad-driver-option", f"rack {context.rack!r}: driver sim: {error}") from error

    async def scan(self) -> AsyncIterator[ScanItem]:
        started_at = Wall(self._clock.wall())
        now = self._condition()
        requests = 0
        hosts: list[Host] = []
        crowded: list[tuple[int, bool]] = []
        waiting = 0
        for number in range(now.hosts):
            host, guests = self._fleet.host(number, now)
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
            for guest in self._fleet.guests(number, offered, now, self._made_wall):
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

    def _condition(self) -> Condition:
        o = self._options
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
        if self._closed:
            raise DriverUnavailable("driver-closed", f"the driver of rack {self._context.rack!r} is closed")
        failure = self._condition().failure
        if failure is not None and before >= failure.after_batches:
            raise DriverUnavailable("sim-fails", _text(self._context.rack, failure), transient=True)


def _text(rack: str, failure: Fail) -> str:
    return f"rack {rack!r} (sim): {failure.reason} (since {failure.at:g} s of its script)"
