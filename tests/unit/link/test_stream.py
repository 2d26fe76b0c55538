"""How messages become frames: what goes together, what first, what waits, what is refused."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine

import pytest

from banyan.core.errors import Unreachable
from banyan.core.messages import Answer, Beat, BeatAck, Bye, HelloAck, Message, Request
from banyan.core.ports import Peer, WireClosed
from banyan.core.time import Mono
from banyan.link.codec import SESSION, decode
from banyan.link.pace import Bucket
from banyan.link.wire import FULL_FRAME, MAX_QUEUE, Counters, SlowPeer, Stream
from banyan.simulate.clock import VirtualClock
from banyan.simulate.loop import VirtualLoop
from tests.unit.link.words import CALLER, SAMPLES


class Wire:
    """Keeps what is sent; `stuck` takes nothing any more."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.stuck = False
        self.closed: str | None = None
        self.limit = 0

    @property
    def peer(self) -> Peer:
        return Peer(None, "192.0.2.1")

    @property
    def ended(self) -> bool:
        return self.closed is not None

    def allow(self, size: int) -> None:
        self.limit = size

    async def send(self, frame: bytes) -> None:
        if self.closed is not None:
            raise WireClosed(self.closed)
        if self.stuck:
            await asyncio.Event().wait()
        self.frames.append(frame)

    async def receive(self) -> bytes:
        raise WireClosed("nothing comes")

    async def close(self, reason: str = "") -> None:
        self.closed = reason

    def sent(self) -> list[tuple[Message, ...]]:
        return [decode(frame, SESSION).messages for frame in self.frames]


class Bench:
    """A stream on a wire in virtual time; `pumping` runs the pump beside a test."""

    def __init__(self, rate: float = math.inf, burst: float = 1e9) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop, "test")
        self.wire = Wire()
        self.counters = Counters()
        self._rate, self._burst = rate, burst

    def run(self, test: Coroutine[None, None, None]) -> None:
        self.loop.run_task(test, within=600)

    def stream(self) -> Stream:
        bucket = Bucket(self._rate, self._burst, self.clock.now())
        return Stream(self.wire, bucket, self.clock, self.counters, send_timeout=5.0)

    async def pumped(self, stream: Stream, seconds: float = 0.1) -> None:
        pump = asyncio.get_running_loop().create_task(stream.pump())
        await self.clock.sleep_until(Mono(self.clock.now() + seconds))
        pump.cancel()
        await asyncio.wait([pump])


def request(number: int, size: int = 0) -> Request:
    return Request(number, "page", bytes(size), 1_000, CALLER)


def test_messages_that_wait_together_go_together() -> None:
    bench = Bench()

    async def test() -> None:
        stream = bench.stream()
        for number in range(5):
            stream.put(request(number))
        await bench.pumped(stream)
        assert bench.wire.sent() == [tuple(request(n) for n in range(5))]
        assert (bench.counters.frames_out, bench.counters.bytes_out) == (1, len(bench.wire.frames[0]))

    bench.run(test())


def test_a_word_of_the_opening_goes_alone() -> None:
    bench = Bench()

    async def test() -> None:
        stream = bench.stream()
        ack = SAMPLES[HelloAck]
        stream.put(BeatAck(1, 1))
        stream.put(ack)
        for number in range(3):
            stream.put(request(number))
        await bench.pumped(stream)
        assert bench.wire.sent() == [(BeatAck(1, 1),), (ack,), (request(0), request(1), request(2))]

    bench.run(test())


def test_heartbeats_go_first_and_bulk_last() -> None:
    bench = Bench()

    async def test() -> None:
        stream = bench.stream()
        stream.put(Answer(1, bytes(10_000)))
        stream.put(request(2))
        stream.put(Beat(3))
        await bench.pumped(stream)
        [frame] = bench.wire.sent()
        assert [type(m) for m in frame] == [Beat, Request, Answer]

    bench.run(test())


def test_a_frame_is_filled_to_a_bound_so_that_a_heartbeat_waits_for_one_at_most() -> None:
    bench = Bench()

    async def test() -> None:
        stream = bench.stream()
        for number in range(20):
            stream.put(Answer(number, bytes(30_000)))
        stream.put(Answer(99, bytes(200_000)))
        await bench.pumped(stream)
        sizes = [len(frame) for frame in bench.wire.frames]
        assert max(sizes[:-1]) <= FULL_FRAME
        assert sizes[-1] > 200_000  # what is larger goes alone

    bench.run(test())


def test_bulk_waits_for_its_pace_and_heartbeats_pass() -> None:
    bench = Bench(rate=1000, burst=20_000)

    async def test() -> None:
        stream = bench.stream()
        stream.put(Answer(1, bytes(9_000)))
        stream.put(Answer(2, bytes(9_000)))
        await bench.pumped(stream, 1.0)
        assert len(bench.wire.frames) == 1
        stream.put(Beat(1))
        await bench.pumped(stream, 0.1)
        assert bench.wire.sent()[1] == (Beat(1),)
        await bench.pumped(stream, 9.0)
        assert len(bench.wire.frames) == 3

    bench.run(test())


