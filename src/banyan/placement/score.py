"""Which host first, and how many guests where: scores of one host as a number, fills of all hosts at once.

A *key* orders hosts for one ask, smallest first: 23 bits of how well it suits, 20 bits of a seeded tie,
20 bits of the row, so that no two are equal and a key names its host. A *fill* says how many of n
identical guests each host gets; it is what n single choices in a row would have given (property-tested),
in a few passes over arrays, whatever n is. Nothing here knows what a host is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from banyan.core.order import Policy
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


def keys(counts: Ints, ties: Ints, policy: Policy) -> Ints:
    """Keys of rows by how many guests would fit (at most MAX_COUNT); END where none does."""
    worth = counts if policy is Policy.PACK else MAX_COUNT - counts
    return np.where(counts > 0, worth << COUNT_SHIFT | ties, END)


def key_count(key: int, policy: Policy) -> int:
    """The count in a key that is not END."""
    worth = key >> COUNT_SHIFT
    return worth if policy is Policy.PACK else MAX_COUNT - worth


# --- fills --------------------------------------------------------------------------------------
# All take `counts` (what fits), `caps` (the most that a host may get of these), `ties`, arrays of one
# shape, indexed by row, and n. They give an array of that shape: its sum is n, or all that is possible if that is less.


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


def pack(counts: Ints, caps: Ints, ties: Ints, n: int) -> Ints:
    """The fullest that still take one first, each as far as it goes."""
    return in_turn(keys(np.where(caps > 0, counts, 0), ties, Policy.PACK), np.minimum(counts, caps), n)


def in_turn(keys: Ints, caps: Ints, n: int) -> Ints:
    """By rising key, each as far as it goes; hosts whose key is END get none."""
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


def apart(counts: Ints, members: Ints, ties: Ints, policy: Policy, n: int) -> Ints:
    """Where fewest `members` of a group are first, so that the group ends as even as there is room."""
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
    able = np.flatnonzero(up_to(high) > taken)
    _one_more(taken, able, keys(counts - taken, ties, policy), left)
    return taken


def together(counts: Ints, members: Ints, ties: Ints, policy: Policy, n: int) -> Ints:
    """Where most `members` of a group are first, each host as far as it goes."""
    taken = np.zeros_like(counts)
    order = keys(counts, ties, policy)
    # Hosts with members are few; all others follow by their keys alone.
    for level in sorted(set(members[members > 0].tolist()), reverse=True):
        here = members == level
        taken += in_turn(np.where(here, order, END), counts, n - int(taken.sum()))
    return taken + in_turn(np.where(members > 0, END, order), counts, n - int(taken.sum()))


def _one_more(taken: Ints, able: NDArray[np.intp], order: Ints, n: int) -> None:
    """One more for the n of these rows that come first in `order`: ties or keys, which hold their row."""
    if n > 0:
        taken[np.partition(order[able], n - 1)[:n] & ROW_MASK] += 1
