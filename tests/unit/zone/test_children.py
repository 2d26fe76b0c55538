"""A zone and its children in one room: what they say in which order, and what is left of it in rows and journal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from banyan.core.errors import BanyanError, Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.lineage import Delta, Row
from banyan.core.messages import Ack, BeatAck
from banyan.core.records import StoreFull
from banyan.core.time import Mono
from banyan.core.zone import ChildState, Health
from banyan.zone.front import Front
from banyan.zone.metrics import measured
from banyan.zone.reconcile.children import CHANGE_GAP, RENEWAL_GAP
from banyan.zone.reconcile.health import AT_ONCE
from banyan.zone.reconcile.refusals import REFUSALS_PER_MINUTE
from tests.unit.zone.household import ADMIN, Household, Kid, Wire, delta

DAY = 86_400.0


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def refused(work: object, *codes: str) -> BanyanError:
    assert callable(work)
    with pytest.raises(BanyanError) as error:
        work()
    assert error.value.code in codes
    return error.value


# --- judged ---------------------------------------------------------------------------------------


def test_a_store_that_fails_leaves_no_silent_child_unjudged(house: Household) -> None:
    kids = [house.kid(f"z{number}") for number in range(AT_ONCE + 5)]

    async def come_together() -> None:
        await asyncio.gather(*(kid.say_hello() for kid in kids))

    house.run(come_together())
    assert len({house.zone.roster.get(kid.code).granted for kid in kids}) == 1, "so their leases end at one instant"
    failed = []

    async def full(instant: str) -> None:
        if instant == "commit parent.lost" and len(failed) < 2:
            failed.append(instant)
            raise StoreFull("store-full", "the disk is full: nothing was written", transient=True)

    house.pause = full
    house.start()
    house.go(300.0)
    assert len(failed) == 2
    assert [house.zone.roster.get(kid.code).child.health for kid in kids] == [Health.LOST] * len(kids)
    assert len(house.journal("child-lost")) == len(kids)


# --- sessions -------------------------------------------------------------------------------------


def test_a_session_ends_with_its_certificate_by_boot_time_alone(house: Household) -> None:
    kid = house.kid("east")
    kid.open()
    for step in (3 * DAY, -9 * DAY, 400 * DAY):
        house.clock.jump(step)
        kid.beat()
    house.clock.set_offset(0.0)
    house.go(DAY - 1.0)
    kid.beat()
    house.go(2.0)
    ended = refused(kid.beat, "certificate-expired")
    assert ended.transient, "it comes back, and asks for another in its hello"


def test_a_renewal_in_a_session_lets_it_go_on(house: Household) -> None:
    kid = house.kid("east")
    kid.open()
    house.go(0.7 * DAY)
    kid.beat()
    kid.renew()
    house.go(0.9 * DAY)
    kid.beat()
    house.go(0.2 * DAY)
    refused(kid.beat, "certificate-expired")


def test_a_child_that_renews_in_a_loop_costs_one_signature_in_half_a_minute(
    house: Household, monkeypatch: pytest.MonkeyPatch
) -> None:
    kid = house.kid("east")
    kid.open()
    made: list[ZoneCode] = []
    certify = house.zone.admission.certify

    def counted(code: ZoneCode, public: bytes) -> bytes:
        made.append(code)
        return certify(code, public)

    monkeypatch.setattr(house.zone.admission, "certify", counted)
    kid.renew()
    for _ in range(50):
        assert refused(kid.renew, "too-soon").transient
        house.go(RENEWAL_GAP / 60)
    assert len(made) == 1
    house.go(RENEWAL_GAP)
    kid.renew()
    assert len(made) == 2
    kid.beat()


def test_a_refused_session_leaves_a_line_and_a_crowd_of_them_a_few(house: Household) -> None:
    kid, stranger = house.kid("east"), house.kid("west")
    stranger.code = kid.code
    for _ in range(40):
        refused(stranger.open, "wrong-zone")
    lines = house.journal("session-refused")
    assert len(lines) == REFUSALS_PER_MINUTE
    assert lines[0].target == "east"
    assert lines[0].outcome == "refused"
    assert lines[0].facts["code"] == "wrong-zone"
    assert lines[0].address == "192.0.2.7"
    house.go(61.0)
    refused(stranger.open, "wrong-zone")
    assert len(house.journal("session-refused")) == REFUSALS_PER_MINUTE + 1
    assert house.zone.admission.refusals.total == 41


def test_what_a_crowd_left_out_of_the_journal_is_one_line_when_its_minute_ends(house: Household) -> None:
    kid, stranger = house.kid("east"), house.kid("west")
    stranger.code = kid.code
    house.start()
    began = house.clock.now()
    for _ in range(40):
        refused(stranger.open, "wrong-zone")
    assert not house.journal("refusals-left-out")
    house.go(61.0)
    [line] = house.journal("refusals-left-out")
    assert (line.target, line.outcome, line.facts["count"]) == ("link", "refused", "30")
    assert line.text.startswith("30 more refusals at the link since ")
    # A flood that goes on is a line a minute, and nothing is told twice; one that ended leaves none.
    while house.clock.now() < began + 240.0:
        refused(stranger.open, "wrong-zone")
        house.go(1.0)
    house.go(200.0)
    told = [int(line.facts["count"]) for line in house.journal("refusals-left-out")]
    written = len(house.journal("session-refused"))
    assert sum(told) + written == house.zone.admission.refusals.total
    assert 4 <= len(told) <= 5
    metrics = measured(house.zone)
    assert metrics["banyan_refusals_left_out_total"] == sum(told)
    assert metrics["banyan_strangers_refused_total"] == sum(told) + written


def test_strangers_at_the_api_have_a_budget_and_a_line_of_their_own(house: Household) -> None:
    house.start()
    front = Front(house.zone)
    for _ in range(25):
        house.run(front.refused(None, "192.0.2.9", "status", "no-token"))
    kid, stranger = house.kid("east"), house.kid("west")
    stranger.code = kid.code
    refused(stranger.open, "wrong-zone")
    house.go(61.0)
    [line] = house.journal("refusals-left-out")
    assert (line.target, line.facts["count"]) == ("API", "15")
    assert len(house.journal("session-refused")) == 1
    assert measured(house.zone)["banyan_strangers_refused_total"] == 26


# --- what a child says of itself --------------------------------------------------------------------


def test_a_child_that_flaps_moves_its_row_at_a_bounded_pace(house: Household) -> None:
    kid = house.kid("east")
    kid.open()
    began = house.clock.now()
    for number in range(400):
        kid.report(condition="unavailable" if number % 2 else "available", reason=f"no answer {number}")
        house.go(0.05)
    allowed = (house.clock.now() - began) / CHANGE_GAP + 1
    lines = house.journal("child-unavailable") + house.journal("child-alive")
    assert 2 <= len(lines) <= allowed
    # What it says last is what stands, as soon as it may be said.
    kid.report(condition="unavailable", reason="the last word")
    house.go(CHANGE_GAP)
    kid.beat()
    child = house.zone.roster.get(kid.code).child
    assert (child.health, child.health_reason) == (Health.UNAVAILABLE, "the last word")


# --- epochs ---------------------------------------------------------------------------------------


def test_a_crowd_that_tells_a_restored_parent_raises_its_epoch_once(house: Household) -> None:
    kids = [house.kid(f"z{number}") for number in range(20)]
    image = house.store.image()
    for kid in kids:
        kid.open()
    house.restore(image)
    before = house.zone.own.row.epoch

    async def all_at_once() -> None:
        await asyncio.gather(*(kid.say_hello() for kid in kids))

    house.run(all_at_once())
    assert house.zone.own.row.epoch == before + 1
    assert house.zone.own.row.restored_at is not None
    assert len(house.journal("zone-rolled-back")) == 1
    assert house.journal("child-rolled-back") == []


def test_a_claim_is_heard_only_from_a_child_that_stands(house: Household) -> None:
    """Whoever is banned, or shows another's certificate, tells this zone nothing about itself."""
    kid, other = house.kid("east"), house.kid("west")
    image = house.store.image()
    kid.open()
    house.restore(image)
    shown, kid.certificate = kid.certificate, other.certificate
    refused(kid.open, "wrong-zone")
    kid.certificate = shown
    house.run(house.zone.words.apply(ADMIN, "zone.ban", kid.code, {"reason": "stolen"}))
    refused(kid.open, "banned")
    assert house.zone.own.row.restored_at is None
    assert house.journal("zone-rolled-back") == house.journal("epoch-unproved") == []


