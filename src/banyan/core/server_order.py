"""The order of a list of servers, and places in it: the same in every zone, so that pages of many are merged into one.

A list goes by its sort keys, then by id, newest first. A *place* is the sort values of the last server before it, as
opaque text: a list goes on from it whatever has come or gone meanwhile, and whichever zones can be asked this time.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import cmp_to_key, lru_cache
from typing import Any, TypeAlias

import msgspec

from banyan.core.errors import BadInput
from banyan.core.reading import read_msgpack
from banyan.core.server import Server, Sort, SortKey

Values: TypeAlias = tuple[str | float, ...]


def full_order(sort: Sequence[Sort]) -> tuple[Sort, ...]:
    """The keys that decide, the id last. Creation and id give one order."""
    order: list[Sort] = []
    for one in sort:
        key = SortKey.ID if one.key is SortKey.CREATED else one.key
        if all(key is not before.key for before in order):
            order.append(Sort(key, one.descending))
        if key is SortKey.ID:
            return tuple(order)
    return (*order, Sort(SortKey.ID))


def values_of(server: Server, order: Sequence[Sort]) -> Values:
    """What the server is sorted by, as its store has it. What was never launched sorts before all that was."""
    return tuple(_VALUES[sort.key](server) for sort in order)


def write_place(values: Sequence[object]) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(values)).rstrip(b"=").decode()


def read_place(after: str, keys: int) -> list[str | float] | None:
    """None for the start of a list. Raises BadInput("bad-marker")."""
    if not after:
        return None
    try:
        values = read_msgpack(base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)), list[str | float])
    except ValueError:
        values = []
    if len(values) != keys:
        raise BadInput("bad-marker", "the marker must be that of the page before, with the same filters and order")
    return values


@lru_cache(maxsize=256)
def ranking(order: tuple[Sort, ...]) -> Callable[[Sequence[str | float]], Any]:
    """A key for `sorted` over values of that order. Raises BadInput("bad-marker") for values of other kinds."""

    def compare(a: Sequence[str | float], b: Sequence[str | float]) -> int:
        for sort, x, y in zip(order, a, b, strict=True):
            if x == y:
                continue
            try:
                less = x < y  # type: ignore[operator]  # those that have no order are refused below
            except TypeError as error:
                raise BadInput("bad-marker", "the marker is of a list with another order") from error
            return 1 if less is sort.descending else -1
        return 0

    return cmp_to_key(compare)


_VALUES: dict[SortKey, Callable[[Server], str | float]] = {
    SortKey.CREATED: lambda s: s.created,
    SortKey.UPDATED: lambda s: s.updated,
    SortKey.NAME: lambda s: s.name,
    SortKey.STATE: lambda s: s.state.value,
    SortKey.TASK: lambda s: s.task.value,
    SortKey.HOST: lambda s: s.host,
    SortKey.PROJECT: lambda s: s.project,
    SortKey.USER: lambda s: s.user,
    SortKey.ID: lambda s: s.id,
    SortKey.LAUNCHED: lambda s: s.launched or 0.0,
    SortKey.FLAVOR: lambda s: s.spec.flavor.id if s.spec.flavor is not None else "",
    SortKey.IMAGE: lambda s: s.spec.image.id if s.spec.image is not None else "",
}
