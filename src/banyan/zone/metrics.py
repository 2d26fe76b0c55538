"""What a zone tells of itself in numbers: gauges and counters by Prometheus name, labels in braces. Cheap to read."""

from __future__ import annotations

from banyan.core.rack import RackHealth
from banyan.core.zone import Health
from banyan.zone.zone import Zone


def measured(zone: Zone) -> dict[str, float]:
    """Of this zone, its racks, its children and its parents, as memory has them."""
    children = list(zone.roster.live.values())
    found: dict[str, float] = zone.order_shares.metrics() | {
        "banyan_children": len(children),
        "banyan_sessions": sum(live.session is not None for live in children),
        "banyan_zones_below": len(zone.tree),
        "banyan_strangers_refused_total": zone.admission.refusals.total + zone.api_refusals.total,
        "banyan_refusals_left_out_total": zone.admission.refusals.unwritten + zone.api_refusals.unwritten,
        "banyan_rack_contests_total": zone.roster.owners.contests,
        "banyan_loop_lag_seconds": zone.children.lag,
        "banyan_time_offset_seconds": zone.own.row.time.offset,
        "banyan_authority_end_seconds": zone.own.authority.row.not_after,
        "banyan_restored": zone.own.row.restored_at is not None,
    }
    found.update(zone.receivers.metrics())
    for health in Health:
        count = sum(live.child.health is health for live in children)
        found[f'banyan_children_by_health{{health="{health}"}}'] = count
    for name, loop in zone.loops.items():
        what, _, which = name.partition(" ")
        label = what + (f'",{"receiver" if what == "receiver" else "rack"}="{which}' if which else "")
        found[f'banyan_activations_total{{name="{label}"}}'] = loop.runs
        found[f'banyan_activation_failures_total{{name="{label}"}}'] = loop.failures
        found[f'banyan_activation_failing{{name="{label}"}}'] = bool(loop.last_error)
    for racked in zone.racks.values():
        inventory = racked.inventory
        found[f'banyan_scans_total{{rack="{racked.name}"}}'] = inventory.scans
        found[f'banyan_scans_failed_total{{rack="{racked.name}"}}'] = inventory.failed
        found[f'banyan_scan_requests_total{{rack="{racked.name}"}}'] = inventory.requests
        found[f'banyan_scan_seconds{{rack="{racked.name}"}}'] = inventory.seconds
        found[f'banyan_scan_interval_seconds{{rack="{racked.name}"}}'] = inventory.interval
        found.update(racked.servers.metrics(racked.name))
    for member in zone.members.racks.values():
        rack = member.rack
        found[f'banyan_rack_available{{rack="{rack.name}"}}'] = rack.health is RackHealth.AVAILABLE
        found[f'banyan_rack_scanned_seconds{{rack="{rack.name}"}}'] = rack.scanned_at or 0.0
    for up in zone.ups.values():
        sent, received = up.runner.traffic()
        parent = up.side.row.parent_name
        found[f'banyan_uplink_bytes_total{{parent="{parent}",direction="sent"}}'] = sent
        found[f'banyan_uplink_bytes_total{{parent="{parent}",direction="received"}}'] = received
        found[f'banyan_uplink_connected{{parent="{parent}"}}'] = up.side.state == "connected"
        until = up.side.certificate_until()
        if until is not None:
            found[f'banyan_uplink_certificate_end_seconds{{parent="{parent}"}}'] = until
    return found
