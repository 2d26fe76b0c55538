"""Certificates that a parent must not take, shown to a running zone over real TLS; and words that are another's.

Self-signed ones, the right CA with the wrong zone, a sibling's, expired ones, banned ones, a parent's own as a child's;
a child that speaks of what lies below another. Each is refused with a reason, and all others are served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from banyan.core.errors import Unreachable
from banyan.core.ids import ZoneCode, code_text
from banyan.core.messages import Ack, BeatAck, Bye, DigestPart, HelloAck, Message, Report
from banyan.core.ports import Credentials
from banyan.core.time import Wall
from banyan.link.codec import encode, join
from banyan.link.tls import enrol_context
from banyan.link.websocket_wire import PATHS
from banyan.trust.authority import Issuer, ca_certificate, issue_child, issue_server
from banyan.trust.enrol import sign_renewal
from banyan.trust.keys import public_key
from tests.wire.zones.processes import Cloud, Zone
from tests.wire.zones.stores import look, secret
from tests.wire.zones.stranger import CLOCK, IDS, Stranger, fresh_code, greet, report, seed, websocket

pytestmark = pytest.mark.slow

DAY = 86_400.0


@dataclass
class House:
    """A top with a real child, and its CA as a thief would have it."""

    top: Zone
    good: Zone
    ca: Issuer

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.top.link}"

    def joined(self, name: str) -> Stranger:
        return asyncio.run(Stranger(self.address, name).join(self.top.code()))

    def issue(self, one: Stranger, code: ZoneCode, ends: float = DAY) -> Credentials:
        """A certificate of this house for that stranger's key, which ends in so many seconds and lives a day."""
        now = Wall(CLOCK.wall() + ends - DAY)
        made = issue_child(self.ca, code, public_key(one.seed), serial=IDS.token(16), now=now)
        return Credentials(made, one.seed)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with Cloud(tmp_path_factory.mktemp("house")) as cloud:
        top = cloud.zone("top").start()
        good = cloud.zone("good", code=top.code(), hosts=2).start()
        top.stop()
        own = look(top.data, lambda unit: unit.self_.get())
        [authority] = look(top.data, lambda unit: unit.authorities.all())
        assert own is not None
        ca = Issuer(own.code, secret(top.data, authority.key))
        top.start()
        top.wait_for_zone("good", state="ready", health="alive")
        yield House(top, good, ca)
        # Whatever was tried: the one that behaves was heard all the time.
        assert top.seen()["top/good"]["health"] == "alive"
        assert not [line for line in top.journal(about="good", limit="1000") if line["kind"] == "child-suspect"]
        assert "Traceback" not in top.log.read_text()


def refused(one: Stranger, **how: object) -> Bye:
    return asyncio.run(one.refusal(**how))


# --- words that are another's ---------------------------------------------------------------------


def test_a_child_that_reports_anothers_lineage(house: House) -> None:
    """It names a sibling, the parent, and a stranger's zone with a forged entry; its own row is kept all the same.

    The first of this file: refusals have a budget of lines in the journal, and all of these are to be seen there.
    """
    liar, victim = house.joined("liar"), house.joined("victim")
    parent = house.ca.code
    invented = Stranger(house.address, "invented")
    below = Stranger(house.address, "below")
    forged = invented.row(liar.code, signature=liar.own_row(parent).signature)
    rows = [
        liar.own_row(parent),
        victim.row(liar.code),  # the victim's own signature: it names the liar as its parent, who is not
        Stranger(house.address, "top", parent, house.ca.seed).row(liar.code),
        forged,
        below.row(liar.code),
        Stranger(house.address, "stray").row(victim.code),
    ]

    async def tell() -> Message:
        for one in (victim, liar):
            talker = await one.session()
            await talker.say(report(1, [one.own_row(parent)]) if one is victim else report(1, rows))
            answer = await talker.hear()
            await talker.close()
        return answer

    answer = asyncio.run(tell())
    assert isinstance(answer, Ack), answer
    seen = house.top.seen()
    assert "top/victim" in seen and "top/liar" in seen
    assert "top/liar/below" in seen, "what lies below it and signs so is its to report"
    assert not [path for path in seen if path.endswith(("/invented", "/stray", "liar/victim", "liar/top"))]
    assert seen["top/victim"]["code"] == code_text(victim.code)
    refusals = house.top.journal(kind="lineage-refused")
    assert len(refusals) == 4
    assert {line["actor"] for line in refusals} == {"zone:liar"}
    assert {line["target"] for line in refusals} == {"victim", "top", "invented", "stray"}
    assert all(line["text"] and line["facts"]["code"] for line in refusals)


