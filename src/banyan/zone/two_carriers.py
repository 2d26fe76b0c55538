"""Zones that a database of a version before holds twice, reported by two children: at the start each is put in one.

Now the second report of a zone is refused (trust/lineage.py). What was kept twice before is settled in the store before
anything is read of it, so that the order of reading decides nothing: a child of our own is its own, else the carrier
with the higher epoch has the zone, then the one that was heard last, then the one with the lower code. Whoever loses a
zone by this is asked for all of its lineage again, and is told then what is refused, and why.
"""

from __future__ import annotations

from itertools import groupby

from banyan.core.ids import ZoneCode, code_text
from banyan.core.journal import Event
from banyan.core.ports import Store
from banyan.core.records import Unit
from banyan.core.zone import Child, ChildState
from banyan.zone.own import Own

# Rows settled in one unit, and zones that a journal line names.
PAGE = 1_000
NAMED = 5


async def settle_carriers(own: Own, store: Store) -> None:
    """Leaves each zone with one carrier, with a journal line for each child that loses some."""

    def work(unit: Unit) -> bool:
        lost = _lost(unit)
        for carrier, zones in lost.items():
            unit.lineage.delete(carrier, zones)
            unit.streams.put_generations(carrier, 0, unit.streams.generations(carrier)[1])
        own.write_all(unit, [_line(own, unit, carrier, zones) for carrier, zones in lost.items()])
        return bool(lost)

    if await store.read(lambda unit: unit.lineage.doubled(1)):
        while await store.write("parent.two-carriers", work):
            pass


def _lost(unit: Unit) -> dict[ZoneCode, dict[ZoneCode, ZoneCode]]:
    """Of a page: by carrier, the zones that it loses, and to whom."""
    lost: dict[ZoneCode, dict[ZoneCode, ZoneCode]] = {}
    # The last zone of the page may have more carriers: the best of those that are here meets them in the next.
    for zone, rows in groupby(unit.lineage.doubled(PAGE), key=lambda row: row[0]):
        carriers = [child for _, via in rows if (child := unit.children.get(via)) is not None]
        itself = unit.children.get(zone)
        if itself is not None and itself.state is not ChildState.RETIRED:
            keeper = zone
        else:
            keeper = max(carriers, key=_rank).code
        for child in carriers:
            if child.code != keeper:
                lost.setdefault(child.code, {})[zone] = keeper
    return lost


def _rank(child: Child) -> tuple[int, float, int]:
    return child.epoch, child.heard_at or 0.0, -child.code


def _line(own: Own, unit: Unit, carrier: ZoneCode, zones: dict[ZoneCode, ZoneCode]) -> Event:
    def name(code: ZoneCode) -> str:
        child = unit.children.get(code)
        return code_text(code) if child is None else child.name

    said = ", ".join(
        f"{code_text(zone)} ({'a child of this zone' if zone == to else f'through {name(to)}'})"
        for zone, to in list(zones.items())[:NAMED]
    )
    more = f" and {len(zones) - NAMED} more" if len(zones) > NAMED else ""
    text = (
        f"an earlier version had kept zones twice that {name(carrier)} reported, and that stay where else they are: "
        f"{said}{more}; {name(carrier)} is asked for its lineage again"
    )
    return own.event("lineage-settled", name(carrier), text, zones=str(len(zones)))
