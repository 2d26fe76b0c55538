from __future__ import annotations

import math
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.errors import Unreachable
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
    Renew,
    Renewed,
    Report,
    Welcome,
)
from banyan.core.time import Mono
from banyan.link.parent_session import ParentMachine
from banyan.link.session import (
    PARENT,
    Answered,
    End,
    Enrolling,
    Greeted,
    Opening,
    ParentAction,
    Renewing,
    Reported,
    Send,
    Stage,
    Timing,
)
from tests.unit.link.words import CALLER, GRANT, RENEW, SAMPLES

TIMING = Timing(opening=10, answer=10, grace=30, second_look=1, outstanding=4)
WELCOME = SAMPLES[Welcome]
HELLO_ACK = SAMPLES[HelloAck]
ADMITTED = SAMPLES[Admitted]
assert isinstance(WELCOME, Welcome)
assert isinstance(HELLO_ACK, HelloAck)
assert isinstance(ADMITTED, Admitted)


def at(seconds: float) -> Mono:
    return Mono(seconds)


def greet(floor: int = 1, ceiling: int = 1, purpose: str = "session") -> Greet:
    return Greet(floor, ceiling, bytes(16), purpose)


def welcomed(purpose: str = "session") -> ParentMachine:
    machine = ParentMachine(purpose, TIMING, at(0))
    machine.receive(greet(purpose=purpose), at(1))
    machine.welcomed(WELCOME, at(2))
    return machine


def standing() -> ParentMachine:
    """From 3 s on, with a lease of 15 s."""
    machine = welcomed()
    machine.receive(SAMPLES[Hello], at(3))
    machine.established(HELLO_ACK, at(3))
    return machine


def bye(actions: tuple[ParentAction, ...]) -> Bye:
    send, end = actions
    assert isinstance(send, Send)
    assert isinstance(send.message, Bye)
    assert isinstance(end, End)
    return send.message


def at_stage(stage: Stage) -> ParentMachine:
    match stage:
        case Stage.NEW:
            return ParentMachine("session", TIMING, at(0))
        case Stage.CHECKING:
            machine = ParentMachine("session", TIMING, at(0))
            machine.receive(greet(), at(1))
            return machine
        case Stage.GREETED:
            return welcomed()
        case Stage.DECIDING:
            machine = welcomed()
            machine.receive(SAMPLES[Hello], at(3))
            return machine
        case Stage.ADMITTING:
            machine = welcomed("enrol")
            machine.receive(SAMPLES[Enrol], at(3))
            return machine
        case Stage.STANDING:
            machine = standing()
            machine.ask("page", b"", CALLER, 5)
            return machine
        case Stage.DONE:
            machine = at_stage(Stage.ADMITTING)
            machine.admitted(ADMITTED)
            return machine
    raise AssertionError(f"a parent's session is never {stage}")


