"""What may still be promised, host by host: total less used less what pending claims hold.

Stands beside the columns and follows their change log; there is no second counter: all of it can be
made again from the columns and the holds (`lay_out`). Arrays are for passes over all hosts; plain Python
reads one host ten times faster from `rows`, tuples that are made of the arrays when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from banyan.placement.columns import TOTAL, USED, Columns, Ints, Place
from banyan.placement.score import tie, ties

# A log longer than this is forgotten; who was behind looks at all hosts, which costs less than so many one by one.
MAX_LOG: Final = 4_096
# Changed hosts beyond which all are laid out again.
_MANY: Final = 512

Pairs = tuple[tuple[int, int], ...]  # (class index, need)
Row = tuple[int, ...]  # kind, tie, then what is free per class
FREE: Final = 2  # where in a Row the first class stands


class Log:
    """Rows that changed, for followers that each remember a position."""

    __slots__ = ("begin", "rows")

    def __init__(self) -> None:
        self.begin = 0
        self.rows: list[int] = []

    @property
    def position(self) -> int:
        return self.begin + len(self.rows)

    def note(self, row: int) -> None:
        if len(self.rows) >= MAX_LOG:
            self.forget()
        self.rows.append(row)

    def note_all(self, rows: list[int]) -> None:
        if len(self.rows) + len(rows) > MAX_LOG:
            self.begin += len(rows)
            self.forget()
        else:
            self.rows.extend(rows)

    def forget(self) -> None:
        self.begin += len(self.rows)
        self.rows.clear()

    def since(self, position: int) -> list[int] | None:
        """None if that is forgotten."""
        return self.rows[position - self.begin :] if position >= self.begin else None


class Room:
    """`free`, `held` have shape (classes, capacity), `kinds` and `ties` (capacity,), rows as in the columns.

    A *kind* is a distinct pair of traits and place; kind 0 is a host that takes nothing now. `free` may
    be negative on a host that was promised more than it has now. `changed` logs rows with more or less
    free, `freed` only those where more may have become free; a row that opens is in both. `layout` rises
    when arrays and `rows` were replaced: take them anew. A row that is None is made by `row`.
    """

    def __init__(self, columns: Columns, seed: int) -> None:
        self.layout = 0
        self.freed = Log()
        self.changed = Log()
        self.free: Ints
        self.held: Ints
        self.kinds: NDArray[np.int32]
        self.ties: Ints
        self.rows: list[Row | None] = []
        self._free_views: list[memoryview] = []
        self._held_views: list[memoryview] = []
        self._seed = seed
        self._kinds: list[tuple[frozenset[str], Place]] = [(frozenset(), Place())]
        self._kind: dict[tuple[frozenset[str], Place], int] = {}
        self._ids: list[str] = []
        self.columns = columns
        self._seen = 0
        self.lay_out(())

    def kind(self, number: int) -> tuple[frozenset[str], Place]:
        return self._kinds[number]

    @property
    def kind_count(self) -> int:
        return len(self._kinds)

    def row(self, number: int) -> Row:
        made = self.rows[number]
        if made is None:
            free = [view[number] for view in self._free_views]
            made = self.rows[number] = (int(self.kinds[number]), int(self.ties[number]), *free)
        return made

    # --- following the columns ------------------------------------------------------------------

    def stale(self) -> bool:
        """Repairs what changed in the columns; True if all must be laid out again, holds included."""
        columns = self.columns
        if columns.position == self._seen:
            return False
        rows = columns.changes(self._seen)
        if rows is None or len(rows) > _MANY or columns.amounts.shape[1:] != self.free.shape:
            return True
        if not all(self._renew(row) for row in rows):
            return True
        self._seen = columns.position
        return False

    def lay_out(self, holds: Iterable[tuple[str, Pairs, int]], columns: Columns | None = None) -> None:
        """All from the columns (other ones, if given) and the holds: (host, needs, count) each. Some milliseconds."""
        if columns is not None:
            self.columns = columns
        columns = self.columns
        count, capacity = len(columns), columns.open.shape[0]
        ids = list(columns.ids)
        if ids != self._ids or self.layout == 0 or self.ties.shape[0] != capacity:
            self.ties = np.zeros(capacity, dtype=np.int64)
            self.ties[:count] = ties(ids, self._seed)
            self._ids = ids
        self.held = np.zeros((len(columns.classes), capacity), dtype=np.int64)
        for host, pairs, number in holds:
            row = columns.row(host)
            if row is not None:
                for index, need in pairs:
                    self.held[index, row] += need * number
        self.free = columns.amounts[TOTAL] - columns.amounts[USED] - self.held
        self.kinds = self._all_kinds(count)
        self.rows = [None] * capacity
        self._free_views = [row.data for row in self.free]
        self._held_views = [row.data for row in self.held]
        self.layout += 1
        self._seen = columns.position

    def _renew(self, row: int) -> bool:
        """One row from the columns; False if another host with holds stands, or stood, there."""
        columns = self.columns
        gone = row >= len(columns)
        known = self._ids[row] if row < len(self._ids) else ""
        id = "" if gone else columns.id(row)
        if id != known:
            if self.held.any():
                return False
            if gone:
                # Rows leave at the end only, and changes are told in rising order: the first tells of all.
                del self._ids[row:]
            elif row < len(self._ids):
                self._ids[row] = id
            else:
                self._ids.append(id)
            self.ties[row] = tie(id, row, self._seed)
        kind = 0
        if columns.open[row]:
            kind = self._kind_of(int(columns.trait_sets[row]), int(columns.stands[row]))
        free = (columns.amounts[TOTAL, :, row] - columns.amounts[USED, :, row] - self.held[:, row]).tolist()
        more = kind != self.kinds[row] or id != known
        for view, new in zip(self._free_views, free, strict=True):
            more = more or new > view[row]
            view[row] = new
        self.kinds[row] = kind
        self.rows[row] = None
        self.changed.note(row)
        if more:
            self.freed.note(row)
        return True

    def _all_kinds(self, count: int) -> NDArray[np.int32]:
        columns = self.columns
        kinds = np.zeros(columns.open.shape[0], dtype=np.int32)
        pairs = columns.trait_sets[:count].astype(np.int64) * len(columns.places) + columns.stands[:count]
        distinct, which = np.unique(pairs, return_inverse=True)
        numbers = [self._kind_of(*divmod(pair, len(columns.places))) for pair in distinct.tolist()]
        kinds[:count] = np.array(numbers, dtype=np.int32)[which] if numbers else 0
        kinds[~columns.open] = 0
        return kinds

    def _kind_of(self, traits: int, place: int) -> int:
        kind = (self.columns.sets[traits], self.columns.places[place])
        number = self._kind.get(kind)
        if number is None:
            number = self._kind[kind] = len(self._kinds)
            self._kinds.append(kind)
        return number

    # --- holding --------------------------------------------------------------------------------

    def hold(self, row: int, pairs: Pairs, count: int) -> None:
        for index, need in pairs:
            amount = need * count
            self._free_views[index][row] -= amount
            self._held_views[index][row] += amount
        self.rows[row] = None
        self.changed.note(row)

    def hold_many(self, rows: NDArray[np.intp], pairs: Pairs, counts: Ints) -> None:
        """As `hold`, for distinct rows at once."""
        for index, need in pairs:
            self.free[index, rows] -= need * counts
            self.held[index, rows] += need * counts
        changed = rows.tolist()
        for row in changed:
            self.rows[row] = None
        self.changed.note_all(changed)

    def let_go(self, row: int, pairs: Pairs, count: int) -> None:
        for index, need in pairs:
            amount = need * count
            self._free_views[index][row] += amount
            self._held_views[index][row] -= amount
        self.rows[row] = None
        self.changed.note(row)
        self.freed.note(row)

    def use(self, row: int, pairs: Pairs, count: int) -> None:
        """What was held is used from now on: in the columns, with nothing more or less free."""
        for index, need in pairs:
            self._held_views[index][row] -= need * count
            self.columns.use(row, index, need * count)
        self._seen = self.columns.position

    def use_many(self, rows: Ints, pairs: Pairs, counts: Ints) -> None:
        for index, need in pairs:
            self.held[index, rows] -= need * counts
            self.columns.use_many(rows, index, need * counts)
        self._seen = self.columns.position
