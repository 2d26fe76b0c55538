from __future__ import annotations

import math
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.lineage import Delta
from banyan.core.messages import (
    Ack,
    Admitted,
    Answer,
    Beat,
    BeatAck,
    Bye,
    Enrol,
    Generations,
    Greet,
    Hello,
    HelloAck,
    Message,
    Renewed,
    Report,
    Request,
    Welcome,
)
from banyan.core.time import Mono
from banyan.link.child_session import ChildMachine
from banyan.link.session import (
    CHILD,
    Acknowledged,
    Asked,
    CertificateRenewed,
    ChildAction,
    End,
    Established,
    ReportDue,
    Send,
    Stage,
    Taken,
    Timing,
    Welcomed,
    Word,
)
from tests.unit.link.words import CALLER, GRANT, RENEW, SAMPLES

TIMING = Timing(opening=10, answer=10, gap=0.5, second_look=1, outstanding=4)
WELCOME = SAMPLES[Welcome]
assert isinstance(WELCOME, Welcome)


def at(seconds: float) -> Mono:
    return Mono(seconds)


def greeted(floor: int = 1, ceiling: int = 1, purpose: str = "session") -> ChildMachine:
    machine = ChildMachine(Greet(floor, ceiling, bytes(16), purpose), TIMING)
    [sent] = machine.start(at(0))
    assert isinstance(sent, Send)
    return machine


def opened(word: type = Hello) -> ChildMachine:
    machine = greeted()
    assert machine.receive(SAMPLES[Welcome], at(1)) == (Welcomed(WELCOME),)
    message = SAMPLES[word]
    assert isinstance(message, Hello | Enrol)
    assert machine.opened(message, at(2)) == (Send(message),)
    return machine


def standing() -> ChildMachine:
    """At 3 s, with the first report due at once."""
    machine = opened()
    [established] = machine.receive(SAMPLES[HelloAck], at(3))
    assert established == Established(SAMPLES[HelloAck], at(2))  # counted from when the hello left
    return machine


def reported(seq: int = 1, now: float = 3) -> ChildMachine:
    machine = standing()
    machine.tick(at(now))
    machine.reported(Beat(seq), at(now))
    return machine


def bye(actions: tuple[ChildAction, ...]) -> Bye:
    send, end = actions
    assert isinstance(send, Send)
    assert isinstance(send.message, Bye)
    assert isinstance(end, End)
    assert end.ending.code == send.message.code
    return send.message


def at_stage(stage: Stage) -> ChildMachine:
    match stage:
        case Stage.NEW:
            return ChildMachine(Greet(1, 1, bytes(16), "session"), TIMING)
        case Stage.GREETED:
            return greeted()
        case Stage.CHECKING:
            machine = greeted()
            machine.receive(SAMPLES[Welcome], at(1))
            return machine
        case Stage.OPENED:
            return opened()
        case Stage.ENROLLED:
            return opened(Enrol)
        case Stage.DONE:
            machine = opened(Enrol)
            machine.receive(SAMPLES[Admitted], at(3))
            return machine
        case Stage.STANDING:
            machine = reported()
            machine.renew(RENEW, at(3))
            return machine
    raise AssertionError(f"a child's session is never {stage}")


