"""From what a zone holds to what it shows: digests, rows and nodes become views. Pure; no decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from banyan.core.digest import Digest, Sums
from banyan.core.guest import Guest, GuestState
from banyan.core.host import Host, HostWord, as_said
from banyan.core.ids import ZoneCode, code_text
from banyan.core.journal import Line
from banyan.core.policy import CodeRecord, CodeState, KnownKey, Rule, TokenRecord, TokenState
from banyan.core.rack import Rack
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU, Amount, ResourceClass, add_amounts
from banyan.core.time import Wall, iso
from banyan.core.zone import Child
from banyan.zone.members import Figures
from banyan.zone.tree import Node, Tree
from banyan.zone.views import (
    AmountView,
    CodeView,
    HostCounts,
    HostView,
    JournalView,
    KnownKeyView,
    PartView,
    RackView,
    RuleView,
    ServerView,
    TokenView,
    TraceView,
    UsageView,
    ZoneTotals,
    ZoneView,
)

# Scripts read these by name: they are there also where nothing is counted.
NOTHING = {DISK_GIB: Amount(), MEMORY_MIB: Amount(), VCPU: Amount()}


def when(instant: float | None) -> str | None:
    return None if instant is None else iso(instant)


def amounts(resources: Mapping[ResourceClass, Amount]) -> dict[str, AmountView]:
    return {c: AmountView(a.physical, a.total, a.used) for c, a in sorted(resources.items())}


def part(sums: Sums, zones: int, as_of: Wall | None) -> PartView:
    return PartView(zones, sums.hosts, sums.guest_total, amounts(sums.resources), when(as_of))


def totals(digest: Digest) -> ZoneTotals:
    z = digest.zones
    return ZoneTotals(z.total, z.ready, z.alive, z.suspect, z.lost, z.disabled, z.unavailable)


def usage(
    digest: Digest, path: str, now: Wall, unknown_names: tuple[str, ...], shapes: Iterable[str] = ()
) -> UsageView:
    """`now` stands in for "as of" when nothing is counted: an empty total is true at this moment.

    `shapes`: keys of those that the zone knows, shown also where none fits.
    """
    live = digest.live
    fits = {key: live.fits.get(key, 0) for key in sorted({*shapes, *live.fits})}
    return UsageView(
        as_of=iso(digest.as_of if digest.as_of is not None else now),
        path=path,
        zones=totals(digest),
        hosts=HostCounts(live.hosts, live.hosts_up, live.hosts_disabled),
        guests={GuestState.ACTIVE.value: 0, **live.guests},
        resources=amounts(add_amounts(NOTHING, live.resources)),
        not_offered=part(digest.not_offered, 0, digest.as_of),
        unknown=part(digest.unknown, digest.unknown_zones, digest.unknown_as_of),
        unknown_names=unknown_names,
        fits=fits,
        fits_unknown={key: hosts for key in fits if (hosts := live.uncounted(key))},
    )


def zone(
    tree: Tree, node: Node, child: Child | None, figures: Figures | None, as_of: Wall | None, lease: float | None
) -> ZoneView:
    """What is known for direct children only is None for others. `as_of`: of the figures."""
    shown = tree.effective(node)
    path = tree.path_of(node.code)
    return ZoneView(
        name=node.name,
        path=path,
        code=code_text(node.code),
        state=shown.state,
        health=shown.health,
        admin=shown.admin,
        reason=shown.reason,
        version=shown.version,
        as_of=when(shown.as_of),
        parent=path.rpartition("/")[0],
        depth=tree.depth(node.code),
        labels=dict(node.labels),
        racks=node.racks,
        mode=child.mode if child else "",
        # A parent that lags grants a little more; nobody needs to know that to the millisecond.
        lease=None if lease is None else round(lease, 1),
        joined_at=when(child.joined_at) if child else None,
        certificate_until=when(child.certificate_until) if child else None,
        maintenance_until=when(child.maintenance_until) if child else None,
        rolled_back=bool(child and child.rolled_back),
        quarantined=bool(child and child.quarantined),
        hosts=None if figures is None else figures.hosts,
        servers=None if figures is None else figures.servers,
        used_share=None if figures is None else figures.used_share,
        totals_as_of=when(as_of),
    )


def rack(row: Rack, path: str, hosts: int, servers: int) -> RackView:
    return RackView(
        zone=path,
        name=row.name,
        code=code_text(row.code),
        driver=row.driver,
        health=row.health,
        reason=row.reason,
        capacity=row.capacity,
        basis=row.basis,
        hosts=hosts,
        servers=servers,
        epoch=row.epoch,
        scanned_at=when(row.scanned_at),
        facts=dict(row.facts),
    )


def truth(value: bool | None) -> str:
    """As filters have it: None is what nobody knows."""
    return "unknown" if value is None else "yes" if value else "no"


def host(row: Host, path: str, rack_name: str, offered: bool | None, word: HostWord | None = None) -> HostView:
    """`row`: as its own side has it."""
    row = as_said(row, word)
    return HostView(
        zone=path,
        rack=rack_name,
        id=row.id,
        name=row.name,
        up=row.up,
        disabled=row.disabled,
        offered=offered,
        resources=amounts(row.amounts),
        traits=tuple(sorted(row.traits)),
        aggregates=row.aggregates,
        availability_zone=row.availability_zone,
        reason=row.disabled_reason,
        forced_down=word is not None and word.forced_down,
        said_by="" if word is None else word.author,
        said_at=None if word is None else when(word.said_at),
    )


def server(row: Guest, path: str, rack_name: str) -> ServerView:
    return ServerView(
        zone=path,
        rack=rack_name,
        id=row.id,
        name=row.name,
        project=row.project,
        state=row.state,
        host=row.host,
        flavor=row.flavor,
        native=row.native,
        created=when(row.created) if row.created else None,
    )


def line(row: Line) -> JournalView:
    return JournalView(
        number=row.number,
        at=iso(row.at),
        kind=row.kind,
        target=row.target,
        actor=row.actor,
        token=row.token,
        address=row.address,
        request=row.request,
        text=row.text,
        facts=dict(row.facts),
        outcome=row.outcome,
        digest=row.digest.hex(),
    )


def trace(row: Line, path: str) -> TraceView:
    return TraceView(**msgspec.structs.asdict(line(row)), zone=path)


def itself(name: str, path: str, code: ZoneCode, now: Wall, version: str) -> ZoneView:
    """The zone that is asked, as the answer to a word that it carries out."""
    return ZoneView(name, path, code_text(code), "ready", "alive", "enabled", "", version, iso(now))


def retired(node: Node, path: str) -> ZoneView:
    """A zone that is forgotten; `node` is what it was before."""
    return ZoneView(node.name, path, code_text(node.code), "retired", "gone", node.admin, "", node.version, None)


def code(row: CodeRecord, state: CodeState) -> CodeView:
    return CodeView(
        id=row.id,
        issued=iso(row.issued),
        expires=iso(row.expires),
        uses=row.uses,
        used=row.used,
        name=row.name,
        driver=row.driver,
        labels=dict(row.labels),
        mode=row.mode,
        replace=row.replace,
        state=state.value,
        revoked=row.revoked,
        created_by=row.created_by,
    )


def token(row: TokenRecord, state: TokenState, path: str) -> TokenView:
    return TokenView(
        id=row.id,
        subject=row.subject,
        role=row.role,
        under=path,
        zone="" if row.under is None else code_text(row.under),
        state=state.value,
        issued=iso(row.issued),
        expires=iso(row.expires),
        revoked=row.revoked,
        created_by=row.created_by,
    )


def rule(row: Rule) -> RuleView:
    return RuleView(
        id=row.id,
        priority=row.priority,
        verifier=row.verifier,
        name=row.name,
        driver=row.driver,
        labels=dict(row.labels),
        verdict=row.verdict,
        set_labels=dict(row.set_labels),
        mode=row.mode,
        reason=row.reason,
    )


def known_key(row: KnownKey) -> KnownKeyView:
    return KnownKeyView(
        fingerprint=row.fingerprint.hex(),
        name=row.name,
        labels=dict(row.labels),
        mode=row.mode,
        replace=row.replace,
        created_by=row.created_by,
    )
