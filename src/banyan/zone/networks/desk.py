"""What the parts of the network service share: ids, instants, units of work, who may see a thing, quota, pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

import structlog

from banyan.core.errors import BadInput, BanyanError, Conflict, NotFound
from banyan.core.network import (
    COMPUTE,
    FloatingIp,
    Kind,
    Network,
    Port,
    Router,
    SecurityGroup,
    SecurityRule,
    Subnet,
    SubnetPool,
    Thing,
)
from banyan.core.network_quota import NETWORK_DEFAULTS, NetworkLimits
from banyan.core.network_rows import Listing, NetworkRows, ThingRows
from banyan.core.permissions import Target, anywhere, forbidden, may, require
from banyan.core.ports import Ids, Store
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.core.time import Wall
from banyan.zone.firm import firm
from banyan.zone.networks.places import OnePlace, Places
from banyan.zone.own import Own
from banyan.zone.servers.surface import Servers

log = structlog.get_logger("banyan.networks")
T = TypeVar("T")
R = TypeVar("R", Network, Subnet, SubnetPool, Port, Router, FloatingIp, SecurityGroup, SecurityRule)

# Fields of a record, by name, with their new values, each of the field's type: a surface made them so.
Changes = Mapping[str, object]

# The most that one answer lists, and that one request makes.
MAX_LIST = 1_000
MAX_BULK = 1_000

# As Neutron calls each kind in its refusals.
TITLES: Mapping[Kind, str] = {
    Kind.NETWORK: "Network",
    Kind.SUBNET: "Subnet",
    Kind.PORT: "Port",
    Kind.ROUTER: "Router",
    Kind.FLOATING_IP: "Floating IP",
    Kind.GROUP: "Security group",
    Kind.RULE: "Security group rule",
    Kind.POOL: "Subnet pool",
}
_CODES: Mapping[Kind, str] = {
    Kind.NETWORK: "no-network",
    Kind.SUBNET: "no-subnet",
    Kind.PORT: "no-port",
    Kind.ROUTER: "no-router",
    Kind.FLOATING_IP: "no-floating-ip",
    Kind.GROUP: "no-security-group",
    Kind.RULE: "no-security-rule",
    Kind.POOL: "no-subnet-pool",
}


class Changed(Conflict):
    """It has not the revision that the caller saw."""

    status: ClassVar[int] = 412


class News:
    """Tells that the interfaces of servers are others now: their addresses, or what leads to them.

    The ports are the truth; a server that could not be told is told with its next change. `listener` takes who changed
    it and the server's id."""

    def __init__(self) -> None:
        self.listener: Callable[[Principal, str], Awaitable[None]] | None = None

    async def tell(self, who: Principal, ports: Iterable[Port | None]) -> None:
        servers = {port.device for port in ports if port is not None and port.owner.startswith(COMPUTE)} - {""}
        for server in sorted(servers):
            if self.listener is None:
                continue
            try:
                await self.listener(who, server)
            except BanyanError as error:
                log.warning("server not told of its addresses", server=server, code=error.code)


