"""A receiver is told each line that is for it, at least once, in order; storms in one; dead ones are an event, once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from banyan.core.errors import NotFound
from banyan.core.identity import SYSTEM
from banyan.core.receiver import SendFailed
from banyan.core.records import StoreUnknown
from banyan.core.severity import Severity
from banyan.zone.reconcile.telling import HOLD, LAST_PAUSE, LOOK, OFFERS
from tests.unit.zone.telling import SPEC, Lab

DOWN = SendFailed("https://siem.example does not answer")


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    lab.close()


def test_what_is_written_is_told_once_and_in_order(lab: Lab) -> None:
    lab.write("child-lost", "east")
    lab.write("child-alive", "east")
    lab.write("child-lost", "west")
    lab.go_on(10)
    assert [(n.kind, n.target) for n in lab.other.taken] == [
        ("child-lost", "east"), ("child-alive", "east"), ("child-lost", "west"),
    ]  # fmt: skip
    first = lab.other.taken[0]
    assert (first.severity, first.zone, first.count) == (Severity.CRITICAL, "top/lab", 1)
    assert first.next == "`banyan zone show east`"
    lab.go_on(600)
    lab.restart()
    lab.go_on(600)
    assert len(lab.other.offered) == 3
    assert lab.told.counts.told == 0, "since the start"


def test_a_new_receiver_is_not_told_the_past(lab: Lab) -> None:
    lab.write("child-lost", "east")
    other = replace(SPEC, name="other")
    lab.restart(SPEC, other)
    assert lab.run(lab.receivers.views())[0].backlog == 0
    lab.go_on(10)
    assert lab.targets == ["east"], "the old one is told what was written before"


def test_only_what_is_grave_enough_and_chosen_is_told() -> None:
    lab = Lab(replace(SPEC, severity=Severity.WARNING, include=("child-*", "rack-*"), exclude=("child-suspect",)))
    lab.write("child-lost", "lost")
    lab.write("child-suspect", "excluded")
    lab.write("child-alive", "not grave enough")
    lab.write("server-failed", "not included")
    lab.write("rack-unavailable", "rack")
    lab.go_on(10)
    assert lab.targets == ["lost", "rack"]
    lab.close()


def test_what_nobody_has_a_page_for_is_told_rather_than_lost(lab: Lab) -> None:
    lab.write("of-a-newer-program", "thing")
    lab.go_on(10)
    assert [n.severity for n in lab.other.taken] == [Severity.WARNING]


def test_a_storm_is_told_in_one(lab: Lab) -> None:
    for begin in range(0, 10_000, 500):
        lab.write("child-lost", *(f"z{n}" for n in range(begin, begin + 500)))
        lab.go_on(0.2)
    lab.go_on(120)
    (storm,) = lab.other.taken
    assert (storm.kind, storm.count, len(storm.subjects)) == ("child-lost", 10_000, 20)
    assert storm.subjects[:2] == ("z0", "z1") and "9,980 more" in storm.text
    assert storm.command == f"banyan journal --kind child-lost --after {storm.first - 1} --limit 10000"
    assert storm.next == f"`{storm.command}`"
    assert lab.told.counts.folded == 10_000
    assert lab.row().number >= storm.last


def test_a_storm_that_goes_on_is_told_seldom_and_holds_up_nothing_else(lab: Lab) -> None:
    for turn in range(100):
        lab.write("server-failed", *(f"s{turn}-{n}" for n in range(20)))
        if turn == 50:
            lab.write("child-lost", "east")
            began = lab.own.wall()
        lab.go_on(3)
    assert sum(n.count for n in lab.other.taken if n.kind == "server-failed") <= 2_000
    assert len(lab.other.taken) <= 2 + 300 / HOLD + 2
    assert next(n for n in lab.other.taken if n.kind == "child-lost").count == 1
    told = lab.other.at[[n.kind for n in lab.other.taken].index("child-lost")]
    assert told - began < 15
    lab.go_on(HOLD + 20)
    assert sum(n.count for n in lab.other.taken if n.kind == "server-failed") == 2_000


def test_after_a_crash_between_telling_and_noting_the_same_ids_are_told_again(lab: Lab) -> None:
    lab.write("child-lost", *(f"z{n}" for n in range(30)))
    lab.write("rack-unavailable", "r1", "r2")
    lab.other.before = lambda n: lab.store.crash() if n.target == "r2" else None
    with pytest.raises(StoreUnknown):
        lab.go_on(60)
    before = list(lab.other.taken)
    lab.other.before = lambda _: None
    lab.restart()
    # What comes meanwhile changes nothing about what was begun.
    lab.write("child-lost", "z30")
    lab.write("rack-unavailable", *(f"q{n}" for n in range(30)))
    lab.go_on(300)
    again = lab.other.taken[len(before) :]
    assert [n.id for n in before] == [n.id for n in again[: len(before)]]
    assert again[0].count == 30
    assert sum(n.count for n in again) == 30 + 2 + 1 + 30


def test_a_storm_that_a_crash_interrupts_is_the_same_storm_after_it(lab: Lab) -> None:
    lab.write("child-lost", *(f"z{n}" for n in range(30)))
    lab.go_on(20)
    # Few, but of a kind that was a storm just now: one notice, also for a process that never saw the storm.
    lab.write("child-lost", "y1", "y2")
    lab.write("rack-unavailable", "r1")
    lab.other.before = lambda n: lab.store.crash() if n.target == "r1" else None
    with pytest.raises(StoreUnknown):
        lab.go_on(60)
    before = lab.other.taken[1:]
    assert [n.count for n in before] == [2, 1]
    lab.other.before = lambda _: None
    lab.restart()
    lab.go_on(60)
    assert [n.id for n in lab.other.taken[3:]] == [n.id for n in before]


def test_an_id_is_of_one_history(lab: Lab) -> None:
    """After a restore the numbers come again, and mean something else."""
    image = lab.store.image()
    lab.write("child-lost", "east")
    lab.go_on(10)
    lab.store = lab._open(image)
    lab.begin()
    lab.write("child-lost", "west")
    lab.go_on(10)
    east, west = lab.other.taken
    assert east.first == west.first and east.id != west.id


def test_a_failing_receiver_is_tried_again_with_growing_pauses(lab: Lab) -> None:
    lab.other.fails = DOWN
    lab.write("child-lost", "east")
    lab.go_on(3_600)
    pauses = [after - before for before, after in zip(lab.other.at, lab.other.at[1:], strict=False)]
    assert 15 <= len(lab.other.offered) <= 40
    assert max(pauses) <= LAST_PAUSE + LOOK and min(pauses) >= 0.9
    assert len({round(p, 1) for p in pauses[-8:]}) > 4, "spread"
    assert len({n.id for n in lab.other.offered}) == 1
    lab.other.fails = None
    lab.go_on(LAST_PAUSE + 10)
    assert lab.targets[0] == "east"


def test_a_wish_for_later_is_granted_and_no_more_than_an_hour(lab: Lab) -> None:
    lab.other.fails = SendFailed("busy", after=120.0)
    lab.write("child-lost", "east")
    lab.go_on(130)
    assert len(lab.other.at) == 2 and lab.other.at[1] - lab.other.at[0] == pytest.approx(120, abs=3)
    lab.other.fails = SendFailed("busy", after=1e9)
    lab.go_on(125)
    lab.other.fails = None
    lab.go_on(3_700)
    assert "east" in lab.targets


def test_one_that_hangs_is_given_up(lab: Lab) -> None:
    lab.other.hangs = True
    lab.write("child-lost", "east")
    lab.go_on(60)
    assert len(lab.other.offered) >= 2
    assert lab.row().last_error == "https://siem.example did not answer within 15 s"


def test_a_dead_receiver_is_an_event_once_and_so_is_its_return(lab: Lab) -> None:
    lab.other.fails = DOWN
    lab.write("child-lost", "east")
    lab.go_on(250)
    assert not lab.lines("receiver-dead")
    lab.go_on(7_200)
    (line,) = lab.lines("receiver-dead")
    assert line.target == "siem" and line.outcome == "failed" and "does not answer" in line.text
    lab.restart()
    lab.go_on(7_200)
    assert len(lab.lines("receiver-dead")) == 1, "not anew with each process"
    lab.other.fails = None
    lab.go_on(600)
    (back,) = lab.lines("receiver-back")
    assert back.facts["since"] == line.facts["since"]
    assert lab.targets == ["east"], "it is not told of itself, which would never end"
    row = lab.row()
    assert (row.dead, row.failing_since, row.last_error) == (False, None, "")


def test_a_receiver_that_fails_now_so_now_so_is_dead_once(lab: Lab) -> None:
    def judge(_: object) -> None:
        lab.other.fails = SendFailed(f"answered {500 + len(lab.other.offered)}")

    lab.other.before = judge
    lab.write("child-lost", "east")
    lab.go_on(7_200)
    assert len(lab.lines("receiver-dead")) == 1
    assert lab.row().last_error == f"answered {500 + len(lab.other.offered)}"


def test_what_a_receiver_is_dead_of_is_told_to_the_others() -> None:
    lab = Lab()
    lab.other.fails = DOWN
    lab.write("child-lost", "east")
    lab.go_on(1_000)
    lab.other.fails = None
    lab.restart(replace(SPEC, name="dead"), SPEC)
    lab.write("receiver-dead", "dead")
    lab.go_on(600)
    assert ("receiver-dead", "dead") in [(n.kind, n.target) for n in lab.other.taken]
    lab.close()


def test_one_that_is_gone_is_left_alone_until_its_address_changes(lab: Lab) -> None:
    lab.other.fails = SendFailed("https://siem.example answered 410", gone=True)
    lab.write("child-lost", "east")
    lab.go_on(7_200)
    assert len(lab.other.offered) == 1
    assert len(lab.lines("receiver-gone")) == 1
    lab.restart()
    lab.other.fails = None
    lab.go_on(600)
    assert len(lab.other.offered) == 1
    lab.restart(replace(SPEC, address="https://siem.example/other"))
    lab.go_on(600)
    assert lab.targets == ["east"], "what waited is told"


def test_a_test_that_is_taken_ends_that_it_is_gone(lab: Lab) -> None:
    lab.other.fails = SendFailed("https://siem.example answered 410", gone=True)
    lab.write("child-lost", "east")
    lab.go_on(100)
    with pytest.raises(SendFailed):
        lab.run(lab.receivers.test(SYSTEM, "siem"))
    assert lab.row().gone
    lab.other.fails = None
    view = lab.run(lab.receivers.test(SYSTEM, "siem"))
    assert (view.state, view.where) == ("well", "https://siem.example")
    lab.go_on(100)
    assert lab.targets == ["siem", "east"]
    assert [line.outcome for line in lab.lines("receiver-tested")] == ["failed", "done"]
    with pytest.raises(NotFound, match="there are siem"):
        lab.run(lab.receivers.test(SYSTEM, "other"))


def test_a_test_that_is_taken_tells_that_a_dead_one_is_back_and_once(lab: Lab) -> None:
    lab.other.fails = DOWN
    lab.write("child-lost", "east")
    lab.go_on(1_000)
    assert lab.row().dead
    lab.other.fails = None
    assert lab.run(lab.receivers.test(SYSTEM, "siem")).state == "well"
    assert len(lab.lines("receiver-back")) == 1
    lab.go_on(1_000)
    assert len(lab.lines("receiver-back")) == 1
    assert lab.targets == ["siem", "east"]


def test_what_a_receiver_takes_from_nobody_does_not_hold_up_the_rest(lab: Lab) -> None:
    def judge(notice: object) -> None:
        lab.other.fails = SendFailed("answered 422", refused=True) if getattr(notice, "target", "") == "odd" else None

    lab.other.before = judge
    lab.write("child-lost", "odd", "even")
    lab.go_on(120)
    assert [n.target for n in lab.other.offered].count("odd") == OFFERS
    assert lab.targets == ["even", "siem"]
    (line,) = lab.lines("receiver-skipped")
    assert "422" in line.text and line.facts["events"] == "1"


def test_a_backlog_beyond_its_bound_is_left_out_with_one_event_that_says_how_many() -> None:
    lab = Lab(replace(SPEC, backlog=1_000))
    lab.other.fails = DOWN
    for turn in range(30):
        lab.write("child-lost", *(f"z{turn}-{n}" for n in range(90)))
        lab.write("child-registered", *(f"z{turn}-{n}" for n in range(10)))
        lab.go_on(400)
    skipped = lab.lines("receiver-skipped")
    assert 3 <= len(skipped) <= 6, "half of the backlog each time"
    lab.other.fails = None
    lab.go_on(1_000)
    told = [n for n in lab.other.taken if n.kind == "child-lost"]
    left = sum(int(line.facts["events"]) for line in skipped)
    assert left + sum(n.count for n in told) >= 30 * 90
    assert left <= 30 * 90
    assert {n.kind for n in lab.other.taken} == {"child-lost", "receiver-skipped"}, "the receiver learns of it"
    assert lab.row().upto == 0
    lab.close()


def test_what_waited_too_long_is_left_out() -> None:
    lab = Lab(replace(SPEC, backlog_age=40_000.0))
    lab.other.fails = DOWN
    lab.write("child-lost", "old")
    lab.go_on(30_000)
    lab.write("child-lost", "new")
    lab.go_on(15_000)
    assert len(lab.lines("receiver-skipped")) == 1
    lab.other.fails = None
    lab.go_on(600)
    assert lab.targets == ["new", "siem"]
    lab.close()


def test_lines_for_others_cost_no_writes_and_are_not_read_for_ever(lab: Lab) -> None:
    before = lab.row().number
    lab.write("child-registered", *(f"z{n}" for n in range(300)))
    lab.go_on(60)
    assert lab.row().number == before
    assert lab.told.behind == 0
    lab.write("child-registered", *(f"z{n}" for n in range(1_000)))
    lab.go_on(60)
    assert lab.row().number == before + 1_300


def test_a_store_that_does_not_say_what_became_of_a_commit_loses_nothing(lab: Lab) -> None:
    lab.write("child-lost", "east", "west")
    lab.store.fail(StoreUnknown)
    with pytest.raises(StoreUnknown):
        lab.go_on(10)
    lab.store.fail(None, StoreUnknown)
    lab.go_on(10)
    lab.go_on(60)
    assert lab.targets == ["east", "west"]


def test_a_receiver_that_the_settings_name_no_more_is_forgotten(lab: Lab) -> None:
    lab.restart(replace(SPEC, name="other"))
    assert [line.target for line in lab.lines("receiver-removed")] == ["siem"]
    assert [view.name for view in lab.run(lab.receivers.views())] == ["other"]


def test_what_is_shown_has_no_secret_in_it(lab: Lab) -> None:
    lab.other.fails = DOWN
    lab.write("child-lost", "east")
    lab.go_on(1_000)
    (view,) = lab.run(lab.receivers.views())
    assert view.state == "dead" and view.backlog >= 1 and view.failed > 5
    everything = repr(view) + repr(lab.row()) + repr(lab.lines("receiver-dead")) + repr(lab.lines("receiver-added"))
    assert "s3cret" not in everything
