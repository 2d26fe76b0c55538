"""Oversized, malformed, out-of-order frames at a running zone, by strangers and by a child that went mad.

Bounded, and the same each time: everything is drawn from one seed. Whatever comes, the zone stays up, serves its other
child all the while, and grows by nothing that counts.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from banyan.core.errors import BanyanError
from banyan.core.lineage import Delta
from banyan.core.messages import (
    MAX_FRAME,
    MAX_STRANGER_FRAME,
    Ack,
    Answer,
    Beat,
    Bye,
    DigestPart,
    Enrol,
    Generations,
    Grant,
    Greet,
    Hello,
    HelloAck,
    Message,
    Renew,
    Report,
    Welcome,
)
from banyan.core.ports import WireClosed
from banyan.link.codec import encode, join
from banyan.trust.keys import public_key
from tests.wire.zones.processes import Cloud, Zone
from tests.wire.zones.stranger import IDS, Stranger, Talker, dial, greet, no_evidence, report

pytestmark = pytest.mark.slow

SEED = 20_261_130
ROUNDS = 120


@dataclass
class House:
    top: Zone
    good: Zone
    mad: Stranger

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.top.link}"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with Cloud(tmp_path_factory.mktemp("house")) as cloud:
        top = cloud.zone("top").start()
        good = cloud.zone("good", code=top.code(), hosts=2).start()
        top.wait_for_zone("good", state="ready", health="alive")
        mad = asyncio.run(Stranger(f"127.0.0.1:{top.link}", "mad").join(top.code()))
        yield House(top, good, mad)
        assert "Traceback" not in top.log.read_text()
        assert not [line for line in top.journal(about="good", limit="1000") if line["kind"] == "child-suspect"]


def memory(zone: Zone) -> int:
    """Resident, in KiB."""
    assert zone.process is not None
    status = Path(f"/proc/{zone.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def still_well(house: House) -> None:
    row = house.top.zones()["top/good"]
    assert (row["state"], row["health"]) == ("ready", "alive")
    assert house.good.uplink()["state"] == "connected"
    assert house.top.usage()["hosts"]["total"] == 2


async def end_of(talker: Talker) -> Bye | None:
    """The last word, or None for a connection that just broke; either way, it ends."""
    try:
        return await talker.last_word(30.0)
    except BanyanError:
        return None


# --- frames ---------------------------------------------------------------------------------------


def samples(mad: Stranger) -> list[Message]:
    """One of each word that a child may say, as good as any."""
    return [
        greet("session"),
        Hello(mad.code, "0.1.0", 0, b"", IDS.token(16), Generations()),
        Enrol(no_evidence(), mad.code, "mad", bytes(32), bytes(64)),
        report(1, [mad.own_row(mad.code)]),
        report(1, digest=DigestPart(0, 3, {"lh": 1, "z:total": 1})),
        Beat(1),
        Renew(bytes(32), bytes(64)),
        Answer(1, b"x"),
        Bye("busy", "", 0),
        Ack(1, Grant(1, 1, 1, 1), Generations()),
    ]


def mangled(chance: random.Random, words: list[Message]) -> bytes:
    """A frame that is almost right, or not at all."""
    match chance.randrange(8):
        case 0:
            return chance.randbytes(chance.randrange(1, 400))
        case 1:
            return join([encode(chance.choice(words)) for _ in range(chance.randrange(0, 9))])
        case 2:
            body = bytearray(join([encode(chance.choice(words))]))
            for _ in range(chance.randrange(1, 8)):
                body[chance.randrange(len(body))] = chance.randrange(256)
            return bytes(body)
        case 3:
            body = bytearray(join([encode(chance.choice(words))]))
            return bytes(body[: chance.randrange(len(body))])
        case 4:
            # An array, a map or a text that announces far more than comes.
            return b"\x91" + chance.choice([b"\xdd", b"\xdf", b"\xdb", b"\xc6"]) + b"\xff\xff\xff\xff" + bytes(64)
        case 5:
            return b"\x91" * chance.randrange(1, 15_000)
        case 6:
            return join(
                [msgspec.msgpack.encode([chance.randrange(0, 40), *chance.choices([None, -1, 2**63, "x"], k=5)])]
            )
        case _:
            return join([encode(chance.choice(words)), chance.randbytes(20)])


def test_frames_by_strangers(house: House) -> None:
    """Straight after the connection, and after a greeting that was answered."""
    before = memory(house.top)

    async def one(number: int) -> bool:
        chance = random.Random(f"{SEED} stranger {number}")
        purpose = chance.choice(["enrol", "session"])
        shown = house.mad.credentials if purpose == "session" else None
        talker = await dial(house.address, purpose, shown, house.mad.bundle)
        with suppress(WireClosed):
            if chance.random() < 0.6:
                await talker.say(greet(purpose))
                await talker.hear_a(Welcome)
            for _ in range(chance.randrange(1, 4)):
                await talker.wire.send(mangled(chance, samples(house.mad)))
            # What was not refused may still wait for the rest of it; then the stranger goes.
            async with asyncio.timeout(0.3):
                await talker.last_word()
        return True

    async def all_of_them() -> int:
        limit = asyncio.Semaphore(8)

        async def bounded(number: int) -> bool:
            async with limit:
                with suppress(TimeoutError, AssertionError, BanyanError):
                    await one(number)
                return True

        return sum(await asyncio.gather(*(bounded(number) for number in range(ROUNDS))))

    assert asyncio.run(all_of_them()) == ROUNDS
    still_well(house)
    assert memory(house.top) - before < 20_000
    assert len(house.top.zones()) == 2, "nobody came in"


def test_frames_by_a_child_that_went_mad(house: House) -> None:
    """In a session that stands: it ends, with a word where one can be said, and the child may come back."""
    before = memory(house.top)

    async def one(number: int) -> Bye | None:
        chance = random.Random(f"{SEED} mad {number}")
        talker, answer = await house.mad.hello()
        assert isinstance(answer, HelloAck), answer
        with suppress(WireClosed):
            for _ in range(4):
                await talker.wire.send(mangled(chance, samples(house.mad)))
        word = None
        with suppress(TimeoutError, BanyanError):
            word = await talker.last_word(0.5)
        with suppress(WireClosed):
            await talker.close()
        return word

    async def all_of_them() -> list[Bye | None]:
        return [await one(number) for number in range(ROUNDS // 3)]

    words = [word for word in asyncio.run(all_of_them()) if word is not None]
    assert {word.code for word in words} <= {"bad-frame", "out-of-order", "bad-possession", "bad-key", "replaced"}
    assert len(words) > ROUNDS // 6, "most were told why"
    assert all(word.text for word in words)
    still_well(house)
    assert memory(house.top) - before < 20_000
    assert isinstance(asyncio.run(greeted(house.mad)), HelloAck)


async def greeted(one: Stranger) -> HelloAck | Bye:
    talker, answer = await one.hello()
    await talker.close()
    return answer


def test_frames_that_are_too_long(house: House) -> None:
    async def stranger(size: int) -> Bye | None:
        talker = await dial(house.address, "enrol")
        with suppress(WireClosed):
            await talker.wire.send(b"\x91\xc6" + (size - 6).to_bytes(4, "big") + bytes(size - 6))
        return await end_of(talker)

    async def child(size: int) -> Bye | None:
        talker, answer = await house.mad.hello()
        assert isinstance(answer, HelloAck)
        with suppress(WireClosed):
            await talker.wire.send(b"\x91\xc6" + (size - 6).to_bytes(4, "big") + bytes(size - 6))
        return await end_of(talker)

    before = memory(house.top)
    asyncio.run(stranger(MAX_STRANGER_FRAME + 1))
    asyncio.run(stranger(64 * 1024 * 1024))
    asyncio.run(child(MAX_FRAME + 1))
    asyncio.run(child(64 * 1024 * 1024))
    still_well(house)
    assert memory(house.top) - before < 20_000, "what is too long is not read to its end"


def test_lists_that_are_too_long_within_a_frame_that_is_not(house: House) -> None:
    """Each word has bounds of its own below the frame's."""
    mad = house.mad
    too_much: list[Report] = [
        report(1, lineage=Delta(0, 1, tuple(mad.own_row(mad.code) for _ in range(600)))),
        report(1, digest=DigestPart(0, 1, {f"k{n}": 1 for n in range(5000)})),
        report(1, reason="x" * 5000),
        report(1, digest=DigestPart(0, -1, {})),
        report(1, condition="a\x00b"),
    ]

    async def tell(one: Report) -> Message | None:
        talker, answer = await mad.hello()
        assert isinstance(answer, HelloAck)
        await talker.say(one)
        return await end_of(talker)

    for one in too_much:
        word = asyncio.run(tell(one))
        assert isinstance(word, Bye) and word.code == "bad-frame", word
    still_well(house)


