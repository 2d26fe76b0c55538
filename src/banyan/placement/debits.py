"""What a zone has placed on its members since they last said what they have (protocols §4).

A member's digest is seconds old; between two of them a parent that sends it one order after the other
would believe the same room again and again. So each order that goes to a member gets the next number
of that link, and counts against what the member said until a digest names a higher number. Debits are
hints in memory: lost at a restart, and never believed against a member's own word.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from banyan.core.resources import ResourceClass, Shape

M = TypeVar("M", bound=Hashable)

# Orders that one member owes an answer for; older ones are forgotten, since these are hints.
MAX_DEBITS: Final = 10_000


@dataclass(slots=True)
class _Debit:
    order: str
    shape: Shape
    count: int


@dataclass(slots=True)
class _Owed:
    """One member's debits, by number; and what all of their guests need."""

    next: int = 1
    debits: OrderedDict[int, _Debit] = field(default_factory=OrderedDict)
    numbers: dict[str, int] = field(default_factory=dict)
    needs: dict[ResourceClass, int] = field(default_factory=dict)
    answered: list[str] = field(default_factory=list)


class Debits(Generic[M]):
    """`M` names a member."""

    def __init__(self) -> None:
        self._owed: dict[M, _Owed] = {}

    def add(self, member: M, order: str, shape: Shape, count: int) -> int:
        """The order goes to the member; its number on that link. The same order again takes the place of the first."""
        owed = self._owed.setdefault(member, _Owed())
        self._drop(owed, owed.numbers.get(order))
        number = owed.next
        owed.next += 1
        owed.debits[number] = _Debit(order, shape, count)
        owed.numbers[order] = number
        _shift(owed, shape, count)
        if len(owed.debits) > MAX_DEBITS:
            self._drop(owed, next(iter(owed.debits)))
        return number

    def answered(self, member: M, order: str, count: int) -> None:
        """The member has placed so many of the order: 0 if it refused."""
        owed = self._owed.get(member)
        number = owed.numbers.get(order) if owed is not None else None
        if owed is None or number is None:
            return
        debit = owed.debits[number]
        if count < 1:
            self._drop(owed, number)
        else:
            _shift(owed, debit.shape, count - debit.count)
            debit.count = count
            owed.answered.append(order)

    def included(self, member: M, below: int) -> None:
        """The member's digest holds all orders with lower numbers."""
        owed = self._owed.get(member)
        while owed is not None and owed.debits and (number := next(iter(owed.debits))) < below:
            self._drop(owed, number)

    def settle(self, member: M) -> None:
        """The member said anew what it has: what it had answered for before is in that."""
        owed = self._owed.get(member)
        if owed is not None:
            for order in owed.answered:
                self._drop(owed, owed.numbers.get(order))
            owed.answered.clear()

    def drop(self, member: M) -> None:
        """The member is gone."""
        self._owed.pop(member, None)

    def forget(self, member: M) -> None:
        """The link is a new one. Numbers go on, so that no old digest speaks of new orders."""
        owed = self._owed.get(member)
        if owed is not None:
            owed.debits.clear()
            owed.numbers.clear()
            owed.needs.clear()
            owed.answered.clear()

    def against(self, member: M, shape: Shape) -> int:
        """How many guests of `shape` have no place there because of the debits."""
        owed = self._owed.get(member)
        return displaced(owed.needs, shape) if owed is not None and owed.needs else 0

    def owing(self) -> list[M]:
        """Members that some order counts against."""
        return [member for member, owed in self._owed.items() if owed.debits]

    def count(self, member: M) -> int:
        """Orders that count against the member now."""
        owed = self._owed.get(member)
        return len(owed.debits) if owed is not None else 0

    @staticmethod
    def _drop(owed: _Owed, number: int | None) -> None:
        debit = owed.debits.pop(number, None) if number is not None else None
        if debit is None:
            return
        del owed.numbers[debit.order]
        _shift(owed, debit.shape, -debit.count)


def _shift(owed: _Owed, shape: Shape, count: int) -> None:
    for cls, need in shape.needs:
        owed.needs[cls] = owed.needs.get(cls, 0) + need * count
        if not owed.needs[cls]:
            del owed.needs[cls]


def displaced(needs: Mapping[ResourceClass, int], shape: Shape) -> int:
    """How many guests of `shape` would stand where so much is needed, by the class that is scarcest for them.

    So many guests of the same shape displace as many, exactly; of others it is an estimate.
    """
    return max([0, *(-(-needs.get(cls, 0) // need) for cls, need in shape.needs)])