# --- not of this house ----------------------------------------------------------------------------


def test_what_no_ca_of_this_zone_signed_ends_the_handshake(house: House) -> None:
    one = house.joined("handshake")
    own, foreign = Issuer(one.code, one.seed), Issuer(house.ca.code, seed())
    serial, now = IDS.token(16), Wall(CLOCK.wall())
    public = public_key(one.seed)
    shown = {
        "self-signed": ca_certificate(own, serial=serial, now=now),
        "signed by its own key": issue_child(own, one.code, public, serial=serial, now=now),
        "another CA of the same name": issue_child(foreign, one.code, public, serial=serial, now=now),
        "a controller's": issue_server(house.ca, public, serial=serial, now=now),
    }
    for what, certificate in shown.items():
        with pytest.raises(Unreachable) as error:
            asyncio.run(one.hello(shown=Credentials(certificate, one.seed)))
        assert error.value.code == "handshake-refused", f"{what}: {error.value.text}"
        assert "when it had seen our certificate" in error.value.text
    assert isinstance(asyncio.run(greeted(one)), HelloAck), "its own is as good as before"


async def greeted(one: Stranger) -> HelloAck | Bye:
    talker, answer = await one.hello()
    await talker.close()
    return answer


def test_a_session_without_any_certificate(house: House) -> None:
    """Over a wire for sessions with nothing shown; the dialer of a real child would not even try."""

    async def ask() -> Message:
        async with websocket(house.address, PATHS["session"], enrol_context()) as wire:
            await wire.send(join([encode(greet("session"))]))
            return await wire.hear()

    answer = asyncio.run(ask())
    assert isinstance(answer, Bye) and answer.code == "no-certificate"
    assert "join first" in answer.text


# --- of this house, and not one's own -------------------------------------------------------------


def test_a_siblings_certificate_and_the_right_ca_with_the_wrong_zone(house: House) -> None:
    castor, pollux = house.joined("castor"), house.joined("pollux")
    siblings = refused(castor, code=pollux.code)
    assert siblings.code == "wrong-zone"
    assert code_text(pollux.code) in siblings.text and code_text(castor.code) in siblings.text

    nobody = fresh_code()
    unlisted = refused(castor, shown=house.issue(castor, nobody), code=nobody)
    assert unlisted.code == "no-child" and code_text(nobody) in unlisted.text

    stolen = refused(castor, shown=house.issue(castor, pollux.code), code=pollux.code)
    assert stolen.code == "wrong-key", "the right zone, and a key that is not the one on record"
    assert "has another key here" in stolen.text

    mine = house.top.seen()
    assert (mine["top/castor"]["state"], mine["top/pollux"]["state"]) == ("joining", "joining"), "no session stood"
    assert isinstance(asyncio.run(greeted(pollux)), HelloAck)


def test_a_certificate_that_has_not_begun_or_has_ended(house: House) -> None:
    one = house.joined("times")
    early = refused(one, shown=house.issue(one, one.code, ends=3 * DAY))
    assert early.code == "not-yet-valid" and "clock" in early.text
    late = refused(one, shown=house.issue(one, one.code, ends=-3600.0))
    assert late.code == "certificate-expired" and "ask for a new one in the hello" in late.text

    expired = house.issue(one, one.code, ends=-60 * DAY)
    renew = sign_renewal(one.seed, one.code, expired.certificate)
    other = seed()
    thief = refused(one, shown=expired, renew=sign_renewal(other, one.code, expired.certificate))
    assert thief.code == "wrong-key", "an expired certificate gets nobody one for a new key"

    too_late = house.issue(one, one.code, ends=-91 * DAY)
    gone = refused(one, shown=too_late, renew=sign_renewal(one.seed, one.code, too_late.certificate))
    assert gone.code == "certificate-expired" and "new code" in gone.text

    async def recover() -> HelloAck | Bye:
        talker, answer = await one.hello(shown=expired, renew=renew)
        await talker.close()
        return answer

    back = asyncio.run(recover())
    assert isinstance(back, HelloAck) and back.certificate, "the same key, within 90 days: renewed with nobody's help"
    one.certificate = back.certificate
    assert isinstance(asyncio.run(greeted(one)), HelloAck)
    kinds = [line["kind"] for line in house.top.journal(about="times")]
    assert kinds.count("child-recovered") == 1


