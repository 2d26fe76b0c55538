"""How a simulated rack takes orders: deeds with their time, their failures and their host, on its machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

from banyan.core.deed import Deed, DeedFailed, Operation, Sighting
from banyan.core.ports import Clock
from banyan.core.records import DriverUnavailable
from banyan.core.resources import ResourceClass
from banyan.core.server import Server
from banyan.drivers.sim.fleet import Fleet
from banyan.drivers.sim.machines import Machine, Machines
from banyan.drivers.sim.options import SimOptions
from banyan.drivers.sim.script import Condition

# Hosts whose ids are worked out between two turns of the loop.
_IDS_IN_A_TURN = 1_000
_PLACES = frozenset({Operation.CREATE, Operation.MOVE, Operation.UNSHELVE})

_BOOT = (
    "[    0.000000] Linux version 6.1.0-banyan (sim@{host}) #1 SMP",
    "[    0.000000] Command line: BOOT_IMAGE={image} root=LABEL=root console=ttyS0",
    "[    0.031415] smpboot: Allowing {vcpu} CPUs",
    "[    0.092653] Memory: {memory}MiB available",
    "[    0.589793] virtio_net virtio0 eth0: up",
    "[    1.238462] EXT4-fs (vda1): mounted filesystem",
    "[    1.643383] cloud-init: instance-id {id}",
    "[    1.795028] cloud-init: hostname {name}",
    "[    2.884197] cloud-init: finished",
    "{name} login:",
)


class Hands:
    """`condition`: the rack now. `alive` raises DriverUnavailable when its own control does not answer."""

    def __init__(
        self,
        options: SimOptions,
        clock: Clock,
        fleet: Fleet,
        machines: Machines,
        condition: Callable[[], Condition],
        alive: Callable[[], None],
    ) -> None:
        self._options = options
        self._clock = clock
        self._fleet = fleet
        self._machines = machines
        self._condition = condition
        self._alive = alive
        self._numbers: dict[str, int] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._unkept: list[asyncio.Future[None]] = []
        # By host, as long as the rack's condition is the same.
        self._rooms: dict[str, Mapping[ResourceClass, int]] = {}
        self._rooms_of: Condition | None = None

    async def perform(self, deed: Deed) -> Sighting | None:
        number = await self._ready(deed.host)
        now = self._clock.now()
        builds = deed.operation is Operation.CREATE
        begun = self._machines.get(deed.guest, now)
        if deed.host and not self._up(number):
            if deed.operation in _PLACES and (begun is None or begun.copy.host != deed.host):
                raise DeedFailed("host-down", f"host {deed.host} does not answer", elsewhere=True)
            raise DriverUnavailable("host-down", f"host {deed.host} does not answer", transient=True)
        ready = self._machines.begin(deed, now, self._seconds(builds), self._room)
        await self._kept()
        await self._clock.sleep_until(ready)
        self._alive()
        if builds and (begun is None or begun.number < deed.number):
            condition = self._condition()
            draw = 0.0 if condition.fails is None else _draw(self._options.seed, deed)
            if reason := condition.build_fails(number, self._machines.built + 1, draw):
                self._machines.built += 1
                self._machines.fail_build(deed)
                await self._kept()
                raise DeedFailed("build-failed", f"host {deed.host}: {reason}", elsewhere=True)
        seen = self._machines.do(deed, self._clock.now(), self._room)
        await self._kept()
        return seen

    async def _kept(self) -> None:
        """Returns when the machines' memory is written: once a turn of the loop, for all that was done in it."""
        if not self._machines.is_kept:
            return
        if self._keeping is None:
            self._keeping = asyncio.ensure_future(self._keep())
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unkept.append(kept)
        await kept

    async def _keep(self) -> None:
        unkept = self._unkept
        error: BaseException | None = None
        try:
            await self._clock.sleep_until(self._clock.now())
            self._keeping, self._unkept = None, []
            self._machines.flush()
        except Exception as failure:  # noqa: BLE001 - told to all who wait for it
            error = failure
        for kept in unkept:
            if not kept.done():
                if error is None:
                    kept.set_result(None)
                else:
                    kept.set_exception(error)

    async def sight(self, guests: Sequence[str]) -> Mapping[str, Sighting]:
        await self._ready("")
        now = self._clock.now()
        found = {guest: self._machines.sight(guest, now) for guest in guests}
        return {guest: sighting for guest, sighting in found.items() if sighting is not None}

    async def console(self, server: Server, lines: int | None) -> str:
        await self._ready("")
        machine = self._machines.get(server.id, self._clock.now())
        if machine is None or machine.copy.ready:
            raise DeedFailed("no-guest", f"there is no guest {server.id} to read the console of")
        text = _console(server, machine)
        return "\n".join(text if lines is None else text[-lines:] if lines > 0 else []) + "\n"

    async def _ready(self, host: str) -> int:
        """The host's number from 1, 0 for no host. The rack answers, and its memory is open."""
        self._alive()
        self._machines.open(self._clock.now())
        count = self._condition().hosts
        while host and host not in self._numbers and len(self._numbers) < count:
            for number in range(len(self._numbers), min(count, len(self._numbers) + _IDS_IN_A_TURN)):
                self._numbers[self._fleet.host_id(number)] = number
            await self._clock.sleep_until(self._clock.now())
        if host and host not in self._numbers:
            raise DeedFailed("no-host", f"there is no host {host} in this rack", elsewhere=True)
        return self._numbers[host] + 1 if host else 0

    def _up(self, number: int) -> bool:
        return self._condition().host(number)[0]

    def _seconds(self, builds: bool) -> float:
        if not builds:
            return self._options.act_seconds
        scripted = self._condition().build_seconds
        return self._options.build_seconds if scripted is None else scripted

    def _room(self, host: str) -> Mapping[ResourceClass, int]:
        number, now = self._numbers.get(host), self._condition()
        if number is None:
            return {}
        if now is not self._rooms_of:
            self._rooms, self._rooms_of = {}, now
        room = self._rooms.get(host)
        if room is None:
            found, _ = self._fleet.host(number, now)
            room = self._rooms[host] = {cls: amount.total - amount.used for cls, amount in found.amounts.items()}
        return room


def _draw(seed: int, deed: Deed) -> float:
    digest = blake2b(f"{seed}/{deed.guest}/{deed.move}/{deed.host}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / (1 << 64)


def _console(server: Server, machine: Machine) -> list[str]:
    spec = server.spec
    words = {
        "host": server.host_name or server.host,
        "image": spec.image.name if spec.image is not None else "none",
        "vcpu": str(spec.needs.get("vcpu", 0)),
        "memory": str(spec.needs.get("memory_mib", 0)),
        "id": server.id,
        "name": server.hostname or server.name,
    }
    return [line.format(**words) for _ in range(max(1, machine.copy.boots)) for line in _BOOT]
