"""Orders: placements on their way down, and what comes back (protocols §5).

A *specification* travels whole: who claims and builds needs nobody's tables. A *claim* is an exact
hold; a *refusal* counts, per reason, all hosts or members that were looked at. Structs travel on the
link as MessagePack arrays: fields are only ever appended, with defaults. Nothing here chooses
(placement/claims.py, placement/choose.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Final

import msgspec

from banyan.core.errors import BadInput
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.resources import ResourceClass, Shape, shape

# Guests of one order, so that the answer (an id and, at worst, a host for each) stays within one frame.
MAX_GUESTS: Final = 2_000
# What Nova takes: https://docs.openstack.org/api-ref/compute/ (user_data is at most 65,535 bytes in base 64).
MAX_USER_DATA: Final = 65_535
MAX_HOSTS_NAMED: Final = 64
# Hosts that an order names itself: as many as an aggregate may have.
MAX_HOSTS_LISTED: Final = 1_000


class Policy(StrEnum):
    """Where guests go among what would take them."""

    SPREAD = "spread"  # where most more of the same would fit
    PACK = "pack"  # where the smallest share is free that suffices, so that others stay whole for large guests


class GroupPolicy(StrEnum):
    """A server group's rule, in OpenStack's words. The soft ones are kept as far as there is room."""

    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    SOFT_AFFINITY = "soft-affinity"
    SOFT_ANTI_AFFINITY = "soft-anti-affinity"


class GroupScope(StrEnum):
    """What the members of a group share, or do not."""

    HOST = "host"
    ZONE = "zone"  # the members (child zones, racks) of the zone that the group belongs to


class Reason(StrEnum):
    """Why a host or a member was left out. In counts a name may follow: `trait:CUSTOM_GPU`, `small:memory_mib`."""

    # a member
    UNREACHABLE = "unreachable"
    UNAVAILABLE = "unavailable"
    DISABLED = "disabled"
    MAINTENANCE = "maintenance"
    NOT_READY = "not-ready"
    QUARANTINED = "quarantined"
    READ_ONLY = "read-only"
    PATH = "path"
    LABEL = "label"
    DRIVER = "driver"
    NOT_ASKED = "not-asked"
    UNDECIDED = "undecided"
    REFUSED = "refused"
    # a host
    NOT_OFFERED = "not-offered"
    DOWN = "down"
    AGGREGATE = "aggregate"
    NOT_NAMED = "not-named"
    NAMED = "named"
    CEILING = "ceiling"
    # either
    AVAILABILITY_ZONE = "availability-zone"
    TRAIT = "trait"
    FORBIDDEN_TRAIT = "forbidden-trait"
    SMALL = "small"
    FULL = "full"
    GROUP = "group"
    TOO_FEW = "too-few"


class Ground(StrEnum):
    """Why a host was taken, among those that would have done."""

    MOST_ROOM = "most-room"
    LEAST_ROOM = "least-room"
    WITH_GROUP = "with-group"
    AWAY_FROM_GROUP = "away-from-group"
    NAMED = "named"


# --- the specification --------------------------------------------------------------------------


class FlavorSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The flavor as it was when the order was made. Sizes in MiB and GiB."""

    id: str
    name: str
    vcpu: int
    memory_mib: int
    disk_gib: int = 0
    ephemeral_gib: int = 0
    swap_mib: int = 0
    extra_specs: dict[str, str] = {}


class ImageSource(msgspec.Struct, frozen=True, array_like=True):
    """What to boot. `checksum` as "sha512:hex"; `source` says where the level above has it; `size` in bytes."""

    id: str
    name: str = ""
    checksum: str = ""
    source: str = ""
    size: int = 0
    disk_format: str = ""
    container_format: str = ""
    properties: dict[str, str] = {}


class KeySnapshot(msgspec.Struct, frozen=True, array_like=True):
    """A key pair's public half."""

    name: str
    public_key: str
    kind: str = "ssh"


class NetworkWish(msgspec.Struct, frozen=True, array_like=True):
    """One interface. `reach` as core.catalogue.Network; addresses are fixed ones that were asked for."""

    network: str = ""
    name: str = ""
    reach: str = "zone"
    port: str = ""
    mac: str = ""
    addresses: tuple[str, ...] = ()
    tag: str = ""


class NamedHost(msgspec.Struct, frozen=True, array_like=True):
    """A host by its name. `path`: the zones from the receiver's members down to the host's own; "" is the receiver."""

    path: str
    name: str


