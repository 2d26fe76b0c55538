"""Which host first, and how many guests where: scores of one host as a number, fills of all hosts at once.

A *key* orders hosts for one ask, smallest first: 23 bits of how well it suits, 20 bits of a seeded tie,
20 bits of the row, so that no two are equal and a key names its host. Spreading, a host suits by how many
guests of the shape would fit; packing, by how small a share of it is free (placement/room.py). A *fill* says
how many of n identical guests each host gets; it is what n single choices in a row would have given
(property-tested), in a few passes over arrays, whatever n is. Nothing here knows what a host is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from banyan.placement.columns import Ints

ROW_BITS: Final = 20
TIE_BITS: Final = 20
COUNT_SHIFT: Final = ROW_BITS + TIE_BITS
ROW_MASK: Final = (1 << ROW_BITS) - 1
# More of one shape than this on one host is as good as this many.
MAX_COUNT: Final = (1 << 23) - 1
# The step from one count to the next; and the key of a host that takes nothing, behind all others.
ONE: Final = 1 << COUNT_SHIFT
END: Final = (1 << 63) - 1

# Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014): the golden ratio in 64 bits.
_GOLDEN: Final = 0x9E37_79B9_7F4A_7C15


def tie(id: str, row: int, seed: int) -> int:
    """The lower bits of the keys of the host `id` in that row. The same hosts tie alike in whatever rows they are."""
    mixed = (crc32(id.encode()) ^ seed & 0xFFFF_FFFF) * _GOLDEN & 0xFFFF_FFFF_FFFF_FFFF
    return mixed >> 64 - TIE_BITS << ROW_BITS | row


def ties(ids: Sequence[str], seed: int) -> Ints:
    """`tie` of all rows; shape (len(ids),)."""
    sums = np.fromiter((crc32(id.encode()) for id in ids), dtype=np.uint64, count=len(ids))
    mixed = (sums ^ np.uint64(seed & 0xFFFF_FFFF)) * np.uint64(_GOLDEN) >> np.uint64(64 - TIE_BITS)
    return mixed.astype(np.int64) << ROW_BITS | np.arange(len(ids), dtype=np.int64)


def spread_keys(counts: Ints, ties: Ints) -> Ints:
    """Keys of rows by how many guests would fit (at most MAX_COUNT); END where none does."""
    return np.where(counts > 0, MAX_COUNT - counts << COUNT_SHIFT | ties, END)


def spread_count(key: int) -> int:
    """The count in a key of `spread_keys` that is not END."""
    return MAX_COUNT - (key >> COUNT_SHIFT)


# --- fills --------------------------------------------------------------------------------------
# All take arrays of one shape, indexed by row, such as `counts` (what fits) and `caps` (the most that a host may get of
# that), and n. They give an array of that shape: its sum is n, or all that is possible if that is less.


def spread(counts: Ints, caps: Ints, ties: Ints, n: int) -> Ints:
    """From the roomiest downwards, like water that is drawn off: every host is left with about the same count."""
    most = np.minimum(counts, caps)
    if n >= int(most.sum()):
        return most

    def above(level: int) -> Ints:
        """What each host gives when it goes down to `level`."""
        return np.minimum(np.maximum(counts - level, 0), caps)

    # above(low) is enough, above(high) is not: found from the top, where few guests end.
    high = int(counts.max())
    step = 1
    while int(above(max(high - step, 0)).sum()) < n:
        high -= step
        step *= 2
    low = max(high - step, 0)
    while high - low > 1:
        middle = (low + high) // 2
        if int(above(middle).sum()) < n:
            high = middle
        else:
            low = middle
    taken = above(high)
    _one_more(taken, np.flatnonzero(above(low) > taken), ties, n - int(taken.sum()))
    return taken


def in_turn(keys: Ints, caps: Ints, n: int) -> Ints:
    """By rising key, each as far as it goes; hosts whose key is END get none. So one packs: who gets a guest gets
    a better key."""
    taken = np.zeros_like(caps)
    if n < 1:
        return taken
    first = keys[keys != END]
    if n < first.size:
        first = np.partition(first, n - 1)[:n]
    first.sort()
    able = first & ROW_MASK
    reached = np.cumsum(caps[able])
    last = int(np.searchsorted(reached, n))
    taken[able[:last]] = caps[able[:last]]
    if last < able.size:
        taken[able[last]] = n - (int(reached[last - 1]) if last else 0)
    return taken


def apart(counts: Ints, members: Ints, keys_after: Callable[[Ints], Ints], n: int) -> Ints:
    """Where fewest `members` of a group are first, so that the group ends as even as there is room.

    `keys_after`: the keys that hosts would have with so many of these guests on each.
    """
    if n >= int(counts.sum()):
        return counts.copy()

    def up_to(level: int) -> Ints:
        return np.clip(level - members, 0, counts)

    low, high = int(members.min()), int(members.max()) + n
    while high - low > 1:
        middle = (low + high) // 2
        if int(up_to(middle).sum()) < n:
            low = middle
        else:
            high = middle
    taken = up_to(low)
    left = n - int(taken.sum())
    if left:
        _one_more(taken, np.flatnonzero(up_to(high) > taken), keys_after(taken), left)
    return taken


def together(counts: Ints, members: Ints, keys: Ints, n: int) -> Ints:
    """Where most `members` of a group are first, each host as far as it goes."""
    taken = np.zeros_like(counts)
    # Hosts with members are few; all others follow by their keys alone.
    for level in sorted(set(members[members > 0].tolist()), reverse=True):
        taken += in_turn(np.where(members == level, keys, END), counts, n - int(taken.sum()))
    return taken + in_turn(np.where(members > 0, END, keys), counts, n - int(taken.sum()))


def _one_more(taken: Ints, able: NDArray[np.intp], order: Ints, n: int) -> None:
    """One more for the n of these rows that come first in `order`: ties or keys, which hold their row."""
    if n > 0:
        taken[np.partition(order[able], n - 1)[:n] & ROW_MASK] += 1
