"""A child in wrong hands, enrolled as well as any, at a running zone: it lies about its parent, its counts, its zones.

What it says of itself is believed, within what can be; nothing that it says or does hides another, stops the zone,
or costs more than a bounded part of it. Its lists and answers: test_lying_answers.py.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from banyan.core.errors import BanyanError
from banyan.core.lineage import Delta, Ledger
from banyan.core.messages import (
    Ack,
    Bye,
    DigestPart,
    Enrol,
    Evidence,
    HelloAck,
    Message,
)
from banyan.core.ports import WireClosed
from banyan.core.time import Wall
from banyan.link.codec import encode
from banyan.trust.authority import Issuer
from banyan.trust.enrol import sign_request
from banyan.trust.epochs import prove_epoch, proved_epoch
from banyan.trust.lineage import sign_entry
from tests.wire.zones.house import House, housed
from tests.wire.zones.processes import Zone
from tests.wire.zones.stranger import CLOCK, Stranger, Talker, report

pytestmark = pytest.mark.slow

# Deeper than any reader goes, and short enough for an entry, or for the evidence of a stranger.
DEEP = b"\x91" * 3_000 + b"\x01"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with housed(tmp_path_factory.mktemp("house")) as made:
        yield made


def seconds_of_cpu(zone: Zone) -> float:
    assert zone.process is not None
    fields = Path(f"/proc/{zone.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def resident(zone: Zone) -> int:
    """KiB."""
    assert zone.process is not None
    status = Path(f"/proc/{zone.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


async def end_of(talker: Talker) -> Bye | None:
    try:
        return await talker.last_word(30.0)
    except BanyanError:
        return None


# --- what can not be read -----------------------------------------------------------------------------


def test_what_is_nested_deeper_than_a_reader_goes(house: House) -> None:
    """In the signed entry of a row, and, by a stranger, in the evidence: refused as what it is.

    The first of this file: refusals have a budget of lines in the journal, and these are to be seen there.
    """
    plain = house.mad.own_row(house.code)
    entry = bytes((plain.entry[0] + 1,)) + plain.entry[1:] + DEEP
    row = msgspec.structs.replace(plain, entry=entry, signature=sign_entry(house.mad.seed, entry))

    async def by_a_child() -> Message:
        talker = await house.mad.session()
        await talker.say(report(1, [row]))
        answer = await talker.hear()
        await talker.close()
        return answer

    async def by_a_stranger() -> Message:
        stranger = Stranger(house.address, "deep")
        talker, session = await stranger.open_enrolment()
        asked = Enrol(Evidence("join-code", b"\x94" + DEEP), stranger.code, "deep", b"", b"", driver="sim")
        await talker.say(sign_request(stranger.seed, session, asked))
        return await talker.hear()

    answer = asyncio.run(by_a_child())
    assert isinstance(answer, Ack), answer
    assert house.top.journal(kind="lineage-refused")[-1]["facts"]["code"] == "bad-entry"
    word = asyncio.run(by_a_stranger())
    assert isinstance(word, Bye)
    assert word.code == "bad-evidence"
    house.well()


# --- about its parent -----------------------------------------------------------------------------


def test_a_child_that_has_seen_a_later_epoch_by_its_own_account(house: House) -> None:
    """Not believed, in whatever way it is made up; what the parent itself signed proves what it says, and no more."""
    kept = house.top.code("--uses", "5")
    mad, other = house.joined("boaster"), house.joined("bystander")

    async def opened(one: Stranger, **changes: object) -> HelloAck:
        talker, answer = await one.hello(**changes)
        await talker.close()
        assert isinstance(answer, HelloAck), answer
        return answer

    def proved(one: Stranger) -> int:
        now, held = Wall(CLOCK.wall()), house.authorities
        return proved_epoch(one.proof, (), parent=house.code, child=one.code, authorities=held, now=now).epoch

    first = asyncio.run(opened(mad))
    assert proved(mad) == first.grant.epoch == 2
    asyncio.run(opened(other))
    assert proved(other) == 2
    assert mad.proof is not None
    claims = [
        None,
        mad.proof,
        msgspec.structs.replace(mad.proof, epoch=5_000),
        other.proof,
        msgspec.structs.replace(mad.proof, own=5_000),
        prove_epoch(Issuer(house.code, mad.seed), mad.code, 5_000, 1),
    ]
    epoch = 5_000
    for claim in claims * 5:
        crosses = (mad.certificate, *mad.bundle)
        answer = asyncio.run(opened(mad, epoch=epoch, proof=claim, crosses=crosses))
        assert answer.grant.epoch == epoch + 1, "only its own epoch follows its claims"
        assert not answer.read_only
        epoch += 5_000
    refused = asyncio.run(mad.refusal(epoch=epoch + 2_000_000))
    assert refused.code == "bad-epoch"
    lines = house.top.journal(kind="epoch-unproved")
    assert 1 <= len(lines) <= 20, "at most ten a minute"
    assert {(line["actor"], line["target"], line["outcome"]) for line in lines} == {
        ("zone:boaster", "boaster", "refused")
    }
    assert house.top.status()["restored_at"] is None
    assert not house.top.journal(kind="zone-rolled-back")
    asyncio.run(Stranger(house.address, "newcomer").join(kept))
    house.well()


# --- about its counts -------------------------------------------------------------------------------


def digest_frame(key: str, value: object) -> bytes:
    """A report whose digest has one counter, whatever that is."""
    words = msgspec.msgpack.decode(encode(report(1, digest=DigestPart(0, 1, {"lh": 1}))))
    words[6] = [0, 1, {key: value}]
    return msgspec.msgpack.encode([words])


@pytest.mark.parametrize(
    "value",
    [
        -1,
        -(2**63),
        2**48 + 1,
        2**63 - 1,
        2**63,
        2**64 - 1,
        float("nan"),
        float("inf"),
        1.5,
        True,
        "7",
        None,
        [1],
        {"x": 1},
    ],
    ids=str,
)
def test_a_count_that_can_not_be_ends_its_session_and_counts_for_nothing(house: House, value: object) -> None:
    before = house.top.usage()

    async def tell() -> Bye | None:
        talker, answer = await house.mad.hello()
        assert isinstance(answer, HelloAck)
        with suppress(WireClosed):
            await talker.wire.send(digest_frame("lh", value))
        return await end_of(talker)

    word = asyncio.run(tell())
    assert word is not None and word.code == "bad-frame", word
    after = house.top.usage()
    assert after["hosts"] == before["hosts"]
    assert after["resources"] == before["resources"]
    house.well()


def test_the_most_that_may_be_counted_is_shown_and_breaks_no_sum(house: House) -> None:
    """Two children of 2^48 in all: totals stop there, as they may be told upwards, and are right again without them."""
    most = 2**48
    counters = {"lh": most, "lhu": most, "lg:active": most, "z:total": 1}
    counters |= {f"lr:{name}:{part}": most for name in ("vcpu", "memory_mib", "disk_gib") for part in "ptu"}
    liars = [house.joined(f"giant-{number}") for number in range(2)]

    async def tell(one: Stranger) -> Message:
        talker = await one.session()
        whole = report(1, [one.own_row(house.code)], digest=DigestPart(0, 1, counters), ledger=Ledger(0, 1, ()))
        await talker.say(whole)
        return await talker.hear()

    for one in liars:
        answer = asyncio.run(tell(one))
        assert isinstance(answer, Ack), answer
    house.top.wait_until(lambda: house.top.usage()["hosts"]["total"] == most, "to count them")
    usage = house.top.usage()
    assert usage["guests"]["active"] == most
    assert {amount["used"] for amount in usage["resources"].values()} == {most}
    assert house.top.cli("usage").status == 0
    for one in liars:
        assert house.top.cli("zone", "retire", one.name, "--apply").status == 0
    house.top.wait_until(lambda: house.top.usage()["hosts"]["total"] < 100, "to forget them")
    house.well()


# --- what it costs ----------------------------------------------------------------------------------


def test_reports_without_end(house: House) -> None:
    """As fast as they are acknowledged, each with news: heard at a bounded pace, and the zone answers all the while."""
    lasting, answered = 6.0, []

    async def flood() -> int:
        talker = await house.mad.session()
        heard, end = 0, time.monotonic() + lasting
        while time.monotonic() < end:
            heard += 1
            word = "unavailable" if heard % 2 else "available"
            part = DigestPart(0, heard, {"lh": heard, "lr:vcpu:t": heard, "z:total": 1})
            await talker.say(report(heard, condition=word, reason=f"{heard}", digest=part))
            answer = await talker.hear()
            assert isinstance(answer, Ack), answer
        await talker.close()
        return heard

    def ask() -> None:
        while not done.wait(0.2):
            began = time.monotonic()
            assert house.top.ask("/v1/usage")[0] == 200
            answered.append(time.monotonic() - began)

    done = threading.Event()
    asking = threading.Thread(target=ask)
    asking.start()
    before = len(house.top.journal(about="mad", limit="10000"))
    began, cpu = time.monotonic(), seconds_of_cpu(house.top)
    heard = asyncio.run(flood())
    took, cpu = time.monotonic() - began, seconds_of_cpu(house.top) - cpu
    done.set()
    asking.join()
    assert heard <= 130 + 32 * took, "a burst, and some thirty a second"
    assert cpu < 0.6 * took
    assert len(answered) > 5
    assert max(answered) < 5.0
    assert len(house.top.journal(about="mad", limit="10000")) - before <= took / 2 + 3, "its row moves each two seconds"
    house.well()


def test_a_million_rows_of_lineage(house: House) -> None:
    """Rows that were never seen, each well signed, page after page without end: so many a second; the rest waits."""
    mad = house.joined("prolific")
    lasting = 8.0
    pool = [Stranger("", f"z{number}").row(mad.code) for number in range(6_400)]
    pages = [pool[begin : begin + 64] for begin in range(0, len(pool), 64)]

    async def flood() -> tuple[int, int]:
        talker = await mad.session()
        await talker.say(report(1, [mad.own_row(house.code)]))
        assert isinstance(await talker.hear(), Ack)
        rows, number, end = 0, 1, time.monotonic() + lasting
        for page in pages:
            if time.monotonic() > end:
                break
            number += 1
            await talker.say(report(number, lineage=Delta(number - 1, number, tuple(page), True)))
            answer = await talker.hear()
            assert isinstance(answer, Ack), answer
            rows += len(page)
        await talker.close()
        return rows, number

    memory, began, cpu = resident(house.top), time.monotonic(), seconds_of_cpu(house.top)
    rows, _ = asyncio.run(flood())
    took, cpu = time.monotonic() - began, seconds_of_cpu(house.top) - cpu
    assert rows <= 3_000 + 900 * took, "a burst, and some eight hundred a second"
    assert cpu < 0.75 * took
    assert resident(house.top) - memory < 100_000
    began = time.monotonic()
    assert house.top.ask("/v1/zones?limit=10")[0] == 200
    assert time.monotonic() - began < 5.0
    house.well()
    assert house.top.cli("zone", "retire", "prolific", "--apply").status == 0
    assert not [path for path in house.top.seen() if path.startswith("top/prolific")]


def test_nothing_said_by_any_of_them_ended_another(house: House) -> None:
    """The last of this file."""
    assert isinstance(asyncio.run(said_hello(house.mad)), HelloAck)
    assert house.good.uplink()["state"] == "connected"
    house.well()


async def said_hello(one: Stranger) -> HelloAck | Bye:
    talker, answer = await one.hello()
    await talker.close()
    return answer