class Hints(msgspec.Struct, frozen=True, array_like=True):
    """Where it should go. `same_host`, `different_host` name guests; `path` is relative to the receiver.

    `path` and `labels` bind the members chosen from; `drivers`, if any, are the only kinds of rack
    that will do. `per_host`: how many of a group with anti-affinity one host may have. `hosts`, if any, are the only
    ones that will do: those of an aggregate, which the entry zone keeps. They stand for the availability zone, too.
    """

    group: str = ""
    policy: GroupPolicy | None = None
    scope: GroupScope = GroupScope.HOST
    per_host: int = 1
    same_host: tuple[str, ...] = ()
    different_host: tuple[str, ...] = ()
    path: str = ""
    labels: dict[str, str] = {}
    drivers: tuple[str, ...] = ()
    hosts: tuple[NamedHost, ...] = ()


class Specification(msgspec.Struct, frozen=True, array_like=True):
    """All that a leaf needs to claim and build one guest.

    `needs` per resource class; `aggregates`: of each tuple a host must be in at least one (placement's
    member_of). `user_data` is base 64, as it came; it often holds passwords, so it is never shown.
    `disk_config` ("MANUAL", "AUTO") and `scheduler_hints` are kept to be shown; `protect` as protocols §8.
    """

    name: str
    needs: dict[str, int]
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    flavor: FlavorSnapshot | None = None
    image: ImageSource | None = None
    key: KeySnapshot | None = None
    user_data: str = ""
    config_drive: bool = False
    metadata: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    networks: tuple[NetworkWish, ...] = ()
    automatic_network: bool = False
    security_groups: tuple[str, ...] = ()
    availability_zone: str = ""
    aggregates: tuple[tuple[str, ...], ...] = ()
    hints: Hints = Hints()
    description: str | None = None
    hostname: str = ""
    disk_config: str = "MANUAL"
    protect: str = "none"
    scheduler_hints: dict[str, str] = {}

    @property
    def native_zone(self) -> str:
        """The availability zone that a host must say it is in, "" for any."""
        return "" if self.hints.hosts else self.availability_zone

    @property
    def shape(self) -> Shape:
        return _shape(tuple(self.needs.items()), self.required)

    def __repr__(self) -> str:
        return f"Specification({self.name!r}, {self.shape.key!r})"


@lru_cache(4_096)
def _shape(needs: tuple[tuple[str, int], ...], required: tuple[str, ...]) -> Shape:
    """Asked for several times in the life of each server, of few flavors."""
    return shape({ResourceClass(c): n for c, n in needs}, required)


class Order(msgspec.Struct, frozen=True, array_like=True):
    """A placement on its way down: between `least` and `most` guests, the more the better.

    `epoch`: the sender's for the receiver; an old one is refused. `first` is the number of guests of the same request
    before these, `many` how many it is for in all (0: as many as `most`): for their names. `two_phase`: claimed now,
    begun when confirmed. `ids`, with `move`: guests that exist and are placed again; else empty. `near`: racks with
    guests of its group, if it must go where these are.
    """

    id: str
    issuer: ZoneCode
    project: str
    user: str
    specification: Specification
    least: int = 1
    most: int = 1
    policy: Policy = Policy.SPREAD
    epoch: int = 0
    first: int = 0
    two_phase: bool = False
    ids: tuple[str, ...] = ()
    move: int = 0
    many: int = 0
    near: tuple[RackCode, ...] = ()

    @property
    def numbered(self) -> bool:
        """Its guests have a number in their names: it is one of several, wherever the others went."""
        return (self.many or self.most) > 1


def order_id(issuer: ZoneCode, project: str, user: str, retry_key: str) -> str:
    """Under which a request is kept that its caller may repeat: 32 hex digits. Its order has a random id, and another
    one if it must be made again."""
    return sha256(_ENCODER.encode((issuer, project, user, retry_key))).hexdigest()[:32]


def share_id(order: str, number: int, rack: int = 0) -> str:
    """The id under which a zone asks one member for the order again; `number` 0 is the first time, by its own id.

    A member answers one id once and for ever, so that more guests of the same order need another. Racks of one
    zone keep their orders in one place: any but the first is asked under an id of its `rack` also the first time.
    """
    if rack:
        return sha256(_ENCODER.encode((order, number, rack))).hexdigest()[:32]
    return order if number == 0 else sha256(_ENCODER.encode((order, number))).hexdigest()[:32]


