"""Puts one zone together from adapters. `serve/run.py` gives it real ones, `simulate` memory and virtual time.

assembled = await assemble(settings, adapters)
... listen with assembled.parent.serve and assembled.identity ...
await assembled.zone.run()
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from banyan.core.errors import Broken
from banyan.core.ports import Clock, Dialer, DriverHost, Ids, Store
from banyan.core.receiver import Senders
from banyan.link.child import ChildLink, ChildSettings, Route
from banyan.link.parent import ParentLink, ParentSettings
from banyan.link.wire import Counters, Identity
from banyan.zone.front import Front
from banyan.zone.reconcile.uplinks import UplinkSide
from banyan.zone.settings import ZoneSettings
from banyan.zone.zone import Zone, open_zone


@dataclass(frozen=True, slots=True)
class Adapters:
    """What a zone meets of the outside. `child` and `parent`: the link's own settings, by role. `senders`: how the
    receivers of `settings.receivers` are told."""

    store: Store
    clock: Clock
    ids: Ids
    drivers: DriverHost
    dialer: Dialer
    child: ChildSettings = ChildSettings()
    parent: ParentSettings = ParentSettings()
    senders: Senders | None = None


class Runner:
    """zone.zone.UplinkRunner over a ChildLink."""

    def __init__(self, link: ChildLink, side: UplinkSide) -> None:
        self._link = link
        self._side = side

    async def run(self) -> None:
        """Enrols first if that is still to do; raises Refused or BadInput if the parent says no, for good."""
        if not self._side.enrolled:
            await self.enrol(math.inf)
        await self._link.run()

    async def enrol(self, patience: float | None = None) -> object:
        return await self._link.enrol(patience)

    def traffic(self) -> tuple[int, int]:
        return self._link.counters.bytes_out, self._link.counters.bytes_in


class Linker:
    """zone.zone.Links: uplinks over the given dialer."""

    def __init__(self, adapters: Adapters) -> None:
        self._adapters = adapters

    def uplink(self, side: UplinkSide) -> Runner:
        a = self._adapters
        link = ChildLink(side, a.dialer, _router(side), a.clock, a.ids, a.child, Counters())
        return Runner(link, side)


def _router(side: UplinkSide) -> Callable[[], Awaitable[Route]]:
    async def route() -> Route:
        return Route(side.row.addresses, side.credentials(), side.row.bundle)

    return route


@dataclass(frozen=True, slots=True)
class Assembled:
    """A zone ready to run, with its front for surfaces and its end of the link for children."""

    zone: Zone
    front: Front
    parent: ParentLink

    def identity(self) -> Identity:
        """What the link's listener shows now, and whom it believes."""
        certificates = self.zone.certificates
        if certificates.credentials is None:
            raise Broken("no-certificate", "the zone has not issued its controller's certificate yet")
        return Identity(certificates.credentials, certificates.trusted())


async def assemble(settings: ZoneSettings, adapters: Adapters) -> Assembled:
    """Opens the zone in the store, made there at the first start. Nothing listens or runs yet."""
    a = adapters
    zone = await open_zone(settings, a.store, a.clock, a.ids, a.drivers, Linker(a), a.senders)
    parent = ParentLink(zone.children, adapters.clock, adapters.ids, adapters.parent)
    return Assembled(zone, Front(zone), parent)
