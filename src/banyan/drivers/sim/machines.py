"""What Banyan had the simulated hosts do: which copy of which guest is where, and whether it runs.

The hosts' own memory, no part of any zone: a zone that is killed finds it as it was, as it would find hypervisors. In
a process it is kept in a file (book.py), in a simulated world by the world. It does what it is told, as hypervisors do,
and writes down what should never have been asked (`wrongs`): two copies of a guest that run, a host that holds more
than it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from banyan.core.deed import Deed, DeedFailed, Operation, Sighting
from banyan.core.resources import ResourceClass
from banyan.core.server import Power, VmState
from banyan.core.time import Mono

# Wrongs that are kept: the first is what matters.
MAX_WRONGS = 100


class Copy(msgspec.Struct, frozen=True, array_like=True):
    """One copy of a guest. `host` "": put aside. `ready`: when a copy that is being built will run; 0 once it does."""

    move: int
    host: str
    power: Power
    needs: tuple[tuple[ResourceClass, int], ...]
    ready: float = 0.0
    boots: int = 1
    rescued: bool = False


class Machine(msgspec.Struct, frozen=True, array_like=True):
    """One guest: the copy that counts, and one that a resize keeps. `number`: the last deed that was done."""

    guest: str
    name: str
    project: str
    flavor: str
    created: float
    copy: Copy
    kept: Copy | None = None
    number: int = 0


class Book(Protocol):
    """Where it is kept: the newest entry of a guest counts, None is gone."""

    def read(self) -> Mapping[str, Machine]: ...
    def write(self, guest: str, machine: Machine | None) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Wrong:
    at: float
    text: str


Room = Callable[[str], Mapping[ResourceClass, int]]
"""What a host has for us, per class: its total less what lives there by itself."""


class Machines:
    """`book` None: kept nowhere but here. Every change goes into the book, and is written down by `flush`."""

    def __init__(self, book: Book | None = None) -> None:
        self._book = book
        self._machines: dict[str, Machine] = {}
        self._hosts: dict[str, dict[str, None]] = {}
        self._opened = book is None
        self.wrongs: list[Wrong] = []
        self.built = 0

    def open(self, now: Mono) -> None:
        """Reads the book, once. After a reboot of the machine what was being built is built from now on."""
        if self._opened or self._book is None:
            return
        self._opened = True
        for guest, machine in self._book.read().items():
            copy = machine.copy
            self._place(guest, None, replace_copy(machine, _sooner(copy, now)))

    @property
    def is_kept(self) -> bool:
        return self._book is not None

    def flush(self) -> None:
        """What was done is kept from now on. Raises Broken("sim-book")."""
        if self._book is not None:
            self._book.flush()

    def close(self) -> None:
        if self._book is not None:
            self._book.close()
        self._opened = self._book is None

    def __len__(self) -> int:
        return len(self._machines)

    # --- looking --------------------------------------------------------------------------------

    def get(self, guest: str, now: Mono) -> Machine | None:
        machine = self._machines.get(guest)
        return None if machine is None else replace_copy(machine, _at(machine.copy, now))

    def sight(self, guest: str, now: Mono) -> Sighting | None:
        machine = self.get(guest, now)
        if machine is None:
            return None
        return Sighting(guest, machine.copy.move, machine.copy.host, machine.copy.power)

    def on(self, host: str, now: Mono) -> list[tuple[Machine, Copy]]:
        """Every copy on that host, kept ones as well, by guest."""
        found = []
        for guest in sorted(self._hosts.get(host, ())):
            machine = self.get(guest, now)
            if machine is not None:
                found += [(machine, c) for c in (machine.copy, machine.kept) if c is not None and c.host == host]
        return found

    def guests(self) -> list[str]:
        return sorted(self._machines)

    def count(self, host: str) -> int:
        """How many guests have a copy there."""
        return len(self._hosts.get(host, ()))

    def running(self, now: Mono) -> Iterable[tuple[str, int, str]]:
        """(guest, move, host) of every copy that runs."""
        for guest in list(self._machines):
            machine = self.get(guest, now)
            assert machine is not None
            for copy in (machine.copy, machine.kept):
                if copy is not None and copy.host and copy.power is not Power.OFF:
                    yield guest, copy.move, copy.host

    def used(self, host: str) -> dict[ResourceClass, int]:
        total: dict[ResourceClass, int] = {}
        for guest in self._hosts.get(host, ()):
            machine = self._machines[guest]
            for copy in (machine.copy, machine.kept):
                if copy is not None and copy.host == host:
                    for cls, need in copy.needs:
                        total[cls] = total.get(cls, 0) + need
        return total

    # --- doing ----------------------------------------------------------------------------------

    def begin(self, deed: Deed, now: Mono, seconds: float, room: Room) -> Mono:
        """A build begins, if it has not: when it will be done. Other deeds take their time at once."""
        if deed.operation is not Operation.CREATE:
            return Mono(now + seconds)
        machine = self._machines.get(deed.guest)
        if machine is None or machine.copy.move < deed.move:
            if machine is not None:
                self._wrong(now, f"guest {deed.guest} is built as {deed.move} while {machine.copy.move} is there")
            self._check_newer(deed, machine)
            server = deed.server
            copy = Copy(deed.move, deed.host, Power.OFF, server.spec.shape.needs, ready=now + seconds)
            flavor = server.spec.flavor.name if server.spec.flavor is not None else ""
            machine = Machine(deed.guest, server.name, server.project, flavor, server.created, copy)
            self._set(machine, now)
            self._weigh(deed.host, now, room)
        return Mono(max(machine.copy.ready, now))

    def fail_build(self, deed: Deed) -> None:
        """What was begun is gone without a trace."""
        machine = self._machines.get(deed.guest)
        if machine is not None and machine.copy.move == deed.move:
            self._remove(deed.guest)

    def lose(self, guest: str) -> None:
        """The guest is gone, and nobody asked for that: its host burnt."""
        self._remove(guest)

    def do(self, deed: Deed, now: Mono, room: Room) -> Sighting | None:
        """The deed is done now. Raises DeedFailed."""
        machine = self.get(deed.guest, now)
        if deed.operation is Operation.DELETE:
            if machine is not None:
                self._remove(deed.guest)
            return None
        self._check_newer(deed, machine)
        if machine is None:
            raise DeedFailed("no-guest", f"there is no guest {deed.guest} on host {deed.host or 'any'}")
        if machine.number < deed.number:
            machine = _done(machine, deed)
            self._set(msgspec.structs.replace(machine, number=deed.number), now)
            if deed.operation is Operation.CREATE:
                self.built += 1
            if deed.operation in (Operation.MOVE, Operation.UNSHELVE, Operation.REVERT):
                self._weigh(deed.host, now, room)
        return self.sight(deed.guest, now)

    def _check_newer(self, deed: Deed, machine: Machine | None) -> None:
        if machine is not None and machine.copy.move > deed.move:
            raise DeedFailed(
                "old-move",
                f"guest {deed.guest} is here as number {machine.copy.move}; a deed for {deed.move} comes too late",
            )

    # --- keeping --------------------------------------------------------------------------------

    def _set(self, machine: Machine, now: Mono) -> None:
        if self._book is not None:
            self._book.write(machine.guest, machine)
        self._place(machine.guest, self._machines.get(machine.guest), machine)
        live = [c for c in (machine.copy, machine.kept) if c is not None and _at(c, now).power is Power.RUNNING]
        if len(live) > 1:
            self._wrong(now, f"guest {machine.guest} runs on {live[0].host} and on {live[1].host}")

    def _remove(self, guest: str) -> None:
        if self._book is not None:
            self._book.write(guest, None)
        self._place(guest, self._machines.get(guest), None)

    def _place(self, guest: str, before: Machine | None, after: Machine | None) -> None:
        for copy in () if before is None else (before.copy, before.kept):
            if copy is not None and copy.host in self._hosts:
                self._hosts[copy.host].pop(guest, None)
        if after is None:
            self._machines.pop(guest, None)
            return
        self._machines[guest] = after
        for copy in (after.copy, after.kept):
            if copy is not None and copy.host:
                self._hosts.setdefault(copy.host, {})[guest] = None

    def _weigh(self, host: str, now: Mono, room: Room) -> None:
        has = room(host)
        for cls, used in self.used(host).items():
            if used > has.get(cls, 0):
                self._wrong(now, f"host {host} holds {used} of {cls} and has {has.get(cls, 0)}")

    def _wrong(self, now: Mono, text: str) -> None:
        if len(self.wrongs) < MAX_WRONGS:
            self.wrongs.append(Wrong(now, text))


def replace_copy(machine: Machine, copy: Copy) -> Machine:
    return machine if copy is machine.copy else msgspec.structs.replace(machine, copy=copy)


def _at(copy: Copy, now: Mono) -> Copy:
    """The copy as it is now: what is built runs when its time has come, whoever waits for it."""
    if copy.ready and copy.ready <= now:
        return msgspec.structs.replace(copy, power=Power.RUNNING, ready=0.0)
    return copy


def _sooner(copy: Copy, now: Mono) -> Copy:
    """Boot time may have begun anew since `ready` was set."""
    return msgspec.structs.replace(copy, ready=now + 1.0) if copy.ready > now + 3_600 else copy


def _done(machine: Machine, deed: Deed) -> Machine:
    """The guest after the deed. Raises DeedFailed."""
    server, copy = deed.server, machine.copy
    off = server.state is VmState.STOPPED or (server.resize is not None and server.resize.state is VmState.STOPPED)

    def now(**changes: object) -> Machine:
        return msgspec.structs.replace(machine, copy=msgspec.structs.replace(copy, **changes))

    match deed.operation:
        case Operation.CREATE:
            return now(power=Power.RUNNING, ready=0.0)
        case Operation.START | Operation.REBOOT | Operation.REBOOT_HARD:
            return now(power=Power.RUNNING, boots=copy.boots + 1)
        case Operation.UNPAUSE | Operation.RESUME:
            return now(power=Power.RUNNING)
        case Operation.STOP:
            return now(power=Power.OFF)
        case Operation.PAUSE:
            return now(power=Power.PAUSED)
        case Operation.SUSPEND:
            return now(power=Power.SUSPENDED)
        case Operation.REBUILD:
            return now(power=Power.OFF if off else Power.RUNNING, boots=1)
        case Operation.RESCUE:
            return now(power=Power.RUNNING, rescued=True, boots=copy.boots + 1)
        case Operation.UNRESCUE:
            return now(power=Power.RUNNING, rescued=False, boots=copy.boots + 1)
        case Operation.SHELVE:
            return now(power=Power.OFF, host="")
        case Operation.UNSHELVE:
            return now(power=Power.RUNNING, host=deed.host, move=deed.move, boots=copy.boots + 1)
        case Operation.MOVE:
            if copy.move == deed.move:
                return machine
            power = Power.OFF if off else Power.RUNNING
            new = Copy(deed.move, deed.host, power, server.spec.shape.needs, boots=copy.boots + 1)
            flavor = server.spec.flavor.name if server.spec.flavor is not None else ""
            kept = msgspec.structs.replace(copy, power=Power.OFF)
            return msgspec.structs.replace(machine, copy=new, kept=kept, flavor=flavor)
        case Operation.CONFIRM:
            return msgspec.structs.replace(machine, kept=None)
        case Operation.REVERT:
            if machine.kept is None:
                return machine
            power = Power.OFF if off else Power.RUNNING
            back = msgspec.structs.replace(machine.kept, move=deed.move, power=power, boots=copy.boots + 1)
            return msgspec.structs.replace(machine, copy=back, kept=None)
        case _:
            return machine