def arguments(order: Order) -> dict[str, object]:
    """What an order asks, by name: all but who, where to, and when."""
    s = order.specification
    asked: dict[str, object] = {name: getattr(s, name) for name in s.__struct_fields__}
    return {**asked, "least": order.least, "most": order.most, "policy": order.policy}


def arguments_digest(order: Order) -> bytes:
    """32 bytes by which a repeated order is known to ask the same: of all but who, where to, and when.

    Only programs of one version agree on it; it is compared where it was made.
    """
    asked = (order.specification, order.least, order.most, order.policy)
    return sha256(_ENCODER.encode(asked)).digest()


def check_order(order: Order) -> Order:
    """`order` if its numbers can be meant; else BadInput("bad-order") that says which can not."""
    s = order.specification
    wrong = ""
    if not 1 <= order.least <= order.most <= MAX_GUESTS:
        wrong = f"from 1 to {MAX_GUESTS} guests, the least no more than the most, got {order.least} to {order.most}"
    elif not s.shape.needs or min(s.needs.values()) < 0:
        wrong = f"some of at least one resource class and less than nothing of none, got {s.needs}"
    elif s.hints.per_host < 1:
        wrong = f"at least one guest of a group to a host, got {s.hints.per_host}"
    elif s.hints.policy is None and s.hints.group:
        wrong = "a group together with its policy, or neither"
    elif s.hints.policy is not None and not s.hints.group and s.hints.scope is not GroupScope.ZONE:
        wrong = "a policy of a group, or one about zones that binds the guests of this order alone"
    elif s.required and s.forbidden and (both := sorted(set(s.required) & set(s.forbidden))):
        wrong = f"no trait both required and forbidden, got {both[0]!r}"
    elif len(s.hints.same_host) + len(s.hints.different_host) > MAX_HOSTS_NAMED:
        wrong = f"at most {MAX_HOSTS_NAMED} guests in same_host and different_host"
    elif len(s.hints.hosts) > MAX_HOSTS_LISTED:
        wrong = f"at most {MAX_HOSTS_LISTED:,} hosts by name, got {len(s.hints.hosts):,}"
    elif len(s.user_data) > MAX_USER_DATA:
        wrong = f"at most {MAX_USER_DATA} characters of user data, got {len(s.user_data)}"
    elif order.ids and not order.least == order.most == len(order.ids):
        wrong = f"exactly as many guests as it names, got {len(order.ids)} ids"
    if wrong:
        raise BadInput("bad-order", f"an order asks for {wrong}")
    return order


# Equal requests must give equal bytes whatever the order in which a client wrote its metadata.
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


# --- what comes back ----------------------------------------------------------------------------


class Claim(msgspec.Struct, frozen=True, gc=False):
    """What one order holds in one rack: `counts[i]` guests on `hosts[i]`, where `fits[i]` would have fitted.

    Three tuples of one length: an object for each of 10,000 hosts would cost more than the claim.
    """

    order: str
    hosts: tuple[str, ...]
    counts: tuple[int, ...]
    fits: tuple[int, ...]
    ground: Ground

    @property
    def count(self) -> int:
        return sum(self.counts)


class Placed(msgspec.Struct, frozen=True, array_like=True):
    """Guests that got a place on one host, and why there: `ground`, and how many of them would have fitted."""

    ids: tuple[str, ...]
    host: str
    ground: Ground
    fits: int = 0


def placed(claim: Claim, ids: tuple[str, ...]) -> tuple[Placed, ...]:
    """The claim's places with their guests, in the claim's order. Raises ValueError unless there is an id for each."""
    if len(ids) != claim.count:
        raise ValueError(f"{claim.count} places were claimed, got {len(ids)} ids")
    result, at = [], 0
    for host, count, fits in zip(claim.hosts, claim.counts, claim.fits, strict=True):
        result.append(Placed(ids[at : at + count], host, claim.ground, fits))
        at += count
    return tuple(result)


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """No place for the order. `counts` per reason (Reason, or Reason:name) add up to `looked`.

    `fits`: how many guests would have had a place, fewer than were needed. `digest`: the refuser's
    counters now (core.digest.flatten), so that the asker stops believing older ones.
    """

    looked: int
    counts: dict[str, int]
    fits: int = 0
    digest: dict[str, int] = {}


def add_reasons(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    """Counts of both, most frequent first, then by name."""
    if not (a or b):
        return {}
    total = {key: a.get(key, 0) + b.get(key, 0) for key in {*a, *b}}
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))
