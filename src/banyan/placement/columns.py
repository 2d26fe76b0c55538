"""The hosts of one rack as columns: resource classes × hosts, flags, traits (protocols §4, architecture).

Derived from the store's hosts, never the other way; holds no Host object. Totals over hosts are kept
exact as rows change, so that nobody sums 10,000 rows to learn what one claim changed. It never judges
what fits: placement/fold.py does, from the change log here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from banyan.core.digest import Sums
from banyan.core.host import Host
from banyan.core.resources import Amount, ResourceClass

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# One host's amount is cut to this (16 EiB in MiB), so that no sum over a rack's hosts leaves int64.
MAX_AMOUNT: Final = 2**44
# Rows beyond which a rack is refused rather than folded: a hundred times the largest that we plan for.
MAX_HOSTS: Final = 1_000_000

PHYSICAL, TOTAL, USED = 0, 1, 2


@dataclass(slots=True)
class PartTotals:
    """Running totals of one part (offered or not). `resources` is per class index: [physical, total, used]."""

    hosts: int
    up: int
    disabled: int
    resources: list[list[int]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a host stands, as its own side groups hosts."""

    availability_zone: str = ""
    aggregates: frozenset[str] = frozenset()


class Columns:
    """Rows 0 … len-1 are hosts in no order; a removed host's row is taken by the last one.

    `amounts` has shape (3, classes, capacity), int64: physical, total, used. `open` (capacity,) is True
    where something may be promised: present, offered, up, not disabled. `trait_sets` (capacity,) indexes
    `sets`, `stands` (capacity,) indexes `places`. Arrays are replaced when they grow: take them anew after each change.
    """

    def __init__(self) -> None:
        self.classes: list[ResourceClass] = []
        self.amounts: Ints = np.zeros((3, 0, 16), dtype=np.int64)
        self.open: Bools = np.zeros(16, dtype=np.bool_)
        self.trait_sets: NDArray[np.int32] = np.zeros(16, dtype=np.int32)
        self.sets: list[frozenset[str]] = [frozenset()]
        self.stands: NDArray[np.int32] = np.zeros(16, dtype=np.int32)
        self.places: list[Place] = [Place()]
        self._offered: Bools = np.zeros(16, dtype=np.bool_)
        self._up: Bools = np.zeros(16, dtype=np.bool_)
        self._disabled: Bools = np.zeros(16, dtype=np.bool_)
        self._ids: list[str] = []
        self._row: dict[str, int] = {}
        self._class: dict[ResourceClass, int] = {}
        self._set: dict[frozenset[str], int] = {frozenset(): 0}
        self._place: dict[Place, int] = {Place(): 0}
        self._totals = {True: PartTotals(0, 0, 0, []), False: PartTotals(0, 0, 0, [])}
        self._log: list[int] = []
        self._log_from = 0

    @staticmethod
    def build(batches: Iterable[Iterable[Host]]) -> Columns:
        columns = Columns()
        for batch in batches:
            columns.extend(batch)
        return columns

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, id: object) -> bool:
        return id in self._row

    def row(self, id: str) -> int | None:
        return self._row.get(id)

    def id(self, row: int) -> str:
        return self._ids[row]

    @property
    def ids(self) -> Sequence[str]:
        """By row. Not to be changed."""
        return self._ids

    @property
    def offered(self) -> Bools:
        return self._offered

    @property
    def up(self) -> Bools:
        return self._up

    @property
    def disabled(self) -> Bools:
        return self._disabled

    def class_index(self, cls: ResourceClass) -> int | None:
        """The class's place in `amounts`; None if no host has it."""
        return self._class.get(cls)

    def offered_amount(self, cls: ResourceClass) -> Amount:
        """The total over offered hosts."""
        index = self._class.get(cls)
        return Amount(*self._totals[True].resources[index]) if index is not None else _ZERO

    # --- changes --------------------------------------------------------------------------------

    def extend(self, hosts: Iterable[Host]) -> None:
        for host in hosts:
            self.upsert(host)

    def upsert(self, host: Host) -> None:
        """Adds or replaces the host of that id. Raises ValueError past MAX_HOSTS."""
        row = self._row.get(host.id)
        if row is None:
            row = len(self._ids)
            if row >= MAX_HOSTS:
                raise ValueError(f"a rack has at most {MAX_HOSTS} hosts; split it into several racks")
            if row == self.open.shape[0]:
                self._grow(row * 2)
            self._ids.append(host.id)
            self._row[host.id] = row
        else:
            self._count(row, -1)
        for cls in host.amounts:
            if cls not in self._class:
                self._add_class(cls)
        amounts = self.amounts
        for cls, index in self._class.items():
            amount = host.amounts.get(cls, _ZERO)
            amounts[PHYSICAL, index, row] = _cut(amount.physical)
            amounts[TOTAL, index, row] = _cut(amount.total)
            amounts[USED, index, row] = _cut(amount.used)
        self._offered[row], self._up[row], self._disabled[row] = host.offered, host.up, host.disabled
        self.open[row] = host.offered and host.up and not host.disabled
        self.trait_sets[row] = self._trait_set(host.traits)
        self.stands[row] = self._standing(Place(host.availability_zone, frozenset(host.aggregates)))
        self._count(row, 1)
        self._note(row)

    def set_state(self, id: str, *, up: bool, disabled: bool) -> None:
        """Whether a host is up, and out of service, from now on; one that is not there is passed over."""
        row = self._row.get(id)
        if row is None:
            return
        self._count(row, -1)
        self._up[row], self._disabled[row] = up, disabled
        self.open[row] = self._offered[row] and up and not disabled
        self._count(row, 1)
        self._note(row)

    def remove(self, id: str) -> bool:
        """False if there is no such host."""
        row = self._row.pop(id, None)
        if row is None:
            return False
        self._count(row, -1)
        last = len(self._ids) - 1
        moved = self._ids.pop()
        if row != last:
            self._ids[row] = moved
            self._row[moved] = row
            self.amounts[:, :, row] = self.amounts[:, :, last]
            for column in (self.open, self._offered, self._up, self._disabled):
                column[row] = column[last]
            self.trait_sets[row] = self.trait_sets[last]
            self.stands[row] = self.stands[last]
            self._note(row)
        self.amounts[:, :, last] = 0
        for column in (self.open, self._offered, self._up, self._disabled):
            column[last] = False
        self._note(last)
        return True

    def set_used(self, id: str, used: dict[ResourceClass, int]) -> None:
        """Replaces what is promised on one host, class by class. Raises KeyError for an unknown host or class."""
        row = self._row[id]
        part = self._totals[bool(self._offered[row])]
        for cls, amount in used.items():
            index = self._class[cls]
            new = _cut(amount)
            part.resources[index][USED] += new - int(self.amounts[USED, index, row])
            self.amounts[USED, index, row] = new
        self._note(row)

    def use(self, row: int, index: int, by: int) -> None:
        """Adds `by` (may be negative) to what is promised of the class at `index` on one row."""
        self.use_all(row, ((index, by),), 1)

    def use_all(self, row: int, needs: Iterable[tuple[int, int]], count: int) -> None:
        """Adds `count` times the needs, each (class index, amount), to what is promised on one row."""
        # Through a view of the same bytes: each claim comes here, and one element of an array is slow to reach.
        amounts = self.amounts.data
        totals = self._totals[bool(self._offered[row])].resources
        for index, need in needs:
            before = amounts[USED, index, row]
            new = before + need * count
            if not 0 <= new <= MAX_AMOUNT:
                new = _cut(new)
            amounts[USED, index, row] = new
            totals[index][USED] += new - before
        self._note(row)

    def use_many(self, rows: Ints, index: int, by: Ints) -> None:
        """As `use`, for distinct rows at once."""
        before = self.amounts[USED, index, rows]
        new = np.clip(before + by, 0, MAX_AMOUNT)
        self.amounts[USED, index, rows] = new
        offered = self._offered[rows]
        for part in (True, False):
            self._totals[part].resources[index][USED] += int((new - before)[offered == part].sum())
        self._note(*rows.tolist())

    # --- the change log -------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Rises with each change; for `changes`."""
        return self._log_from + len(self._log)

    def changes(self, since: int) -> list[int] | None:
        """Rows changed since that position, once each, rising; None if that is forgotten: look at all.

        A row may be beyond `len` now: its host was removed.
        """
        if since < self._log_from:
            return None
        return sorted(set(self._log[since - self._log_from :]))

    def _note(self, *rows: int) -> None:
        if len(self._log) > 2 * len(self._ids) + 64:
            self._log_from += len(self._log)
            self._log.clear()
        self._log.extend(rows)

    # --- totals ---------------------------------------------------------------------------------

    def sums(self, offered: bool) -> Sums:
        """Totals over offered hosts, or over the others: up or down, disabled or not; without guests and fits."""
        part = self._totals[offered]
        resources = {
            cls: Amount(*part.resources[index]) for cls, index in sorted(self._class.items()) if part.resources[index]
        }
        return Sums(part.hosts, part.up, part.disabled, {c: a for c, a in resources.items() if a != _ZERO}, {}, {})

    def _count(self, row: int, sign: int) -> None:
        part = self._totals[bool(self._offered[row])]
        part.hosts += sign
        part.up += sign * bool(self._up[row])
        part.disabled += sign * bool(self._disabled[row])
        for index, values in enumerate(self.amounts[:, :, row].T.tolist()):
            total = part.resources[index]
            total[PHYSICAL] += sign * values[PHYSICAL]
            total[TOTAL] += sign * values[TOTAL]
            total[USED] += sign * values[USED]

    # --- storage --------------------------------------------------------------------------------

    def _add_class(self, cls: ResourceClass) -> None:
        self._class[cls] = len(self.classes)
        self.classes.append(cls)
        self.amounts = np.concatenate([self.amounts, np.zeros((3, 1, self.open.shape[0]), dtype=np.int64)], axis=1)
        for part in self._totals.values():
            part.resources.append([0, 0, 0])

    def _grow(self, capacity: int) -> None:
        more = capacity - self.open.shape[0]
        self.amounts = np.pad(self.amounts, ((0, 0), (0, 0), (0, more)))
        self.open, self._offered, self._up, self._disabled = (
            np.pad(column, (0, more)) for column in (self.open, self._offered, self._up, self._disabled)
        )
        self.trait_sets = np.pad(self.trait_sets, (0, more))
        self.stands = np.pad(self.stands, (0, more))

    def _trait_set(self, traits: frozenset[str]) -> int:
        index = self._set.get(traits)
        if index is None:
            index = self._set[traits] = len(self.sets)
            self.sets.append(traits)
        return index

    def _standing(self, place: Place) -> int:
        index = self._place.get(place)
        if index is None:
            index = self._place[place] = len(self.places)
            self.places.append(place)
        return index


_ZERO = Amount()


def _cut(amount: int) -> int:
    return max(0, min(amount, MAX_AMOUNT))
