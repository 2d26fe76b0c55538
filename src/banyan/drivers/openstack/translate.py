"""From OpenStack's words to Banyan's. Pure: no request is made here and no time is read.

What a flavor asks of a host follows Nova's own rule (nova/scheduler/utils.py, `ResourceRequest`), so that what
is said to fit is what Nova's scheduler would find. What comes in is in `shapes`; who asks is `reading`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from banyan.core.catalogue import Flavor, Image, Network, Project
from banyan.core.guest import Guest, GuestState
from banyan.core.host import Host
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU, Amount, ResourceClass
from banyan.core.share import Share, matches
from banyan.drivers.openstack import shapes
from banyan.drivers.openstack.marks import Mark

QUOTA_HOST = "quota"
DEFAULT_ZONE = "nova"  # Nova's default_availability_zone, for hosts whose service tells none

_CLASSES = {"VCPU": VCPU, "MEMORY_MB": MEMORY_MIB, "DISK_GB": DISK_GIB}
_RESOURCES = re.compile(r"resources(?:[1-9]\d*|_[A-Za-z0-9_-]{1,64})?:([A-Z0-9_]+)\Z")
_TRAIT = re.compile(r"trait(?:[1-9]\d*|_[A-Za-z0-9_-]{1,64})?:([A-Z0-9_]+)\Z")

_STATES = {
    "active": GuestState.ACTIVE,
    "rescued": GuestState.ACTIVE,
    "resized": GuestState.ACTIVE,
    "building": GuestState.BUILDING,
    "stopped": GuestState.STOPPED,
    "paused": GuestState.PAUSED,
    "suspended": GuestState.SUSPENDED,
    "shelved": GuestState.SHELVED,
    "shelved_offloaded": GuestState.SHELVED,
    "error": GuestState.ERROR,
}

# For clouds whose policy hides vm_state. Servers that reboot, resize or migrate go on holding what they have.
_STATUSES = {
    **dict.fromkeys(
        (
            "ACTIVE",
            "REBOOT",
            "HARD_REBOOT",
            "PASSWORD",
            "REBUILD",
            "RESCUE",
            "RESIZE",
            "VERIFY_RESIZE",
            "REVERT_RESIZE",
            "MIGRATING",
        ),
        GuestState.ACTIVE,
    ),
    "BUILD": GuestState.BUILDING,
    "SHUTOFF": GuestState.STOPPED,
    "PAUSED": GuestState.PAUSED,
    "SUSPENDED": GuestState.SUSPENDED,
    "SHELVED": GuestState.SHELVED,
    "SHELVED_OFFLOADED": GuestState.SHELVED,
    "ERROR": GuestState.ERROR,
}


def resource_class(name: str) -> ResourceClass:
    """Banyan's name of placement's class `name`: vcpu, memory_mib, disk_gib, else the same in lower case."""
    return _CLASSES.get(name) or ResourceClass(name.lower())


@dataclass(frozen=True, slots=True)
class Held:
    """What placement says of one hypervisor: its provider and those nested in it, summed class by class."""

    amounts: Mapping[ResourceClass, Amount] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What Nova says of hosts beside the list of hypervisors. Keys are names of compute services."""

    zones: Mapping[str, str]
    aggregates: Mapping[str, tuple[str, ...]]


def neighbourhood(services: Iterable[shapes.Service], aggregates: Iterable[shapes.Aggregate]) -> Neighbourhood:
    zones = {service.host: service.zone for service in services if service.zone}
    member: dict[str, set[str]] = {}
    for aggregate in aggregates:
        for name in aggregate.hosts:
            member.setdefault(name, set()).add(aggregate.name)
            if aggregate.availability_zone:
                zones.setdefault(name, aggregate.availability_zone)
    return Neighbourhood(zones, {name: tuple(sorted(names)) for name, names in member.items()})


def host(hypervisor: shapes.Hypervisor, held: Held, around: Neighbourhood, share: Share) -> Host:
    service = hypervisor.service.host
    disabled = hypervisor.status == "disabled"
    labels = {"compute": service} if service != hypervisor.hypervisor_hostname else {}
    return share.mark(
        Host(
            id=hypervisor.id,
            name=hypervisor.hypervisor_hostname,
            amounts=held.amounts,
            up=hypervisor.state == "up",
            disabled=disabled,
            disabled_reason=(hypervisor.service.disabled_reason or "disabled in Nova") if disabled else "",
            traits=held.traits,
            aggregates=around.aggregates.get(service, ()),
            availability_zone=around.zones.get(service, DEFAULT_ZONE),
            labels={"hypervisor": hypervisor.hypervisor_type, **labels},
        )
    )


def quota_host(limits: shapes.AbsoluteLimits, share: Share) -> Host:
    """The one host of a rack whose credentials see no hypervisor: what the project may still have.

    Nobody told what hardware there is, so `physical` is 0. Of an unlimited class no more is promised than is
    used: what cannot be known is not offered.
    """
    return share.mark(
        Host(
            id=QUOTA_HOST,
            name=QUOTA_HOST,
            amounts={
                MEMORY_MIB: _quota(limits.ram, limits.ram_used),
                VCPU: _quota(limits.cores, limits.cores_used),
            },
            labels={"basis": "quota"},
        )
    )


def quota_facts(limits: shapes.AbsoluteLimits) -> dict[str, str]:
    """Labels a quota's capacity as such, and names what is unlimited."""
    unlimited = [name for name, limit in (("vcpu", limits.cores), ("memory_mib", limits.ram)) if limit < 0]
    facts = {"capacity": "quota"}
    if unlimited:
        facts["unlimited"] = f"{', '.join(unlimited)}: only what is used is counted"
    return facts


def _quota(limit: int, used: int) -> Amount:
    return Amount(0, used if limit < 0 else limit, used)


