"""What a zone shows: the JSON of API and CLI, as types. Field names are a promise to scripts.

Instants are RFC 3339 texts in UTC; None means never. Paths are whole, from the topmost zone known.
"""

from __future__ import annotations

import msgspec


class ZoneView(msgspec.Struct, frozen=True):
    """One zone below. `state`, `health`, `admin`: the words of core.zone; `reason` explains the worst of them.

    `as_of`: when its parent last heard it; for a zone further down the instant since which at least it is known to have
    been heard. `totals_as_of`: the oldest instant in `hosts`, `servers` and `used_share`. `parent` is the path of the
    parent; `depth` 1 is a direct child. `lease` is what was last granted, in seconds to a tenth. What only its own
    parent knows is None.
    """

    name: str
    path: str
    code: str
    state: str
    health: str
    admin: str
    reason: str
    version: str
    as_of: str | None
    parent: str = ""
    depth: int = 1
    labels: dict[str, str] = {}
    racks: int = 0
    mode: str = ""
    lease: float | None = None
    joined_at: str | None = None
    certificate_until: str | None = None
    maintenance_until: str | None = None
    rolled_back: bool = False
    quarantined: bool = False
    hosts: int | None = None
    servers: int | None = None
    used_share: float | None = None
    totals_as_of: str | None = None


class AmountView(msgspec.Struct, frozen=True):
    physical: int
    total: int
    used: int


class HostCounts(msgspec.Struct, frozen=True):
    total: int
    up: int
    disabled: int


class ZoneTotals(msgspec.Struct, frozen=True):
    total: int
    ready: int
    alive: int
    suspect: int
    lost: int
    disabled: int
    unavailable: int = 0


class PartView(msgspec.Struct, frozen=True):
    """Totals that stand apart from the live ones. `zones`: whose present state is not known (unknown only)."""

    zones: int
    hosts: int
    guests: int
    resources: dict[str, AmountView]
    as_of: str | None


class UsageView(msgspec.Struct, frozen=True):
    """`banyan usage`. `as_of` is the oldest instant in the live totals. `unknown_names`: of zones, at most 100.

    `fits`: per shape, how many more of it would fit. `fits_unknown`: per shape, on how many of the live hosts that was
    not counted (yet), so that the number is the least there may be; a shape that was counted everywhere is not in it.
    """

    as_of: str | None
    path: str
    zones: ZoneTotals
    hosts: HostCounts
    guests: dict[str, int]
    resources: dict[str, AmountView]
    not_offered: PartView
    unknown: PartView
    unknown_names: tuple[str, ...] = ()
    fits: dict[str, int] = {}
    fits_unknown: dict[str, int] = {}


class UseView(msgspec.Struct, frozen=True):
    """What one project uses. `issuer`: the code of the zone or rack that the project belongs to."""

    issuer: str
    project: str
    name: str
    servers: int
    vcpu: int
    memory_mib: int
    disk_gib: int


class RackView(msgspec.Struct, frozen=True):
    zone: str
    name: str
    code: str
    driver: str
    health: str
    reason: str
    capacity: str
    basis: str
    hosts: int
    servers: int
    epoch: int
    scanned_at: str | None
    facts: dict[str, str] = {}


class HostView(msgspec.Struct, frozen=True):
    """A host as last seen, and as people said since. `offered`: whether its rack shares it, and every zone between the
    one that is asked and its own is in service; None while its rack does not answer.

    `disabled`, with its `reason`: by its own side or by a person's word; of the latter `said_by` and `said_at` tell.
    `forced_down`: it is not `up` because a person said so.
    """

    zone: str
    rack: str
    id: str
    name: str
    up: bool
    disabled: bool
    offered: bool | None
    resources: dict[str, AmountView]
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    availability_zone: str = ""
    reason: str = ""
    forced_down: bool = False
    said_by: str = ""
    said_at: str | None = None


class ServerView(msgspec.Struct, frozen=True):
    """A server as last seen. `native`: it ran in the bottom before, under its own id."""

    zone: str
    rack: str
    id: str
    name: str
    project: str
    state: str
    host: str
    flavor: str
    native: bool
    created: str | None


class ServerDetail(msgspec.Struct, frozen=True):
    """A server that Banyan made. `state`, `task`: the words of core.server; `host_id` "" while it has no place.
    `fault`: why it is in error, or its last action failed."""

    id: str
    zone: str
    name: str
    project: str
    user: str
    state: str
    task: str
    host: str
    host_id: str
    availability_zone: str
    flavor: str
    needs: dict[str, int]
    created: str
    updated: str
    launched: str | None
    fault: str
    metadata: dict[str, str]
    order: str


class LevelView(msgspec.Struct, frozen=True):
    """What one zone did with an order: of `looked` hosts or members, how many were left out for which reason, and what
    was chosen: its name, for how many, and why. `text` says the same in words."""

    zone: str
    at: str
    order: str
    request: str
    looked: int
    left_out: dict[str, int]
    chosen: tuple[tuple[str, int, str], ...]
    text: str


