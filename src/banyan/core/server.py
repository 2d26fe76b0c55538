"""A server: what a user ordered, where it runs, and what is being done to it. The words that leaf, link and API share.

All of it is neutral: `api/` makes OpenStack's words of it. A server is a row of the leaf that owns its rack, and of
nobody else (decision 10). Records here are Structs as arrays, because they travel on the link as they are stored: only
append fields, with defaults (checklists/message.md). What may be done when: core/server_states.py.

Instants are corrected wall time, seconds since 1970. Ids of users, projects, images, flavors, networks and ports are
those of the issuer, the zone whose directory and catalogue they belong to.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from banyan.core.errors import Conflict
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.order import FlavorSnapshot, Ground, ImageSource, KeySnapshot, NamedHost, Placed, Specification
from banyan.core.time import Wall

MAX_PAGE = 1_000
# How long the row of a deleted server stays, seconds.
DELETED_LIFE = 7 * 86_400.0


class VmState(StrEnum):
    """What a server is when nothing is under way. `RESIZED` waits for confirmation, `OFFLOADED` holds no host."""

    BUILDING = "building"
    ACTIVE = "active"
    STOPPED = "stopped"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    RESIZED = "resized"
    RESCUED = "rescued"
    SHELVED = "shelved"
    OFFLOADED = "offloaded"
    ERROR = "error"
    DELETED = "deleted"


class Task(StrEnum):
    """What is under way; NONE is at rest. A task is durable: whoever restarts goes on with it."""

    NONE = ""
    SPAWNING = "spawning"
    STARTING = "starting"
    STOPPING = "stopping"
    REBOOTING = "rebooting"
    REBOOTING_HARD = "rebooting_hard"
    REBUILDING = "rebuilding"
    RESIZING = "resizing"
    CONFIRMING = "confirming"
    REVERTING = "reverting"
    MIGRATING = "migrating"
    PAUSING = "pausing"
    UNPAUSING = "unpausing"
    SUSPENDING = "suspending"
    RESUMING = "resuming"
    RESCUING = "rescuing"
    UNRESCUING = "unrescuing"
    SHELVING = "shelving"
    OFFLOADING = "offloading"
    UNSHELVING = "unshelving"
    SNAPSHOTTING = "snapshotting"
    SETTING_PASSWORD = "setting_password"
    ATTACHING = "attaching"
    DETACHING = "detaching"
    DELETING = "deleting"


class Power(StrEnum):
    """What the rack's own side said last."""

    UNKNOWN = "unknown"
    RUNNING = "running"
    PAUSED = "paused"
    OFF = "off"
    SUSPENDED = "suspended"
    CRASHED = "crashed"


class Action(StrEnum):
    """What a person may ask for. Each is an ActionRecord of the server, but LOCK, UNLOCK and RESET."""

    CREATE = "create"
    DELETE = "delete"
    START = "start"
    STOP = "stop"
    REBOOT = "reboot"
    REBOOT_HARD = "reboot_hard"
    REBUILD = "rebuild"
    RESIZE = "resize"
    CONFIRM_RESIZE = "confirm_resize"
    REVERT_RESIZE = "revert_resize"
    MIGRATE = "migrate"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    SUSPEND = "suspend"
    RESUME = "resume"
    RESCUE = "rescue"
    UNRESCUE = "unrescue"
    SHELVE = "shelve"
    OFFLOAD = "offload"
    UNSHELVE = "unshelve"
    SNAPSHOT = "snapshot"
    SET_PASSWORD = "set_password"
    ATTACH = "attach"
    DETACH = "detach"
    LOCK = "lock"
    UNLOCK = "unlock"
    RESET = "reset"


class Address(msgspec.Struct, frozen=True, array_like=True):
    """`kind`: "fixed" or "floating". `version`: 4 or 6."""

    address: str
    version: int = 4
    kind: str = "fixed"


class Nic(msgspec.Struct, frozen=True, array_like=True):
    """One interface that the server has."""

    port: str
    mac: str
    network: str
    addresses: tuple[Address, ...] = ()
    network_name: str = ""
    tag: str = ""
    ours: bool = True
    """Made for this server, and to be deleted with it; False for a port that the user brought."""


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """Why a server is in ERROR, or its last action failed. `status`: as an HTTP status. `detail` is for operators."""

    status: int
    text: str
    at: Wall
    detail: str = ""


class PendingResize(msgspec.Struct, frozen=True, array_like=True):
    """A resize or migration that is not confirmed: what it was before, which is still claimed on `host`."""

    spec: Specification
    host: str
    host_name: str
    state: VmState
    move: int
    since: Wall


