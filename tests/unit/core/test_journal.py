"""The journal's chain: what a line's digest covers."""

from __future__ import annotations

from banyan.core.identity import SYSTEM
from banyan.core.journal import Event, chain
from banyan.core.time import Wall


def test_a_whole_second_chains_alike_as_integer_and_as_float() -> None:
    event = Event("child-admitted", "east", SYSTEM, "", {"a": "1"})
    assert chain(b"", 1, Wall(1_790_812_800), event) == chain(b"", 1, Wall(1_790_812_800.0), event)
