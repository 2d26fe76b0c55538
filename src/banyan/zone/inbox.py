"""What came up from one child: does it fit what is held, is it within bounds, what follows from it.

Each call only decides and returns a step; the caller stores the step, then calls `accept`, so that a
failed commit leaves the inbox as it was. None means that the part does not fit (a gap, a repeat): the
answer is `Ack(resend=True)` with `known`, and the child goes on from there. The frame's own limits
(link/codec.py) were checked before; whose rows these may be is judged in trust/lineage.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from banyan.core.digest import Counters, check_counted, check_counters, patch, unflatten
from banyan.core.errors import BadInput
from banyan.core.ids import ZoneCode, code_text
from banyan.core.lineage import Delta, Ledger, Row, UseRow
from banyan.core.messages import DigestPart, Generations
from banyan.core.time import Wall
from banyan.zone.uses import Project, empty, project

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Weigh: TypeAlias = Callable[[Collection[Row], Collection[ZoneCode]], tuple[int, int]]

# What one child may report, itself included. A larger tree wants another level.
MAX_LINEAGE = 100_000
MAX_LEDGER = 100_000
# Of all its rows together: 1.3 KB a row where there are as many as may be, and five racks.
MAX_LINEAGE_BYTES = 128 * 1024 * 1024
MAX_LINEAGE_RACKS = 500_000


@dataclass(frozen=True, slots=True)
class DigestStep:
    """`whole`: replace what is held by `counters`; else they are changes (`core.digest.patch`)."""

    generation: int
    whole: bool
    counters: Counters


@dataclass(frozen=True, slots=True)
class RowsStep(Generic[K, V]):
    """Store `put`, delete `drop`, and write `stored` as the generation that is whole here (0: not yet).

    `generation`: what to say is known. `settled`: nothing more follows. `begins`, `whole`: this page
    begins a whole, belongs to one.
    """

    put: tuple[V, ...]
    drop: tuple[K, ...]
    generation: int
    stored: int
    settled: bool
    begins: bool
    whole: bool


class _Intake(Generic[K, V]):
    """One paged stream. `seen`: keys of the pages so far of a whole that is still coming, else None."""

    def __init__(self, what: str, limit: int, known: int, key: Callable[[V], K], gone: Callable[[V], bool]) -> None:
        self.known = known
        self.seen: set[K] | None = None
        self._what = what
        self._limit = limit
        self._key = key
        self._gone = gone

    def step(self, since: int, until: int, rows: Iterable[V], more: bool, held: Collection[K]) -> RowsStep[K, V] | None:
        if since and since != self.known:
            return None
        if until < 1:
            raise BadInput(f"bad-{self._what}", f"generations of {self._what} begin at 1, got {until}")
        put: dict[K, V] = {}
        drop: dict[K, None] = {}
        for row in rows:
            key = self._key(row)
            if self._gone(row):
                put.pop(key, None)
                drop[key] = None
            else:
                drop.pop(key, None)
                put[key] = row
        seen = None if since and self.seen is None else self.seen if since else set[K]()
        if seen is None:
            count = len(held) + sum(key not in held for key in put) - sum(key in held for key in drop)
        else:
            # What was held before a whole goes at its end, so it does not count.
            count = len(seen) + sum(key not in seen for key in put) - sum(key in seen for key in drop)
            if not more:
                drop.update((key, None) for key in held if key not in seen and key not in put)
        if count > self._limit:
            raise BadInput(
                f"too-much-{self._what}",
                f"a child may report at most {self._limit} rows of {self._what}; put a zone between",
            )
        stored = 0 if seen is not None and more else until
        return RowsStep(tuple(put.values()), tuple(drop), until, stored, not more, not since, seen is not None)

    def accept(self, step: RowsStep[K, V]) -> None:
        self.known = step.generation
        if step.settled or not step.whole:
            self.seen = None
            return
        if step.begins or self.seen is None:
            self.seen = set()
        self.seen.difference_update(step.drop)
        self.seen.update(self._key(row) for row in step.put)


class Inbox:
    """One child's streams. Generations as stored; a digest's belongs to the counters stored with it.

    `weigh`: bytes and racks of all rows that are held of the child once these are put and those dropped.
    """

    def __init__(
        self, child: ZoneCode, digest: int = 0, lineage: int = 0, ledger: int = 0, weigh: Weigh = lambda *_: (0, 0)
    ) -> None:
        self.child = child
        self._weigh = weigh
        self._digest = digest
        self._lineage = _lineage(lineage)
        self._ledger = _ledger(ledger)

    @property
    def known(self) -> Generations:
        return Generations(self._digest, self._lineage.known, self._ledger.known)

    @property
    def whole(self) -> bool:
        """Digest, lineage and ledger are all here, no page of a whole still missing."""
        rows = (self._lineage, self._ledger)
        return self._digest > 0 and all(intake.known > 0 and intake.seen is None for intake in rows)

    def forget(self) -> None:
        """The child starts over: after JOINED_AGAIN, or when a person accepts a rolled-back one."""
        self._digest = 0
        self._lineage = _lineage(0)
        self._ledger = _ledger(0)

    def digest(self, part: DigestPart, held: Mapping[str, int], now: Wall) -> DigestStep | None:
        """`held`: the child's counters (`Members.child_counters`). `now`: corrected; nothing is as of later.

        Raises BadInput("bad-digest").
        """
        if part.since and part.since != self._digest:
            return None
        latest = round(now * 1000)
        counters = {key: min(value, latest) if key in ("at", "uat") else value for key, value in part.counters.items()}
        try:
            if part.until < 1:
                raise ValueError(f"generations begin at 1, got {part.until}")
            check_counters(counters)
            if not part.since:
                unflatten(counters)
                check_counted(counters)
            elif any(
                (value and key not in held) or key == "lh" or key.startswith("lk:") for key, value in counters.items()
            ):
                after = patch(held, counters)
                unflatten(after)
                check_counted(after)
        except ValueError as error:
            raise BadInput("bad-digest", f"zone {code_text(self.child)}: {error}") from error
        return DigestStep(part.until, not part.since, counters)

    def accept_digest(self, step: DigestStep) -> None:
        self._digest = step.generation

    def lineage(self, delta: Delta, held: Collection[ZoneCode]) -> RowsStep[ZoneCode, Row] | None:
        """`held`: codes of the zones reported through this child. Raises BadInput("bad-…" or "too-much-lineage")."""
        step = self._lineage.step(delta.since, delta.until, delta.rows, delta.more, held)
        if step is not None and step.put:
            (size, racks), (size_held, racks_held) = self._weigh(step.put, step.drop), self._weigh((), ())
            if size > max(size_held, MAX_LINEAGE_BYTES) or racks > max(racks_held, MAX_LINEAGE_RACKS):
                raise BadInput(
                    "too-much-lineage",
                    f"the zones that a child reports may have {MAX_LINEAGE_BYTES >> 20} MiB and {MAX_LINEAGE_RACKS} "
                    f"racks in all, these would have {size >> 20} MiB and {racks} racks; give some of them another "
                    "parent, or fewer racks",
                )
        return step

    def accept_lineage(self, step: RowsStep[ZoneCode, Row]) -> None:
        self._lineage.accept(step)

    def ledger(self, ledger: Ledger, held: Collection[Project]) -> RowsStep[Project, UseRow] | None:
        """`held`: `Streams.uses.held(child)`. Raises BadInput("bad-…" or "too-much-ledger")."""
        return self._ledger.step(ledger.since, ledger.until, ledger.rows, ledger.more, held)

    def accept_ledger(self, step: RowsStep[Project, UseRow]) -> None:
        self._ledger.accept(step)


def _lineage(known: int) -> _Intake[ZoneCode, Row]:
    return _Intake("lineage", MAX_LINEAGE, known, lambda row: row.code, lambda row: row.gone)


def _ledger(known: int) -> _Intake[Project, UseRow]:
    return _Intake("ledger", MAX_LEDGER, known, project, lambda row: row.guests == 0)


def use_changes(step: RowsStep[Project, UseRow]) -> list[UseRow]:
    """A ledger's step as rows for `Streams.put_uses`: a dropped project is a row without guests."""
    return [*(empty(key) for key in step.drop), *step.put]
