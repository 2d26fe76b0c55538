"""Rows of children and of zones below: how they are read, page by page, and how they stand in the tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from banyan.core.ids import ZoneCode
from banyan.core.lineage import Row, UseRow
from banyan.core.ports import Store
from banyan.core.records import Unit
from banyan.core.zone import Admin, Child, ChildState, Health
from banyan.zone.tree import Node
from banyan.zone.weights import entry_of

# Rows read in one unit.
PAGE = 1000


@dataclass(frozen=True, slots=True)
class Loaded:
    """A child's row, its digest with that one's generation, and the generations that are whole here."""

    child: Child
    digest: tuple[int, Mapping[str, int]] | None
    lineage: int
    ledger: int


def loader(after: ZoneCode | None) -> Callable[[Unit], list[Loaded]]:
    def load(unit: Unit) -> list[Loaded]:
        return [
            Loaded(child, unit.streams.digest(child.code), *unit.streams.generations(child.code))
            for child in unit.children.page(after, PAGE)
        ]

    return load


def lineage(child: ZoneCode, after: ZoneCode | None) -> Callable[[Unit], Sequence[Row]]:
    return lambda unit: unit.lineage.via(child, after, PAGE)


async def uses_of(store: Store, child: ZoneCode) -> list[UseRow]:
    """All that it last reported of use."""
    found: list[UseRow] = []
    last: tuple[int, str] | None = None
    while uses := await store.read(_ledger(child, last)):
        found += uses
        last = (uses[-1].issuer, uses[-1].project)
    return found


def _ledger(child: ZoneCode, after: tuple[int, str] | None) -> Callable[[Unit], Sequence[UseRow]]:
    return lambda unit: unit.ledger.via(child, after, PAGE)


def node_of_child(child: Child, root: ZoneCode, racks: int) -> Node:
    return Node(
        code=child.code,
        parent=root,
        via=child.code,
        name=child.name,
        state=child.state,
        health=child.health,
        admin=child.admin,
        reason=child.reason,
        version=child.version,
        as_of=child.heard_at,
        labels=tuple(sorted(child.labels.items())),
        racks=racks,
    )


def node_of_row(row: Row, via: ZoneCode) -> Node:
    """Raises ValueError for a word that this version does not know."""
    entry = entry_of(row)
    return Node(
        code=row.code,
        parent=row.parent,
        via=via,
        name=row.name,
        state=ChildState(row.state),
        health=Health(row.health),
        admin=Admin(row.admin),
        reason=row.reason,
        version=entry.version,
        as_of=row.as_of / 1000 if row.as_of else None,
        labels=tuple(sorted(row.labels.items())),
        racks=len(entry.racks),
    )
