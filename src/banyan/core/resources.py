"""Quantities of a resource class. Counted in whole units: vCPUs, MiB, GiB, pieces.

`physical` is what the hardware has, `total` what may be promised (after reserve and overcommit),
`used` what is promised. Class names are lower case: vcpu, memory_mib, disk_gib; any other class of
OpenStack's placement keeps its name in lower case (custom_gpu).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NewType

ResourceClass = NewType("ResourceClass", str)

VCPU = ResourceClass("vcpu")
MEMORY_MIB = ResourceClass("memory_mib")
DISK_GIB = ResourceClass("disk_gib")


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

    @property
    def key(self) -> str:
        """Canonical text, for example `disk_gib=20,memory_mib=4096,vcpu=2;HW_CPU_X86_AVX2`."""
        needs = ",".join(f"{c}={n}" for c, n in self.needs)
        return f"{needs};{','.join(self.traits)}" if self.traits else needs

    @staticmethod
    def parse(key: str) -> Shape:
        """The shape that `key` spells. Raises ValueError on malformed text."""
        needs_text, _, traits_text = key.partition(";")
        needs = []
        for part in needs_text.split(","):
            name, equals, count = part.partition("=")
            if not (name and equals and count.isdigit()):
                raise ValueError(f"a shape is class=count,…;TRAIT,…, got {key!r}")
            needs.append((ResourceClass(name), int(count)))
        return shape(dict(needs), traits_text.split(",") if traits_text else ())


def shape(needs: Mapping[ResourceClass, int], traits: tuple[str, ...] | list[str] = ()) -> Shape:
    """A canonical Shape; needs of zero are left out."""
    return Shape(tuple(sorted((c, n) for c, n in needs.items() if n > 0)), tuple(sorted(set(traits))))


def with_used(amount: Amount, used: int) -> Amount:
    return replace(amount, used=used)
