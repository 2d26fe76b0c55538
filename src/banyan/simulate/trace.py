"""What happened in a world, in order: journal lines of all zones, links, and what the script did.

A trace is deterministic: same seed, same text, whatever the hash seed of the interpreter. Time is the
world's, not a zone's. Lines name things by path and kind, never by code or key, so that a trace stays
readable and a change of one zone's draws does not touch another's lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from banyan.core.journal import Line
from banyan.simulate.script import clock_text

# Worlds that run for weeks keep their newest events only; the hash covers all of them.
KEPT = 200_000


@dataclass(frozen=True, slots=True)
class Happening:
    """`at`: virtual seconds. `where`: a zone's path, "world" for what the script did. `what`: kebab-case."""

    at: float
    where: str
    what: str
    text: str = ""

    def __str__(self) -> str:
        return f"{clock_text(self.at)} {self.where} {self.what} {self.text}".rstrip()


class Trace:
    """The happenings of one world. `digest` is over every line ever noted, so that two runs compare at a glance."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._kept: list[Happening] = []
        self._shown = 0
        self._hash = hashlib.sha256()
        self.count = 0

    def note(self, where: str, what: str, text: str = "") -> None:
        happening = Happening(self._time(), where, what, text)
        self._hash.update(f"{happening}\n".encode())
        self.count += 1
        self._kept.append(happening)
        if len(self._kept) > 2 * KEPT:
            dropped = len(self._kept) - KEPT
            self._kept = self._kept[dropped:]
            self._shown = max(0, self._shown - dropped)

    def journal(self, where: str, line: Line) -> None:
        """Notes a journal line: its kind, target, and its outcome where that is not "done"."""
        outcome = "" if line.outcome == "done" else f" {line.outcome}"
        by = "" if line.actor == "system" else f" by {line.actor}"
        self.note(where, line.kind, f"{line.target}{outcome}{by}")

    def since_shown(self) -> list[Happening]:
        """What was noted since this was last called."""
        fresh = self._kept[self._shown :]
        self._shown = len(self._kept)
        return fresh

    def tail(self, count: int) -> list[Happening]:
        return self._kept[-count:]

    def all(self) -> Iterable[Happening]:
        return tuple(self._kept)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
