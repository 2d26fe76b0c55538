"""From columns to the sums of a digest: totals, what fits, and what a ceiling takes away (protocols §4).

`fits` is exact when folded: per host the smallest floor(free / need) over the classes of the shape, only
on hosts that have its traits and may be promised (offered, up, not disabled), summed over hosts. After
a change only the changed hosts are looked at. It never reads a store and never exceeds what hosts hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from banyan.core.digest import MAX_SHAPES, Digest, Sums
from banyan.core.guest import GuestState
from banyan.core.resources import Amount, ResourceClass, Shape
from banyan.core.time import Wall
from banyan.placement.columns import TOTAL, USED, Columns, Ints
from banyan.placement.shapes import countable

# With more changed rows than this share of all, one pass over everything is cheaper.
_ALL_AT_ONCE = 0.25
_NO_NEED = np.int64(2**62)

GuestCounts = Mapping[tuple[str, bool], int]


class Fold:
    """One rack's folds. `ceiling`: the most that may be promised per class, whatever the hosts have (core.share).

    `shapes`: those that it counts, by key. `counts` inside has shape (shapes, capacity): how many guests of the shape
    fit on the host of that row.
    """

    def __init__(
        self, columns: Columns, shapes: Iterable[Shape] = (), ceiling: Mapping[ResourceClass, int] | None = None
    ) -> None:
        self.columns = columns
        self.ceiling = dict(ceiling or {})
        self._shapes: list[Shape] = []
        self._keys: list[str] = []
        self._ids: list[str] = []
        self.shapes: tuple[Shape, ...] = ()
        self._counts: Ints = np.zeros((0, columns.open.shape[0]), dtype=np.int64)
        self._totals: Ints = np.zeros(0, dtype=np.int64)
        self._needs: Ints = np.zeros((0, 0), dtype=np.int64)
        self._free_of: NDArray[np.bool_] = np.zeros((0, 0), dtype=np.bool_)
        self._has_traits: NDArray[np.bool_] = np.zeros((0, 0), dtype=np.bool_)
        self._known: tuple[int, int] = (-1, -1)
        self._seen = columns.position
        self.watch(shapes)

    def watch(self, shapes: Iterable[Shape]) -> None:
        """From now on counts these shapes and no others; at most MAX_SHAPES, by key. Known ones cost nothing.

        Which are wanted where there are more: placement/shapes.py.
        """
        self.refresh()
        wanted = watchable(shapes)
        if wanted == self._shapes:
            return
        old = {shape: index for index, shape in enumerate(self._shapes)}
        counts = np.zeros((len(wanted), self.columns.open.shape[0]), dtype=np.int64)
        totals = np.zeros(len(wanted), dtype=np.int64)
        fresh = []
        for index, shape in enumerate(wanted):
            before = old.get(shape)
            if before is None:
                fresh.append(index)
            else:
                counts[index] = self._counts[before]
                totals[index] = self._totals[before]
        self._shapes, self._counts, self._totals = wanted, counts, totals
        self._keys = [shape.key for shape in wanted]
        self._ids = [shape.id for shape in wanted]
        self.shapes = tuple(wanted)
        self._known = (-1, -1)
        self._prepare()
        self._scan(fresh)

    def fits(self) -> dict[str, int]:
        """Per Shape.key, under the ceiling; shapes of which none fits are left out."""
        self.refresh()
        offered = self.columns.sums(True).resources if self.ceiling else {}
        result = {}
        for key, shape, total in zip(self._keys, self._shapes, self._totals.tolist(), strict=True):
            for cls, need in shape.needs:
                if cls in self.ceiling:
                    amount = offered.get(cls, Amount())
                    total = min(total, max(0, min(self.ceiling[cls], amount.total) - amount.used) // need)
            if total:
                result[key] = total
        return result

    def sums(self) -> tuple[Sums, Sums]:
        """(offered, not offered), without guests. What is over a ceiling counts as not offered.

        Totals are of all hosts, up or down, disabled or not: what the bottom's own placement reports.
        """
        offered, rest = self.columns.sums(True), self.columns.sums(False)
        under, over = dict(offered.resources), dict(rest.resources)
        for cls, ceiling in self.ceiling.items():
            amount = under.get(cls)
            if amount is not None and amount.total > ceiling:
                kept = _under(amount, ceiling)
                spare = Amount(amount.physical - kept.physical, amount.total - kept.total, amount.used - kept.used)
                under[cls] = kept
                over[cls] = over.get(cls, Amount()) + spare
        counted = dict.fromkeys(self._ids, offered.hosts) if offered.hosts else {}
        return (
            replace(offered, resources=under, fits=self.fits(), counted=counted),
            replace(rest, resources=dict(sorted(over.items()))),
        )

    def digest(self, guests: GuestCounts, as_of: Wall | None) -> Digest:
        """The rack's digest. `guests`: (state, offered) → how many; `as_of` when the hosts were seen."""
        offered, rest = self.sums()
        return Digest(
            live=replace(offered, guests=_by_state(guests, True)),
            not_offered=replace(rest, guests=_by_state(guests, False)),
            as_of=as_of,
        )

    # --- counting -------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Repairs `counts` and `totals` after the columns' changes."""
        columns = self.columns
        if self._seen == columns.position:
            return
        rows = columns.changes(self._seen)
        self._seen = columns.position
        capacity = columns.open.shape[0]
        if capacity > self._counts.shape[1]:
            self._counts = np.pad(self._counts, ((0, 0), (0, capacity - self._counts.shape[1])))
        self._prepare()
        if not self._shapes:
            return
        if rows is None or len(rows) > max(1, int(len(columns) * _ALL_AT_ONCE)):
            self._scan(range(len(self._shapes)))
        else:
            for row in rows:
                self._repair(row)

    def _prepare(self) -> None:
        """Matrices of needs and traits; again only when a class, a trait set or a shape came."""
        columns = self.columns
        known = (len(columns.classes), len(columns.sets))
        if known == self._known:
            return
        self._known = known
        index = {cls: i for i, cls in enumerate(columns.classes)}
        # A class that no host has stands in one more column, of which nothing is ever free.
        needs = np.zeros((len(self._shapes), len(index) + 1), dtype=np.int64)
        for row, shape in enumerate(self._shapes):
            for cls, need in shape.needs:
                needs[row, index.get(cls, len(index))] = need
        self._free_of = needs == 0
        self._needs = np.where(self._free_of, 1, needs)
        by_traits = {
            traits: [have.issuperset(traits) for have in columns.sets] for traits in {s.traits for s in self._shapes}
        }
        self._has_traits = np.zeros((len(self._shapes), len(columns.sets)), dtype=np.bool_)
        for row, shape in enumerate(self._shapes):
            self._has_traits[row] = by_traits[shape.traits]

    def _scan(self, shapes: Iterable[int]) -> None:
        """Counts these shapes on all rows. A quotient that several shapes need is divided once."""
        columns = self.columns
        capacity = columns.open.shape[0]
        free = np.maximum(columns.amounts[TOTAL] - columns.amounts[USED], 0)
        free *= columns.open
        index = {cls: i for i, cls in enumerate(columns.classes)}
        quotients: dict[tuple[ResourceClass, int], Ints] = {}
        for at in shapes:
            shape = self._shapes[at]
            count: Ints | None = None
            for cls, need in shape.needs:
                if cls not in index:
                    count = np.zeros(capacity, dtype=np.int64)
                    break
                quotient = quotients.get((cls, need))
                if quotient is None:
                    quotient = quotients[cls, need] = free[index[cls]] // need
                count = quotient.copy() if count is None else np.minimum(count, quotient, out=count)
            if count is None:
                continue
            if shape.traits:
                count *= self._has_traits[at][columns.trait_sets]
            self._counts[at] = count
            self._totals[at] = count.sum()

    def _repair(self, row: int) -> None:
        """Counts all shapes on one row."""
        columns = self.columns
        if columns.open[row]:
            free = np.zeros(len(columns.classes) + 1, dtype=np.int64)
            np.maximum(columns.amounts[TOTAL, :, row] - columns.amounts[USED, :, row], 0, out=free[:-1])
            quotients = free // self._needs
            quotients[self._free_of] = _NO_NEED
            counts = quotients.min(axis=1)
            counts *= self._has_traits[:, columns.trait_sets[row]]
        else:
            counts = np.zeros(len(self._shapes), dtype=np.int64)
        self._totals += counts - self._counts[:, row]
        self._counts[:, row] = counts


def watchable(shapes: Iterable[Shape]) -> list[Shape]:
    """Distinct shapes that may stand in a digest, by key, at most MAX_SHAPES: see `placement.shapes.countable`."""
    return list(countable(shapes))[:MAX_SHAPES]


def _under(amount: Amount, ceiling: int) -> Amount:
    """The part of `amount` under the ceiling; hardware goes along in proportion."""
    return Amount(amount.physical * ceiling // amount.total, ceiling, min(amount.used, ceiling))


def _by_state(guests: GuestCounts, offered: bool) -> dict[str, int]:
    """Sorted by state; zeros are left out."""
    return {str(state): guests[state, offered] for state in sorted(GuestState) if guests.get((str(state), offered), 0)}