STAGES = sorted(({m.before for m in PARENT} | {m.after for m in PARENT}) - {Stage.DONE})
ALLOWED = {
    (Stage.NEW, Greet),
    (Stage.GREETED, Hello),
    (Stage.STANDING, Report),
    (Stage.STANDING, Beat),
    (Stage.STANDING, Renew),
    (Stage.STANDING, Answer),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", [k for k in get_args(Message) if k is not Bye], ids=lambda kind: kind.__name__)
def test_each_word_at_each_stage_is_a_move_or_a_refusal(stage: Stage, kind: type) -> None:
    machine = at_stage(stage)
    assert machine.stage is stage
    actions = machine.receive(SAMPLES[kind], at(4))
    if (stage, kind) in ALLOWED:
        assert actions
        assert not any(isinstance(a, End) for a in actions)
    else:
        assert bye(actions).code == "out-of-order"


@pytest.mark.parametrize("stage", STAGES)
def test_a_bye_ends_every_stage(stage: Stage) -> None:
    [end] = at_stage(stage).receive(Bye("stopping", "", 0), at(4))
    assert isinstance(end, End)
    assert end.ending.by_peer


def test_the_opening_of_a_session() -> None:
    machine = ParentMachine("session", TIMING, at(0))
    assert machine.receive(greet(), at(1)) == (Greeted(greet(), 1),)
    assert machine.deadline == math.inf
    assert machine.welcomed(WELCOME, at(2)) == (Send(WELCOME),)
    assert machine.deadline == 12
    assert machine.receive(SAMPLES[Hello], at(3)) == (Opening(SAMPLES[Hello]),)
    assert machine.established(HELLO_ACK, at(4)) == (Send(HELLO_ACK),)
    assert machine.deadline == 4 + 15 + 30


def test_an_enrolment_ends_the_wire() -> None:
    machine = at_stage(Stage.ADMITTING)
    send, end = machine.admitted(ADMITTED)
    assert send == Send(ADMITTED)
    assert isinstance(end, End)
    assert machine.receive(SAMPLES[Hello], at(5)) == ()


@pytest.mark.parametrize(("purpose", "word"), [("session", Enrol), ("enrol", Hello)])
def test_each_purpose_has_its_own_word(purpose: str, word: type) -> None:
    assert bye(welcomed(purpose).receive(SAMPLES[word], at(3))).code == "out-of-order"


def test_the_greeting_must_be_for_this_wires_purpose() -> None:
    machine = ParentMachine("session", TIMING, at(0))
    assert bye(machine.receive(greet(purpose="enrol"), at(1))).code == "wrong-purpose"


@pytest.mark.parametrize(
    ("floor", "ceiling", "chosen"), [(1, 1, 1), (1, 9, 1), (0, 1, 1), (2, 9, None), (0, 0, None), (3, 2, None)]
)
def test_the_highest_version_that_both_know_is_chosen(floor: int, ceiling: int, chosen: int | None) -> None:
    machine = ParentMachine("session", TIMING, at(0))
    actions = machine.receive(greet(floor, ceiling), at(1))
    if chosen is None:
        said = bye(actions)
        assert said.code == "version"
        assert "upgrade" in said.text
    else:
        assert actions == (Greeted(greet(floor, ceiling), chosen),)
        [send] = machine.welcomed(msgspec.structs.replace(WELCOME, version=77), at(2))
        assert isinstance(send, Send)
        assert isinstance(send.message, Welcome)
        assert send.message.version == chosen


@pytest.mark.parametrize("stage", [Stage.NEW, Stage.GREETED, Stage.STANDING])
def test_a_silent_child_is_let_go_after_a_second_look(stage: Stage) -> None:
    machine = at_stage(stage)
    first = machine.deadline
    assert machine.tick(at(first - 0.1)) == ()
    assert machine.tick(first) == ()
    assert machine.ending is None
    assert bye(machine.tick(machine.deadline)).code == ("silent" if stage is Stage.STANDING else "no-answer")


def test_a_report_that_arrived_while_the_loop_was_blocked_counts() -> None:
    machine = standing()
    machine.tick(at(500))
    assert machine.receive(Beat(1), at(500.1)) == (Reported(Beat(1)),)
    machine.acknowledged(BeatAck(1, 6_000), at(500.2))
    assert machine.deadline == pytest.approx(545.2)


def test_each_acknowledgement_grants_time() -> None:
    machine = standing()
    machine.receive(Beat(1), at(10))
    assert machine.deadline == math.inf  # while the own side thinks
    machine.acknowledged(BeatAck(1, 100_000), at(11))
    assert machine.deadline == 11 + 100 + 30  # the report is due later than the lease
    machine.receive(Beat(2), at(20))
    machine.acknowledged(Ack(2, msgspec.structs.replace(GRANT, lease=300_000), Generations()), at(21))
    assert machine.deadline == 21 + 300 + 30


@pytest.mark.parametrize("seq", [0, 2, 99])
def test_reports_come_in_order(seq: int) -> None:
    assert bye(standing().receive(Beat(seq), at(4))).code == "out-of-order"


def test_a_report_twice_ends_the_session() -> None:
    machine = standing()
    machine.receive(Beat(1), at(4))
    machine.acknowledged(BeatAck(1, 6_000), at(4))
    assert bye(machine.receive(Beat(1), at(5))).code == "out-of-order"


def test_one_report_at_a_time() -> None:
    machine = standing()
    machine.receive(Beat(1), at(4))
    assert bye(machine.receive(Beat(2), at(5))).code == "out-of-order"


def test_our_own_side_must_acknowledge_what_came() -> None:
    machine = standing()
    with pytest.raises(ValueError, match="acknowledges nothing"):
        machine.acknowledged(BeatAck(1, 6_000), at(4))
    machine.receive(SAMPLES[Report], at(4))
    with pytest.raises(ValueError, match="acknowledges nothing"):
        machine.acknowledged(BeatAck(1, 6_000), at(4))
    with pytest.raises(ValueError, match="acknowledges nothing"):
        machine.acknowledged(Ack(2, GRANT, Generations()), at(4))
    assert machine.acknowledged(Ack(1, GRANT, Generations()), at(4))


def test_one_renewal_at_a_time() -> None:
    machine = standing()
    assert machine.receive(RENEW, at(4)) == (Renewing(RENEW),)
    assert machine.renewed(Renewed(b"new", ())) == (Send(Renewed(b"new", ())),)
    assert machine.receive(RENEW, at(5)) == (Renewing(RENEW),)
    assert bye(machine.receive(RENEW, at(6))).code == "out-of-order"


def test_requests_have_rising_numbers_and_answers_match_them() -> None:
    machine = standing()
    first = machine.ask("page", b"x", CALLER, 5)
    second = machine.ask("usage", b"", CALLER, 2.5)
    assert (first.id, second.id, second.deadline) == (1, 2, 2_500)
    assert machine.receive(Answer(2, b"b"), at(4)) == (Answered(Answer(2, b"b")),)
    assert machine.receive(Answer(1, b"a"), at(4)) == (Answered(Answer(1, b"a")),)


def test_a_late_answer_is_counted_and_an_invented_one_ends_the_session() -> None:
    machine = standing()
    request = machine.ask("page", b"", CALLER, 5)
    machine.forget(request.id)
    assert machine.receive(Answer(request.id), at(4)) == ()
    assert machine.late_answers == 1
    assert bye(machine.receive(Answer(request.id + 1), at(4))).code == "out-of-order"
    assert bye(standing().receive(Answer(0), at(4))).code == "out-of-order"


def test_requests_are_bounded_and_refused_before_they_are_sent() -> None:
    machine = standing()
    ids = [machine.ask("page", b"", CALLER, 5).id for _ in range(4)]
    with pytest.raises(Unreachable, match="not sent") as caught:
        machine.ask("page", b"", CALLER, 5)
    assert caught.value.code == "busy"
    machine.forget(ids[0])
    machine.ask("page", b"", CALLER, 5)


@pytest.mark.parametrize("stage", [s for s in STAGES if s is not Stage.STANDING])
def test_nothing_is_asked_of_who_is_not_known_yet(stage: Stage) -> None:
    with pytest.raises(Unreachable, match="not connected"):
        at_stage(stage).ask("page", b"", CALLER, 5)


def test_nothing_happens_after_the_end() -> None:
    machine = standing()
    machine.receive(Beat(1), at(4))
    machine.receive(RENEW, at(4))
    assert bye(machine.close("banned", "by a person's word", retry_after=-1)).retry_after == -1
    assert machine.acknowledged(BeatAck(1, 6_000), at(5)) == ()
    assert machine.renewed(Renewed(b"", ())) == ()
    for message in SAMPLES.values():
        assert machine.receive(message, at(5)) == ()
    assert machine.tick(at(1e9)) == ()
    with pytest.raises(Unreachable):
        machine.ask("page", b"", CALLER, 5)


@given(st.lists(st.tuples(st.sampled_from(list(SAMPLES.values())), st.floats(0, 30)), max_size=30))
def test_no_sequence_of_words_breaks_it(words: list[tuple[Message, float]]) -> None:
    machine = ParentMachine("session", TIMING, at(0))
    now = 0.0
    ended = 0
    for message, pause in words:
        now += pause
        pending = [*machine.tick(at(now)), *machine.receive(message, at(now))]
        while pending:
            match pending.pop(0):
                case Greeted():
                    pending += machine.welcomed(WELCOME, at(now))
                case Opening():
                    pending += machine.established(HELLO_ACK, at(now))
                case Enrolling():
                    pending += machine.admitted(ADMITTED)
                case Reported(report):
                    pending += machine.acknowledged(Ack(report.seq, GRANT, Generations()), at(now))
                case Renewing():
                    pending += machine.renewed(Renewed(b"", ()))
                case End():
                    ended += 1
        assert machine.ending is not None or machine.deadline < math.inf
    assert ended == (machine.ending is not None)