STAGES = sorted({m.before for m in CHILD} | {m.after for m in CHILD})
ALLOWED = {
    (Stage.GREETED, Welcome),
    (Stage.OPENED, HelloAck),
    (Stage.ENROLLED, Admitted),
    (Stage.STANDING, Ack),
    (Stage.STANDING, BeatAck),
    (Stage.STANDING, Renewed),
    (Stage.STANDING, Request),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", [k for k in get_args(Message) if k is not Bye], ids=lambda kind: kind.__name__)
def test_each_word_at_each_stage_is_a_move_or_a_refusal(stage: Stage, kind: type) -> None:
    machine = at_stage(stage)
    assert machine.stage is stage
    actions = machine.receive(SAMPLES[kind], at(4))
    if (stage, kind) in ALLOWED:
        assert not any(isinstance(a, End) for a in actions)
        assert actions
    else:
        said = bye(actions)
        assert said.code == "out-of-order"
        assert str(stage) in said.text


@pytest.mark.parametrize("stage", STAGES)
def test_a_bye_ends_every_stage_without_an_answer(stage: Stage) -> None:
    machine = at_stage(stage)
    [end] = machine.receive(Bye("busy", "come\x1b[31m again", 2_500), at(4))
    assert isinstance(end, End)
    assert end.ending.code == "busy"
    assert end.ending.text == "come?[31m again"
    assert end.ending.retry_after == 2.5
    assert end.ending.by_peer
    assert machine.deadline == math.inf


@pytest.mark.parametrize("stage", STAGES)
def test_only_a_parent_that_has_proved_itself_says_never(stage: Stage) -> None:
    machine = at_stage(stage)
    [end] = machine.receive(Bye("banned", "go away", -1), at(4))
    assert isinstance(end, End)
    after = end.ending.retry_after
    assert after is None if stage in (Stage.NEW, Stage.GREETED, Stage.CHECKING) else after is not None and after < 0


@pytest.mark.parametrize("stage", STAGES)
def test_nothing_happens_after_the_end(stage: Stage) -> None:
    machine = at_stage(stage)
    machine.close("own-side", "enough")
    for message in SAMPLES.values():
        assert machine.receive(message, at(5)) == ()
    assert machine.tick(at(1e9)) == ()
    assert machine.news(at(5)) == ()
    assert machine.renew(RENEW, at(5)) == ()
    assert machine.answered(Answer(1)) == ()
    assert machine.close("again", "") == ()
    assert machine.closed("") == ()


@pytest.mark.parametrize(
    ("floor", "ceiling", "chosen", "fine"),
    [(1, 1, 1, True), (1, 3, 2, True), (1, 3, 3, True), (2, 3, 1, False), (1, 3, 4, False), (1, 1, 0, False)],
)
def test_the_version_must_be_one_that_was_offered(floor: int, ceiling: int, chosen: int, fine: bool) -> None:
    machine = greeted(floor, ceiling)
    actions = machine.receive(msgspec.structs.replace(WELCOME, version=chosen), at(1))
    if fine:
        assert isinstance(actions[0], Welcomed)
    else:
        assert bye(actions).code == "version"


def test_the_first_report_is_due_at_once_and_then_when_the_parent_says() -> None:
    machine = standing()
    assert machine.deadline == 3
    known = Generations(1, 2, 3)
    assert machine.tick(at(3)) == (ReportDue(1, known),)
    assert machine.deadline == math.inf  # while the own side thinks, there is nothing to wait for
    assert machine.reported(Beat(1), at(3.1)) == (Send(Beat(1)),)
    assert machine.receive(BeatAck(1, 6_000), at(3.2)) == (Acknowledged(BeatAck(1, 6_000), at(3.1)),)
    assert machine.deadline == pytest.approx(9.2)
    assert machine.tick(at(9.1)) == ()
    assert machine.tick(at(9.2)) == (ReportDue(2, known),)


def test_what_the_parent_holds_is_told_with_the_next_report() -> None:
    machine = standing()
    machine.tick(at(3))
    machine.reported(SAMPLES[Report], at(3))
    machine.receive(Ack(1, GRANT, Generations(7, 8, 9)), at(4))
    assert machine.tick(machine.deadline) == (ReportDue(2, Generations(7, 8, 9)),)


def test_one_report_at_a_time() -> None:
    machine = reported()
    assert machine.news(at(3.2)) == ()
    with pytest.raises(ValueError, match="not due"):
        machine.reported(Beat(2), at(3.3))


@pytest.mark.parametrize(
    "ack",
    [BeatAck(2, 6_000), BeatAck(0, 6_000), Ack(2, GRANT, Generations())],
    ids=["later", "earlier", "later, whole"],
)
def test_an_acknowledgement_of_something_else_ends_the_session(ack: Ack | BeatAck) -> None:
    assert bye(reported().receive(ack, at(4))).code == "out-of-order"


def test_an_acknowledgement_twice_ends_the_session() -> None:
    machine = reported()
    machine.receive(BeatAck(1, 6_000), at(4))
    assert bye(machine.receive(BeatAck(1, 6_000), at(4))).code == "out-of-order"


def test_news_may_not_be_acknowledged_as_if_there_were_none() -> None:
    machine = standing()
    machine.tick(at(3))
    machine.reported(SAMPLES[Report], at(3))
    assert bye(machine.receive(BeatAck(1, 6_000), at(4))).code == "out-of-order"


def test_a_beat_may_get_a_whole_acknowledgement() -> None:
    [action] = reported().receive(Ack(1, GRANT, Generations()), at(4))
    assert isinstance(action, Acknowledged)


def test_news_hurries_the_next_report_but_keeps_the_gap() -> None:
    machine = reported()
    machine.receive(BeatAck(1, 60_000), at(3.1))
    assert machine.news(at(3.2)) == ()
    assert machine.deadline == 3.5  # half a second after the one before
    [due] = machine.tick(at(3.5))
    assert isinstance(due, ReportDue)


def test_news_after_a_quiet_time_goes_at_once() -> None:
    machine = reported()
    machine.receive(BeatAck(1, 60_000), at(3.1))
    [due] = machine.news(at(30))
    assert isinstance(due, ReportDue)


def test_news_during_a_report_are_told_after_its_acknowledgement() -> None:
    machine = reported(now=3)
    machine.news(at(3.05))
    machine.receive(BeatAck(1, 60_000), at(3.1))
    assert machine.deadline == 3.5


def test_the_rest_of_a_long_report_follows_at_once() -> None:
    machine = standing()
    machine.tick(at(3))
    lineage = Delta(0, 9, (), more=True)
    machine.reported(Report(1, "available", "", False, True, None, lineage), at(3))
    machine.receive(Ack(1, GRANT, Generations()), at(3.1))
    assert machine.deadline == 3.1


def test_a_parent_that_lost_something_gets_it_again_soon() -> None:
    machine = reported()
    machine.receive(Ack(1, GRANT, Generations(), resend=True), at(3.1))
    assert machine.deadline == 3.5


@pytest.mark.parametrize(("named", "waited"), [(0, 0.5), (1, 0.5), (10**12, 3600.0)])
def test_no_pace_that_a_parent_names_is_absurd(named: int, waited: float) -> None:
    machine = reported()
    machine.receive(BeatAck(1, named), at(4))
    assert machine.deadline == 4 + waited


def test_a_silent_parent_is_noticed_at_each_stage() -> None:
    for stage in (Stage.GREETED, Stage.OPENED, Stage.ENROLLED, Stage.STANDING):
        machine = at_stage(stage)
        first = machine.deadline
        assert first <= 13, stage
        assert machine.tick(at(first - 0.1)) == ()
        assert machine.tick(first) == ()  # a second look, for a loop that was blocked
        assert machine.deadline == first + 1
        assert bye(machine.tick(machine.deadline)).code == "no-answer"


def test_a_word_that_came_while_the_loop_was_blocked_counts() -> None:
    machine = reported()
    machine.tick(at(60))
    assert isinstance(machine.receive(BeatAck(1, 6_000), at(60.1))[0], Acknowledged)
    assert machine.ending is None


def test_a_timer_that_fires_a_little_early_is_on_time() -> None:
    assert isinstance(standing().tick(at(2.9995))[0], ReportDue)


def test_requests_are_answered_in_any_order_each_once() -> None:
    machine = standing()
    for id in (1, 2, 3):
        [asked] = machine.receive(Request(id, "page", b"", 5_000, CALLER), at(4))
        assert isinstance(asked, Asked)
    assert machine.answered(Answer(3)) == (Send(Answer(3)),)
    assert machine.answered(Answer(1)) == (Send(Answer(1)),)
    assert machine.answered(Answer(3)) == ()
    assert machine.answered(Answer(9)) == ()


def test_more_requests_than_the_bound_are_refused_without_being_begun() -> None:
    machine = standing()
    for id in range(1, 5):
        machine.receive(Request(id, "page", b"", 5_000, CALLER), at(4))
    [send] = machine.receive(Request(5, "page", b"", 5_000, CALLER), at(4))
    assert isinstance(send, Send)
    assert isinstance(send.message, Answer)
    assert (send.message.id, send.message.error, send.message.status) == (5, "busy", 503)
    machine.answered(Answer(1))
    assert isinstance(machine.receive(Request(6, "page", b"", 5_000, CALLER), at(4))[0], Asked)


def test_one_request_twice_ends_the_session() -> None:
    machine = standing()
    machine.receive(Request(1, "page", b"", 5_000, CALLER), at(4))
    assert bye(machine.receive(Request(1, "page", b"", 5_000, CALLER), at(4))).code == "out-of-order"


def test_a_renewal_is_asked_for_once_and_answered_once() -> None:
    machine = standing()
    assert machine.renew(RENEW, at(3)) == (Send(RENEW),)
    assert machine.renew(RENEW, at(4)) == ()
    renewed = Renewed(b"new", ())
    assert machine.receive(renewed, at(5)) == (CertificateRenewed(renewed),)
    assert bye(machine.receive(renewed, at(6))).code == "out-of-order"


def test_a_renewal_without_an_answer_ends_the_session() -> None:
    machine = reported()
    machine.renew(RENEW, at(3))
    machine.receive(BeatAck(1, 60_000), at(4))
    assert machine.deadline == 13
    machine.tick(at(13))
    assert bye(machine.tick(at(14))).code == "no-answer"


def test_a_refusal_of_ours_may_be_kept_from_a_stranger() -> None:
    machine = at_stage(Stage.CHECKING)
    [end] = machine.close("wrong-pin", "another CA", tell=False)
    assert isinstance(end, End)


def test_an_enrolment_ends_when_it_was_kept() -> None:
    machine = opened(Enrol)
    admitted = SAMPLES[Admitted]
    assert isinstance(admitted, Admitted)
    assert machine.receive(admitted, at(3)) == (Taken(admitted),)
    assert machine.deadline == math.inf
    [end] = machine.finished()
    assert isinstance(end, End)
    assert end.ending.code == "enrolled"


def test_a_wire_that_ends_after_the_admission_does_not_end_its_keeping() -> None:
    machine = at_stage(Stage.DONE)
    assert machine.closed("the parent has nothing more to say") == ()
    [end] = machine.finished()
    assert isinstance(end, End)
    [end] = opened(Enrol).closed("connection reset")
    assert isinstance(end, End)
    assert end.ending.code == "wire-closed"


def test_a_session_uses_the_smaller_frame() -> None:
    machine = opened()
    machine.receive(msgspec.structs.replace(SAMPLES[HelloAck], max_frame=20_000), at(3))
    assert machine.max_frame == 20_000
    machine = opened()
    machine.receive(msgspec.structs.replace(SAMPLES[HelloAck], max_frame=1 << 40), at(3))
    assert machine.max_frame == 256 * 1024


def test_the_table_names_only_the_words_of_one_direction_at_a_time() -> None:
    for move in CHILD:
        if move.before is not Stage.STANDING:
            assert CHILD.allowed(move.before) in (
                [move.event],
                sorted([Word.HELLO, Word.ENROL]),
            )


@given(st.lists(st.tuples(st.sampled_from(list(SAMPLES.values())), st.floats(0, 30)), max_size=30))
def test_no_sequence_of_words_breaks_it(words: list[tuple[Message, float]]) -> None:
    machine = greeted()
    now = 0.0
    ended = 0
    for message, pause in words:
        now += pause
        pending = [*machine.tick(at(now)), *machine.receive(message, at(now))]
        while pending:
            action = pending.pop(0)
            match action:
                case Welcomed():
                    pending += machine.opened(SAMPLES[Hello], at(now))
                case ReportDue(seq, _):
                    pending += machine.reported(Beat(seq), at(now))
                case Asked(request):
                    pending += machine.answered(Answer(request.id))
                case End():
                    ended += 1
        if machine.ending is None:
            assert machine.deadline < math.inf
    assert ended == (machine.ending is not None)
