"""The best host for one ask, at hand: a heap of the nearest candidates, repaired by change.

A pass over all hosts finds the few hundred best keys; the worst of them is the *floor*, and every host
whose key is below the floor has an entry that is not above its key. So the top of the heap, once its
key was computed again, is the best of all hosts; when the heap is used up, another pass fills it. Hosts
that got worse are found out when they come up; those that may have got better are in the room's logs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

import numpy as np

from banyan.core.order import Policy
from banyan.placement.columns import Bools, Ints
from banyan.placement.filters import Ask
from banyan.placement.room import FREE, Pairs, Room
from banyan.placement.score import COUNT_SHIFT, END, MAX_COUNT, ONE, ROW_MASK, spread_keys

NEAR: Final = 512
# Changed hosts beyond which one pass over all is cheaper than looking at each.
_MANY: Final = 256


class Index:
    """For one ask on one room. `pairs` is None while no host has one of the classes that are needed."""

    def __init__(self, room: Room, ask: Ask) -> None:
        self.ask = ask
        self.pairs: Pairs | None = None
        self._room = room
        self._spread = ask.policy is Policy.SPREAD
        # Spreading, only more room makes a host better; packing, less of it does, or the first of it.
        self._log = room.freed if self._spread else room.changed
        self._layout = 0
        self._cursor = 0
        self._heap: list[int] = []
        self._floor = END
        self._admitted = bytearray()
        # Of one host by its row: its key, and how many guests fit, at most MAX_COUNT.
        self.key: Callable[[int], int] = _takes_nothing
        self.count: Callable[[int], int] = _fits_nothing
        self._repair: Callable[[set[int], int, list[int]], None] = _repairs_nothing

    # --- one host -------------------------------------------------------------------------------

    def best(self, without: Collection[int] = ()) -> int:
        """The smallest key of all hosts but those of these rows; END if none takes a guest.

        The room must follow its columns (`Room.stale`).
        """
        self._follow()
        heap, key, aside = self._heap, self.key, []
        found = END
        while True:
            while heap:
                entry = heap[0]
                now = key(entry & ROW_MASK)
                if now != entry:
                    if now < self._floor:
                        heapreplace(heap, now)
                    else:
                        heappop(heap)
                elif without and entry & ROW_MASK in without:
                    aside.append(heappop(heap))
                else:
                    found = entry
                    break
            if found != END or self._floor == END:
                break
            if aside:
                found = self._best_of_all(without)
                break
            self._fill()
            heap = self._heap
        for entry in aside:
            heappush(heap, entry)
        return found

    def took(self, entry: int) -> None:
        """One guest of this ask is held on the best host, whose entry that was."""
        heap = self._heap
        if not heap or heap[0] != entry:
            return
        if self._spread:
            # One less fits. At the largest count an entry does not tell how many there are, and stays.
            after = entry + ONE
            if entry < ONE:
                return
            if after < self._floor and after >> COUNT_SHIFT < MAX_COUNT:
                heapreplace(heap, after)
            else:
                heappop(heap)
            return
        # It is fuller, so it stays the best while it takes another.
        after = self.key(entry & ROW_MASK)
        if after == END:
            heappop(heap)
        else:
            heap[0] = after
        if self._cursor == self._log.position - 1:
            self._cursor += 1

    def follow(self) -> None:
        """Brings `key` and `pairs` up to date with the room."""
        self._follow()

    # --- all hosts ------------------------------------------------------------------------------

    def counts(self) -> Ints:
        """How many guests fit, per row of the columns, at most MAX_COUNT; shape (hosts,)."""
        self._follow()
        room = self._room
        number = len(room.columns)
        if not self.pairs:
            return np.zeros(number, dtype=np.int64)
        least: Ints | None = None
        free = room.free()
        for index, need in self.pairs:
            quotient = free[index, :number] // need
            least = quotient if least is None else np.minimum(least, quotient, out=least)
        assert least is not None
        np.clip(least, 0, MAX_COUNT, out=least)
        least *= np.frombuffer(self._admitted, dtype=np.int8)[room.kinds[:number]]
        return least

    def _able(self) -> Bools:
        """Hosts that take at least one, by row of the columns."""
        room = self._room
        number = len(room.columns)
        able: Bools = np.frombuffer(self._admitted, dtype=np.bool_)[room.kinds[:number]]
        free = room.free()
        for index, need in self.pairs or ():
            able &= free[index, :number] >= need
        return able if self.pairs else np.zeros(number, dtype=np.bool_)

    def keys(self, counts: Ints, taken: Ints | None = None) -> Ints:
        """Keys of all hosts for `counts` as given by `counts`, or fewer where some may not be used; END elsewhere.

        With `taken`: as if so many of these guests were on them already; a host that is then full is END.
        """
        room = self._room
        left = counts if taken is None else counts - taken
        if self._spread:
            return spread_keys(left, room.ties[: left.shape[0]])
        return np.where(left > 0, room.pack_keys(taken, self.pairs or ()), END)

    def _best_of_all(self, without: Collection[int]) -> int:
        found = self.keys(self.counts())
        found[[row for row in without if row < found.shape[0]]] = END
        return int(found.min(initial=END))

    # --- repair ---------------------------------------------------------------------------------

    def _follow(self) -> None:
        room = self._room
        if self._layout != room.layout:
            self._bind()
            self._fill()
            return
        if len(self._admitted) != room.kind_count:
            self._admit()
        log = self._log
        if self._cursor != log.position:
            rows = log.since(self._cursor)
            if rows is None or len(rows) > _MANY or len(self._heap) > 4 * NEAR:
                self._fill()
                return
            self._repair(set(rows), self._floor, self._heap)
            self._cursor = log.position

    def _bind(self) -> None:
        room, columns = self._room, self._room.columns
        self._layout = room.layout
        self._admit()
        pairs = [(columns.class_index(cls), need) for cls, need in self.ask.shape.needs]
        self.pairs = tuple((index, need) for index, need in pairs if index is not None)
        if len(self.pairs) < len(pairs) or not pairs:
            self.pairs, self.key, self.count, self._repair = None, _takes_nothing, _fits_nothing, _repairs_nothing
            return
        steps = _spreading if self._spread else _packing
        self.count = _counting(room, self.pairs)
        self.key, self._repair = steps(room, self.pairs, self._admitted, self.count)

    def _admit(self) -> None:
        """Judges kinds that are new; kind 0 takes nothing."""
        room, admitted = self._room, self._admitted
        for number in range(len(admitted), room.kind_count):
            admitted.append(number > 0 and self.ask.admits(*room.kind(number)))

    def _fill(self) -> None:
        """The nearest from all hosts."""
        self._cursor = self._log.position
        if self._spread:
            counts = self.counts()
            able = counts > 0
            found = spread_keys(counts[able], self._room.ties[: counts.shape[0]][able])
        else:
            found = self._room.pack_keys()[self._able()]
        self._floor = END
        if found.shape[0] > NEAR:
            found = np.partition(found, NEAR)
            self._floor = int(found[NEAR])
            found = found[:NEAR]
        self._heap = found.tolist()
        heapify(self._heap)


def _takes_nothing(row: int) -> int:
    return END


def _fits_nothing(row: int) -> int:
    return 0


def _repairs_nothing(rows: set[int], floor: int, heap: list[int]) -> None:
    pass


# The innermost steps of a claim, as closures: how many fit in one row, its key, and the repair of a heap for rows that
# changed. Nearly all flavors need vCPU, memory and disk, so three classes are written out; fewer are repeated.

_Steps = tuple[Callable[[int], int], Callable[[set[int], int, list[int]], None]]


def _three(pairs: Pairs) -> list[tuple[int, int]]:
    """The needs by their places in a Row, at least three."""
    needs = [(FREE + index, need) for index, need in pairs]
    return needs + [needs[0]] * (3 - len(needs))


def _counting(room: Room, pairs: Pairs) -> Callable[[int], int]:
    rows, make = room.rows, room.row
    (one, one_need), (two, two_need), (three, three_need), *more = _three(pairs)

    def count(number: int) -> int:
        row = rows[number] or make(number)
        least = row[one] // one_need
        other = row[two] // two_need
        if other < least:
            least = other
        other = row[three] // three_need
        if other < least:
            least = other
        if more:
            least = min(least, *(row[index] // need for index, need in more))
        return least if least < MAX_COUNT else MAX_COUNT

    return count


def _spreading(room: Room, pairs: Pairs, admitted: bytearray, count: Callable[[int], int]) -> _Steps:
    rows, make = room.rows, room.row

    def key(number: int) -> int:
        row = rows[number] or make(number)
        if not admitted[row[0]]:
            return END
        least = count(number)
        return MAX_COUNT - least << COUNT_SHIFT | row[1] if least > 0 else END

    def repair(changed: set[int], floor: int, heap: list[int]) -> None:
        for number in changed:
            now = key(number)
            if now < floor:
                heappush(heap, now)

    return key, repair


def _packing(room: Room, pairs: Pairs, admitted: bytearray, _: Callable[[int], int]) -> _Steps:
    rows, make, packed, pack = room.rows, room.row, room.packed, room.pack_key
    (one, one_need), (two, two_need), (three, three_need), *more = _three(pairs)

    def key(number: int) -> int:
        row = rows[number] or make(number)
        if not admitted[row[0]] or row[one] < one_need or row[two] < two_need or row[three] < three_need:
            return END
        if more and any(row[index] < need for index, need in more):
            return END
        return packed[number] or pack(number)

    def repair(changed: set[int], floor: int, heap: list[int]) -> None:
        # As `key`, without a call for each: every claim of any ask changes a host for all of them.
        for number in changed:
            row = rows[number] or make(number)
            if row[one] < one_need or row[two] < two_need or row[three] < three_need or not admitted[row[0]]:
                continue
            if more and any(row[index] < need for index, need in more):
                continue
            now = packed[number] or pack(number)
            if now < floor:
                heappush(heap, now)

    return key, repair
