"""The clouds below simulated zones: the real `sim` driver with a switch, so that a play can make a bottom fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from banyan.core.deed import Deed, Operation, Sighting
from banyan.core.ports import Driver, Finding
from banyan.core.rack import Capacity, RackHealth, ScanItem
from banyan.core.records import DriverUnavailable
from banyan.core.server import Server
from banyan.drivers.registry import DriverContext, Registration, Registry
from banyan.drivers.sim import SimDriver, SimOptions
from banyan.drivers.sim.machines import Machines
from banyan.drivers.sim.script import Step


@dataclass(slots=True)
class Bottom:
    """One zone's rack as fate sees it. `failure`: why it does not answer, "" when it does.

    `latency`: seconds that each request takes, from the next start on. `machines`: what Banyan had its hosts do; it
    outlives every process. `builds`: how builds go, as the sim driver's script says it.
    """

    hosts: int = 0
    guests: int = 0
    failure: str = ""
    latency: float = 0.0
    machines: Machines = field(default_factory=Machines)
    builds: tuple[Step, ...] = ()


class SwitchedDriver:
    """core.ports.Driver: the sim driver, unless its bottom fails. It follows `bottom.hosts` from scan to scan."""

    kind = "sim"
    capacity = Capacity.EXCLUSIVE

    def __init__(self, bottom: Bottom, context: DriverContext) -> None:
        self._bottom = bottom
        self._context = context
        self._made: tuple[object, ...] | None = None
        self._driver: Driver | None = None
        self.operations = frozenset(Operation)
        self.at_once = SimOptions().at_once

    async def perform(self, deed: Deed) -> Sighting | None:
        self._check()
        done = await self._inner().perform(deed)
        self._check()
        return done

    async def sight(self, guests: Sequence[str]) -> Mapping[str, Sighting]:
        self._check()
        return await self._inner().sight(guests)

    async def console(self, server: Server, lines: int | None) -> str:
        self._check()
        return await self._inner().console(server, lines)

    async def scan(self) -> AsyncIterator[ScanItem]:
        self._check()
        async for item in self._inner().scan():
            self._check()
            yield item

    async def probe(self) -> tuple[RackHealth, str]:
        if self._bottom.failure:
            return RackHealth.UNAVAILABLE, self._bottom.failure
        return await self._inner().probe()

    async def check(self) -> Sequence[Finding]:
        return await self._inner().check()

    async def close(self) -> None:
        await self._inner().close()

    def _inner(self) -> Driver:
        bottom = self._bottom
        wanted = (bottom.hosts, bottom.guests, bottom.builds)
        if self._driver is None or self._made != wanted:
            self._made = wanted
            options = SimOptions(hosts=bottom.hosts, guests=bottom.guests, latency=bottom.latency, script=bottom.builds)
            self._driver = SimDriver(options, self._context, bottom.machines)
        return self._driver

    def _check(self) -> None:
        if self._bottom.failure:
            raise DriverUnavailable("sim-fails", self._bottom.failure, transient=True)


def registry(bottom: Bottom) -> Registry:
    """The kinds of one simulated zone: `sim`, on this bottom."""
    return Registry(
        [
            Registration(
                kind="sim",
                summary="simulated hosts whose bottom can be made to fail",
                options=SimOptions,
                make=lambda options, context: SwitchedDriver(bottom, context),
            )
        ]
    )