def test_words_out_of_order_in_an_opening(house: House) -> None:
    mad = house.mad
    key = public_key(mad.seed)
    hello = Hello(mad.code, "0.1.0", 0, mad.mark, IDS.token(16), Generations())
    orders: list[tuple[str, list[Message], str]] = [
        ("session", [hello], "out-of-order"),
        ("session", [report(1)], "out-of-order"),
        ("session", [greet("session"), greet("session")], "out-of-order"),
        ("session", [greet("enrol")], "wrong-purpose"),
        ("session", [greet("session"), report(1)], "out-of-order"),
        ("session", [greet("session"), Enrol(no_evidence(), mad.code, "mad", bytes(32), bytes(64))], "out-of-order"),
        ("enrol", [greet("enrol"), hello], "out-of-order"),
        ("enrol", [greet("enrol"), Enrol(no_evidence(), mad.code, "mad", bytes(32), bytes(64))], "bad-key"),
        ("enrol", [greet("enrol"), Enrol(no_evidence(), mad.code, "mad", key, bytes(64))], "bad-possession"),
        ("enrol", [Greet(7, 9, bytes(16), "enrol")], "version"),
        ("enrol", [Greet(1, 1, bytes(3), "enrol")], "bad-frame"),
    ]

    async def say(purpose: str, words: list[Message]) -> Bye | None:
        shown = mad.credentials if purpose == "session" else None
        talker = await dial(house.address, purpose, shown, mad.bundle)
        for word in words:
            with suppress(WireClosed):
                await talker.say(word)
        return await talker.last_word()

    for purpose, words, code in orders:
        bye = asyncio.run(say(purpose, words))
        assert bye is not None and bye.code == code, f"{[type(w).__name__ for w in words]}: {bye}"
        assert bye.text
    still_well(house)


