"""The suite for drivers that take orders finds each duty broken, and an honest driver whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace as with_fields

from banyan.core.deed import Deed, Operation, Sighting
from banyan.core.ports import Driver
from banyan.core.rack import GuestBatch, HostBatch, ScanItem
from banyan.core.resources import Amount
from banyan.core.server import Power, Server
from banyan.core.share import OFFER_ALL, Share
from banyan.drivers.orders_contract import OrderContract
from banyan.drivers.registry import DriverContext
from banyan.drivers.sim import SimDriver, SimOptions
from banyan.drivers.sim.machines import Machines


class Told(SimDriver):
    """Tells of its guests as if they had always been there."""

    async def scan(self) -> AsyncIterator[ScanItem]:
        async for item in super().scan():
            if isinstance(item, GuestBatch):
                item = GuestBatch(tuple(replace(guest, native=True) for guest in item))
            yield item


class Counts(SimDriver):
    """Counts what Banyan made as used."""

    async def scan(self) -> AsyncIterator[ScanItem]:
        async for item in super().scan():
            if isinstance(item, HostBatch):
                item = HostBatch(
                    tuple(
                        replace(
                            host,
                            amounts={
                                cls: Amount(a.physical, a.total, a.used + self.machines.used(host.id).get(cls, 0))
                                for cls, a in host.amounts.items()
                            },
                        )
                        for host in item
                    )
                )
            yield item


class Changed(SimDriver):
    """Does another deed than it was told; None is none at all."""

    def __init__(self, options: SimOptions, context: DriverContext, change: Callable[[Deed], Deed | None]) -> None:
        super().__init__(options, context)
        self._change = change

    async def perform(self, deed: Deed) -> Sighting | None:
        changed = self._change(deed)
        return None if changed is None else await super().perform(changed)


class Forgets(SimDriver):
    """Its hosts forget everything when the process ends."""

    def __init__(self, options: SimOptions, context: DriverContext) -> None:
        super().__init__(options, context, Machines())


class Cuts(SimDriver):
    async def console(self, server: Server, lines: int | None) -> str:
        return (await super().console(server, None))[: 40 if lines else None]


class Silent(SimDriver):
    async def perform(self, deed: Deed) -> Sighting | None:
        return None if self._condition().failure is not None else await super().perform(deed)


class Sulks(SimDriver):
    """Once it was cut off it does nothing any more."""

    cut = False

    async def perform(self, deed: Deed) -> Sighting | None:
        if self.cut:
            return None
        try:
            return await super().perform(deed)
        except asyncio.CancelledError:
            self.cut = True
            raise


class Claims(SimDriver):
    async def sight(self, guests: Sequence[str]) -> Mapping[str, Sighting]:
        return {guest: Sighting(guest, 1, "", Power.RUNNING) for guest in guests}


def without(*operations: Operation) -> Callable[[Deed], Deed | None]:
    return lambda deed: None if deed.operation in operations else deed


def young(deed: Deed) -> Deed:
    """Whatever its number, it is the newest."""
    return deed if deed.operation is Operation.DELETE else Deed(deed.operation, with_fields(deed.server, move=9), 99)


def anew(deed: Deed) -> Deed:
    """Not known by its number."""
    anew.number += 1
    return Deed(deed.operation, deed.server, anew.number)


anew.number = 1_000

Make = Callable[[SimOptions, DriverContext], Driver]
CHANGED: Mapping[str, Callable[[Deed], Deed | None]] = {
    "19": anew,
    "20": lambda deed: replace(deed, operation=Operation.START) if deed.operation is Operation.PAUSE else deed,
    "22": without(Operation.DELETE),
    "23": young,
    "24": lambda deed: replace(deed, operation=Operation.CONFIRM) if deed.operation is Operation.REVERT else deed,
    "27": lambda deed: replace(deed, operation=Operation.STOP) if deed.operation is Operation.SHELVE else deed,
}
LIARS: Mapping[str, Make] = {
    "18": Told,
    "21": Counts,
    "25": Sulks,
    "26": Claims,
    "28": Cuts,
    "29": Silent,
    **{
        number: (lambda options, context, change=change: Changed(options, context, change))
        for number, change in CHANGED.items()
    },
}


class Suite(OrderContract):
    def __init__(self, make: Make, folder: Path) -> None:
        self.make = make
        self.folder = folder

    def driver(self, share: Share = OFFER_ALL) -> Driver:
        return self.make(SimOptions(hosts=3, build_seconds=0.01, act_seconds=0.001), self.context(share))

    def failing(self) -> Driver:
        return self._scripted([{"at": 0, "do": "fail"}])

    def failing_builds(self) -> Driver | None:
        return self._scripted([{"at": 0, "do": "fail_builds", "chance": 1.0}])

    def _scripted(self, script: list[object]) -> Driver:

        options = msgspec.convert({"hosts": 3, "script": script, "build_seconds": 0.01}, SimOptions)
        return self.make(options, self.context())


DUTIES = [name for name in dir(OrderContract) if name.startswith("test_") and name[5:7] >= "17"]


@pytest.mark.parametrize("duty", DUTIES)
def test_an_honest_driver_holds_every_duty(duty: str, tmp_path: Path) -> None:
    getattr(Suite(SimDriver, tmp_path), duty)()


@pytest.mark.parametrize("number", sorted(LIARS))
def test_each_duty_is_found_broken(number: str, tmp_path: Path) -> None:
    (duty,) = [name for name in DUTIES if name.startswith(f"test_{number}_")]
    with pytest.raises(AssertionError):
        getattr(Suite(LIARS[number], tmp_path), duty)()


def test_guests_that_are_forgotten_are_missed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="outlives"):
        Suite(Forgets, tmp_path).test_21_the_next_process_finds_what_was_made()


def test_every_duty_has_its_liar() -> None:
    assert {name[5:7] for name in DUTIES} - {"17"} == set(LIARS)
