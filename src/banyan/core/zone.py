"""A zone as its neighbours see it, and the tables that its life follows (protocols §7, §8).

Four separate truths about a child: how far it is enrolled (`ChildState`), what the parent sees of it
(`Health`), what the child says of itself (`Condition`), what was decided about it (`Admin`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from banyan.core.ids import ZoneCode
from banyan.core.messages import EpochProof, ShapeSet
from banyan.core.time import Mono, Wall
from banyan.core.transitions import Move, Table


class ChildState(StrEnum):
    JOINING = "joining"
    REGISTERED = "registered"
    SCANNING = "scanning"
    COUNTING = "counting"
    READY = "ready"
    RETIRED = "retired"


class EnrolEvent(StrEnum):
    """What moves an enrolment on, at the parent. Each is safe to repeat."""

    CONNECTED = "connected"  # its first mutually authenticated session
    SCAN_BEGUN = "scan-begun"  # it reported that its racks are being read
    SCANNED = "scanned"  # it reported a complete scan, or that it has no rack
    COUNTED = "counted"  # its digest and lineage are whole here, and in our own totals
    JOINED_AGAIN = "joined-again"  # the same key enrolled again, or a replacement took its place
    RETIRED = "retired"


_S, _E = ChildState, EnrolEvent
ENROLMENT: Table[ChildState, EnrolEvent] = Table(
    "child zone",
    ChildState,
    EnrolEvent,
    [
        Move(_S.JOINING, _E.CONNECTED, _S.REGISTERED, "both sides proved who they are"),
        Move(_S.REGISTERED, _E.CONNECTED, _S.REGISTERED, "a session was cut before the scan began"),
        Move(_S.REGISTERED, _E.SCAN_BEGUN, _S.SCANNING, "its racks are being read"),
        Move(_S.REGISTERED, _E.SCANNED, _S.COUNTING, "it had scanned before, or has no rack"),
        Move(_S.SCANNING, _E.CONNECTED, _S.SCANNING, "a session was cut during the scan"),
        Move(_S.SCANNING, _E.SCAN_BEGUN, _S.SCANNING, "the scan was begun again"),
        Move(_S.SCANNING, _E.SCANNED, _S.COUNTING, "all racks were read once"),
        Move(_S.COUNTING, _E.CONNECTED, _S.COUNTING, "a session was cut before it was counted"),
        Move(_S.COUNTING, _E.SCAN_BEGUN, _S.COUNTING, "a later scan; the first is what counts"),
        Move(_S.COUNTING, _E.SCANNED, _S.COUNTING, "told twice"),
        Move(_S.COUNTING, _E.COUNTED, _S.READY, "it is in the totals and may take work"),
        Move(_S.READY, _E.CONNECTED, _S.READY, "an ordinary session"),
        Move(_S.READY, _E.SCAN_BEGUN, _S.READY, "an ordinary scan"),
        Move(_S.READY, _E.SCANNED, _S.READY, "an ordinary scan"),
        Move(_S.READY, _E.COUNTED, _S.READY, "an ordinary recount"),
        Move(_S.JOINING, _E.JOINED_AGAIN, _S.JOINING, "the answer was lost; it asked again"),
        Move(_S.REGISTERED, _E.JOINED_AGAIN, _S.JOINING, "it lost its identity, and proved the same key"),
        Move(_S.SCANNING, _E.JOINED_AGAIN, _S.JOINING, "it lost its identity, and proved the same key"),
        Move(_S.COUNTING, _E.JOINED_AGAIN, _S.JOINING, "it lost its identity, and proved the same key"),
        Move(_S.READY, _E.JOINED_AGAIN, _S.JOINING, "reinstalled or replaced"),
        *(
            Move(state, _E.RETIRED, _S.RETIRED, "forgotten by a person's word; its code is kept")
            for state in (_S.JOINING, _S.REGISTERED, _S.SCANNING, _S.COUNTING, _S.READY)
        ),
    ],
)


class Health(StrEnum):
    """What the parent sees. `unavailable` is the child's own word; `gone` is fenced or retired."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    LOST = "lost"
    UNAVAILABLE = "unavailable"
    GONE = "gone"


class Condition(StrEnum):
    """What a zone says of itself, with a reason: AVAILABLE, or UNAVAILABLE when none of its racks answers."""

    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"


