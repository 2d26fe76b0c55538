"""State machines as tables: (from, event) → (to, why). A move, or an explained refusal; never a guess."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from banyan.core.errors import Conflict

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Move(Generic[S, E]):
    before: S
    event: E
    after: S
    why: str


class Table(Generic[S, E]):
    """A deterministic transition table. `what` names the machine in refusals ("child zone")."""

    def __init__(self, what: str, states: type[S], events: type[E], moves: Iterable[Move[S, E]]) -> None:
        self.what = what
        self.states = states
        self.events = events
        self._moves: dict[tuple[S, E], Move[S, E]] = {}
        for move in moves:
            if (move.before, move.event) in self._moves:
                raise ValueError(f"{what}: two moves from {move.before} on {move.event}")
            self._moves[move.before, move.event] = move

    def __iter__(self) -> Iterator[Move[S, E]]:
        return iter(self._moves.values())

    def after(self, before: S, event: E) -> S:
        """The next state; Conflict("bad-transition") naming both when there is none."""
        move = self._moves.get((before, event))
        if move is None:
            raise Conflict(
                "bad-transition",
                f"a {self.what} that is {before} cannot take {event}; "
                f"it can take {', '.join(self.allowed(before)) or 'nothing any more'}",
            )
        return move.after

    def allows(self, before: S, event: E) -> bool:
        return (before, event) in self._moves

    def allowed(self, before: S) -> list[str]:
        return sorted(str(event) for state, event in self._moves if state == before)

    def mermaid(self) -> str:
        """A Mermaid state diagram, for docs/generated."""
        lines = ["stateDiagram-v2"]
        lines += [f"    {m.before} --> {m.after}: {m.event}" for m in self if m.before != m.after]
        return "\n".join(lines) + "\n"