def guest(server: shapes.Server, host: str, offered: bool, mark: Mark | None = None) -> Guest:
    """`host` is the Host.id it runs on, "" if it is on none or hidden. `mark`: which of ours it is."""
    return Guest(
        id=server.id if mark is None else mark.guest,
        native=mark is None,
        move=0 if mark is None else mark.move,
        name=server.name or "",
        project=server.tenant_id,
        state=guest_state(server),
        host=host,
        flavor=server.flavor.original_name,
        vcpu=server.flavor.vcpus,
        memory_mib=server.flavor.ram,
        disk_gib=_disk(server.flavor.disk, server.flavor.ephemeral, server.flavor.swap),
        created=_instant(server.created),
        offered=offered,
    )


def guest_state(server: shapes.Server) -> GuestState:
    if server.vm_state:
        return _STATES.get(server.vm_state.lower(), GuestState.OTHER)
    return _STATUSES.get(server.status.upper(), GuestState.OTHER)


def flavor(wire: shapes.Flavor, share: Share) -> Flavor:
    return Flavor(
        id=wire.id,
        name=wire.name,
        needs=needs(wire),
        traits=tuple(sorted(_required_traits(wire.extra_specs))),
        public=wire.is_public,
        offered=matches(share.flavors, wire.name),
    )


def needs(wire: shapes.Flavor) -> dict[ResourceClass, int]:
    """What placement is asked for when a server of this flavor is made (without volumes and ports)."""
    specs = wire.extra_specs
    pinned = _pinned_cpus(wire)
    wanted = {
        "VCPU": wire.vcpus - pinned,
        "PCPU": pinned + (1 if pinned and specs.get("hw:emulator_threads_policy") == "isolate" else 0),
        "MEMORY_MB": wire.ram,
        "DISK_GB": _disk(wire.disk, wire.ephemeral, wire.swap),
    }
    if specs.get("hw:mem_encryption", "").lower() in ("true", "1", "yes", "on"):
        wanted["MEM_ENCRYPTION_CONTEXT"] = 1
    # The unnumbered `resources:` replace what the flavor says; those of numbered groups come on top.
    for key, amount in sorted(specs.items()):
        found = _RESOURCES.match(key)
        if found and key.startswith("resources:"):
            wanted[found[1]] = _whole(amount, wanted.get(found[1], 0))
    for key, amount in sorted(specs.items()):
        found = _RESOURCES.match(key)
        if found and not key.startswith("resources:"):
            wanted[found[1]] = wanted.get(found[1], 0) + _whole(amount, 0)
    return {resource_class(name): amount for name, amount in sorted(wanted.items()) if amount > 0}


def _required_traits(specs: Mapping[str, str]) -> set[str]:
    return {
        found[1] for key, value in specs.items() if value == "required" and (found := _TRAIT.match(key)) is not None
    }


def _pinned_cpus(wire: shapes.Flavor) -> int:
    """How many of the flavor's CPUs are dedicated: all, none, or (`mixed`) those of hw:cpu_dedicated_mask."""
    match wire.extra_specs.get("hw:cpu_policy", "").lower():
        case "dedicated":
            return wire.vcpus
        case "mixed":
            return len(_cpus(wire.extra_specs.get("hw:cpu_dedicated_mask", ""), wire.vcpus))
        case _:
            return 0


def _cpus(mask: str, count: int) -> set[int]:
    """The CPUs that a mask such as "0-3,^1" or "^0" names (without a positive part: all but those)."""
    named: set[int] = set()
    excluded: set[int] = set()
    for part in filter(None, (piece.strip() for piece in mask.split(","))):
        target = excluded if part.startswith("^") else named
        first, _, last = part.lstrip("^").partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            target.update(range(int(first), min(int(last or first), count - 1) + 1))
    return (named or set(range(count)) if mask else set()) - excluded


def _disk(root: int, ephemeral: int, swap_mib: int | str) -> int:
    """GiB; swap is MiB, and "" for none in flavors before compute 2.75."""
    swap = swap_mib if isinstance(swap_mib, int) else _whole(swap_mib, 0)
    return root + ephemeral + -(-swap // 1024)


def _whole(text: str, otherwise: int) -> int:
    return int(text) if text.isdecimal() else otherwise


def _instant(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 text; 0.0 if it is none."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def image(wire: shapes.Image) -> Image:
    if wire.hash_algorithm and wire.hash_value:
        checksum = f"{wire.hash_algorithm}:{wire.hash_value}"
    else:
        checksum = f"md5:{wire.checksum}" if wire.checksum else ""
    return Image(wire.id, wire.name or "", wire.status, wire.size or 0, checksum, wire.visibility)


def networks(found: Sequence[shapes.Network], subnets: Iterable[shapes.Subnet]) -> tuple[Network, ...]:
    ranges: dict[str, list[str]] = {}
    for subnet in subnets:
        if subnet.cidr:
            ranges.setdefault(subnet.network_id, []).append(subnet.cidr)
    return tuple(
        Network(
            id=n.id,
            name=n.name,
            shared=n.shared,
            external=n.external,
            project=n.project_id or "",
            subnets=tuple(sorted(ranges.get(n.id, ()))),
        )
        for n in found
    )


def project(wire: shapes.Project, limits: shapes.QuotaSet | None, share: Share) -> Project:
    return Project(
        id=wire.id,
        name=wire.name,
        domain=wire.domain_id or "",
        enabled=wire.enabled,
        limits=project_limits(limits) if limits is not None else {},
        offered=matches(share.projects, wire.name) or matches(share.projects, wire.id),
    )


def project_limits(limits: shapes.QuotaSet) -> dict[str, int]:
    return {VCPU: limits.cores, MEMORY_MIB: limits.ram, "guests": limits.instances}