class Admin(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"
    MAINTENANCE = "maintenance"
    BANNED = "banned"


class AdminEvent(StrEnum):
    DISABLE = "disable"
    ENABLE = "enable"
    MAINTAIN = "maintain"
    BAN = "ban"
    UNBAN = "unban"


_A, _V = Admin, AdminEvent
ADMINISTRATION: Table[Admin, AdminEvent] = Table(
    "zone",
    Admin,
    AdminEvent,
    [
        Move(_A.ENABLED, _V.DISABLE, _A.DISABLED, "takes no new work"),
        Move(_A.ENABLED, _V.ENABLE, _A.ENABLED, "already"),
        Move(_A.ENABLED, _V.MAINTAIN, _A.MAINTENANCE, "absence is expected until the stated time"),
        Move(_A.ENABLED, _V.BAN, _A.BANNED, "its key is refused and its stream cut"),
        Move(_A.DISABLED, _V.DISABLE, _A.DISABLED, "already; the newer reason stands"),
        Move(_A.DISABLED, _V.ENABLE, _A.ENABLED, "takes work again"),
        Move(_A.DISABLED, _V.MAINTAIN, _A.MAINTENANCE, "absence is expected until the stated time"),
        Move(_A.DISABLED, _V.BAN, _A.BANNED, "its key is refused and its stream cut"),
        Move(_A.MAINTENANCE, _V.MAINTAIN, _A.MAINTENANCE, "the newer end stands"),
        Move(_A.MAINTENANCE, _V.ENABLE, _A.ENABLED, "the maintenance is over"),
        Move(_A.MAINTENANCE, _V.DISABLE, _A.DISABLED, "takes no new work"),
        Move(_A.MAINTENANCE, _V.BAN, _A.BANNED, "its key is refused and its stream cut"),
        Move(_A.BANNED, _V.BAN, _A.BANNED, "already; the newer reason stands"),
        Move(_A.BANNED, _V.UNBAN, _A.DISABLED, "its key is heard again; a person enables it"),
        Move(_A.BANNED, _V.DISABLE, _A.BANNED, "a ban is the stronger word"),
    ],
)


class Mode(StrEnum):
    """What a parent may do in a child. A standing cloud starts as OBSERVE: reads only."""

    OBSERVE = "observe"
    PLACE = "place"
    PROTECT = "protect"


@dataclass(frozen=True, slots=True)
class Child:
    """A parent's row for one child zone.

    `fingerprint` is SHA-256 of its public key (SubjectPublicKeyInfo, DER). `owner` and `epoch`: which
    controller owns the child, raised at every change. `mark` is the last one acknowledged (protocols
    §8). `maintenance_until` is corrected wall time. `home` is whether we are its home parent.
    `admin_by` is who decided the present `admin`, so that what a person disabled only a person enables. `quarantined`:
    let in to be seen, given no work until a person enables it.
    """

    code: ZoneCode
    name: str
    fingerprint: bytes
    state: ChildState = ChildState.JOINING
    admin: Admin = Admin.ENABLED
    admin_reason: str = ""
    admin_by: str = ""
    maintenance_until: Wall | None = None
    health: Health = Health.ALIVE
    health_reason: str = ""
    quarantined: bool = False
    rolled_back: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = Mode.OBSERVE
    version: str = ""
    owner: str = ""
    epoch: int = 1
    mark: bytes = b""
    home: bool = True
    joined_at: Wall | None = None
    heard_at: Wall | None = None
    certificate_until: Wall | None = None

    @property
    def reason(self) -> str:
        """Why it is not simply alive and enabled, the worst first; "" when it is."""
        if self.health_reason:
            return self.health_reason
        if self.admin is not Admin.ENABLED:
            return self.admin_reason
        if self.quarantined:
            why = f" by {self.admin_reason}" if self.admin_reason else ""
            return f"in quarantine{why}; it takes no work until `banyan zone enable {self.name}`"
        if self.rolled_back:
            return f"rolled back: restored from a backup, or cloned; read-only until `banyan zone accept {self.name}`"
        return ""


@dataclass(frozen=True, slots=True)
class Lease:
    """The child's side of a lease: counted from when it *sent* the report that was answered."""

    sent_at: Mono
    lease: float
    silence: float
    epoch: int

    def over(self, now: Mono) -> bool:
        return now >= self.sent_at + self.lease

    def silent(self, now: Mono) -> bool:
        return now >= self.sent_at + self.silence


@dataclass(frozen=True, slots=True)
class Uplink:
    """A child's row for one parent: the address, what pins it, and what was last agreed.

    `pin` is SHA-256 of the parent's CA public key. `bundle` are CA certificates (DER) that lead from
    the pin to its present CA. `parent_code` is None until the first welcome. `known_epoch` is the
    highest epoch seen, `proof` what the parent signed of it (trust/epochs.py). `mark` was acknowledged;
    `next_mark` was stored before the session that sends it. `shapes`: what the parent announced last, kept so that a
    zone that starts without its parent counts the same as before.
    """

    id: int
    addresses: tuple[str, ...]
    pin: bytes
    home: bool = True
    parent_code: ZoneCode | None = None
    parent_name: str = ""
    path: str = ""
    name: str = ""
    certificate: bytes = b""
    bundle: tuple[bytes, ...] = ()
    known_epoch: int = 0
    proof: EpochProof | None = None
    mark: bytes = b""
    next_mark: bytes = b""
    joined_at: Wall | None = None
    read_only: bool = False
    last_error: str = ""
    shapes: ShapeSet = ShapeSet()
