"""What an end does with what is no frame, or too much of it; and with an end that says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from banyan.api.queue import frames
from banyan.api.queue.frames import BadFrame, Splitter, framed
from banyan.api.queue.wire import Wire
from tests.api.queue.house import House, house
from tests.api.serving import until

HELLO = frames.Hello(1, 1, "p:1/2", "0.1.0")


def opened(n: int) -> frames.Open:
    return frames.Open(
        n, "GET", b"/v1/zones", [(b"authorization", b"Bearer viewer-all")], "h", 1, "https", "r", b"", False
    )


async def spoken(built: House, *parts: bytes) -> list[object]:
    """What a process that says this hears, until it is cut or has heard all that comes at once."""
    reader, writer = await asyncio.open_unix_connection(built.socket)
    writer.write(b"".join(parts))
    splitter, heard = Splitter(), []
    decoder = msgspec.msgpack.Decoder(frames.FromZone)
    while True:
        try:
            data = await asyncio.wait_for(reader.read(65_536), 0.3)
        except TimeoutError:
            break
        if not data:
            heard.append("cut")
            break
        heard += [decoder.decode(content) for content in splitter.feed(data)]
    writer.close()
    return heard


def ask(*parts: bytes, before: Callable[[House], None] = lambda built: None) -> list[object]:
    async def run() -> list[object]:
        async with house(connected=False) as built:
            before(built)
            return await spoken(built, *parts)

    return asyncio.run(run())


@pytest.mark.parametrize(
    "said",
    [
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0\0\0\1\xc1",
        framed(opened(1)),
        framed(HELLO) + framed(HELLO),
        framed(HELLO) + framed(opened(1)) + framed(opened(1)),
        framed(HELLO) + b"".join(framed(opened(n)) for n in range(97)),
        framed(frames.Hello(1, 1, 'bad"name', "0.1.0")),
        framed(HELLO) + b"\0\0\0\2\x91\x01",
    ],
    ids=["endless", "http", "no MessagePack", "open first", "hello twice", "one number", "too many", "name", "no kind"],
)
def test_what_is_none_of_the_protocol_cuts_the_connection(said: bytes) -> None:
    def busy(built: House) -> None:
        built.surface.pause = asyncio.Event()

    assert ask(said, before=busy)[-1] == "cut"


def test_a_process_of_another_protocol_is_told_why() -> None:
    refused, cut = ask(framed(frames.Hello(2, 3, "p:1/2", "9.0")))
    assert isinstance(refused, frames.Refused)
    assert refused.code == "queue-version"
    assert cut == "cut"


def test_a_process_that_knows_more_is_understood() -> None:
    more = msgspec.msgpack.encode(["hello", 1, 4, "p:1/2", "9.0", {"new": True}])
    heard = ask(len(more).to_bytes(4, "big") + more)
    assert [type(one) for one in heard[:3]] == [frames.Welcome, frames.Beat, frames.Revoked]


def test_a_zone_takes_so_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banyan.api.queue.zone_end.MAX_PROCESSES", 0)
    refused, cut = ask(framed(HELLO))
    assert isinstance(refused, frames.Refused)
    assert (refused.code, cut) == ("queue-full", "cut")


def test_the_zones_key_is_told_on_its_own_machine_only() -> None:
    async def run() -> tuple[frames.Welcome, frames.Welcome]:
        async with house() as built:
            here = built.links[0].welcome.result()
            assert built.server is not None
            built.server.close()
            built.server = await asyncio.get_running_loop().create_unix_server(
                built.sessions.remote, built.socket + "2"
            )
            reader, writer = await asyncio.open_unix_connection(built.socket + "2")
            writer.write(framed(HELLO))
            (content, *_) = Splitter().feed(await reader.read(65_536))
            writer.close()
            return here, msgspec.msgpack.decode(content, type=frames.FromZone)

    here, there = asyncio.run(run())
    assert (here.certificate, here.key) == (b"certificate", b"key")
    assert (there.certificate, there.key) == (b"", b"")


def test_revocations_come_at_once_and_as_they_happen() -> None:
    async def run() -> None:
        async with house(connected=False) as built:
            built.words.ended = [(f"a{n}", 9.0) for n in range(2_500)]
            await built.connect()
            await until(lambda: len(built.tokens.ended) == 2_500)
            for tell in built.words.watchers:
                tell("new", 9.0)
            await until(lambda: built.tokens.ended[-1] == ("new", 9.0))
            assert built.tokens.beats[0].token_public == b"k"

    asyncio.run(run())


@pytest.mark.parametrize("cuts", [1, 3, 7])
def test_frames_come_in_whatever_pieces(cuts: int) -> None:
    splitter, found = Splitter(), []
    stream = framed(HELLO) + framed(frames.Gone(3)) + framed(frames.Piece(1, b"x" * 300, False))
    for at in range(0, len(stream), cuts):
        found += splitter.feed(stream[at : at + cuts])
    assert [msgspec.msgpack.decode(one)[0] for one in found] == ["hello", "gone", "piece"]


def test_a_frame_that_is_too_long_is_known_by_its_length_alone() -> None:
    with pytest.raises(BadFrame):
        Splitter().feed((frames.MAX_FRAME + 1).to_bytes(4, "big"))


class Mute:
    """wire.End that says nothing."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    def begun(self) -> None: ...

    def came(self, content: bytes) -> None: ...

    def beat(self) -> None:
        return None

    def lost(self) -> None:
        self.gone.set()


def test_an_end_that_says_nothing_is_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banyan.api.queue.wire.BEAT", 0.01)

    async def run() -> None:
        async with house(connected=False) as built:
            mute = Mute()
            loop = asyncio.get_running_loop()
            server = await loop.create_unix_server(lambda: Wire(lambda wire: Mute()), built.socket + "3")
            await loop.create_unix_connection(lambda: Wire(lambda wire: mute, silence=0.05), built.socket + "3")
            await asyncio.wait_for(mute.gone.wait(), 5)
            server.close()

    asyncio.run(run())
