"""Where our servers are in the cloud and how they are: many of them with one request, found by their tags.

Whoever asks while a request is under way is answered by the next one, with all others who asked meanwhile. What is not
marked, or is marked in a project that is not ours, is not seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from banyan.core.deed import Sighting
from banyan.core.errors import BanyanError
from banyan.core.ids import RackCode
from banyan.core.ports import Clock
from banyan.core.server import Power
from banyan.drivers.openstack import marks, shapes
from banyan.drivers.openstack.asking import Cloud
from banyan.drivers.openstack.endpoints import Service
from banyan.drivers.openstack.grounds import Grounds
from banyan.drivers.openstack.marks import Mark
from banyan.drivers.openstack.nodes import Nodes

# Guests to a request: its address stays below 4 KiB, which is what some servers take.
TOGETHER: Final = 40

_POWERS: Final[Mapping[str, Power]] = {
    "active": Power.RUNNING,
    "rescued": Power.RUNNING,
    "paused": Power.PAUSED,
    "suspended": Power.SUSPENDED,
    "stopped": Power.OFF,
    "shelved": Power.OFF,
    "shelved_offloaded": Power.OFF,
    "building": Power.OFF,
}
_POWER_STATES: Final[Mapping[int, Power]] = {
    1: Power.RUNNING,
    3: Power.PAUSED,
    4: Power.OFF,
    6: Power.CRASHED,
    7: Power.SUSPENDED,
}


@dataclass(frozen=True, slots=True)
class Copy:
    """One server of the cloud that is one copy of one of ours. `id`: Nova's."""

    wire: shapes.Server
    mark: Mark

    @property
    def id(self) -> str:
        return self.wire.id

    @property
    def state(self) -> str:
        return self.wire.vm_state

    @property
    def busy(self) -> bool:
        """Nova is at work on it."""
        return bool(self.wire.task_state) or self.state == "building"

    @property
    def power(self) -> Power:
        return _POWERS.get(self.state) or _POWER_STATES.get(self.wire.power_state, Power.UNKNOWN)

    @property
    def fault(self) -> str:
        return self.wire.fault.message if self.wire.fault is not None else ""


class Lookout:
    def __init__(self, cloud: Cloud, clock: Clock, rack: RackCode, grounds: Grounds, nodes: Nodes) -> None:
        self._cloud = cloud
        self._clock = clock
        self._rack = rack
        self._grounds = grounds
        self._nodes = nodes
        self._wanted: dict[str, list[asyncio.Future[tuple[Copy, ...]]]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def copies(self, guest: str) -> tuple[Copy, ...]:
        """What there is of this guest: the highest move number first, the oldest of one number first. Raises
        DriverUnavailable."""
        answer: asyncio.Future[tuple[Copy, ...]] = asyncio.get_running_loop().create_future()
        self._wanted.setdefault(guest, []).append(answer)
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look())
        return await answer

    async def sighting(self, copy: Copy) -> Sighting:
        host = "" if copy.state == "shelved_offloaded" else await self._nodes.id_of(copy.wire)
        return Sighting(copy.mark.guest, copy.mark.move, host, copy.power)

    async def _look(self) -> None:
        try:
            while self._wanted:
                # Whoever asks in this turn of the loop comes along.
                await self._clock.sleep_until(self._clock.now())
                some = list(self._wanted)[:TOGETHER]
                waiting = {guest: self._wanted.pop(guest) for guest in some}
                try:
                    found = await self._ask(some)
                except BanyanError as error:
                    for answer in [one for answers in waiting.values() for one in answers]:
                        if not answer.done():
                            answer.set_exception(error)
                    continue
                for guest, answers in waiting.items():
                    for answer in answers:
                        if not answer.done():
                            answer.set_result(found.get(guest, ()))
        finally:
            self._looking = None

    async def _ask(self, guests: Sequence[str]) -> dict[str, tuple[Copy, ...]]:
        params = {"tags-any": ",".join(map(marks.tag, guests)), "sort_key": "created_at", "sort_dir": "asc"}
        if self._grounds.own:
            params["all_tenants"] = "True"
        found: dict[str, dict[str, Copy]] = {}
        async for page in self._cloud.pages(Service.COMPUTE, "/servers/detail", shapes.ServerPage, params):
            for wire in page.servers:
                mark = marks.read(wire.metadata, self._rack)
                if mark is not None and mark.guest in guests and await self._grounds.trusts(wire.tenant_id):
                    found.setdefault(mark.guest, {})[wire.id] = Copy(wire, mark)
        return {guest: tuple(sorted(copies.values(), key=_order)) for guest, copies in found.items()}


def _order(copy: Copy) -> tuple[int, str, str]:
    return -copy.mark.move, copy.wire.created, copy.id