def test_what_is_not_even_tls(house: House) -> None:
    """Plain bytes, HTTP in the clear, TLS that stops, TLS 1.2, a wrong path: all end, and none leaves a thing."""
    where = ("127.0.0.1", house.top.link)
    for first in (b"", b"\x00" * 100, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(random.Random(SEED).randbytes(3000))):
        with socket.create_connection(where, 5) as sock, suppress(OSError):
            sock.sendall(first)
            sock.shutdown(socket.SHUT_WR)
            sock.settimeout(15)
            while sock.recv(4096):
                pass
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(where, 5) as sock, pytest.raises(ssl.SSLError):
        old.wrap_socket(sock)
    new = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    new.check_hostname, new.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(where, 5) as sock, new.wrap_socket(sock) as secure:
        secure.sendall(b"GET /v1/zones HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = secure.recv(4096)
        assert answer.startswith(b"HTTP/1.1 4"), "a link port is no API"
    still_well(house)


def test_a_stranger_that_says_nothing_is_not_waited_for(house: House) -> None:
    """Two hundred silent connections from one address: those beyond are turned away, and children are not."""
    waiting = []
    try:
        for _ in range(260):
            sock = socket.create_connection(("127.0.0.1", house.top.link), 5)
            waiting.append(sock)
        still_well(house)
    finally:
        for sock in waiting:
            sock.close()
    assert isinstance(asyncio.run(greeted(house.mad)), HelloAck)
    still_well(house)
