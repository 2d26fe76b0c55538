"""What a zone needs of the outside, as protocols. Adapters live in store, link, drivers, serve, simulate.

A port is declared here when two rooms that must not know each other meet at it. The store's rows are
in core.records.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from banyan.core.deed import Deed, Operation, Sighting
from banyan.core.errors import BanyanError
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.messages import (
    Ack,
    Admitted,
    Answer,
    Beat,
    BeatAck,
    CallerInfo,
    Enrol,
    Generations,
    Greet,
    Hello,
    HelloAck,
    Renew,
    Renewed,
    Report,
    Request,
    Welcome,
)
from banyan.core.rack import Capacity, RackHealth, ScanItem
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.server import Server
from banyan.core.share import OFFER_ALL, Share
from banyan.core.time import Mono

T = TypeVar("T")


class Clock(Protocol):
    """The machine's clocks. `wall` is raw: a zone corrects it (core.time.TimeBasis).

    `sleep_until` gives the event loop a turn even when `instant` is past.
    """

    def now(self) -> Mono: ...

    def wall(self) -> float: ...

    async def sleep_until(self, instant: Mono) -> None: ...

    def boot_id(self) -> str: ...


class Ids(Protocol):
    """Every source of chance, so that worlds can be seeded."""

    def token(self, size: int) -> bytes: ...

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound)."""

    def uniform(self, low: float, high: float) -> float: ...


class Store(Protocol):
    """Runs units of work. A unit is a synchronous function of one transaction; it may run more than once.

    `write` returns after COMMIT is durable; several units may share one commit, each in its own
    savepoint. `name` is the unit's stable label ("child.certified"), for metrics and kill tests.
    An exception rolls the unit back and is raised here. StoreUnknown (core.records) is raised if the
    commit's fate is not known: read again first.
    """

    async def write(self, name: str, work: Callable[[Unit], T]) -> T: ...

    async def read(self, work: Callable[[Unit], T]) -> T: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Credentials:
    """A certificate (DER) and the seed of its Ed25519 key. `chain`: further certificates to present (DER)."""

    certificate: bytes
    seed: Secret
    chain: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a wire: its certificate's DER if it showed one (its key proved by TLS), its address.

    `local`: the certificate that our own end showed on this very wire, which may be older than the newest.
    """

    certificate: bytes | None
    address: str
    local: bytes | None = None


class Wire(Protocol):
    """One connection that carries frames in order, or fails. `send` and `receive` raise WireClosed at the end.

    A frame longer than `messages.MAX_STRANGER_FRAME` ends the wire, until `allow` raises that. Both may
    be cancelled: a frame is then either wholly received or not at all.
    """

    @property
    def peer(self) -> Peer: ...

    @property
    def ended(self) -> bool:
        """Whether the wire is known to have ended; what came before may still be read."""

    def allow(self, size: int) -> None:
        """From now on frames of up to `size` bytes are received."""

    async def send(self, frame: bytes) -> None: ...

    async def receive(self) -> bytes: ...

    async def close(self, reason: str = "") -> None: ...


class WireClosed(Exception):
    """The wire ended. `reason` is the peer's word, or the transport's error text."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Dialer(Protocol):
    """Opens wires to a parent.

    `address` is host:port. `bundle`: CA certificates (DER) one of which must have signed the server's;
    empty when enrolling: then the caller checks the peer's certificate itself, before it says anything.
    Raises Unreachable (no route, refused, timed out, proxy refused) or Refused("not-the-parent").
    """

    async def dial(
        self,
        address: str,
        *,
        purpose: str,
        credentials: Credentials | None,
        bundle: Sequence[bytes],
        timeout: float,
    ) -> Wire: ...


class ChildSide(Protocol):
    """A zone as the child of one parent; the link's child calls it. Implemented in zone.reconcile.uplinks."""

    def greet(self) -> Greet: ...

    async def welcomed(self, greet: Greet, welcome: Welcome, peer: Peer) -> Hello | Enrol:
        """Checks the parent; raises Refused before a word of ours leaves."""

    async def admitted(self, admitted: Admitted, peer: Peer) -> None: ...

    async def refused(self, error: BanyanError) -> None:
        """The enrolment has failed for good at a parent that had proved itself: what was to be shown is of no use."""

    async def established(self, ack: HelloAck, sent_at: Mono) -> None: ...

    async def report(self, seq: int, known: Generations, budget: int) -> Report | Beat:
        """News since `known`, in at most about `budget` bytes; the rest follows in the next one."""

    def news(self) -> Awaitable[None]:
        """Returns when there is something that should not wait for the next report."""

    async def acknowledged(self, ack: Ack | BeatAck, sent_at: Mono) -> None: ...

    async def renewal(self) -> Renew | None:
        """Asked before each report: a renewal when it is due, else None."""

    async def renewed(self, renewed: Renewed) -> None: ...

    async def asked(self, request: Request) -> Answer: ...

    async def ended(self, reason: str) -> None: ...