def test_a_ban_cuts_the_stream_and_holds_for_every_door(house: House) -> None:
    one = house.joined("villain")

    async def banned_in_mid_session() -> Bye | None:
        talker = await one.session()
        await talker.say(report(1))
        await talker.hear_a(Ack)
        said = await asyncio.to_thread(house.top.cli, "zone", "ban", "villain", "--reason", "stolen laptop", "--json")
        assert said.json()["admin"] == "banned"
        return await talker.last_word()

    cut = asyncio.run(banned_in_mid_session())
    assert cut is not None and cut.code == "banned" and "stolen laptop" in cut.text and cut.retry_after == -1
    hello = refused(one)
    assert hello.code == "banned" and "stolen laptop" in hello.text and hello.retry_after == -1
    code = house.top.code("--uses", "2")
    again = asyncio.run(Stranger(house.address, "villain", one.code, one.seed).ask(code))
    assert isinstance(again, Bye) and again.code == "banned"
    renamed = asyncio.run(Stranger(house.address, "innocent", fresh_code(), one.seed).ask(code))
    assert isinstance(renamed, Bye) and renamed.code == "banned", "under another name it is the same key"
    usurper = asyncio.run(Stranger(house.address, "villain").ask(code))
    assert isinstance(usurper, Bye) and usurper.code == "name-taken" and "banned zone" in usurper.text
    assert house.top.cli("zone", "retire", "villain", "--apply").status == 0
    still = asyncio.run(Stranger(house.address, "villain", fresh_code(), one.seed).ask(code))
    assert isinstance(still, Bye) and still.code == "banned", "retiring forgets the zone, not the ban"
    [row] = [row for row in house.top.cli("code", "list", "--json").json() if row["uses"] == 2]
    assert row["used"] == 0


# --- words that nobody can mean ---------------------------------------------------------------


def test_a_child_that_counts_what_cannot_be(house: House) -> None:
    """Totals that would overflow, or that are below nothing, change no total."""
    one = house.joined("boaster")
    before = house.top.usage()["hosts"]["total"]
    lies: list[dict[str, int]] = [{"lh": 2**60}, {"lh": -5}, {f"lr:c{n}:t": 1 for n in range(200)}]

    async def tell(counters: dict[str, int]) -> Message:
        talker = await one.session()
        await talker.say(report(1, digest=DigestPart(0, 7, counters)))
        answer = await talker.hear()
        await talker.close()
        return answer

    for lie in lies:
        answer = asyncio.run(tell(lie))
        assert isinstance(answer, Bye) or (isinstance(answer, Ack) and answer.known.digest != 7), answer
    assert house.top.usage()["hosts"]["total"] == before
    assert isinstance(asyncio.run(tell({"lh": 3, "lhu": 3})), Ack)


def test_words_out_of_turn_end_a_session_and_no_other(house: House) -> None:
    one = house.joined("hasty")

    async def speak(*messages: Message) -> Bye | None:
        talker = await one.session()
        await talker.say(report(1))
        assert isinstance(await talker.hear(), Ack)
        for message in messages:
            await talker.say(message)
        return await talker.last_word()

    def plain(seq: int) -> Report:
        return report(seq)

    repeated = asyncio.run(speak(plain(1)))
    assert repeated is not None and repeated.code == "out-of-order" and "report 2 is next, 1 came" in repeated.text
    skipped = asyncio.run(speak(plain(7)))
    assert skipped is not None and skipped.code == "out-of-order"
    parents = asyncio.run(speak(BeatAck(2, 1000)))
    assert parents is not None and parents.code == "out-of-order", "a child has no acknowledgements to give"
    assert isinstance(asyncio.run(greeted(one)), HelloAck)


def test_a_second_session_of_one_zone_takes_the_place_of_the_first(house: House) -> None:
    one = house.joined("double")

    async def both() -> tuple[Bye | None, Message]:
        first = await one.session()
        second = await one.session()
        word = await first.last_word()
        await second.say(report(1))
        answer = await second.hear()
        await second.close()
        return word, answer

    word, answer = asyncio.run(both())
    assert word is not None and word.code == "replaced"
    assert word.retry_after >= 30_000, "so that two copies do not push each other out at every second"
    assert isinstance(answer, Ack)