def test_a_child_that_lies_in_each_hello_fills_no_journal(house: Household) -> None:
    kid = house.kid("east")
    kid.open()
    for number in range(40):
        ack = kid.open(epoch=kid.epoch + 1_000)
        assert ack.grant.epoch == kid.epoch == 1_003 + number * 1_001
        assert not ack.read_only
    lines = house.journal("epoch-unproved")
    assert len(lines) == REFUSALS_PER_MINUTE
    assert lines[0].facts["epoch"] == "1002"
    refused(lambda: kid.open(epoch=(1 << 63) - 1), "bad-epoch")
    assert house.zone.own.row.restored_at is None
    assert house.zone.own.row.epoch == 1


def test_a_proof_survives_a_change_of_the_ca_between_a_wires_welcome_and_its_hello(house: Household) -> None:
    """What is signed then is by the CA of which that wire told: a newer one's word could not be led back."""
    kid = house.kid("east")
    image = house.store.image()
    before = kid.peer()
    house.run(house.zone.certificates.rotate(ADMIN, leaked=False))
    kid.peer = lambda: before
    kid.open()
    house.restore(image)
    kid.open()
    assert len(house.journal("zone-rolled-back")) == 1
    assert house.journal("epoch-unproved") == []


# --- lineage --------------------------------------------------------------------------------------


