"""The language of plays: what is read, what is refused with file and line, what is rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from banyan.simulate.script import ScriptError, Setting, clock_text, duration, parse, rewritten

PATH = Path("cut.play")
TEXT = """\
# A cut child is lost.
@seed 7

tree 1x10
cut top/z1   # the cable
within 60s zone top/z1 health=lost hosts>=3
trace
----
00:00:00.000 old

expect journal top "two words"
"""


def test_a_file_becomes_steps_with_their_lines() -> None:
    play = parse(PATH, TEXT)
    assert (play.title, play.seed, play.depths) == ("A cut child is lost.", 7, ())
    assert [step.where for step in play.steps] == [f"cut.play:{n}" for n in (4, 5, 6, 7, 11)]
    assert [step.verb for step in play.steps] == ["tree", "cut", "within", "trace", "expect"]
    within = play.steps[2]
    assert within.words == ("60s", "zone", "top/z1")
    assert within.settings == (Setting("health", "=", "lost"), Setting("hosts", ">=", "3"))
    assert play.steps[3].output == ("00:00:00.000 old",)
    assert play.steps[4].words == ("journal", "top", "two words")
    assert play.steps[4].rest().verb == "journal"


def test_outputs_are_rewritten_in_place_and_added_where_there_was_none() -> None:
    play = parse(PATH, TEXT)
    text = rewritten(play, {"cut.play:7": ("new 1", "new 2"), "cut.play:11": ("added",)})
    assert "old" not in text
    again = parse(PATH, text)
    assert [step.output for step in again.steps] == [None, None, None, ("new 1", "new 2"), ("added",)]
    assert rewritten(again, {again.steps[3].where: ("new 1", "new 2"), again.steps[4].where: ("added",)}) == text


def test_a_play_with_depths_names_the_lowest_pair() -> None:
    play = parse(PATH, "@depth 1 3\njoin {child} hosts=5\nexpect zone {child} parent={parent}\n")
    assert play.depths == (1, 3)
    assert play.at(1).steps[0].words == ("top/east",)
    deep = play.at(3)
    assert deep.steps[0].words == ("top/m1/m2/east",)
    assert deep.steps[1].settings[0].value == "top/m1/m2"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("tree 1\n@speed 3\n", "cut.play:2"),
        ("@seed x\n", "cut.play:1"),
        ('\nexpect "open\n', "cut.play:2"),
        ("@depth 1\ntrace\n----\nx\n", "cut.play"),
    ],
)
def test_mistakes_name_file_and_line(text: str, where: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse(PATH, text)
    assert caught.value.where == where


def test_durations() -> None:
    assert duration("90s") == 90.0
    assert duration("1h30m") == 5400.0
    assert duration("-250ms") == -0.25
    assert duration("+2w") == 1_209_600.0
    for wrong in ("90", "s", "5x", "", "1h-30m", "1h 30m"):
        with pytest.raises(ScriptError):
            duration(wrong, "cut.play:1")


@pytest.mark.parametrize(
    ("op", "value", "found", "holds"),
    [
        ("=", "100", 100, True),
        ("=", "100", 101, False),
        ("!=", "100", 101, True),
        (">=", "9", 10, True),
        ("<=", "9", 10, False),
        (">=", "9", "text", False),
        ("~", "cred", "bad credentials", True),
        ("~", "cred", None, False),
        ("=", "none", None, True),
        ("=", "yes", True, True),
    ],
)
def test_settings_compare(op: str, value: str, found: object, holds: bool) -> None:
    assert Setting("k", op, value).holds(found) is holds


def test_virtual_time_as_text() -> None:
    assert clock_text(0.0) == "00:00:00.000"
    assert clock_text(3 * 86_400 + 4 * 3600 + 5 * 60 + 6.789) == "3d 04:05:06.789"