@dataclass(frozen=True, slots=True)
class Desk:
    """`servers`: of the whole tree, for whose a server is that a port names. `defaults`: limits of every project, until
    an operator says otherwise."""

    own: Own
    store: Store
    ids: Ids
    servers: Servers
    defaults: NetworkLimits = field(default_factory=lambda: NETWORK_DEFAULTS)
    places: Places = field(default_factory=OnePlace)
    news: News = field(default_factory=News)

    def now(self) -> Wall:
        return self.own.wall()

    def new_uuid(self) -> str:
        """A random one, of version 4 (RFC 9562)."""
        raw = bytearray(self.ids.token(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    async def read(self, work: Callable[[NetworkRows], T]) -> T:
        return await self.store.read(lambda unit: work(unit.networks))

    async def change(self, name: str, work: Callable[[Unit], T]) -> T:
        return await firm(self.store.write(name, work))

    def note(self, unit: Unit, who: Principal, kind: str, target: str, text: str, **facts: str) -> None:
        self.own.write(unit, self.own.event(kind, target, text, who.caller(), **facts))

    def limits(self, rows: NetworkRows, project: str) -> NetworkLimits:
        return {**self.defaults, **rows.limits(""), **(rows.limits(project) if project else {})}

    def take(self, rows: NetworkRows, project: str, kind: Kind, more: int = 1) -> None:
        """Counts what is made. Raises Conflict("over-quota"). What belongs to nobody is not counted."""
        if project and more and not rows.count(project, kind, more, self.limits(rows, project)[kind]):
            raise Conflict("over-quota", f"Quota exceeded for resources: ['{kind.value}'].")


def missing(kind: Kind, id: str) -> NotFound:
    if kind is Kind.GROUP:
        return NotFound(_CODES[kind], f"Security group {id[:255]} does not exist")
    if kind is Kind.RULE:
        return NotFound(_CODES[kind], f"Security group rule {id[:255]} does not exist")
    if kind is Kind.POOL:
        return NotFound(_CODES[kind], f"Subnet pool {id[:255]} could not be found.")
    return NotFound(_CODES[kind], f"{TITLES[kind]} {id[:255]} could not be found.")


def rows_of(rows: NetworkRows, kind: Kind) -> ThingRows[Thing]:
    found: dict[Kind, object] = {
        Kind.NETWORK: rows.networks,
        Kind.SUBNET: rows.subnets,
        Kind.PORT: rows.ports,
        Kind.ROUTER: rows.routers,
        Kind.FLOATING_IP: rows.floating_ips,
        Kind.GROUP: rows.groups,
        Kind.RULE: rows.rules,
        Kind.POOL: rows.pools,
    }
    return found[kind]  # type: ignore[return-value]  # rows of the kind that was asked for


def sees(rows: NetworkRows, who: Principal, kind: Kind, thing: Thing) -> bool:
    """Its project's readers and administrators do; everybody, what is shared; a network's owner, the ports on it."""
    if may(who, f"network:get_{kind.value}", Target(project=thing.project)):
        return True
    if isinstance(thing, Network):
        return thing.shared or thing.external
    if isinstance(thing, SubnetPool):
        return thing.shared
    if isinstance(thing, Subnet):
        network = rows.networks.get(thing.network)
        owned = network is not None and may(who, "network:get_subnet", Target(project=network.project))
        return owned or (network is not None and network.shared)
    if isinstance(thing, Port):
        network = rows.networks.get(thing.network)
        return network is not None and may(who, "network:get_port", Target(project=network.project))
    return False


def seen(rows: NetworkRows, who: Principal, kind: Kind, table: ThingRows[R], id: str) -> R:
    """The thing of that id, if the caller may see it. Raises NotFound: what is another's is not there."""
    found = table.get(id)
    if found is None or not sees(rows, who, kind, found):
        raise missing(kind, id)
    return found


def changeable(
    rows: NetworkRows, who: Principal, verb: str, kind: Kind, table: ThingRows[R], id: str, expected: int | None = None
) -> R:
    """The thing of that id, if the caller may do that ("update", "delete") to it. Raises NotFound for what it may not
    see, Refused("forbidden") for the rest, Changed("revision") unless it has the revision `expected`, where given."""
    found = seen(rows, who, kind, table, id)
    action = f"network:{verb}_{kind.value}"
    if not may(who, action, Target(project=found.project)) and not _network_owner(rows, who, action, found):
        raise forbidden(who, action)
    if expected is not None and found.revision != expected:
        raise Changed("revision", f"Constrained to {expected}, but current revision is {found.revision}")
    return found


def _network_owner(rows: NetworkRows, who: Principal, action: str, thing: Thing) -> bool:
    """Who owns a network may change and delete what others plugged into it."""
    if not isinstance(thing, (Port, Subnet)):
        return False
    network = rows.networks.get(thing.network)
    return network is not None and may(who, action, Target(project=network.project))


def for_project(who: Principal, kind: Kind, project: str) -> str:
    """The project of a new thing: as asked, else the caller's. Raises Refused, BadInput("no-project")."""
    project = project or who.project
    if not project:
        raise BadInput("no-project", "this token is of no project: say project_id of what is to be made")
    require(who, f"network:create_{kind.value}", Target(project=project))
    return project


def changed(table: ThingRows[R], old: R, new: R, now: Wall) -> R:
    """Writes `new` with the next revision. Raises Conflict("changed-meanwhile")."""
    new = replace(new, updated_at=now, revision=old.revision + 1)
    if not table.change(old, new):
        raise Conflict("changed-meanwhile", "it was changed at the same time; try again", transient=True)
    return new


def page(rows: NetworkRows, who: Principal, kind: Kind, table: ThingRows[R], listing: Listing, marker: str) -> list[R]:
    """What the caller sees of a kind. Raises BadInput("bad-marker"), Refused."""
    action = f"network:get_{kind.value}"
    if not anywhere(who, action):
        require(who, action, Target(project=who.project))
        listing = replace(listing, project=who.project)
    if marker:
        after = table.get(marker)
        if after is None or not sees(rows, who, kind, after):
            raise BadInput("bad-marker", f"marker {marker[:255]!r} is no {kind.value.replace('_', ' ')} that you see")
        listing = replace(listing, after=after)
    return list(table.listed(listing)) if listing.limit > 0 else []


def check_bulk(wanted: Sequence[object]) -> None:
    if len(wanted) > MAX_BULK:
        raise BadInput("too-many", f"one request makes at most {MAX_BULK}, this one asks for {len(wanted)}")
