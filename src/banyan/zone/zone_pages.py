"""The zones below, as they are shown: views of single zones, and pages of the list.

By path a page begins where the one before ended, and costs what is on it and what its filters passed over. In any
other order all zones are looked at for each page, but only at what they are sorted by: views are made of those that
the page shows. Every so many zones the loop gets a turn.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import msgspec

from banyan.core.ids import ZoneCode
from banyan.core.time import Wall
from banyan.zone import present, zone_list
from banyan.zone.live import HEARD, heard_below
from banyan.zone.tree import Node
from banyan.zone.views import PageView, ZoneView
from banyan.zone.zone import Zone

Row: TypeAlias = tuple[zone_list.Key, Node]

# Zones looked at before the loop gets a turn.
TURN = 200


class ZonePages:
    """Who may see what was judged before."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    async def page(self, start: ZoneCode, filters: Mapping[str, str], sort: str, marker: str, limit: int) -> PageView:
        """A page of the zones below `start`; see Surface.zones. Raises BadInput: bad-sort, bad-filter, bad-marker."""
        key, turned = zone_list.check_sort(sort)
        zone_list.check_filters(filters)
        after = zone_list.decode_marker(sort, marker) if marker else None
        rows = (
            await self._by_path(start, filters, after, limit + 1)
            if key == "path" and not turned
            else await self._by_value(start, filters, key, turned, after, limit + 1)
        )
        more = zone_list.encode_marker(sort, rows[limit - 1][0]) if len(rows) > limit else ""
        shown = tuple(msgspec.Raw(msgspec.json.encode(self.view(node))) for _, node in rows[:limit])
        return PageView(shown, more)

    async def _by_path(
        self, start: ZoneCode, filters: Mapping[str, str], after: zone_list.Key | None, most: int
    ) -> list[Row]:
        rows: list[Row] = []
        async for path, node in self._matching(start, zone_list.path_in(after) if after else "", filters):
            rows.append((zone_list.key_of(path, node.code, None), node))
            if len(rows) == most:
                break
        return rows

    async def _by_value(
        self,
        start: ZoneCode,
        filters: Mapping[str, str],
        key: str,
        turned: bool,
        after: zone_list.Key | None,
        most: int,
    ) -> list[Row]:
        first = heapq.nlargest if turned else heapq.nsmallest
        best: list[Row] = []
        fresh: list[Row] = []
        async for path, node in self._matching(start, "", filters):
            place = zone_list.key_of(path, node.code, self._value(key, node))
            if after is None or (place < after if turned else place > after):
                fresh.append((place, node))
                if len(fresh) > 2 * most + TURN:
                    best, fresh = first(most, [*best, *fresh], key=_place), []
        return first(most, [*best, *fresh], key=_place)

    async def _matching(
        self, start: ZoneCode, after: str, filters: Mapping[str, str]
    ) -> AsyncIterator[tuple[str, Node]]:
        """(path, node) in the order of paths, of the zones below `start` that the filters let through."""
        zone = self._zone
        while True:
            rows = zone.tree.slice(start, after, TURN)
            for path, node in rows:
                if not filters or zone_list.matches(zone.tree.effective(node), filters):
                    yield path, node
            if len(rows) < TURN:
                return
            after = rows[-1][0]
            # A tree of 20,000 zones takes longer than a heartbeat should wait.
            await zone.clock.sleep_until(zone.clock.now())

    def _value(self, key: str, node: Node) -> float | str | None:
        """What a zone is sorted by, as `view` shows it."""
        match key:
            case "health":
                return str(self._zone.tree.effective(node).health)
            case "as_of":
                return self.as_of(node)
            case "path":
                return None
        figures = self._zone.members.figures(node.code)
        if figures is None:
            return None
        return {"used": figures.used_share, "hosts": figures.hosts, "servers": figures.servers}[key]

    # --- one zone -------------------------------------------------------------------------------

    def view(self, node: Node) -> ZoneView:
        zone = self._zone
        node = replace(node, as_of=self.as_of(node))
        live = zone.roster.live.get(node.code)
        if live is None:
            return present.zone(zone.tree, node, None, None, None, None)
        counters = zone.members.child_counters(node.code)
        instants = [at for key in ("at", "uat") if (at := counters.get(key))]
        as_of = Wall(min(instants) / 1000) if instants else None
        return present.zone(zone.tree, node, live.child, zone.members.figures(node.code), as_of, live.terms.lease)

    def as_of(self, node: Node) -> float | None:
        """When its parent last heard the zone: exactly, if that is us; else what those between say of it.

        A row travels only when it changes. Of all zones that it reports as alive, the child between says with each
        heartbeat since when at least they are known to be (core.messages.Beat).
        """
        zone = self._zone
        through = zone.roster.live.get(node.via)
        if through is None or node.health not in HEARD:
            return node.as_of
        if node.via == node.code:
            heard = through.heard
            return node.as_of if heard is None else zone.own.wall() - (zone.clock.now() - heard)
        # Of what lies below a zone that fell silent nothing newer is known than when it did.
        silent = (above for above in zone.tree.chain(node.parent) if above.health not in HEARD)
        since = [above.below or 0.0 for above in silent if above.code != node.via]
        return max(node.as_of or 0.0, min(since, default=heard_below(through, zone.own.wall()) / 1000)) or None


def _place(row: Row) -> zone_list.Key:
    return row[0]
