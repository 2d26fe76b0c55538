"""Zones that a database of a version before holds twice, reported by two children: at the start each is put in one.

Now the second report of a zone is refused (trust/lineage.py). What was kept twice before is settled in the store before
anything is read of it, so that the order of reading decides nothing. A zone is reached through the child through which
its parent is reached, so it is settled from the top down: a child of our own is its own, and what it reports of those
below goes by the same rule. The other children come one after the other, the one with the higher epoch first, then the
one that was heard last, then the one with the lower code: each keeps the zones that none before it has and that are no
children here, if it keeps what is above them as well. Whoever loses a zone by this is asked for all of its lineage
again, and is told then what is refused, and why.

What is held once, and below a zone of another child, is seen only in the whole tree: it goes after that was read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeAlias

from banyan.core.ids import ZoneCode, code_text
from banyan.core.journal import Event
from banyan.core.ports import Store
from banyan.core.records import Unit
from banyan.core.zone import Child, ChildState
from banyan.zone.own import Own
from banyan.zone.tree import Tree

# Rows settled in one unit, and zones that a journal line names.
PAGE = 1_000
NAMED = 5

Rank: TypeAlias = tuple[int, float, int]
# Through which child a zone is reached, None if through none (Roster.carrier).
Via: TypeAlias = Callable[[ZoneCode], ZoneCode | None]


@dataclass(frozen=True, slots=True)
class _Lost:
    """What one child loses. `zones`: each with its parent, what lies below another after that; `to`: of those that
    another child has, or that are one, which that is. Of the others only the parent is elsewhere."""

    carrier: ZoneCode
    zones: Mapping[ZoneCode, ZoneCode]
    to: Mapping[ZoneCode, ZoneCode]


async def settle_carriers(own: Own, store: Store) -> None:
    """Leaves each zone with one carrier, its parent's, with a journal line for each child that loses some.

    Holds the ranks of all children, and of the rows the codes of one child's (zone/inbox.py bounds them). Cut short, it
    goes on at the next start.
    """
    if not await store.read(lambda unit: unit.lineage.doubled(1)):
        return
    ranks = await _ranks(store)
    for carrier in sorted(ranks, key=ranks.__getitem__, reverse=True):
        lost = await _lost(store, carrier, ranks)
        if lost.zones:
            await _take(own, store, lost)


async def _ranks(store: Store) -> dict[ZoneCode, Rank]:
    """Of all children that are not retired."""
    ranks: dict[ZoneCode, Rank] = {}
    after: ZoneCode | None = None
    while page := await store.read(_children(after)):
        ranks.update((child.code, _rank(child)) for child in page if child.state is not ChildState.RETIRED)
        after = page[-1].code
    return ranks


def _children(after: ZoneCode | None) -> Callable[[Unit], Sequence[Child]]:
    return lambda unit: unit.children.page(after, PAGE)


def _rank(child: Child) -> Rank:
    return child.epoch, child.heard_at or 0.0, -child.code


async def _lost(store: Store, carrier: ZoneCode, ranks: Mapping[ZoneCode, Rank]) -> _Lost:
    """Of one child; those of a higher rank have only what they keep by now."""
    parents: dict[ZoneCode, ZoneCode] = {}
    to: dict[ZoneCode, ZoneCode] = {}

    def page(after: ZoneCode | None, unit: Unit) -> ZoneCode | None:
        rows = unit.lineage.via(carrier, after, PAGE)
        for row in rows:
            if row.code != carrier:
                parents[row.code] = row.parent
                if (keeper := _keeper(unit, row.code, carrier, ranks)) is not None:
                    to[row.code] = keeper
        return rows[-1].code if rows else None

    after = await store.read(partial(page, None))
    while after is not None:
        after = await store.read(partial(page, after))

    # Below a parent that it does not report itself it keeps nothing that another child may have for that.
    missing = list({up: None for up in parents.values() if up != carrier and up not in parents})
    elsewhere: set[ZoneCode] = set()

    def ups(codes: Sequence[ZoneCode], unit: Unit) -> None:
        elsewhere.update(up for up in codes if up in ranks or any(via in ranks for via in unit.lineage.carriers(up)))

    for start in range(0, len(missing), PAGE):
        await store.read(partial(ups, missing[start : start + PAGE]))
    alone = [zone for zone, up in parents.items() if up in elsewhere and zone not in to]
    return _Lost(carrier, _with_below([*to, *alone], parents), to)


def astray(tree: Tree, via: Via, carrier: ZoneCode) -> dict[ZoneCode, ZoneCode]:
    """Zones that are reached through this child while their parent, or one above, is through another; with parents.

    Such a zone may be nobody else's: what is above it was another's before it was reported, or a version before settled
    it without what lies below. A parent that is not here may be still to come, and what is below it stays.
    """
    nodes = [node for code in tree.through(carrier) if code != carrier and (node := tree.get(code)) is not None]
    parents = {node.code: node.parent for node in nodes}
    roots = [code for code, up in parents.items() if via(up) not in (None, carrier)]
    return _with_below(roots, parents) if roots else {}


async def settle_astray(own: Own, store: Store, tree: Tree, via: Via, carrier: ZoneCode) -> Collection[ZoneCode]:
    """Takes from one child, in the store, what is `astray` once the store was read; which zones these are."""
    lost = _Lost(carrier, astray(tree, via, carrier), {})
    if lost.zones:
        await _take(own, store, lost)
    return lost.zones


def _with_below(roots: Iterable[ZoneCode], parents: Mapping[ZoneCode, ZoneCode]) -> dict[ZoneCode, ZoneCode]:
    """Those zones, then by and by all below them, each with its parent; `parents`: of all that one child reports."""
    below: dict[ZoneCode, list[ZoneCode]] = defaultdict(list)
    for zone, parent in parents.items():
        below[parent].append(zone)
    found = {zone: parents[zone] for zone in roots}
    order = list(found)
    for above in order:
        # Grows meanwhile, by what was not in it: no loop is gone round twice.
        fresh = [zone for zone in below.get(above, ()) if zone not in found]
        found.update((zone, above) for zone in fresh)
        order += fresh
    return found


def _keeper(unit: Unit, zone: ZoneCode, carrier: ZoneCode, ranks: Mapping[ZoneCode, Rank]) -> ZoneCode | None:
    """Who has a zone that `carrier` reports: itself, where it is a child here, or another child of a higher rank."""
    if zone in ranks:
        return zone
    others = (other for other in unit.lineage.carriers(zone) if other in ranks and ranks[other] > ranks[carrier])
    return max(others, key=ranks.__getitem__, default=None)


async def _take(own: Own, store: Store, lost: _Lost) -> None:
    """Takes from the bottom up: as long as something is left to do, what shows it at the next start is there."""
    codes = list(lost.zones)

    def work(page: Sequence[ZoneCode], last: bool, unit: Unit) -> None:
        unit.lineage.delete(lost.carrier, page)
        unit.streams.put_generations(lost.carrier, 0, unit.streams.generations(lost.carrier)[1])
        if last:
            own.write(unit, _line(own, unit, lost))

    while codes:
        page = codes[-PAGE:]
        del codes[-PAGE:]
        await store.write("parent.two-carriers", partial(work, page, not codes))


def _line(own: Own, unit: Unit, lost: _Lost) -> Event:
    def name(code: ZoneCode) -> str:
        child = unit.children.get(code)
        return code_text(code) if child is None else child.name

    def where(zone: ZoneCode, parent: ZoneCode) -> str:
        to = lost.to.get(zone)
        if to is None:
            return f"below {code_text(parent)}"
        return "a child of this zone" if to == zone else f"through {name(to)}"

    said = ", ".join(f"{code_text(zone)} ({where(zone, up)})" for zone, up in islice(lost.zones.items(), NAMED))
    more = f" and {len(lost.zones) - NAMED} more" if len(lost.zones) > NAMED else ""
    carrier = name(lost.carrier)
    text = (
        f"zones that {carrier} had reported were kept by an earlier version while they, or what is above them, are "
        f"somewhere else: {said}{more}; {carrier} is asked for its lineage again"
    )
    return own.event("lineage-settled", carrier, text, zones=str(len(lost.zones)))
