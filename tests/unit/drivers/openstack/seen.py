"""One whole scan of a driver, ready to be asked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from banyan.core.guest import Guest
from banyan.core.host import Host
from banyan.core.ports import Driver
from banyan.core.rack import GuestBatch, HostBatch, Scan, ScanItem
from banyan.core.records import DriverUnavailable
from banyan.core.resources import Amount, ResourceClass


@dataclass(frozen=True, slots=True)
class Seen:
    items: tuple[ScanItem, ...]

    @property
    def hosts(self) -> dict[str, Host]:
        return {host.name: host for item in self.items if isinstance(item, HostBatch) for host in item}

    @property
    def guests(self) -> list[Guest]:
        return [guest for item in self.items if isinstance(item, GuestBatch) for guest in item]

    @property
    def end(self) -> Scan:
        last = self.items[-1]
        assert isinstance(last, Scan)
        return last

    def total(self, name: str) -> Amount:
        total = Amount()
        for host in self.hosts.values():
            total += host.amounts.get(ResourceClass(name), Amount())
        return total


async def seen(driver: Driver) -> Seen:
    async with asyncio.timeout(60):
        return Seen(tuple([item async for item in driver.scan()]))


def scan(driver: Driver) -> Seen:
    return asyncio.run(seen(driver))


def scans(driver: Driver, count: int) -> list[Seen]:
    async def several() -> list[Seen]:
        return [await seen(driver) for _ in range(count)]

    return asyncio.run(several())


async def refused(driver: Driver) -> DriverUnavailable:
    """Why the scan fails."""
    try:
        await seen(driver)
    except DriverUnavailable as error:
        return error
    raise AssertionError("the scan should have failed")


def refusal(driver: Driver) -> DriverUnavailable:
    return asyncio.run(refused(driver))
