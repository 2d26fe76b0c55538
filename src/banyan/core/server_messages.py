"""What zones say to each other about servers: the bodies of a link's requests (core/messages.py), and their bounds.

The user travels as who they are, never as a token: the entry zone checked that, and a zone believes a parent for that
parent's issuers only. Fields are only ever appended, with defaults. Each body is read by `read`, which refuses what is
beyond its bounds before anything is done with it. docs/contracts/link.md says when each is sent.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from banyan.core.errors import BadInput
from banyan.core.host import MAX_REASON, HostChange
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.order import MAX_GUESTS, MAX_HOSTS_LISTED, Order, Refusal
from banyan.core.principal import Principal, ScopeKind
from banyan.core.reading import read_msgpack
from banyan.core.server import (
    MAX_PAGE,
    Action,
    ActionRecord,
    Arguments,
    Change,
    Level,
    Made,
    Server,
    ServerPage,
    ServerQuery,
)
from banyan.core.time import Wall

T = TypeVar("T")

MAX_ID: Final = 255
MAX_ROLES: Final = 64
# A password of 255 characters (as the compute API takes them), each of up to four bytes.
MAX_PASSWORD: Final = 1_020
# Racks that hold servers of one group: there are no more than these.
MAX_RACKS: Final = 10_000
# Zones above the one that is asked, each of which said what it left out and chose.
MAX_LEVELS: Final = 64
# Records of servers in one answer: with a kilobyte or two each they stay within a frame.
MAX_LOOK: Final = 100
# Of servers' records in an answer, bytes; the rest of the frame is for what stands around them.
MAX_RECORDS: Final = 200 * 1024


class Person(msgspec.Struct, frozen=True, array_like=True):
    """core.principal.Principal on the wire: ids and role names, valid for this one request."""

    issuer: ZoneCode
    user: str
    user_name: str
    user_domain: str
    scope: str
    roles: tuple[str, ...]
    project: str = ""
    project_domain: str = ""
    domain: str = ""
    audit: str = ""

    @staticmethod
    def of(who: Principal) -> Person:
        return Person(
            who.issuer,
            who.user,
            who.user_name,
            who.user_domain,
            who.scope.value,
            tuple(sorted(who.roles)),
            who.project,
            who.project_domain,
            who.domain,
            who.audit,
        )

    def principal(self, address: str, request: str) -> Principal:
        """As it counts here. `expires` is the entry zone's concern, which looked at it. Raises ValueError."""
        return Principal(
            self.issuer,
            self.user,
            self.user_name,
            self.user_domain,
            ScopeKind(self.scope),
            frozenset(self.roles),
            Wall(0.0),
            project=self.project,
            project_domain=self.project_domain,
            domain=self.domain,
            audit=self.audit,
            address=address,
            request=request,
        )


class PlaceCall(msgspec.Struct, frozen=True, array_like=True):
    """Verb "place". `number`: of this order on this link (placement/debits.py). `above`: what the zones above left out
    and chose, the topmost first. `person` None: an operator, who is the request's caller."""

    order: Order
    number: int
    above: tuple[Level, ...] = ()
    person: Person | None = None


class PlaceReply(msgspec.Struct, frozen=True, array_like=True):
    """`refusal`: none of it has a place; else `made` is all that has one. `again`: it was known already. `levels`: of
    the zone that answers and of those below that had a part, the topmost first."""

    made: tuple[Made, ...] = ()
    refusal: Refusal | None = None
    again: bool = False
    levels: tuple[Level, ...] = ()


class OrderCall(msgspec.Struct, frozen=True, array_like=True):
    """Verbs "confirm" and "cancel": the id under which the zone that is asked had the order from the one that asks."""

    order: str


class GroupCall(msgspec.Struct, frozen=True, array_like=True):
    """Verb "group": where servers of a group are, of a project that has some."""

    issuer: ZoneCode
    project: str
    group: str


class GroupReply(msgspec.Struct, frozen=True, array_like=True):
    """How many each rack has, those that are not confirmed too; and paths of zones that could not be asked."""

    racks: tuple[tuple[RackCode, int], ...] = ()
    absent: tuple[str, ...] = ()


class Nothing(msgspec.Struct, frozen=True, array_like=True):
    """Done."""


class ActCall(msgspec.Struct, frozen=True, array_like=True):
    """Verb "act". The caller's request id is the one under which the action is done once. `password`: for the guest,
    UTF-8; None if none comes with it. It shows nowhere."""

    id: str
    action: Action
    arguments: Arguments = Arguments()
    person: Person | None = None
    password: bytes | None = None

    def __repr__(self) -> str:
        return f"ActCall({self.id!r}, {self.action!r}, {self.arguments!r}, {self.person!r})"


class ChangeCall(msgspec.Struct, frozen=True, array_like=True):
    """Verb "change"."""

    id: str
    change: Change
    person: Person | None = None


class ServerReply(msgspec.Struct, frozen=True, array_like=True):
    server: Server


