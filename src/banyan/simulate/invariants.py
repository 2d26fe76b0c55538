"""What must hold in every world, after every step, whatever befell it; and what must hold once all has settled.

Always: journals are whole chains; epochs never go back; no two children of a zone share a name or a key, none is
in a state without a name; a lineage has each code once; no total counts more than exists, and no live total
counts a lost zone; a live session's certificate is valid at corrected time. Settled: every zone that joined
is ready and alive, and the totals at a root are the sum over its tree. Of servers: servers.py. Reads only: disks and
surfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from banyan.core.errors import BanyanError
from banyan.core.identity import SYSTEM, Caller, Role
from banyan.core.ids import ZoneCode, code_text
from banyan.core.journal import Event, Line, chain
from banyan.core.records import Self, Unit
from banyan.core.time import iso
from banyan.core.zone import Child, ChildState, Health
from banyan.simulate import servers
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.zone.surface import Surface
from banyan.zone.views import PageView, UsageView, ZoneView

PAGE = 1000
# Virtual seconds in which lineage and digest of one change both have come up.
MOMENT = 5.0
# A certificate may be used for as long as its end is on the way: the session is cut at the next look.
CERTIFICATE_SLACK = 120.0


@dataclass(slots=True)
class _Memory:
    """What was seen of one zone's disk before. `line`: the newest journal line verified, and its digest."""

    line: int = 0
    digest: bytes = b""
    epoch: int = 0
    child_epochs: dict[ZoneCode, int] = field(default_factory=dict)
    restores: int = 0


@dataclass(frozen=True, slots=True)
class _Disk:
    """One snapshot of what a zone has stored."""

    row: Self | None
    children: tuple[Child, ...]
    lines: tuple[Line, ...]
    carried: dict[ZoneCode, int]