class Server(msgspec.Struct, frozen=True, array_like=True):
    """One server. `host`: the host's id, "" while it has none (offloaded, or never placed).

    `wanted` is the state that was asked for last and that is kept up against what happens below. `move` is the move
    number (protocols §2); a (guest, move) names one copy. `revision` rises with each change. `index`: its place among
    the servers of its order. `connected`: its interfaces were told once, so that what is missing was taken out since.
    `unconfirmed`: claimed by a two-phase order; holds capacity, is not listed. `updated`
    changes with what users see. `deleted_at` is set once it is gone; its row stays for 7 days. `request`: the id of the
    request that made it. `created` is the instant in its id, so that both give one order.
    """

    id: str
    issuer: ZoneCode
    project: str
    user: str
    name: str
    rack: RackCode
    host: str
    spec: Specification
    created: Wall
    updated: Wall
    state: VmState = VmState.BUILDING
    task: Task = Task.SPAWNING
    power: Power = Power.UNKNOWN
    wanted: VmState = VmState.ACTIVE
    description: str | None = None
    hostname: str = ""
    availability_zone: str = ""
    host_name: str = ""
    locked: bool = False
    locked_by: str = ""
    locked_reason: str = ""
    fault: Fault | None = None
    nics: tuple[Nic, ...] = ()
    resize: PendingResize | None = None
    launched: Wall | None = None
    terminated: Wall | None = None
    deleted_at: Wall | None = None
    move: int = 1
    revision: int = 1
    order: str = ""
    index: int = 0
    progress: int = 0
    unconfirmed: bool = False
    request: str = ""
    connected: bool = False

    @property
    def holds(self) -> bool:
        """It has a place on its host, and of its resources what its specification needs."""
        return bool(self.host) and self.state is not VmState.DELETED


class Arguments(msgspec.Struct, frozen=True, array_like=True):
    """What comes with an action; the others are not looked at. None: as it is.

    RESIZE: `flavor` with the `needs`, `required` and `forbidden` that an order for it would have, `disk_config`.
    REBUILD: `image`, `name`, `description`, `metadata`, `key`, `user_data`, `hostname`, `disk_config`; `clear` names
    those to be emptied ("key", "user_data", "description"). RESCUE: `image`. SNAPSHOT: `image`, which is to be filled.
    ATTACH, DETACH: `nic`. LOCK: `reason`. RESET: `state`. UNSHELVE, MIGRATE: `host`, `availability_zone`. These and
    RESIZE: `hosts`, the only ones that will do, () for any, as the receiver names them.
    """

    flavor: FlavorSnapshot | None = None
    needs: dict[str, int] = {}
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    image: ImageSource | None = None
    name: str | None = None
    description: str | None = None
    metadata: dict[str, str] | None = None
    key: KeySnapshot | None = None
    user_data: str | None = None
    hostname: str | None = None
    clear: tuple[str, ...] = ()
    nic: Nic | None = None
    reason: str = ""
    state: VmState | None = None
    host: str = ""
    availability_zone: str = ""
    disk_config: str = ""
    hosts: tuple[NamedHost, ...] | None = None


class Change(msgspec.Struct, frozen=True, array_like=True):
    """What may be changed without a task. None leaves a field as it is; `clear` names those to be emptied.

    `metadata` and `tags` replace the whole set; `metadata_merge` and `metadata_drop` change single items; the same for
    tags. `nics` are what the network side says of the interfaces. `if_revision`: refused as Conflict("changed") else.
    """

    name: str | None = None
    description: str | None = None
    hostname: str | None = None
    metadata: dict[str, str] | None = None
    metadata_merge: dict[str, str] = {}
    metadata_drop: tuple[str, ...] = ()
    tags: tuple[str, ...] | None = None
    tags_add: tuple[str, ...] = ()
    tags_drop: tuple[str, ...] = ()
    security_groups: tuple[str, ...] | None = None
    nics: tuple[Nic, ...] | None = None
    disk_config: str | None = None
    clear: tuple[str, ...] = ()
    if_revision: int | None = None


class EventRecord(msgspec.Struct, frozen=True, array_like=True):
    """One step of an action at one host. `result`: "" while it runs, "success" or "error"."""

    name: str
    started: Wall
    finished: Wall | None = None
    result: str = ""
    host: str = ""
    text: str = ""


class ActionRecord(msgspec.Struct, frozen=True, array_like=True):
    """What was asked of a server, by request id. `message` is "" unless it failed. `arguments` are kept until it is
    done, so that whoever restarts can go on; `number` is the server's revision that the action made."""

    server: str
    request: str
    action: Action
    issuer: ZoneCode
    project: str
    user: str
    started: Wall
    updated: Wall
    message: str = ""
    events: tuple[EventRecord, ...] = ()
    arguments: Arguments | None = None
    number: int = 0


class SortKey(StrEnum):
    """Columns a list of servers may be ordered by. Ties are broken by id."""

    CREATED = "created"
    UPDATED = "updated"
    NAME = "name"
    STATE = "state"
    TASK = "task"
    HOST = "host"
    PROJECT = "project"
    USER = "user"
    ID = "id"
    LAUNCHED = "launched"
    FLAVOR = "flavor"
    IMAGE = "image"


class Sort(msgspec.Struct, frozen=True, array_like=True):
    key: SortKey
    descending: bool = True


