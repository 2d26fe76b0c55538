"""Quantities of a resource class. Counted in whole units: vCPUs, MiB, GiB, pieces.

`physical` is what the hardware has, `total` what may be promised (after reserve and overcommit),
`used` what is promised. Class names are lower case: vcpu, memory_mib, disk_gib; any other class of
OpenStack's placement keeps its name in lower case (custom_gpu).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NewType

ResourceClass = NewType("ResourceClass", str)

VCPU = ResourceClass("vcpu")
MEMORY_MIB = ResourceClass("memory_mib")
DISK_GIB = ResourceClass("disk_gib")

# The most of one class that a shape may need: far beyond any host, and within a signed 64-bit integer.
MAX_NEED = 2**48
# Hexadecimal digits of a shape's id: by chance two of a million shapes share one once in 37 million trees.
ID_SIZE = 16


@dataclass(frozen=True, slots=True)
class Amount:
    """One resource class of one host, rack or zone."""

    physical: int = 0
    total: int = 0
    used: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.physical + other.physical, self.total + other.total, self.used + other.used)

    @property
    def free(self) -> int:
        """What may still be promised; 0 when a host is over-used (as after a lowered ratio)."""
        return max(0, self.total - self.used)


Amounts = Mapping[ResourceClass, Amount]


def add_amounts(a: Amounts, b: Amounts) -> dict[ResourceClass, Amount]:
    """Class by class; a class that one side lacks counts as zero. Sorted by class name."""
    zero = Amount()
    return {c: a.get(c, zero) + b.get(c, zero) for c in sorted({*a, *b})}


@dataclass(frozen=True, slots=True)
class Shape:
    """What one guest asks of one host: a flavor without its name.

    `needs` is sorted by class, `traits` sorted; so equal shapes are equal values.
    """

    needs: tuple[tuple[ResourceClass, int], ...]
    traits: tuple[str, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.needs, self.traits)))

    def __hash__(self) -> int:
        # Shapes are keys of everything that is kept by shape: one order looks them up a dozen times.
        return self._hash

    @property
    def key(self) -> str:
        """Canonical text, for example `disk_gib=20,memory_mib=4096,vcpu=2;HW_CPU_X86_AVX2`."""
        return _key(self)

    @property
    def id(self) -> str:
        """`shape_id` of its key."""
        return shape_id(self.key)

    @staticmethod
    def parse(key: str) -> Shape:
        """The shape that `key` spells. Raises ValueError on malformed text, and on a need above MAX_NEED."""
        needs_text, _, traits_text = key.partition(";")
        needs = []
        for part in needs_text.split(","):
            name, equals, count = part.partition("=")
            if not (name and equals and count.isascii() and count.isdigit() and len(count) <= 15):
                raise ValueError(f"a shape is class=count,…;TRAIT,…, got {key[:80]!r}")
            if int(count) > MAX_NEED:
                raise ValueError(f"a shape needs at most 2^48 of a class, got {key[:80]!r}")
            needs.append((ResourceClass(name), int(count)))
        return shape(dict(needs), traits_text.split(",") if traits_text else ())


@lru_cache(maxsize=8192)
def _key(shape: Shape) -> str:
    needs = ",".join(f"{c}={n}" for c, n in shape.needs)
    return f"{needs};{','.join(shape.traits)}" if shape.traits else needs


@lru_cache(maxsize=8192)
def shape_id(key: str) -> str:
    """The stable id of the shape that `key` spells: the same everywhere and for ever, ID_SIZE hexadecimal digits."""
    return hashlib.sha256(key.encode()).hexdigest()[:ID_SIZE]


def shape(needs: Mapping[ResourceClass, int], traits: tuple[str, ...] | list[str] = ()) -> Shape:
    """A canonical Shape; needs of zero are left out."""
    return Shape(tuple(sorted((c, n) for c, n in needs.items() if n > 0)), tuple(sorted(set(traits))))


def with_used(amount: Amount, used: int) -> Amount:
    return replace(amount, used=used)
