"""Totals follow what is held within a moment; however many changes come, the first of them wakes who shows them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from banyan.core.ids import RackCode
from banyan.core.time import Mono, Wall
from banyan.zone.servers.upkeep import GATHER, SWEEP, Upkeep


@dataclass
class Row:
    restored_at: Wall | None = Wall(1.0)  # nothing is swept


@dataclass
class Own:
    row: Row = field(default_factory=Row)

    def wall(self) -> Wall:
        return Wall(2.0)


@dataclass
class Places:
    code: RackCode = RackCode(7)
    in_doubt: bool = False
    shown: int = 0

    def show(self) -> None:
        self.shown += 1


def test_changes_between_two_looks_wake_it_once() -> None:
    places, signals = Places(), []
    upkeep = Upkeep(*cast(list[Any], [Own(), None, places, None, None]))
    changed = upkeep.heed(lambda: signals.append(None))

    def activate(now: float) -> float:
        return asyncio.run(upkeep.activate(Mono(now)))

    changed()
    changed()
    assert len(signals) == 1
    assert activate(10.0) == 10.0 + SWEEP and places.shown == 1
    changed()
    assert len(signals) == 2, "what came after the totals were shown wakes it again"
    assert activate(10.0 + GATHER / 2) == 10.0 + GATHER and places.shown == 1
    changed()
    assert len(signals) == 2, "it comes back by itself"
    assert activate(10.0 + GATHER) == 10.0 + SWEEP and places.shown == 2
    changed()
    assert len(signals) == 3