class ServerQuery(msgspec.Struct, frozen=True, array_like=True):
    """Which servers, pushed down to the leaves. All conditions hold together; an empty one is no condition.

    `project` "" with `every_project` is all projects of `issuer` (of all issuers if that is 0), without it none.
    `name`, `address`, `address6`, `hostname`, `description`: regular expressions, found anywhere (core/pattern.py).
    `states` and `tasks`: any of. `changed_since`: updated at or after, deleted ones included; `changed_before`: at or
    before. `deleted`: only deleted ones, instead of only those that are not. `tags`: all of; `tags_any`; `not_tags`:
    not all of; `not_tags_any`: none of. `after`: of the page before; made by the store. Ordered by `sort`, then by id,
    descending, which is the newest first; CREATED is ordered as ID. `limit` is 1 to MAX_PAGE.
    """

    issuer: ZoneCode = ZoneCode(0)
    project: str = ""
    every_project: bool = False
    ids: tuple[str, ...] = ()
    name: str = ""
    states: tuple[VmState, ...] = ()
    tasks: tuple[Task, ...] | None = None
    flavor: str = ""
    image: str = ""
    host: str = ""
    availability_zone: str = ""
    group: str = ""
    user: str = ""
    address: str = ""
    address6: str = ""
    key_name: str = ""
    hostname: str = ""
    description: str = ""
    changed_since: Wall | None = None
    changed_before: Wall | None = None
    deleted: bool = False
    locked: bool | None = None
    config_drive: bool | None = None
    power: Power | None = None
    launched: Wall | None = None
    tags: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_tags_any: tuple[str, ...] = ()
    metadata: dict[str, str] = {}
    sort: tuple[Sort, ...] = ()
    after: str = ""
    limit: int = MAX_PAGE


class ServerPage(msgspec.Struct, frozen=True, array_like=True):
    """`after` "" is the end; a page may be short, even empty, and still go on. `absent`: zones that could not be asked,
    by path. User data is left out of pages."""

    servers: tuple[Server, ...]
    after: str = ""
    absent: tuple[str, ...] = ()


class Holding(msgspec.Struct, frozen=True, array_like=True):
    """`count` servers of one project, in one state, of one shape (Shape.key) on one host. `host` "": they hold nothing.
    `kept`: the places that resizes will give up, or take back. `unconfirmed`: of two-phase orders."""

    host: str
    issuer: ZoneCode
    project: str
    state: VmState
    shape: str
    count: int
    kept: bool = False
    unconfirmed: bool = False


class Made(msgspec.Struct, frozen=True, array_like=True):
    """One server that was ordered: where, and why there. `path`: of the zone whose row it is; `host`: the host's id."""

    id: str
    path: str
    rack: RackCode
    host: str
    ground: Ground
    fits: int = 0


class Created(msgspec.Struct, frozen=True, array_like=True):
    """The answer to an order that has its places. The first server made is the first. `again`: it was asked before.
    `levels`: what each zone with a part in it left out and chose, the topmost first."""

    order: str
    made: tuple[Made, ...]
    again: bool = False
    levels: tuple[Level, ...] = ()


class OrderState(StrEnum):
    """What a leaf keeps of an order. `CLAIMED` waits for its sender's word and never ends by time; `CANCELLED` refuses
    the order for good, also one that comes only now."""

    CLAIMED = "claimed"
    CONFIRMED = "confirmed"
    CANCELLED = "cancelled"


class StoredOrder(msgspec.Struct, frozen=True, array_like=True):
    """A leaf's row of one order. `digest`: of its arguments (core.order.arguments_digest); `level`: why there; `above`:
    what the zones said through which it came, the topmost first."""

    id: str
    state: OrderState
    at: Wall
    request: str
    rack: RackCode
    digest: bytes = b""
    placed: tuple[Placed, ...] = ()
    level: Level | None = None
    above: tuple[Level, ...] = ()


class Level(msgspec.Struct, frozen=True, array_like=True):
    """What one zone did with an order: of `looked` hosts or members, `left_out` per reason
    (core.order.Reason), and what was `chosen`: (host or member, how many, why)."""

    path: str
    at: Wall
    order: str
    request: str
    looked: int
    left_out: dict[str, int]
    chosen: tuple[tuple[str, int, str], ...] = ()
    text: str = ""


class NoValidHost(Conflict):
    """Nowhere is room. `counts` per reason add up to `looked`; the text says the most frequent ones."""

    def __init__(self, looked: int, counts: dict[str, int], wanted: int = 1, fits: int = 0) -> None:
        most = ", ".join(f"{count} {reason}" for reason, count in list(counts.items())[:5])
        what = "1 server" if wanted == 1 else f"{wanted} servers (there was room for {fits})"
        super().__init__("no-valid-host", f"no valid host for {what}: {looked} looked at; {most or 'none there'}")
        self.looked = looked
        self.counts = counts
        self.fits = fits