class LookCall(msgspec.Struct, frozen=True, array_like=True):
    """Verb "look". `whole`: with user data, of one id only."""

    ids: tuple[str, ...]
    whole: bool = False
    person: Person | None = None


class Unknown(msgspec.Struct, frozen=True, array_like=True):
    """A server whose zone can not be asked: it may live, and nobody can say. `path`: of that zone; `since`: when it was
    last heard, None for never. `unconfirmed`: it is known and held for its order, but not begun yet."""

    id: str
    path: str
    rack: RackCode
    since: Wall | None = None
    unconfirmed: bool = False


class LookReply(msgspec.Struct, frozen=True, array_like=True):
    """What of the ids asked for is known; those in neither are not there, or not for this caller."""

    servers: tuple[Server, ...] = ()
    unknown: tuple[Unknown, ...] = ()


class ServersCall(msgspec.Struct, frozen=True, array_like=True):
    """Verb "servers": one page. `query.after` is a place in the order asked for, the same for every zone."""

    query: ServerQuery
    person: Person | None = None


class ServersReply(msgspec.Struct, frozen=True, array_like=True):
    page: ServerPage


class IdCall(msgspec.Struct, frozen=True, array_like=True):
    """Verbs "why", "actions" and "console" (`lines`, 0 for all), of one server; "why" also of an order or a request."""

    id: str
    lines: int = 0
    person: Person | None = None


class WhyReply(msgspec.Struct, frozen=True, array_like=True):
    levels: tuple[Level, ...]


class ActionsReply(msgspec.Struct, frozen=True, array_like=True):
    records: tuple[ActionRecord, ...]


class ConsoleReply(msgspec.Struct, frozen=True, array_like=True):
    text: str


class HostCall(msgspec.Struct, frozen=True, array_like=True):
    """Verb "host": a person's word about a host, by its id, of the zone of that code and its rack of that name."""

    zone: ZoneCode
    rack: str
    host: str
    change: HostChange
    person: Person | None = None


class HostReply(msgspec.Struct, frozen=True, array_like=True):
    """The host as a list of hosts has it: a JSON object (UTF-8)."""

    view: bytes


VERBS: Final = frozenset(
    {"place", "confirm", "cancel", "group", "act", "change", "look", "servers", "why", "actions", "console", "host"}
)


def read(body: bytes, type: type[T]) -> T:
    """The body, checked. Raises BadInput("bad-request"), msgspec.MsgspecError."""
    call = read_msgpack(body, type)
    wrong = _wrong(call)
    if wrong:
        raise BadInput("bad-request", f"a request about servers has {wrong}")
    return call


def _wrong(call: object) -> str:
    person = getattr(call, "person", None)
    if isinstance(person, Person) and len(person.roles) > MAX_ROLES:
        return f"at most {MAX_ROLES} roles, got {len(person.roles)}"
    match call:
        case PlaceCall():
            if len(call.above) > MAX_LEVELS:
                return f"at most {MAX_LEVELS} levels above, got {len(call.above)}"
            return _wrong_id(call.order.id)
        case PlaceReply():
            if len(call.made) > MAX_GUESTS:
                return f"at most {MAX_GUESTS} servers, got {len(call.made)}"
        case OrderCall():
            return _wrong_id(call.order)
        case GroupCall():
            return _wrong_id(call.group)
        case GroupReply():
            if len(call.racks) > MAX_RACKS or any(count < 1 for _, count in call.racks):
                return f"at most {MAX_RACKS} racks, each with some servers, got {len(call.racks)}"
        case ActCall(password=password) if password is not None and len(password) > MAX_PASSWORD:
            return f"a password of at most {MAX_PASSWORD} bytes, got {len(password)}"
        case ActCall(arguments=Arguments(hosts=hosts)) if hosts is not None and len(hosts) > MAX_HOSTS_LISTED:
            return f"at most {MAX_HOSTS_LISTED} hosts by name, got {len(hosts)}"
        case ActCall() | ChangeCall() | IdCall():
            return _wrong_id(call.id)
        case HostCall():
            reason = call.change.reason
            if len(reason) > MAX_REASON or not reason.isprintable():
                return f"a reason of at most {MAX_REASON} printable characters, got {len(reason)}"
            return _wrong_id(call.host) or _wrong_id(call.rack)
        case LookCall():
            if len(call.ids) > MAX_LOOK:
                return f"at most {MAX_LOOK} ids, got {len(call.ids)}"
            return next((wrong for id in call.ids if (wrong := _wrong_id(id))), "")
        case ServersCall():
            if not 1 <= call.query.limit <= MAX_PAGE or len(call.query.ids) > MAX_PAGE:
                return f"a page of 1 to {MAX_PAGE} servers, got {call.query.limit} and {len(call.query.ids)} ids"
        case ServersReply():
            if len(call.page.servers) > MAX_PAGE:
                return f"at most {MAX_PAGE} servers, got {len(call.page.servers)}"
    return ""


def _wrong_id(id: str) -> str:
    return "" if 1 <= len(id) <= MAX_ID and "\0" not in id else f"an id of 1 to {MAX_ID} characters, got {len(id)}"
