"""The duties of a driver that takes orders, as tests: numbers 18 and on of docs/contracts/driver.md.

    class TestMine(OrderContract):
        def driver(self, share=OFFER_ALL): return MINE.open({...}, self.context(share))
        def failing(self): return MINE.open({...}, self.context())

Guests of one core and little memory are made on the first hosts that the rack offers, and removed again. Operations
that the driver does not name are not asked for. This module needs no test framework.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar

from msgspec.structs import replace

from banyan.core.deed import Deed, DeedFailed, Operation, Sighting
from banyan.core.guest import Guest
from banyan.core.host import Host
from banyan.core.ids import RackCode, ZoneCode, guest_id
from banyan.core.order import FlavorSnapshot, ImageSource, Specification
from banyan.core.ports import Driver
from banyan.core.rack import Capacity
from banyan.core.records import DriverUnavailable
from banyan.core.secret import Secret
from banyan.core.server import PendingResize, Power, Server, VmState
from banyan.core.time import Wall
from banyan.drivers.contract import DriverContract, hold

OrderDuty = Callable[[Driver, "Yard"], Awaitable[None]]


class Yard:
    """Two hosts of the rack, and the guests that a test made there."""

    def __init__(self, driver: Driver, hosts: tuple[Host, Host], spec: Specification, deadline: float) -> None:
        self.driver = driver
        self.first, self.second = hosts
        self.spec = spec
        self._deadline = deadline
        self._numbers = 0
        self.made: list[Server] = []

    def server(self, host: Host | None = None) -> Server:
        number = len(self.made) + 1
        id = guest_id(1_800_000_000_000 + number, RackCode(0xC0), number)
        where = (host or self.first).id
        at = Wall(1_800_000_000.0)
        server = Server(id, ZoneCode(1), "p1", "u1", f"contract-{number}", RackCode(0xC0), where, self.spec, at, at)
        self.made.append(server)
        return server

    async def do(self, operation: Operation, server: Server, number: int = 0) -> Sighting | None:
        """One deed, the next one by number unless one is given."""
        self._numbers += 1
        password = Secret(b"of the contract: 1aB!") if operation is Operation.SET_PASSWORD else None
        deed = Deed(operation, server, number or self._numbers, password=password)
        return await asyncio.wait_for(self.driver.perform(deed), self._deadline)

    async def seen(self, server: Server) -> Sighting | None:
        return (await asyncio.wait_for(self.driver.sight([server.id]), self._deadline)).get(server.id)

    async def clear(self) -> None:
        for server in self.made:
            await self.do(Operation.DELETE, server, 1_000_000)


class OrderContract(DriverContract):
    """Subclass it instead of DriverContract. `needs`: of the guests that are made. `image`: what they boot from, where
    the rack makes none without."""

    needs: ClassVar[dict[str, int]] = {"vcpu": 1, "memory_mib": 64, "disk_gib": 1}
    image: ClassVar[ImageSource | None] = None
    deed_deadline: ClassVar[float] = 120.0

    def failing_builds(self) -> Driver | None:
        """A driver for a rack on which every build fails; None if there is no way to have that."""
        return None

    def test_18_a_guest_runs_where_it_was_ordered(self) -> None:
        async def duty(driver: Driver, yard: Yard) -> None:
            server = yard.server()
            seen = await yard.do(Operation.CREATE, server)
            hold(seen == Sighting(server.id, 1, yard.first.id, Power.RUNNING), f"it runs as ordered, got {seen}")
            hold(await yard.seen(server) == seen, "it is seen as it was told")
            guest = await self._guest(driver, server.id)
            hold(guest is not None, "the next scan has it")
            assert guest is not None
            hold(not guest.native and guest.move == 1, "a guest that Banyan made is told as such, with its move number")
            hold(guest.host == yard.first.id and guest.name == server.name, f"where it is, by its name, got {guest}")

        self._order(duty)

    def test_19_a_deed_said_again_changes_nothing(self) -> None:
        async def duty(driver: Driver, yard: Yard) -> None:
            server = yard.server()
            made = await asyncio.gather(*(yard.do(Operation.CREATE, server, 1) for _ in range(3)))
            hold(len(set(map(str, made))) == 1, f"said three times at once it is done once, got {made}")
            hold(await yard.do(Operation.CREATE, server, 1) == made[0], "said later it gives the same answer")
            if Operation.STOP in driver.operations:
                stopped = await yard.do(Operation.STOP, server, 2)
                hold(await yard.do(Operation.STOP, server, 2) == stopped, "said again it gives the same answer")
                hold(await yard.do(Operation.CREATE, server, 1) == stopped, "an earlier deed said late undoes nothing")
            guests = [guest for guest in (await self._scan(driver)).guests if guest.id == server.id]
            hold(len(guests) == 1, f"there is one guest, the scan has {len(guests)}")

        self._order(duty)

    def test_20_each_operation_does_what_it_is_called(self) -> None:
        async def duty(driver: Driver, yard: Yard) -> None:
            server = yard.server()
            await yard.do(Operation.CREATE, server)
            for operation, state, power in _WAYS:
                if operation not in driver.operations:
                    continue
                seen = await yard.do(operation, replace(server, state=state))
                hold(seen is not None and seen.power is power, f"after {operation} it is {power}, got {seen}")

        self._order(duty)

    def test_21_the_next_process_finds_what_was_made(self) -> None:
        async def duty(driver: Driver, yard: Yard) -> None:
            before = await self._used(driver, yard.first.id)
            server = yard.server()
            await yard.do(Operation.CREATE, server)
            other = self.driver()
            try:
                hold(server.id in await other.sight([server.id]), "a guest outlives the process that had it made")
                guest = await self._guest(other, server.id)
                hold(guest is not None, "and is told by the next one's scan")
                if driver.capacity is Capacity.EXCLUSIVE:
                    used = await self._used(other, yard.first.id)
                    hold(used == before, "on an exclusive rack `used` is of native guests only")
            finally:
                await other.close()

        self._order(duty)

    def test_22_a_deleted_guest_leaves_nothing(self) -> None:
        async def duty(driver: Driver, yard: Yard) -> None:
            never = yard.server()
            hold(await yard.do(Operation.DELETE, never) is None, "what is not there is deleted well")
            server = yard.server()
            await yard.do(Operation.CREATE, server)
            hold(await yard.do(Operation.DELETE, server) is None, "a deleted guest is told as None")
            hold(await yard.seen(server) is None, "it is not seen any more")
            hold(await self._guest(driver, server.id) is None, "the next scan does not have it")
            hold(await yard.do(Operation.DELETE, server) is None, "said again it is as well")

        self._order(duty)

    def test_23_an_older_copy_is_never_acted_on(self) -> None:
        async def duty(driver: Driver, yard: Yard) -> None:
            server = replace(yard.server(), move=5)
            await yard.do(Operation.CREATE, server)
            for operation in (Operation.CREATE, Operation.STOP):
                if operation in driver.operations:
                    await _refused(yard.do(operation, replace(server, move=4)), f"{operation} of an older number")
            hold((await yard.seen(server)) == Sighting(server.id, 5, yard.first.id, Power.RUNNING), "it runs on")

        self._order(duty)

    def test_24_a_move_keeps_the_copy_that_it_was_made_of(self) -> None:
        async def duty(driver: Driver, yard: Yard) -> None:
            if not {Operation.MOVE, Operation.CONFIRM, Operation.REVERT} <= driver.operations:
                return
            old = yard.server()
            await yard.do(Operation.CREATE, old)
            new = _moved(old, yard.second.id, 2)
            seen = await yard.do(Operation.MOVE, new)
            hold(seen == Sighting(old.id, 2, yard.second.id, Power.RUNNING), f"it runs at the new place, got {seen}")
            back = await yard.do(Operation.REVERT, replace(new, move=3))
            hold(back == Sighting(old.id, 3, yard.first.id, Power.RUNNING), f"and back at the old one, got {back}")
            again = _moved(replace(old, move=3), yard.second.id, 4)
            await yard.do(Operation.MOVE, again)
            kept = await yard.do(Operation.CONFIRM, again)
            hold(kept == Sighting(old.id, 4, yard.second.id, Power.RUNNING), f"confirmed it stays, got {kept}")
            await yard.do(Operation.DELETE, replace(again, resize=None))
            hold(await yard.seen(old) is None, "then there is no other copy left")

        self._order(duty)

    def test_25_a_deed_that_is_cut_off_may_be_said_again(self) -> None:
        async def duty(driver: Driver, yard: Yard) -> None:
            server = yard.server()
            task = asyncio.ensure_future(yard.do(Operation.CREATE, server, 1))
            await asyncio.wait({task}, timeout=0.001)
            task.cancel()
            await asyncio.wait({task}, timeout=self.call_deadline)
            hold(task.done(), "a cancelled deed ends at once")
            seen = await yard.do(Operation.CREATE, server, 1)
            hold(seen == Sighting(server.id, 1, yard.first.id, Power.RUNNING), f"said again it is done, got {seen}")

        self._order(duty)

    def test_26_a_build_that_fails_leaves_nothing(self) -> None:
        async def duty(driver: Driver, yard: Yard) -> None:
            server = yard.server()
            error = await _refused(yard.do(Operation.CREATE, server), "a build that fails")
            hold(error.elsewhere and len(error.text) > 10, "it says why, and whether another host may do better")
            hold(await yard.seen(server) is None, "nothing is left of it")
            hold(await self._guest(driver, server.id) is None, "the scan has nothing of it")

        self._order(duty, self.failing_builds)

    def test_27_what_is_put_aside_holds_no_host(self) -> None:
        async def duty(driver: Driver, yard: Yard) -> None:
            if not {Operation.SHELVE, Operation.UNSHELVE} <= driver.operations:
                return
            server = yard.server()
            await yard.do(Operation.CREATE, server)
            seen = await yard.do(Operation.SHELVE, server)
            hold(seen is not None and seen.host == "" and seen.power is Power.OFF, f"it holds no host, got {seen}")
            back = await yard.do(Operation.UNSHELVE, replace(server, host=yard.second.id, move=2))
            hold(back == Sighting(server.id, 2, yard.second.id, Power.RUNNING), f"it runs elsewhere, got {back}")

        self._order(duty)

    def test_28_a_console_has_the_last_lines(self) -> None:
        async def duty(driver: Driver, yard: Yard) -> None:
            server = yard.server()
            await yard.do(Operation.CREATE, server)
            whole = await driver.console(server, None)
            hold((await driver.console(server, 1)).count("\n") <= 1, "as many lines as were asked for")
            hold(whole.endswith(await driver.console(server, 1)), "the last ones")

        self._order(duty)

    def test_29_a_rack_that_does_not_answer_says_so(self) -> None:
        async def whole() -> None:
            driver = self.failing()
            at = Wall(1_800_000_000.0)
            spec = Specification("contract", dict(self.needs))
            id = guest_id(1_800_000_000_000, RackCode(0xC0), 1)
            server = Server(id, ZoneCode(1), "p1", "u1", "contract", RackCode(0xC0), "", spec, at, at)
            try:
                await asyncio.wait_for(driver.perform(Deed(Operation.DELETE, server, 1)), self.call_deadline)
            except DriverUnavailable as error:
                hold(len(error.text) > 10, "the text says which call, what came, what to do")
            else:
                hold(False, "a deed for a rack that does not answer raises DriverUnavailable")
            finally:
                await driver.close()

        asyncio.run(whole())

    # --- how a duty is run ------------------------------------------------------------------------

    def _order(self, duty: OrderDuty, make: Callable[[], Driver | None] | None = None) -> None:
        async def whole() -> None:
            opened = self.driver() if make is None else make()
            if opened is None:
                return
            try:
                seen = await self._scan(opened)
                hosts = [host for host in seen.hosts if host.offered and host.up and not host.disabled]
                hold(len(hosts) >= 2, "the suite needs two hosts that are offered")
                needs = self.needs
                flavor = FlavorSnapshot(
                    "contract", "contract", needs["vcpu"], needs["memory_mib"], needs.get("disk_gib", 0)
                )
                spec = Specification("contract", dict(needs), flavor=flavor, image=self.image)
                yard = Yard(opened, (hosts[0], hosts[1]), spec, self.deed_deadline)
                try:
                    await duty(opened, yard)
                finally:
                    await yard.clear()
            finally:
                await opened.close()

        asyncio.run(whole())

    async def _guest(self, driver: Driver, id: str) -> Guest | None:
        return next((guest for guest in (await self._scan(driver)).guests if guest.id == id), None)

    async def _used(self, driver: Driver, host: str) -> dict[str, int]:
        found = next(one for one in (await self._scan(driver)).hosts if one.id == host)
        return {str(cls): amount.used for cls, amount in found.amounts.items()}


# In this order: each leads to where the next may be asked for.
_WAYS: tuple[tuple[Operation, VmState, Power], ...] = (
    (Operation.REBOOT, VmState.ACTIVE, Power.RUNNING),
    (Operation.PAUSE, VmState.ACTIVE, Power.PAUSED),
    (Operation.UNPAUSE, VmState.PAUSED, Power.RUNNING),
    (Operation.SUSPEND, VmState.ACTIVE, Power.SUSPENDED),
    (Operation.RESUME, VmState.SUSPENDED, Power.RUNNING),
    (Operation.RESCUE, VmState.ACTIVE, Power.RUNNING),
    (Operation.UNRESCUE, VmState.RESCUED, Power.RUNNING),
    (Operation.REBUILD, VmState.ACTIVE, Power.RUNNING),
    (Operation.SNAPSHOT, VmState.ACTIVE, Power.RUNNING),
    (Operation.SET_PASSWORD, VmState.ACTIVE, Power.RUNNING),
    (Operation.ATTACH, VmState.ACTIVE, Power.RUNNING),
    (Operation.DETACH, VmState.ACTIVE, Power.RUNNING),
    (Operation.STOP, VmState.ACTIVE, Power.OFF),
    (Operation.REBUILD, VmState.STOPPED, Power.OFF),
    (Operation.START, VmState.STOPPED, Power.RUNNING),
    (Operation.REBOOT_HARD, VmState.ACTIVE, Power.RUNNING),
)

# By which duty each operation is judged; docs/generated/actions.md is made of it.
JUDGED: Mapping[Operation, int] = {
    **{operation: 20 for operation, _, _ in _WAYS},
    Operation.CREATE: 18,
    Operation.DELETE: 22,
    **dict.fromkeys((Operation.MOVE, Operation.CONFIRM, Operation.REVERT), 24),
    **dict.fromkeys((Operation.SHELVE, Operation.UNSHELVE), 27),
}


def _moved(server: Server, host: str, move: int) -> Server:
    kept = PendingResize(server.spec, server.host, "", VmState.ACTIVE, server.move, Wall(1_800_000_000.0))
    return replace(server, host=host, move=move, resize=kept)


async def _refused(doing: Awaitable[object], what: str) -> DeedFailed:
    try:
        await doing
    except DeedFailed as error:
        return error
    raise AssertionError(f"{what} raises DeedFailed")
