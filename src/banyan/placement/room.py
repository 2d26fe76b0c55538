"""What may still be promised, host by host: total less used less what pending claims hold.

Stands beside the columns and follows their change log; there is no second counter: all of it can be
made again from the columns and the holds (`lay_out`). Arrays are for passes over all hosts; plain Python
reads and changes one host ten times faster in `rows`, tuples from which the arrays are brought up to date
before they are used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.ma  # np.unique imports it when first called, for most of a second: not in an order's midst
from numpy.typing import NDArray

from banyan.placement.columns import TOTAL, USED, Columns, Ints, Place
from banyan.placement.score import COUNT_SHIFT, MAX_COUNT, tie, ties

# So much of a log is remembered; who was behind looks at all hosts, which costs less than so many one by one.
MAX_LOG: Final = 4_096
# Changed hosts beyond which all are laid out again.
_MANY: Final = 512

Pairs = tuple[tuple[int, int], ...]  # (class index, need)
Row = tuple[int, ...]  # kind, tie, then what is free per class
FREE: Final = 2  # where in a Row the first class stands
# A host's free share of each class, in parts of so many, added up; 64 classes leave it within 23 bits.
WHOLE: Final = 1 << 16


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
        if len(self.rows) >= 2 * MAX_LOG:
            del self.rows[:MAX_LOG]
            self.begin += MAX_LOG
        self.rows.append(row)

    def note_all(self, rows: list[int]) -> None:
        self.rows += rows
        over = len(self.rows) - 2 * MAX_LOG
        if over > 0:
            del self.rows[: over + MAX_LOG]
            self.begin += over + MAX_LOG

    def since(self, position: int) -> list[int] | None:
        """None if that is forgotten."""
        return self.rows[position - self.begin :] if position >= self.begin else None


class Room:
    """`kinds` and `ties` have shape (capacity,), rows as in the columns; so have the arrays of `free`.

    A *kind* is a distinct pair of traits and place; kind 0 is a host that takes nothing now. What is free may
    be negative on a host that was promised more than it has now. `changed` logs rows with more or less
    free, `freed` only those where more may have become free; a row that opens is in both. `layout` rises when
    arrays and `rows` were replaced: take them anew. A row that is None is made by `row`, an entry of `packed`
    that is None by `pack_key`.
    """

    def __init__(self, columns: Columns, seed: int) -> None:
        self.layout = 0
        self.freed = Log()
        self.changed = Log()
        self.kinds: NDArray[np.int32]
        self.ties: Ints
        self.rows: list[Row | None] = []
        self.packed: list[int | None] = []
        self._free: Ints
        self._base: Ints  # total less used, as the columns were seen last: what is not free of it is held
        self._free_views: list[memoryview] = []
        self._base_views: list[memoryview] = []
        self._newer: list[int] = []  # rows whose tuple is newer than the array
        self._totals: list[tuple[int, ...] | None] = []
        self._score: Ints | None = None
        self._unscored: list[int] = []
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

    # --- reading --------------------------------------------------------------------------------

    def row(self, number: int) -> Row:
        made = self.rows[number]
        if made is None:
            free = [view[number] for view in self._free_views]
            made = self.rows[number] = (int(self.kinds[number]), int(self.ties[number]), *free)
        return made

    def pack_key(self, number: int) -> int:
        """The key of a host when packing, if it takes a guest at all: the smaller the share that is free, the better.

        A class of which nothing is used counts as well, so that hosts with a rare one are filled last.
        """
        known = self.packed[number]
        if known is None:
            row, totals = self.row(number), self._totals[number]
            if totals is None:
                totals = self._totals[number] = tuple(self.columns.amounts[TOTAL, :, number].tolist())
            score = sum([free * WHOLE // total for free, total in zip(row[FREE:], totals, strict=True) if free > 0])
            known = self.packed[number] = min(score, MAX_COUNT) << COUNT_SHIFT | row[1]
        return known

    def free(self) -> Ints:
        """What is free, shape (classes, capacity). Not to be changed."""
        if self._newer:
            for row in set(self._newer):
                made = self.rows[row]
                if made is not None:
                    for view, amount in zip(self._free_views, made[FREE:], strict=True):
                        view[row] = amount
            self._rescore(self._newer)
            self._newer.clear()
        return self._free

    def pack_keys(self, less: Ints | None = None, pairs: Pairs = ()) -> Ints:
        """`pack_key` of all hosts, if `less` more guests of those needs were on them; shape (hosts,)."""
        count = len(self.columns)
        free = self.free()[:, :count]
        if less is not None:
            free = free.copy()
            for index, need in pairs:
                free[index] -= need * less
            score = self._scores(free, np.arange(count))
        else:
            if self._score is None or self._score.shape[0] != count or len(self._unscored) > count // 4:
                self._score = self._scores(free, np.arange(count))
            elif self._unscored:
                rows = np.unique(np.array(self._unscored))
                rows = rows[rows < count]
                self._score[rows] = self._scores(free[:, rows], rows)
            self._unscored.clear()
            score = self._score
        keys: Ints = score << COUNT_SHIFT | self.ties[:count]
        return keys

    def _scores(self, free: Ints, rows: NDArray[np.intp]) -> Ints:
        """Of these rows, which have that free: the shares that are free, added up."""
        totals = np.maximum(self.columns.amounts[TOTAL][:, rows], 1)
        score: Ints = np.minimum((np.maximum(free, 0) * WHOLE // totals).sum(axis=0), MAX_COUNT)
        return score

    def _rescore(self, rows: list[int]) -> None:
        """The scores of these rows are old. Who never packs keeps none."""
        if self._score is not None:
            self._unscored += rows
            if len(self._unscored) > len(self.rows):
                self._score = None
                self._unscored.clear()

    def held(self, index: int) -> int:
        """How much of a class pending claims hold on all hosts."""
        return int((self._base[index] - self.free()[index]).sum())

    # --- following the columns ------------------------------------------------------------------

    def stale(self) -> bool:
        """Repairs what changed in the columns; True if all must be laid out again, holds included."""
        columns = self.columns
        if columns.position == self._seen:
            return False
        rows = columns.changes(self._seen)
        if rows is None or len(rows) > _MANY or columns.amounts.shape[1:] != self._free.shape:
            return True
        self.free()
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
        self._base = columns.amounts[TOTAL] - columns.amounts[USED]
        self._free = self._base.copy()
        for host, pairs, number in holds:
            row = columns.row(host)
            if row is not None:
                for index, need in pairs:
                    self._free[index, row] -= need * number
        self.kinds = self._all_kinds(count)
        self.rows, self.packed, self._totals = [None] * capacity, [None] * capacity, [None] * capacity
        self._newer.clear()
        self._score = None
        self._unscored.clear()
        self._free_views = [row.data for row in self._free]
        self._base_views = [row.data for row in self._base]
        self.layout += 1
        self._seen = columns.position

    def _renew(self, row: int) -> bool:
        """One row from the columns; False if a host with holds stood there, and is there no more."""
        columns = self.columns
        gone = row >= len(columns)
        known = self._ids[row] if row < len(self._ids) else ""
        id = "" if gone else columns.id(row)
        held = [base[row] - free[row] for base, free in zip(self._base_views, self._free_views, strict=True)]
        if id != known:
            if any(held):
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
        more = kind != self.kinds[row] or id != known
        amounts = columns.amounts.data
        for index, kept in enumerate(held):
            base = amounts[TOTAL, index, row] - amounts[USED, index, row]
            more = more or base - kept > self._free_views[index][row]
            self._base_views[index][row], self._free_views[index][row] = base, base - kept
        self.kinds[row] = kind
        self.rows[row] = self.packed[row] = self._totals[row] = None
        self._rescore([row])
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
        self._shift(row, pairs, -count)

    def let_go(self, row: int, pairs: Pairs, count: int) -> None:
        self._shift(row, pairs, count)
        self.freed.note(row)

    def _shift(self, row: int, pairs: Pairs, count: int) -> None:
        made = list(self.rows[row] or self.row(row))
        for index, need in pairs:
            made[FREE + index] += need * count
        self.rows[row] = tuple(made)
        self.packed[row] = None
        self._newer.append(row)
        self.changed.note(row)

    def hold_many(self, rows: NDArray[np.intp], pairs: Pairs, counts: Ints) -> None:
        """As `hold`, for distinct rows at once."""
        free = self.free()
        for index, need in pairs:
            free[index, rows] -= need * counts
        changed = rows.tolist()
        for row in changed:
            self.rows[row] = self.packed[row] = None
        self._rescore(changed)
        self.changed.note_all(changed)

    def use(self, row: int, pairs: Pairs, count: int) -> None:
        """What was held is used from now on: in the columns, with nothing more or less free."""
        for index, need in pairs:
            self._base_views[index][row] -= need * count
        self.columns.use_all(row, pairs, count)
        self._seen = self.columns.position

    def use_many(self, rows: Ints, pairs: Pairs, counts: Ints) -> None:
        for index, need in pairs:
            self._base[index, rows] -= need * counts
            self.columns.use_many(rows, index, need * counts)
        self._seen = self.columns.position
