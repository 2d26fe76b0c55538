"""Each play is one test, at each depth it names. `python -m banyan.simulate play FILE` runs one by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from banyan.simulate.play import perform, read
from banyan.simulate.script import Play

PLAYS = Path(__file__).parent / "plays"


def cases() -> list[tuple[Play, int | None]]:
    # Named from the tests' folder, so that an error reads the same wherever the project lies.
    found: list[tuple[Play, int | None]] = []
    for path in sorted(PLAYS.glob("*.play")):
        play = read(path)
        found += [(play, depth) for depth in play.depths or (None,)]
    return found


@pytest.mark.parametrize(
    ("play", "depth"),
    [pytest.param(play, depth, id=play.path.stem + (f"-{depth}" if depth else "")) for play, depth in cases()],
)
def test_play(play: Play, depth: int | None) -> None:
    perform(play, depth)


def test_every_play_says_what_it_shows() -> None:
    assert not [play.path.name for play, _ in cases() if not play.title]