class Below:
    """Two children, and a zone that both report: the second's word is refused while the first's stands."""

    def __init__(self, house: Household) -> None:
        self.first, self.second = house.kid("first"), house.kid("second")
        self.shared = house.stranger("shared")
        for kid in (self.first, self.second):
            kid.open()
            kid.report(lineage=delta([kid.itself(), self.row(kid)]))

    def row(self, under: Kid) -> Row:
        return self.shared.row(under.code, self.first.code, self.second.code)

    def left(self) -> Delta:
        """The first one's word that the zone is no longer below it."""
        return delta([msgspec.structs.replace(self.row(self.first), gone=True)], since=1, until=2)


def via(house: Household, kid: Kid) -> ZoneCode | None:
    node = house.zone.tree.get(kid.code)
    return None if node is None else node.via


def test_a_child_withdraws_no_zone_of_anothers(house: Household) -> None:
    """That a zone is gone is believed of those that came through this child, and of no others."""
    good, mad, below, own = house.kid("good"), house.kid("mad"), house.stranger("below"), house.stranger("own")
    good.open()
    good.report(lineage=delta([good.itself(), below.row(good.code)]))
    mad.open()
    mad.report(lineage=delta([mad.itself(), own.row(mad.code)]))
    paths = ["top/good", "top/good/below", "top/mad"]
    withdrawn = [msgspec.structs.replace(kid.row(mad.code), gone=True) for kid in (below, good, own)]
    mad.report(lineage=delta(withdrawn, since=1, until=2))
    assert sorted(path for path, _ in house.zone.tree.all()) == paths, "its own it may withdraw"
    assert house.zone.streams.row(below.code) is not None and house.zone.streams.row(good.code) is not None
    assert house.zone.streams.row(own.code) is None


def test_a_clones_farewell_does_not_retire_the_zone_that_it_was_copied_from(house: Household) -> None:
    kid = house.kid("east")
    kid.open()
    copied = kid.mark
    kid.open()
    kid.open(mark=copied)
    refused(lambda: kid.report(condition="leaving"), "not-believed")
    assert house.zone.roster.get(kid.code).child.state is not ChildState.RETIRED
    assert not house.journal("child-left")


def test_a_zone_that_was_refused_is_asked_for_again_when_its_place_is_free(house: Household) -> None:
    tree = Below(house)
    assert via(house, tree.shared) == tree.first.code
    [line] = house.journal("lineage-refused")
    assert (line.target, line.facts["code"]) == ("shared", "diamond")
    tree.first.report(lineage=tree.left())
    assert via(house, tree.shared) is None
    ack = tree.second.beat()
    assert isinstance(ack, Ack)
    assert (ack.resend, ack.known.lineage) == (True, 0)
    tree.second.report(lineage=delta([tree.second.itself(), tree.row(tree.second)], until=7))
    assert via(house, tree.shared) == tree.second.code


def test_a_report_that_is_being_stored_when_its_child_is_told_to_start_over_does_not_count(house: Household) -> None:
    tree = Below(house)
    deeper = house.stranger("deeper")
    held = asyncio.Event()
    commits = []

    async def pause(instant: str) -> None:
        if instant == "commit parent.lineage":
            commits.append(instant)
            if len(commits) == 1:
                await held.wait()

    async def meet() -> Ack | BeatAck:
        house.pause = pause
        late = delta([deeper.row(tree.second.code)], since=1, until=2)
        reporting = asyncio.ensure_future(tree.second.say(tree.second.words(lineage=late)))
        await house.nap(0.1)
        await tree.first.say(tree.first.words(lineage=tree.left()))
        held.set()
        return await reporting

    ack = house.run(meet())
    assert isinstance(ack, Ack)
    assert (ack.resend, ack.known.lineage) == (True, 0), "what comes next is the whole"
    whole = [tree.second.itself(), tree.row(tree.second), deeper.row(tree.second.code)]
    tree.second.report(lineage=delta(whole, until=7))
    assert via(house, tree.shared) == via(house, deeper) == tree.second.code
    # And a new process finds the same.
    house.restore(house.store.image())
    assert via(house, tree.shared) == via(house, deeper) == tree.second.code


def test_a_hello_whose_child_hung_up_behind_the_lock_opens_nothing(house: Household) -> None:
    """It is nobody's refusal either: no line of the journal, and nothing is stored."""
    kid = house.kid("east")
    kid.open()
    epoch = house.zone.roster.live[kid.code].child.epoch
    wire = Wire(kid.code, kid.peer())

    async def behind() -> None:
        async with house.zone.roster.lock(kid.code):
            late = asyncio.ensure_future(house.zone.children.hello(kid.hello(), wire))
            await house.zone.clock.sleep_until(Mono(house.zone.clock.now() + 1.0))
            wire.gone = True
        with pytest.raises(Unreachable) as gone:
            await late
        assert gone.value.code == "child-gone"

    house.run(behind())
    live = house.zone.roster.live[kid.code]
    assert live.child.epoch == epoch
    assert live.session is kid.wire
    assert house.journal("session-refused") == []
