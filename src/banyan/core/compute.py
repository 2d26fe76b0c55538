"""What users and operators of servers keep at their entry zone: flavors, key pairs, server groups, aggregates, limits.

A leaf needs none of it: what an order uses of it travels in the order's specification (decision 10). Instants are
corrected wall time. Texts are whatever people wrote, up to the lengths that commands allow, without NUL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from banyan.core.order import FlavorSnapshot, GroupPolicy
from banyan.core.time import Wall

MAX_FLAVORS = 10_000
MAX_AGGREGATES = 1_000
MAX_AGGREGATE_HOSTS = 1_000


@dataclass(frozen=True, slots=True)
class Flavor:
    """One size of server. Sizes in MiB and GiB. `public`: for every project; else for those that it was opened to.

    `rxtx` is kept to be shown. A flavor's sizes never change: a server was sold with them.
    """

    id: str
    name: str
    vcpu: int
    memory_mib: int
    disk_gib: int = 0
    ephemeral_gib: int = 0
    swap_mib: int = 0
    public: bool = True
    rxtx: float = 1.0
    description: str | None = None
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    created_at: Wall = Wall(0.0)

    def snapshot(self) -> FlavorSnapshot:
        return FlavorSnapshot(
            self.id,
            self.name,
            self.vcpu,
            self.memory_mib,
            self.disk_gib,
            self.ephemeral_gib,
            self.swap_mib,
            dict(self.extra_specs),
        )


class FlavorSort(StrEnum):
    """Columns that a list of flavors may be ordered by. Ties are broken by id."""

    ID = "id"
    NAME = "name"
    VCPU = "vcpu"
    MEMORY = "memory_mib"
    DISK = "disk_gib"
    EPHEMERAL = "ephemeral_gib"
    SWAP = "swap_mib"
    CREATED = "created_at"


@dataclass(frozen=True, slots=True)
class FlavorQuery:
    """`public`: only those that are, or are not; None is all. With True, also those that are open to `project`."""

    public: bool | None = True
    project: str = ""
    least_memory: int = 0
    least_disk: int = 0
    sort: FlavorSort = FlavorSort.ID
    descending: bool = False


class KeyKind(StrEnum):
    SSH = "ssh"
    X509 = "x509"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A user's public key, by (user, name). `number` is unique in this zone."""

    user: str
    name: str
    public_key: str
    fingerprint: str
    kind: KeyKind = KeyKind.SSH
    created_at: Wall = Wall(0.0)
    number: int = 0


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """A rule for servers that name it. Who its members are, the servers say. `per_host`: how many of a group with
    anti-affinity one host may have; None if it was not said."""

    id: str
    name: str
    policy: GroupPolicy
    project: str
    user: str
    per_host: int | None = None
    created_at: Wall = Wall(0.0)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A set of hosts, by name, with an operator's notes on it."""

    id: int
    uuid: str
    name: str
    availability_zone: str = ""
    hosts: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    created_at: Wall = Wall(0.0)
    updated_at: Wall | None = None


class MigrationKind(StrEnum):
    RESIZE = "resize"
    MIGRATION = "migration"


class MigrationState(StrEnum):
    """`MOVING` until the server waits for a word; what came of it is seen at the server."""

    MOVING = "moving"
    CONFIRMED = "confirmed"
    REVERTED = "reverted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Migration:
    """One resize or migration that was asked for here. `number` is unique in this zone."""

    number: int
    id: str
    server: str
    kind: MigrationKind
    project: str
    user: str
    source: str
    old_flavor: str
    new_flavor: str
    created_at: Wall
    updated_at: Wall
    state: MigrationState = MigrationState.MOVING
    target: str = ""
