"""The clouds below simulated zones: the real `sim` driver with a switch, so that a play can make a bottom fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from banyan.core.ports import Driver, Finding
from banyan.core.rack import Capacity, RackHealth, ScanItem
from banyan.core.records import DriverUnavailable
from banyan.drivers.registry import DriverContext, Registration, Registry
from banyan.drivers.sim import SimDriver, SimOptions


@dataclass(slots=True)
class Bottom:
    """One zone's rack as fate sees it. `failure`: why it does not answer, "" when it does.

    `latency`: seconds that each request takes, from the next start on.
    """

    hosts: int = 0
    guests: int = 0
    failure: str = ""
    latency: float = 0.0


class SwitchedDriver:
    """core.ports.Driver: the sim driver, unless its bottom fails. It follows `bottom.hosts` from scan to scan."""

    kind = "sim"
    capacity = Capacity.EXCLUSIVE

    def __init__(self, bottom: Bottom, context: DriverContext) -> None:
        self._bottom = bottom
        self._context = context
        self._made: tuple[int, int] | None = None
        self._driver: Driver | None = None

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
        wanted = (self._bottom.hosts, self._bottom.guests)
        if self._driver is None or self._made != wanted:
            self._made = wanted
            self._driver = SimDriver(
                SimOptions(hosts=wanted[0], guests=wanted[1], latency=self._bottom.latency), self._context
            )
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