class ParentSession(Protocol):
    """One child's session as its parent holds it; the link implements it."""

    @property
    def code(self) -> ZoneCode: ...

    @property
    def peer(self) -> Peer: ...

    @property
    def gone(self) -> bool:
        """Whether nobody waits for what is done in it any more: the wire has ended, or the child has lost patience."""

    async def request(self, verb: str, body: bytes, caller: CallerInfo, timeout: float) -> Answer:
        """Raises Unreachable when the session ends or no answer came in time: then the outcome is not known."""

    async def cut(self, code: str, text: str, retry_after: float | None) -> None: ...


class ParentSide(Protocol):
    """A zone as the parent of many children; the link's parent calls it. Implemented in zone.reconcile.children."""

    async def welcome(self, greet: Greet, peer: Peer) -> Welcome: ...

    async def enrol(self, greet: Greet, welcome: Welcome, enrol: Enrol, peer: Peer) -> Admitted: ...

    async def hello(self, hello: Hello, session: ParentSession) -> HelloAck: ...

    async def reported(self, session: ParentSession, report: Report | Beat) -> Ack | BeatAck: ...

    async def renew(self, session: ParentSession, renew: Renew) -> Renewed: ...

    async def ended(self, session: ParentSession, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `banyan check`: what was looked at, whether it is well, what was found, what to do."""

    what: str
    ok: bool
    found: str
    remedy: str = ""


class Driver(Protocol):
    """One rack's hands. docs/contracts/driver.md numbers its duties; drivers/contract.py runs them.

    `scan` yields HostBatch and GuestBatch items (each host before its guests), and last one Scan. It
    raises DriverUnavailable (core.records) with a reason when the bottom does not answer rightly;
    what it yielded before is then discarded.

    `operations`: what it can do to guests; a driver that only observes has none, and the calls below `check` are
    then never made. `at_once`: how many deeds it takes at the same time.
    """

    @property
    def kind(self) -> str: ...

    @property
    def capacity(self) -> Capacity: ...

    def scan(self) -> AsyncIterator[ScanItem]: ...

    async def probe(self) -> tuple[RackHealth, str]:
        """A cheap look (one request at most): does the bottom answer? With the reason if not. Never raises."""

    @property
    def operations(self) -> frozenset[Operation]: ...

    @property
    def at_once(self) -> int: ...

    async def check(self) -> Sequence[Finding]:
        """For `banyan check`: credentials, each role needed, versions. Never raises, never writes."""

    async def perform(self, deed: Deed) -> Sighting | None:
        """Returns when the deed is done: how the guest is then, None if it is gone. Idempotent (core.deed). Raises
        DeedFailed if it was not done and will not be; DriverUnavailable if that is not known: it is said again."""

    async def sight(self, guests: Sequence[str]) -> Mapping[str, Sighting]:
        """Those of these guests of ours (at most 1,000) that are there, by id. Raises DriverUnavailable."""

    async def console(self, server: Server, lines: int | None) -> str:
        """The last lines of the guest's console, all that there is for None. Raises DeedFailed, DriverUnavailable."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RackSpec:
    """A rack as the settings name it. `options` are the driver's own, checked by its options type.

    `code` is the rack's code once it has one, 0 before. `requests_per_second` bounds what a scan asks
    of the bottom. `share` is what the rack offers: the driver marks hosts, guests, flavors and projects.
    """

    name: str
    driver: str
    options: Mapping[str, object] = field(default_factory=dict)
    code: RackCode = RackCode(0)
    share: Share = OFFER_ALL
    requests_per_second: float = 10.0


class DriverHost(Protocol):
    """Makes drivers from their registered kinds. Raises BadInput naming the option that is wrong."""

    def kinds(self) -> Sequence[str]: ...

    def make(self, spec: RackSpec) -> Driver: ...
