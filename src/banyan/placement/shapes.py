"""Which shapes a zone counts, and announces to its children: all that it knows, within a bound (protocols §4).

A zone knows the shapes that its parents announce, those of its settings, and the flavors of its racks. Where these are
more than a digest holds, what parents announce stays before what only this zone knows, so that a total above is of the
same shapes everywhere; within one source the smallest keys stay. What is left out is named, never half counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from banyan.core.digest import MAX_NAME, MAX_SHAPES
from banyan.core.resources import MAX_NEED, Shape

# Shapes that a reason names.
NAMED = 3
HASH_SIZE = 16  # bytes


@dataclass(frozen=True, slots=True)
class Choice:
    """`counted`: by key, at most MAX_SHAPES. `left_out`: known as well, by key; neither counted nor announced."""

    counted: tuple[Shape, ...] = ()
    left_out: tuple[Shape, ...] = ()

    @property
    def reason(self) -> str:
        """Why some are left out, and which; "" when all are counted."""
        if not self.left_out:
            return ""
        names = ", ".join(shape.key for shape in self.left_out[:NAMED])
        more = len(self.left_out) - NAMED
        return (
            f"{len(self.counted) + len(self.left_out)} shapes are known and {len(self.counted)} are counted, the most "
            f"that a digest holds: those announced by parents first, then zone.shapes, then flavors of racks. Not "
            f"counted: {names}{f' and {more} more' if more > 0 else ''}. Offer fewer flavors (`share.flavors`)"
        )


def countable(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    """Distinct shapes that may stand in a digest, by key. One that needs nothing has no count."""
    distinct = {shape.key: shape for shape in shapes if shape.needs}
    return tuple(
        shape
        for key, shape in sorted(distinct.items())
        if len(key) <= MAX_NAME and "\0" not in key and all(need <= MAX_NEED for _, need in shape.needs)
    )


def choose(sources: Iterable[Iterable[Shape]], limit: int = MAX_SHAPES) -> Choice:
    """At most `limit` of the shapes in `sources`: an earlier source before a later one, in each the smallest keys."""
    counted: dict[str, Shape] = {}
    left_out: dict[str, Shape] = {}
    for source in sources:
        for shape in countable(source):
            if shape.key not in counted:
                (counted if len(counted) < limit else left_out)[shape.key] = shape
    return Choice(*(tuple(found[key] for key in sorted(found)) for found in (counted, left_out)))


def set_hash(keys: Iterable[str]) -> bytes:
    """The hash of a set of shapes, in whatever order; HASH_SIZE bytes. Never empty, also of none."""
    return hashlib.sha256("\0".join(sorted(set(keys))).encode()).digest()[:HASH_SIZE]


def read_keys(keys: Sequence[str]) -> tuple[Shape, ...]:
    """The shapes that an announcement spells. What this version can not read is passed over: it is not counted."""
    found = []
    for key in keys:
        try:
            found.append(Shape.parse(key))
        except ValueError:
            continue
    return countable(found)