def test_a_heartbeat_that_comes_while_bulk_waits_is_sent_at_once() -> None:
    bench = Bench(rate=1000, burst=20_000)

    async def test() -> None:
        stream = bench.stream()
        stream.put(Answer(1, bytes(9_000)))
        stream.put(Answer(2, bytes(9_000)))
        pump = asyncio.get_running_loop().create_task(stream.pump())
        await bench.clock.sleep_until(Mono(1.0))
        stream.put(Beat(1))
        await bench.clock.sleep_until(Mono(1.01))
        assert bench.wire.sent()[1] == (Beat(1),)
        pump.cancel()
        await asyncio.wait([pump])

    bench.run(test())


def test_the_queue_is_bounded_but_heartbeats_and_reports_fit() -> None:
    bench = Bench()

    async def test() -> None:
        stream = bench.stream()
        for number in range(MAX_QUEUE // 100_100):
            stream.put(asking(number, 100_000))
        with pytest.raises(Unreachable) as caught:
            stream.put(asking(99, 100_000))
        assert caught.value.code == "busy"
        stream.put(Beat(1))
        with pytest.raises(Unreachable) as caught:
            stream.put(Answer(1, bytes(300_000)))
        assert caught.value.code == "too-large"
        with pytest.raises(Unreachable) as caught:
            await stream.put_in_turn(Answer(1, bytes(300_000)))
        assert caught.value.code == "too-large"

    bench.run(test())


def asking(number: int, size: int) -> Request:
    return Request(number, "page", bytes(size), 1_000, CALLER)


def test_answers_wait_for_room_and_go_in_the_order_in_which_they_came() -> None:
    bench = Bench()

    async def test() -> None:
        stream = bench.stream()
        sizes = [200_000, 200_000, 200_000, 200_000, 200_000, 200_000, 100, 200_000]
        loop = asyncio.get_running_loop()
        waiting = [loop.create_task(stream.put_in_turn(Answer(n, bytes(size)))) for n, size in enumerate(sizes)]
        await bench.clock.sleep_until(Mono(1.0))
        # As many as there is room for; the small one behind them has no better place than the large one before it.
        assert [task.done() for task in waiting] == [True] * 5 + [False] * 3
        waiting[5].cancel()
        await bench.pumped(stream)
        await asyncio.wait(waiting)
        sent = [message.id for frame in bench.wire.sent() for message in frame if isinstance(message, Answer)]
        assert sorted(sent) == [0, 1, 2, 3, 4, 6, 7]

    bench.run(test())


def test_flush_sends_without_the_pump_and_leaves_it_the_rest() -> None:
    bench = Bench()

    async def test() -> None:
        stream = bench.stream()
        stream.put(BeatAck(1, 6_000), wake=False)
        await stream.flush()
        assert bench.wire.sent() == [(BeatAck(1, 6_000),)]
        for number in range(3):
            stream.put(Answer(number, bytes(60_000)), wake=False)
        await stream.flush()
        assert len(bench.wire.frames) == 2
        await bench.pumped(stream)
        assert len(bench.wire.frames) == 4

    bench.run(test())


def test_a_peer_that_takes_nothing_is_noticed() -> None:
    bench = Bench()

    async def test() -> None:
        stream = bench.stream()
        bench.wire.stuck = True
        stream.put(Beat(1))
        began = bench.clock.now()
        with pytest.raises(SlowPeer, match="in 5 s"):
            await stream.pump()
        assert bench.clock.now() - began == pytest.approx(5.0)

    bench.run(test())


@pytest.mark.parametrize("stuck", [False, True])
def test_finish_says_the_last_word_if_it_can_and_closes_in_any_case(stuck: bool) -> None:
    bench = Bench()

    async def test() -> None:
        stream = bench.stream()
        bench.wire.stuck = stuck
        stream.put(BeatAck(1, 6_000))
        stream.put(request(1))
        bye = Bye("stopping", "", 0)
        began = bench.clock.now()
        await stream.finish(bye, "stopping")
        assert bench.wire.closed == "stopping"
        assert bench.clock.now() - began <= 2.0
        assert bench.wire.sent() == ([] if stuck else [(BeatAck(1, 6_000),), (bye,)])

    bench.run(test())


def test_limits_rise_when_the_peer_is_known() -> None:
    bench = Bench()

    async def test() -> None:
        stream = bench.stream()
        assert bench.wire.limit == 0
        stream.establish()
        assert bench.wire.limit == SESSION.frame

    bench.run(test())
