"""Names and reasons that others chose: whatever is in them, a terminal is not steered by it."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from banyan.cli.output import Column, Screen
from banyan.cli.picture import picture
from banyan.cli.tree import draw
from banyan.core.errors import Refused
from banyan.zone.views import AmountView, UsageView
from tests.api.surface import zone_view
from tests.unit.cli.conftest import Zone

# Sets the window's title, clears the screen, moves the cursor (7 and 8 bits), turns what follows round, ends the line.
NASTY = "lab\x1b]0;owned\x07\x1b[2J\x9b1A\u202etxt\r\x7fend"
TAME = "lab\ufffd]0;owned\ufffd\ufffd[2J\ufffd1A\ufffdtxt\ufffd\ufffdend"


class Terminal(io.StringIO):
    def __init__(self, is_one: bool) -> None:
        super().__init__()
        self.is_one = is_one

    def isatty(self) -> bool:
        return self.is_one


@pytest.mark.parametrize("terminal", [False, True], ids=["file", "terminal"])
def test_nothing_on_the_screen_steers_it(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "200")
    out, err = Terminal(terminal), Terminal(terminal)
    screen = Screen(False, out, err)
    screen.table([Column("NAME", str), Column("AGAIN", str)], [NASTY, "fine"], "none")
    screen.show([("reason", NASTY)])
    screen.line(NASTY)
    screen.note(f"two\nlines {NASTY}")
    screen.error(Refused("no", NASTY))
    assert out.getvalue().count(TAME) == 4
    assert err.getvalue() == f"two\nlines {TAME}\nbanyan: {TAME} [no]\n"
    for text in (out.getvalue(), err.getvalue()):
        assert all(line.isprintable() for line in text.split("\n"))


def test_neither_does_a_picture_or_a_tree(zone: Zone) -> None:
    usage = msgspec.json.decode(zone.say("usage", "--json").out, type=UsageView)
    hostile = msgspec.structs.replace(
        usage,
        resources={**usage.resources, NASTY: AmountView(1, 2, 1)},
        guests={NASTY: 3},
        unknown_names=(NASTY,),
        unknown=msgspec.structs.replace(usage.unknown, zones=1),
    )
    out = io.StringIO()
    console = Console(file=out, width=300, color_system=None)
    console.print(picture(hostile, trouble=NASTY))
    for line in draw(NASTY, [zone_view("a", reason=NASTY)]):
        console.print(line)
    assert out.getvalue().count(TAME) == 6
    assert all(line.isprintable() for line in out.getvalue().split("\n"))


def test_a_list_for_people_is_made_fit_and_one_for_machines_is_exact(zone: Zone) -> None:
    zone.surface.tree["lab"] = zone_view("lab", reason=NASTY)
    assert TAME in zone.say("zone", "list").out
    [row] = [row for row in msgspec.json.decode(zone.say("zone", "list", "--json").out) if row["name"] == "lab"]
    assert row["reason"] == NASTY
