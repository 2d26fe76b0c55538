"""Hosts in memory: for tests of the API before them."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec
from msgspec.structs import replace

from banyan.core.host import HostChange
from banyan.core.identity import Caller
from banyan.zone.views import AmountView, HostCounts, HostView, PageView, PartView, UsageView, ZoneTotals

_AMOUNTS = {"vcpu": AmountView(8, 16, 4), "memory_mib": AmountView(1000, 1000, 10), "disk_gib": AmountView(5, 5, 1)}
HOSTS = tuple(
    HostView("top", "r1", f"h{n}", f"host-h{n}.[a]" if n == 3 else f"host-h{n}", n != 2, n == 4, True, _AMOUNTS,
             availability_zone="az1" if n < 3 else "", reason="by hand" if n == 4 else "")
    for n in range(1, 5)
)  # fmt: skip


class FakeInventory:
    """zone.compute.hosts.Inventory over HOSTS. `own`: what the hosts' own side says; `rows`: what counts."""

    def __init__(self) -> None:
        self.asked = 0
        self.rows = {host.id: host for host in HOSTS}

    def say(self, id: str, change: HostChange) -> HostView:
        own, now = next(host for host in HOSTS if host.id == id), self.rows[id]
        if change.disabled is not None:
            now = replace(now, disabled=change.disabled or own.disabled, reason=change.reason or own.reason)
        if change.forced_down is not None:
            now = replace(now, forced_down=change.forced_down, up=own.up and not change.forced_down)
        self.rows[id] = now
        return now

    async def page(
        self, caller: Caller, kind: str, path: str, filters: Mapping[str, str], marker: str, limit: int
    ) -> PageView:
        assert kind == "hosts"
        self.asked += 1
        found = [
            host
            for host in self.rows.values()
            if fnmatchcase(host.name, filters.get("name", "*")) and fnmatchcase(host.rack, filters.get("rack", "*"))
        ]
        begin = int(marker or 0)
        rows = found[begin : begin + limit]
        end = begin + len(rows)
        items = tuple(msgspec.Raw(msgspec.json.encode(host)) for host in rows)
        return PageView(items, str(end) if end < len(found) else "")

    async def usage(self, caller: Caller, path: str) -> UsageView:
        part = PartView(0, 0, 0, {}, None)
        zones = ZoneTotals(0, 0, 0, 0, 0, 0)
        return UsageView(None, "top", zones, HostCounts(4, 3, 1), {"ACTIVE": 2}, dict(_AMOUNTS), part, part)
