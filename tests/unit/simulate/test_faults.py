"""Weather on links and faults of disks, over the smallest wire and store that can be had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TypeVar

import pytest

from banyan.core.errors import Unreachable
from banyan.core.identity import SYSTEM
from banyan.core.journal import Event
from banyan.core.ports import Credentials, Peer, Wire, WireClosed
from banyan.core.records import StoreFull, StoreUnknown, Unit
from banyan.core.time import Wall
from banyan.simulate.clock import VirtualClock
from banyan.simulate.faults import Disk, Doom, Instant, Path, Weather, WeatheredDialer
from banyan.simulate.ids import SeededIds
from banyan.simulate.loop import OverdueError, VirtualLoop
from banyan.store.inline import Image, InlineStore, no_pause

T = TypeVar("T")


class Pipe:
    """One end of a wire in memory."""

    peer = Peer(None, "there")

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.other: Pipe | None = None
        self.closed = False

    @property
    def ended(self) -> bool:
        return self.closed

    def allow(self, size: int) -> None:
        pass

    async def send(self, frame: bytes) -> None:
        assert self.other is not None
        if self.closed or self.other.closed:
            raise WireClosed("closed")
        self.other.inbox.put_nowait(frame)

    async def receive(self) -> bytes:
        frame = await self.inbox.get()
        if frame is None:
            raise WireClosed("the other end closed")
        return frame

    async def close(self, reason: str = "") -> None:
        assert self.other is not None
        if not self.closed:
            self.closed = True
            self.inbox.put_nowait(None)
            self.other.inbox.put_nowait(None)


class PipeDialer:
    def __init__(self) -> None:
        self.far: list[Pipe] = []

    async def dial(
        self,
        address: str,
        *,
        purpose: str,
        credentials: Credentials | None,
        bundle: Sequence[bytes],
        timeout: float,
    ) -> Wire:
        near, far = Pipe(), Pipe()
        near.other, far.other = far, near
        self.far.append(far)
        return near


class World:
    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop, "m")
        self.weather = Weather()
        self.inner = PipeDialer()
        self.dialer = WeatheredDialer(self.inner, lambda _: self.weather, self.clock, SeededIds(1, "m"))

    def dial(self, within: float = 60.0) -> tuple[Wire, Pipe]:
        wire = self.loop.run_task(
            self.dialer.dial("top:1", purpose="session", credentials=None, bundle=(), timeout=10.0), within
        )
        return wire, self.inner.far[-1]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.loop.close()


def test_an_open_link_carries_both_ways(world: World) -> None:
    near, far = world.dial()
    world.loop.run_task(near.send(b"up"), 1.0)
    world.loop.run_task(far.send(b"down"), 1.0)
    assert world.loop.run_task(far.receive(), 1.0) == b"up"
    assert world.loop.run_task(near.receive(), 1.0) == b"down"
    assert (world.weather.frames, world.weather.bytes) == (2, 6)


def test_a_cut_breaks_the_wires_of_both_ends_and_refuses_new_ones(world: World) -> None:
    near, far = world.dial()
    world.weather.set(Path.CUT)
    with pytest.raises(WireClosed):
        world.loop.run_task(near.receive(), 1.0)
    with pytest.raises(WireClosed):
        world.loop.run_task(far.receive(), 1.0)
    with pytest.raises(WireClosed):
        world.loop.run_task(near.send(b"x"), 1.0)
    with pytest.raises(Unreachable) as caught:
        world.dial()
    assert caught.value.code == "no-route"
    world.weather.set(Path.OPEN)
    world.dial()


def test_a_silent_link_tells_nobody_and_gives_late_what_it_held(world: World) -> None:
    near, far = world.dial()
    world.weather.set(Path.SILENT)
    sender = world.loop.create_task(near.send(b"up"))
    reader = world.loop.create_task(near.receive())
    world.loop.run_task(far.send(b"down"), 1.0)
    world.loop.run_until(world.loop.time() + 3600.0)
    assert not sender.done()
    assert not reader.done()
    world.weather.set(Path.OPEN)
    assert world.loop.run_task(far.receive(), 1.0) == b"up"
    assert world.loop.run_until_complete(reader) == b"down"


def test_a_silent_link_answers_no_dial_until_its_timeout(world: World) -> None:
    world.weather.set(Path.SILENT)
    with pytest.raises(Unreachable) as caught:
        world.dial()
    assert caught.value.code == "no-answer"
    assert world.loop.time() == 10.0
    world.loop.call_later(4.0, world.weather.set, Path.OPEN)
    world.dial()
    assert world.loop.time() == 14.0


def test_the_end_of_a_wire_is_not_known_across_a_silent_link(world: World) -> None:
    near, far = world.dial()
    world.weather.set(Path.SILENT)
    world.loop.run_task(far.close(), 1.0)
    with pytest.raises(OverdueError):
        world.loop.run_task(near.receive(), 100.0)
    world.weather.set(Path.OPEN)
    with pytest.raises(WireClosed):
        world.loop.run_task(near.receive(), 100.0)


def test_delay_is_one_way_and_a_cancelled_receive_loses_nothing(world: World) -> None:
    near, far = world.dial()
    world.weather.delay = (2.0, 2.0)
    world.loop.run_task(near.send(b"up"), 10.0)
    assert world.loop.time() == 2.0
    world.loop.run_task(far.send(b"down"), 1.0)
    with pytest.raises(OverdueError):
        world.loop.run_task(near.receive(), 1.0)
    assert world.loop.run_task(near.receive(), 10.0) == b"down"


def test_tampering_is_per_direction(world: World) -> None:
    near, far = world.dial()
    world.weather.upward = lambda frame: [frame, frame]
    world.weather.downward = lambda frame: [frame[::-1]]
    world.loop.run_task(near.send(b"ab"), 1.0)
    world.loop.run_task(far.send(b"ab"), 1.0)
    assert [world.loop.run_task(far.receive(), 1.0) for _ in range(2)] == [b"ab", b"ab"]
    assert world.loop.run_task(near.receive(), 1.0) == b"ba"


def named(name: str) -> Callable[[Unit], None]:
    """A unit that leaves one journal line."""

    def work(unit: Unit) -> None:
        unit.journal.append(Wall(0.0), Event(name, "x", SYSTEM, "", {}))

    return work


def kept(image: Image) -> list[str]:
    """The kinds of the journal lines that a disk holds."""
    store = InlineStore(SeededIds(1, "reader"), no_pause, image=image)
    lines = run(store.read(lambda unit: unit.journal.page(0, 100, {})))
    return [line.kind for line in lines]


def run(coro: Coroutine[object, object, T]) -> T:
    loop = VirtualLoop()
    try:
        return loop.run_task(coro, 1.0)
    finally:
        loop.close()


def store_on(disk: Disk) -> InlineStore:
    return InlineStore(SeededIds(1, "disk"), disk.pause, observer=disk.observe)


@pytest.mark.parametrize(("instant", "left"), [(Instant.BEFORE, ["a", "b"]), (Instant.AFTER, ["a", "b", "a"])])
def test_a_process_dies_at_the_named_commit(world: World, instant: Instant, left: list[str]) -> None:
    disk = Disk(world.clock, doom=Doom(instant, "a", 2))
    store, deaths = store_on(disk), list[str]()

    def crash(why: str) -> None:
        store.crash()
        deaths.append(why)

    disk.crash = crash
    for name in ("a", "b"):
        world.loop.run_task(store.write(name, named(name)), 1.0)
    with pytest.raises(OverdueError):  # it never returns
        world.loop.run_task(store.write("a", named("a")), 1.0)
    with pytest.raises(StoreUnknown):
        world.loop.run_task(store.write("c", named("c")), 1.0)
    assert deaths == [f"{instant} a"]
    assert kept(store.image()) == left
    assert disk.seen == {"a": left.count("a"), "b": 1}


def test_a_full_disk_refuses_writes_and_reads_on(world: World) -> None:
    disk = Disk(world.clock, full=True)
    store = store_on(disk)
    with pytest.raises(StoreFull):
        world.loop.run_task(store.write("a", named("a")), 1.0)
    assert world.loop.run_task(store.read(lambda unit: unit.journal.last()), 1.0) is None
    disk.full = False
    world.loop.run_task(store.write("a", named("a")), 1.0)
    assert kept(store.image()) == ["a"]


def test_a_slow_disk_and_a_commit_take_their_time(world: World) -> None:
    store = store_on(Disk(world.clock, slow=3.0, commit=lambda: 0.5))
    world.loop.run_task(store.write("a", named("a")), 5.0)
    assert world.loop.time() == 3.5
    world.loop.run_task(store.read(lambda unit: unit.journal.last()), 5.0)
    assert world.loop.time() == 6.5


def test_a_wire_whose_far_machine_lost_its_power_tells_nobody(world: World) -> None:
    near, far = world.dial()
    world.weather.hang_wires()
    world.loop.run_task(far.send(b"down"), 1.0)
    with pytest.raises(OverdueError):
        world.loop.run_task(near.receive(), 100.0)
    again, _ = world.dial()  # the link itself is well
    world.loop.run_task(again.send(b"up"), 1.0)
    world.weather.break_wires("connection reset by peer")
    with pytest.raises(WireClosed):
        world.loop.run_task(near.receive(), 1.0)