class PlacementView(msgspec.Struct, frozen=True):
    """Where one server was placed, and why there: `fits` more like it would have had room on that host."""

    id: str
    zone: str
    host_id: str
    reason: str
    fits: int


class ServersCreated(msgspec.Struct, frozen=True):
    """`again`: the same order was made before, and these are its servers. `levels`: the topmost zone first."""

    order: str
    servers: tuple[PlacementView, ...]
    again: bool
    levels: tuple[LevelView, ...]


class WhyView(msgspec.Struct, frozen=True):
    levels: tuple[LevelView, ...]


class JournalView(msgspec.Struct, frozen=True):
    number: int
    at: str
    kind: str
    target: str
    actor: str
    token: str
    address: str
    request: str
    text: str
    facts: dict[str, str]
    outcome: str
    digest: str


class TraceView(JournalView, frozen=True):
    """A line of the journal of `zone`, one of those that a request left anywhere in the tree."""

    zone: str


class PageView(msgspec.Struct, frozen=True):
    """`items` are raw JSON objects in order. `absent`: paths that could not be asked (exit status 6)."""

    items: tuple[msgspec.Raw, ...]
    marker: str = ""
    absent: tuple[str, ...] = ()


class CodeCreated(msgspec.Struct, frozen=True):
    """The only time that a join code is shown."""

    id: str
    code: str
    expires: str


class CodeView(msgspec.Struct, frozen=True):
    """A join code without its secret. `state`: open, or why it lets nobody new in: revoked, before-restore, expired,
    used-up."""

    id: str
    issued: str
    expires: str
    uses: int | None
    used: int
    name: str
    driver: str
    labels: dict[str, str]
    mode: str
    replace: bool
    state: str
    revoked: bool
    created_by: str


class TokenCreated(msgspec.Struct, frozen=True):
    """The only time that a token is shown. `under`: the path of the zone that it is good for, "" is everything."""

    id: str
    token: str
    role: str
    under: str
    expires: str


class TokenView(msgspec.Struct, frozen=True):
    """`under`: the path, now, of the zone that it is good for, or the path that zone had when the token was made, if it
    is gone; "" is everything. `zone`: that zone's code, or "". `state`: good, or why the token is good for nothing:
    revoked, expired, of-another-zone, before-restore, zone-gone.
    """

    id: str
    subject: str
    role: str
    under: str
    zone: str
    state: str
    issued: str
    expires: str
    revoked: bool
    created_by: str


class RuleView(msgspec.Struct, frozen=True):
    id: str
    priority: int
    verifier: str
    name: str
    driver: str
    labels: dict[str, str]
    verdict: str
    set_labels: dict[str, str]
    mode: str
    reason: str


class KnownKeyView(msgspec.Struct, frozen=True):
    fingerprint: str
    name: str
    labels: dict[str, str]
    mode: str
    replace: bool
    created_by: str


class UplinkView(msgspec.Struct, frozen=True):
    """One parent of this zone. `state`: "joining", "connected", "cut", "read-only"; `reason` when not connected."""

    parent: str
    addresses: tuple[str, ...]
    state: str
    reason: str
    home: bool
    path: str
    lease_until: str | None
    certificate_until: str | None
    bytes_sent: int
    bytes_received: int


class ReleaseView(msgspec.Struct, frozen=True):
    """`banyan release`. `applied` is false for a dry run. `restored_at` is None where nothing is held back.

    `held_back`: what the zone does again from then on, in words. `unheard` of its `children` said nothing since the
    restore; `unheard_names`: at most 100 of them.
    """

    applied: bool
    restored_at: str | None
    held_back: tuple[str, ...]
    children: int
    unheard: int
    unheard_names: tuple[str, ...] = ()


class LeavingView(msgspec.Struct, frozen=True):
    """One thing that `banyan leave` concerns, and what becomes of it. Items of `kind` "uplink", "rack", "zones",
    "servers", "images" and "networks"; then "server", "image" and "network", each named by itself: at most 100 of each.

    `count`: of a rack the servers that Banyan made in it; of "zones", "servers" (in whatever rack, also one that the
    settings have no more), "images" and "networks" how many there are; None for the others. `id`: of a server, an image
    or a network.
    """

    kind: str
    name: str
    then: str
    count: int | None = None
    id: str = ""


class ShapesView(msgspec.Struct, frozen=True):
    """The shapes that this zone knows: `counted` here and announced to the zones below, `left_out`, and why."""

    counted: int
    left_out: int = 0
    reason: str = ""


class StatusView(msgspec.Struct, frozen=True):
    """The zone itself: `banyan status`. `time_offset` is the correction of the machine's clock in seconds."""

    name: str
    path: str
    code: str
    version: str
    epoch: int
    time: str
    time_offset: float
    uplinks: tuple[UplinkView, ...]
    children: ZoneTotals
    racks: tuple[RackView, ...]
    ca_fingerprint: str
    ca_until: str
    public_key: str
    journal: int
    restored_at: str | None = None
    ready: bool = True
    reason: str = ""
    shapes: ShapesView = ShapesView(0)
