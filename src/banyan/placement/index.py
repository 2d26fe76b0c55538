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
from banyan.placement.columns import Ints
from banyan.placement.filters import Ask
from banyan.placement.room import FREE, Pairs, Room
from banyan.placement.score import COUNT_SHIFT, END, MAX_COUNT, ONE, ROW_MASK, keys

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
        # Spreading, only more room makes a host better; packing, less of it does, and so does the first of it.
        self._log = room.freed if self._spread else room.changed
        self._layout = 0
        self._cursor = 0
        self._heap: list[int] = []
        self._floor = END
        self._admitted = bytearray()
        self.key: Callable[[int], int] = _takes_nothing

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
        """One guest of this ask went to the best host: what its entry was is now one less."""
        heap = self._heap
        if not heap or heap[0] != entry or entry >> COUNT_SHIFT == (0 if self._spread else MAX_COUNT):
            return  # at the largest count an entry does not tell how many there are
        if self._spread:
            after = entry + ONE
            if after < self._floor and after >> COUNT_SHIFT < MAX_COUNT:
                heapreplace(heap, after)
            else:
                heappop(heap)
        elif entry >> COUNT_SHIFT > 1:
            heap[0] = entry - ONE
        else:
            heappop(heap)
        if not self._spread and self._cursor == self._log.position - 1:
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
        for index, need in self.pairs:
            quotient = room.free[index, :number] // need
            least = quotient if least is None else np.minimum(least, quotient, out=least)
        assert least is not None
        np.clip(least, 0, MAX_COUNT, out=least)
        least *= np.frombuffer(self._admitted, dtype=np.int8)[room.kinds[:number]]
        return least

    def _keys(self) -> Ints:
        counts = self.counts()
        return keys(counts, self._room.ties[: counts.shape[0]], self.ask.policy)

    def _best_of_all(self, without: Collection[int]) -> int:
        found = self._keys()
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
            key, floor, heap = self.key, self._floor, self._heap
            for row in set(rows):
                now = key(row)
                if now < floor:
                    heappush(heap, now)
            self._cursor = log.position

    def _bind(self) -> None:
        room, columns = self._room, self._room.columns
        self._layout = room.layout
        self._admit()
        pairs = [(columns.class_index(cls), need) for cls, need in self.ask.shape.needs]
        self.pairs = tuple((index, need) for index, need in pairs if index is not None)
        if len(self.pairs) < len(pairs) or not pairs:
            self.pairs, self.key = None, _takes_nothing
            return
        self.key = _key(room, self.pairs, self._admitted, self._spread)

    def _admit(self) -> None:
        """Judges kinds that are new; kind 0 takes nothing."""
        room, admitted = self._room, self._admitted
        for number in range(len(admitted), room.kind_count):
            admitted.append(number > 0 and self.ask.admits(*room.kind(number)))

    def _fill(self) -> None:
        """The nearest from all hosts."""
        self._cursor = self._log.position
        found = self._keys()
        found = found[found != END]
        self._floor = END
        if found.shape[0] > NEAR:
            found = np.partition(found, NEAR)
            self._floor = int(found[NEAR])
            found = found[:NEAR]
        self._heap = found.tolist()
        heapify(self._heap)


def _takes_nothing(row: int) -> int:
    return END


def _key(room: Room, pairs: Pairs, admitted: bytearray, spread: bool) -> Callable[[int], int]:
    """The key of one row, as a closure: the innermost step of a claim.

    Nearly all flavors need vCPU, memory and disk, so three classes are written out.
    """
    rows, make = room.rows, room.row
    top, sign = (MAX_COUNT, -1) if spread else (0, 1)
    if len(pairs) == 3:
        (one, one_need), (two, two_need), (three, three_need) = ((FREE + index, need) for index, need in pairs)

        def key_of_three(number: int) -> int:
            row = rows[number] or make(number)
            if not admitted[row[0]]:
                return END
            least = row[one] // one_need
            other = row[two] // two_need
            if other < least:
                least = other
            other = row[three] // three_need
            if other < least:
                least = other
            if least < 1:
                return END
            return top + sign * (least if least < MAX_COUNT else MAX_COUNT) << COUNT_SHIFT | row[1]

        return key_of_three

    needs = [(FREE + index, need) for index, need in pairs]

    def key(number: int) -> int:
        row = rows[number] or make(number)
        if not admitted[row[0]]:
            return END
        least = MAX_COUNT
        for index, need in needs:
            count = row[index] // need
            if count < least:
                least = count
        return top + sign * least << COUNT_SHIFT | row[1] if least > 0 else END

    return key