class Invariants:
    """Remembers what it saw of a world, so that it can tell what went back."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: dict[str, _Memory] = {}
        # When each code was last listed by each zone.
        self._listed: dict[str, dict[str, float]] = {}
        # Every code that a zone ever had, a reinstalled one's earlier ones too.
        self._codes: dict[str, Site] = {}

    def broken(self, *, settled: bool) -> list[str]:
        """Each invariant that does not hold now, as a sentence that names the zone."""
        found: list[str] = []
        for site in list(self._world.sites.values()):
            if site.started:
                found += self._of_disk(site)
                if not site.is_clone and (code := site.code):
                    self._codes[code] = site
        for site in list(self._world.sites.values()):
            if site.running and not site.deceived:
                found += self._of_view(site)
        found += servers.broken(self._world.sites.values())
        if settled:
            found += self._settled()
        return found

    # --- disks ----------------------------------------------------------------------------------

    def _of_disk(self, site: Site) -> list[str]:
        memory = self._seen.setdefault(site.path, _Memory())
        if memory.restores != site.restores:
            memory = self._seen[site.path] = _Memory(restores=site.restores)
        disk = site.peek(_reader(memory.line))
        return [
            f"{site.path}: {text}"
            for text in (
                *_journal(disk.lines, memory),
                *_epochs(disk, memory),
                *_children(disk.children),
                *_lineage(disk),
                *(_certificates(disk, site) if site.running and not self._stepped() else ()),
            )
        ]

    def _stepped(self) -> bool:
        """A step of any clock moves corrected times up and down the tree, and ends no session."""
        return any(site.clock.stepped for site in self._world.sites.values())

    # --- views ----------------------------------------------------------------------------------

    def _of_view(self, site: Site) -> list[str]:
        try:
            zones, usage = views(site)
        except BanyanError:
            return []  # it is starting, or its disk is full: it shows nothing, so nothing wrong
        found = [f"{site.path}: {text}" for text in _listed(zones)]
        truth = self._codes
        here = site.most_hosts
        # Its own children it judges itself; what is lost further down it learns of, and counts, a moment later.
        lost = tuple(z.path + "/" for z in zones if z.depth == 1 and z.health == Health.LOST)
        now, seen = self._world.loop.time(), self._listed.setdefault(site.path, {})
        away = {z.code for z in zones if f"{z.path}/".startswith(lost)}
        seen.update((z.code, now) for z in zones)
        # The list and the totals come up in two streams: what left the list may be counted for a moment.
        recent = [code for code, at in seen.items() if now - at <= MOMENT * self._world.pace and code in truth]
        every = sum(truth[code].most_hosts for code in recent)
        heard = sum(truth[code].most_hosts for code in recent if code not in away)
        live = usage.hosts.total
        total = live + usage.not_offered.hosts + usage.unknown.hosts
        if total > here + every:
            found.append(f"{site.path} counts {total} hosts, but its tree never had more than {here + every}")
        if live > here + heard:
            most = here + heard
            found.append(f"{site.path} counts {live} live hosts, but its zones that are not lost never had over {most}")
        return found

    # --- settled --------------------------------------------------------------------------------

    def _settled(self) -> list[str]:
        found: list[str] = []
        for site in self._world.sites.values():
            if not site.running:
                continue
            found += servers.unsettled(site)
            zones, usage = views(site)
            for zone in zones:
                if zone.admin == "enabled" and (zone.state, zone.health) != ("ready", "alive"):
                    found.append(f"{site.path} holds {zone.path} as {zone.state} and {zone.health} ({zone.reason})")
            mine = [self._codes[z.code] for z in zones if z.code in self._codes]
            hosts = site.bottom.hosts + sum(other.bottom.hosts for other in mine)
            counted = usage.hosts.total + usage.not_offered.hosts
            if counted != hosts or usage.unknown.hosts:
                found.append(
                    f"{site.path} counts {counted} hosts and {usage.unknown.hosts} unknown; its tree has {hosts}"
                )
            if usage.zones.total != len(zones):
                found.append(f"{site.path} counts {usage.zones.total} zones and lists {len(zones)}")
        return found


def views(site: Site) -> tuple[list[ZoneView], UsageView]:
    """The zones below, and the totals, as one zone shows them."""
    zones: list[ZoneView] = []
    marker = ""
    while True:
        page = site.ask(partial(_zones, marker))
        zones += [msgspec.json.decode(item, type=ZoneView) for item in page.items]
        if not page.marker:
            break
        marker = page.marker
    return zones, site.ask(lambda surface, caller: surface.usage(caller, ""))


def _zones(marker: str, surface: Surface, caller: Caller) -> Coroutine[object, object, PageView]:
    return surface.zones(caller, "", {}, "path", marker, PAGE)


def _reader(after: int) -> Callable[[Unit], _Disk]:
    def read(unit: Unit) -> _Disk:
        children: list[Child] = []
        last: ZoneCode | None = None
        while page := unit.children.page(last, PAGE):
            children += page
            last = page[-1].code
        lines: list[Line] = []
        number = after
        while fresh := unit.journal.page(number, PAGE, {}):
            lines += fresh
            number = fresh[-1].number
        carried: dict[ZoneCode, int] = {}
        for child in children:
            code: ZoneCode | None = None
            while rows := unit.lineage.via(child.code, code, PAGE):
                for row in rows:
                    if not row.gone:
                        carried[row.code] = carried.get(row.code, 0) + 1
                code = rows[-1].code
        return _Disk(unit.self_.get(), tuple(children), tuple(lines), carried)

    return read


def _journal(lines: Sequence[Line], memory: _Memory) -> list[str]:
    for line in lines:
        if line.number != memory.line + 1:
            return [f"journal line {line.number} follows {memory.line}"]
        caller = Caller(line.actor, Role.VIEWER, SYSTEM.issuer, None, line.token, line.address, line.request)
        event = Event(line.kind, line.target, caller, line.text, line.facts, line.outcome)
        if chain(memory.digest, line.number, line.at, event) != line.digest:
            return [f"journal line {line.number} ({line.kind}) does not chain to the one before"]
        memory.line, memory.digest = line.number, line.digest
    return []


def _epochs(disk: _Disk, memory: _Memory) -> list[str]:
    found = []
    epoch = disk.row.epoch if disk.row is not None else 0
    if epoch < memory.epoch:
        found.append(f"its epoch went back from {memory.epoch} to {epoch}")
    memory.epoch = epoch
    for child in disk.children:
        before = memory.child_epochs.get(child.code, 0)
        if child.epoch < before:
            found.append(f"the epoch of child {child.name} went back from {before} to {child.epoch}")
        memory.child_epochs[child.code] = child.epoch
    return found


def _children(children: Sequence[Child]) -> list[str]:
    found = []
    present = [child for child in children if child.state is not ChildState.RETIRED]
    names: dict[str, Child] = {}
    keys: dict[bytes, Child] = {}
    for child in present:
        if (other := names.setdefault(child.name, child)) is not child:
            found.append(f"children {code_text(other.code)} and {code_text(child.code)} are both called {child.name}")
        if (other := keys.setdefault(child.fingerprint, child)) is not child:
            found.append(f"children {other.name} and {child.name} have one key")
    return found


def _certificates(disk: _Disk, site: Site) -> list[str]:
    """Children whose session outlived their certificate."""
    if disk.row is None:
        return []
    now = disk.row.time.correct(site.clock.wall())
    return [
        f"child {child.name} has a session, but its certificate ended at {iso(child.certificate_until)}"
        for child in disk.children
        if child.state is not ChildState.RETIRED
        and site.has_session(child.code)
        and child.certificate_until is not None
        and child.certificate_until + CERTIFICATE_SLACK < now
    ]


def _lineage(disk: _Disk) -> list[str]:
    found = []
    if disk.row is not None and disk.row.code in disk.carried:
        found.append("it is in its own lineage")
    for code, count in sorted(disk.carried.items()):
        if count > 1:
            found.append(f"zone {code_text(code)} is in its lineage through {count} children")
    return found


def _listed(zones: Sequence[ZoneView]) -> list[str]:
    found = []
    codes: dict[str, str] = {}
    paths: set[str] = set()
    for zone in zones:
        if zone.code in codes:
            found.append(f"zone {zone.code} is listed as {codes[zone.code]} and as {zone.path}")
        if zone.path in paths:
            found.append(f"two zones are listed as {zone.path}")
        codes[zone.code] = zone.path
        paths.add(zone.path)
        if zone.state not in set(ChildState) or zone.health not in set(Health):
            found.append(f"{zone.path} is in no named state: {zone.state}, {zone.health}")
    return found
