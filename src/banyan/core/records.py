"""The store's rows as a zone uses them: one small protocol per noun, gathered in `Unit`.

All of it is synchronous and belongs to one transaction. Lists are ordered and paged: `after` is the
last key of the page before, `limit` at most 10,000. `put` inserts or replaces by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from banyan.core.catalogue import Flavor, Image, Network, Project
from banyan.core.compute_rows import ComputeRows
from banyan.core.directory_rows import DirectoryRows
from banyan.core.errors import Broken, Unreachable
from banyan.core.guest import Guest
from banyan.core.host import Host, HostWord
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.image_rows import ImageRows
from banyan.core.journal import Event, Line
from banyan.core.lineage import Row, UseRow
from banyan.core.network_rows import NetworkRows
from banyan.core.policy import CodeRecord, KnownKey, Rule, TokenRecord
from banyan.core.rack import Rack
from banyan.core.receiver import ReceiverRows
from banyan.core.secret import Secret
from banyan.core.server import ActionRecord, Holding, Server, ServerPage, ServerQuery, StoredOrder
from banyan.core.shares import RetryRow, ShareKey, ShareRow
from banyan.core.time import TimeBasis, Wall
from banyan.core.zone import Child, ChildState, Uplink


class StoreUnknown(Broken):
    """A commit whose fate is not known (the connection broke, the disk failed). Read again before anything else."""


class StoreFull(Unreachable):
    """The disk or the quota is full: nothing was written, reading goes on."""


class DriverUnavailable(Unreachable):
    """A bottom does not answer, or not rightly. The text says which call, what came, and what to do."""


@dataclass(frozen=True, slots=True)
class Self:
    """The zone's own row. `epoch` rises at each take-over or restore; children refuse a lower one.

    `boot_id` is the machine's boot in which `time` was stored.
    """

    code: ZoneCode
    name: str
    created_at: Wall
    epoch: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    time: TimeBasis = TimeBasis()
    boot_id: str = ""
    restored_at: Wall | None = None


@dataclass(frozen=True, slots=True)
class AuthorityRow:
    """One CA of this zone. Its seed is in Keys under `key`. `cross`: certificates that other CAs of ours gave it.

    Exactly one row is `current`. `not_after` is corrected wall time.
    """

    fingerprint: bytes
    certificate: bytes
    key: str
    created_at: Wall
    not_after: Wall
    current: bool = True
    cross: tuple[bytes, ...] = ()
    leaked: bool = False


class SelfRows(Protocol):
    def get(self) -> Self | None: ...
    def put(self, row: Self) -> None: ...


class KeyRows(Protocol):
    """Seeds and other secrets, sealed at rest (store/keys.py)."""

    def get(self, name: str) -> Secret | None: ...
    def put(self, name: str, secret: Secret) -> None: ...
    def delete(self, name: str) -> None: ...


class AuthorityRows(Protocol):
    def all(self) -> Sequence[AuthorityRow]: ...
    def put(self, row: AuthorityRow) -> None: ...


class UplinkRows(Protocol):
    def all(self) -> Sequence[Uplink]: ...
    def get(self, id: int) -> Uplink | None: ...
    def put(self, uplink: Uplink) -> None: ...
    def next_id(self) -> int: ...
    def delete(self, id: int) -> None: ...


class ChildRows(Protocol):
    def get(self, code: ZoneCode) -> Child | None: ...
    def by_name(self, name: str) -> Child | None:
        """The child of that exact name that is not retired."""

    def by_fingerprint(self, fingerprint: bytes) -> Child | None:
        """The child with that key that is not retired."""

    def banned(self, fingerprint: bytes) -> Child | None:
        """A child with that key that is banned, retired or not: a ban outlives the row's use."""

    def page(self, after: ZoneCode | None, limit: int) -> Sequence[Child]: ...
    def put(self, child: Child) -> None:
        """Raises Conflict("name-taken") or Conflict("key-taken") when another row that is not retired has it."""

    def count(self, state: ChildState | None = None) -> int: ...


class StreamRows(Protocol):
    """The newest digest of each member, and how far each child's streams are whole here.

    A member is a child zone, or a rack by its code: then `generation` is the number of the last
    complete scan, and the counters are what was folded of it (zone/reconcile/inventory.py).
    """

    def digest(self, child: ZoneCode) -> tuple[int, Mapping[str, int]] | None:
        """(generation, counters)."""

    def put_digest(self, child: ZoneCode, generation: int, counters: Mapping[str, int]) -> None: ...
    def generations(self, child: ZoneCode) -> tuple[int, int]:
        """(lineage, ledger) generations that are whole here; 0 when none."""

    def put_generations(self, child: ZoneCode, lineage: int, ledger: int) -> None: ...
    def forget(self, child: ZoneCode) -> None:
        """Drops its digest, its lineage rows and its ledger rows."""


class LineageRows(Protocol):
    """Rows of zones below, by (via, code): `via` is the direct child that reported them."""

    def via(self, child: ZoneCode, after: ZoneCode | None, limit: int) -> Sequence[Row]: ...
    def carriers(self, code: ZoneCode) -> Sequence[ZoneCode]:
        """The direct children that report this zone in their lineage."""

    def put(self, child: ZoneCode, rows: Iterable[Row]) -> None: ...
    def delete(self, child: ZoneCode, codes: Iterable[ZoneCode]) -> None: ...
    def doubled(self, limit: int) -> Sequence[tuple[ZoneCode, ZoneCode]]:
        """(zone, child), by both: the children, none retired, that report a zone which another one reports as well, or
        which is a child here itself, not retired."""

    def rack_owners(self, after: RackCode | None, limit: int) -> Sequence[tuple[RackCode, ZoneCode]]:
        """By rack: whose those are that several zones below name."""

    def put_rack_owners(self, owners: Mapping[RackCode, ZoneCode | None]) -> None:
        """None: it is no longer named by several."""


class LedgerRows(Protocol):
    """Use per project, by (via, issuer, project). `via` 0 is this zone's own racks."""

    def via(self, child: ZoneCode, after: tuple[int, str] | None, limit: int) -> Sequence[UseRow]: ...
    def put(self, child: ZoneCode, rows: Iterable[UseRow]) -> None: ...
    def delete(self, child: ZoneCode, keys: Iterable[tuple[int, str]]) -> None: ...


class RackRows(Protocol):
    def all(self) -> Sequence[Rack]: ...
    def get(self, code: RackCode) -> Rack | None: ...
    def put(self, rack: Rack) -> None: ...
    def delete(self, code: RackCode) -> None: ...


class HostRows(Protocol):
    """Hosts of one rack, by (rack, id). `replace_scan` is how a scan is recorded (mission A5)."""

    def get(self, rack: RackCode, id: str) -> Host | None: ...
    def page(self, rack: RackCode, after: str | None, limit: int) -> Sequence[Host]:
        """Ordered by (name, id); `after` is "name\\x00id"."""

    def put(self, rack: RackCode, scan: int, hosts: Iterable[Host]) -> None:
        """Writes hosts as seen by scan number `scan`."""

    def sweep(self, rack: RackCode, scan: int) -> int:
        """Deletes hosts not seen by scan `scan`; how many."""

    def count(self, rack: RackCode) -> int: ...


class HostWordRows(Protocol):
    """What people said about hosts, by (rack, host id). They go with their rack."""

    def page(self, rack: RackCode, after: str, limit: int) -> Sequence[HostWord]:
        """By host id, after that one."""

    def of(self, rack: RackCode, hosts: Sequence[str]) -> Mapping[str, HostWord]:
        """Those of these hosts, by host id."""

    def put(self, word: HostWord) -> None: ...
    def delete(self, rack: RackCode, host: str) -> None: ...


class GuestRows(Protocol):
    def page(self, rack: RackCode, after: str | None, limit: int) -> Sequence[Guest]:
        """Ordered by (name, id); `after` is "name\\x00id"."""

    def put(self, rack: RackCode, scan: int, guests: Iterable[Guest]) -> None: ...
    def sweep(self, rack: RackCode, scan: int) -> int: ...
    def count_by_state(self, rack: RackCode) -> Mapping[tuple[str, bool], int]:
        """(state, offered) → guests."""

    def use_by_project(self, rack: RackCode) -> Sequence[UseRow]:
        """Ordered by project; issuer is the rack's code; `name` from the rack's projects, "" if unknown."""

    def strays(self, rack: RackCode) -> Sequence[Guest]:
        """Those with Banyan's mark that are no server of it, by id; at most 10,000. Reads all of the rack's guests."""


class CatalogueRows(Protocol):
    """Flavors, images, networks, projects of a rack as its last scan saw them."""

    def replace(
        self,
        rack: RackCode,
        flavors: Sequence[Flavor],
        images: Sequence[Image],
        networks: Sequence[Network],
        projects: Sequence[Project],
    ) -> None: ...
    def flavors(self, rack: RackCode) -> Sequence[Flavor]: ...
    def images(self, rack: RackCode) -> Sequence[Image]: ...
    def networks(self, rack: RackCode) -> Sequence[Network]: ...
    def projects(self, rack: RackCode) -> Sequence[Project]: ...


class ServerRows(Protocol):
    """Servers of the zone's racks, deleted ones until they are swept. Ids are unique over all racks.

    Pages come without user data.
    """

    def insert(self, servers: Sequence[Server]) -> None:
        """New rows. Raises Conflict("id-taken") if one is there already: then none is written."""

    def get(self, id: str) -> Server | None: ...
    def many(self, ids: Sequence[str]) -> Mapping[str, Server]:
        """Those that are there, by id; at most 1,000, without user data."""

    def update(self, *pairs: tuple[Server, Server]) -> None:
        """Each before, as it was read in this transaction, and after. Id, issuer, project, rack and instant of creation
        stay."""

    def step(self, *pairs: tuple[Server, Server]) -> bool:
        """As `update`, of rows that were not read, for what most steps of a life change: state, task, power, instants.
        False if one of them is not as its before any more, by its revision: then this unit is to fail."""

    def page(self, query: ServerQuery) -> ServerPage:
        """Looks at no more than a bounded number of rows: a page may be short, even empty, and still go on."""

    def count(self) -> int:
        """Of all racks and projects: those that are confirmed, and not deleted."""

    def busy(self, rack: RackCode, after: str, limit: int) -> Sequence[Server]:
        """Confirmed servers with a task, by id, after that one; with user data."""

    def newest(self) -> str:
        """The highest id, "" if there is none."""

    def holdings(self, rack: RackCode) -> Sequence[Holding]:
        """What servers hold now, resizes that are not confirmed twice; all of one host, project, state and shape
        together."""

    def members(self, issuer: ZoneCode, group: str) -> Mapping[str, int]:
        """How many servers of that group each host has, as far as they hold one."""

    def group_racks(self, issuer: ZoneCode, group: str) -> Mapping[RackCode, int]:
        """The same by rack."""

    def drop(self, ids: Sequence[str]) -> None:
        """Rows that nobody was ever told of."""

    def is_gone(self, before: Wall) -> bool:
        """Whether a sweep would find any."""

    def sweep(self, before: Wall, limit: int) -> int:
        """Deletes rows of servers deleted before, with their actions; at most `limit`, the oldest first."""


class ActionRows(Protocol):
    """What was asked of servers, by (server, request)."""

    def get(self, server: str, request: str) -> ActionRecord | None: ...
    def of(self, server: str, limit: int) -> Sequence[ActionRecord]:
        """The newest first."""

    def put(self, record: ActionRecord) -> None: ...


class OrderRows(Protocol):
    def get(self, id: str) -> StoredOrder | None: ...
    def insert(self, *orders: StoredOrder) -> Mapping[str, StoredOrder]:
        """Writes those whose id is new; the others as they are stored, by id."""

    def put(self, order: StoredOrder) -> None: ...
    def of_request(self, request: str, limit: int) -> Sequence[StoredOrder]: ...
    def unconfirmed(self, after: str, limit: int) -> Sequence[StoredOrder]:
        """By id, after that one."""

    def is_old(self, before: Wall) -> bool:
        """Whether a sweep would find any."""

    def sweep(self, before: Wall, limit: int) -> int:
        """Deletes orders that came before and are not unconfirmed; at most `limit`, the oldest first."""


class ShareRows(Protocol):
    """Shares of orders, by (member, id); core.shares. Member HERE: marks of what became of orders here."""

    def put(self, rows: Sequence[ShareRow]) -> None:
        """In the place of those that are there already."""

    def get(self, member: int, id: str) -> ShareRow | None: ...
    def of_order(self, order: str) -> Sequence[ShareRow]:
        """Of all members but HERE."""

    def of_group(self, group: str) -> Sequence[ShareRow]:
        """Decided ones of orders of that group, at most 1,000, by member."""

    def drop(self, keys: Sequence[ShareKey]) -> None: ...
    def owed(self, member: int, after: str, limit: int) -> Sequence[ShareRow]:
        """Those that are decided, by id, after that one."""

    def owing(self) -> Sequence[int]:
        """Members of which some are decided, but HERE."""

    def asked(self, after: str, limit: int) -> Sequence[str]:
        """Orders that this zone has to decide about, by id, after that one."""

    def held(self) -> tuple[int, Wall | None]:
        """How many shares wait for the word of a zone above, and since when the oldest."""

    def sweep(self, before: Wall, limit: int) -> int:
        """Deletes marks of before; at most `limit`, and how many."""


class RetryRows(Protocol):
    """Requests with a retry key, by its hash."""

    def get(self, id: str) -> RetryRow | None: ...
    def put(self, row: RetryRow) -> None: ...
    def drop(self, id: str) -> None: ...
    def count(self, issuer: ZoneCode, project: str, since: Wall, limit: int) -> int:
        """Of one project, made since then; no more than `limit` are counted."""

    def sweep(self, before: Wall, limit: int) -> int:
        """Deletes those of before; at most `limit`, the oldest first, and how many."""


class CodeRows(Protocol):
    def get(self, id: str) -> CodeRecord | None: ...
    def page(self, after: str | None, limit: int) -> Sequence[CodeRecord]: ...
    def put(self, record: CodeRecord) -> None: ...
    def use(self, id: str, fingerprint: bytes, now: Wall) -> bool:
        """Binds one use to this key by one conditional update; True if bound now or before by the same key.

        False if it is used up, revoked or expired. The same key never takes a second use.
        """

    def sweep(self, before: Wall, limit: int) -> int:
        """Deletes codes that expired before, at most `limit` of them, the oldest first; their used rows as well."""


class KnownKeyRows(Protocol):
    def get(self, fingerprint: bytes) -> KnownKey | None: ...
    def page(self, after: bytes | None, limit: int) -> Sequence[KnownKey]: ...
    def put(self, key: KnownKey) -> None: ...
    def delete(self, fingerprint: bytes) -> None: ...


class RuleRows(Protocol):
    """By (priority, id): the order in which they are tried. At most 1,000 are kept."""

    def get(self, id: str) -> Rule | None: ...
    def all(self) -> Sequence[Rule]: ...
    def page(self, after: tuple[int, str] | None, limit: int) -> Sequence[Rule]: ...
    def put(self, rule: Rule) -> None:
        """Raises Refused("too-many-rules")."""

    def delete(self, id: str) -> None: ...


class TokenRows(Protocol):
    def get(self, id: str) -> TokenRecord | None: ...
    def page(self, after: str | None, limit: int) -> Sequence[TokenRecord]: ...
    def put(self, record: TokenRecord) -> None: ...
    def sweep(self, before: Wall, limit: int) -> int:
        """Deletes tokens that expired before, at most `limit` of them, the oldest first."""


class JournalRows(Protocol):
    def append(self, at: Wall, event: Event) -> Line: ...
    def append_all(self, at: Wall, events: Sequence[Event]) -> Sequence[Line]: ...
    def last(self) -> Line | None: ...
    def page(self, after: int, limit: int, filters: Mapping[str, str]) -> Sequence[Line]:
        """Numbers above `after`, rising. `filters`: kind, target, actor, outcome (exact)."""


class Unit(Protocol):
    """One transaction's rows."""

    @property
    def self_(self) -> SelfRows: ...
    @property
    def keys(self) -> KeyRows: ...
    @property
    def authorities(self) -> AuthorityRows: ...
    @property
    def uplinks(self) -> UplinkRows: ...
    @property
    def children(self) -> ChildRows: ...
    @property
    def streams(self) -> StreamRows: ...
    @property
    def lineage(self) -> LineageRows: ...
    @property
    def ledger(self) -> LedgerRows: ...
    @property
    def racks(self) -> RackRows: ...
    @property
    def hosts(self) -> HostRows: ...
    @property
    def guests(self) -> GuestRows: ...
    @property
    def catalogue(self) -> CatalogueRows: ...
    @property
    def servers(self) -> ServerRows: ...
    @property
    def actions(self) -> ActionRows: ...
    @property
    def orders(self) -> OrderRows: ...
    @property
    def shares(self) -> ShareRows: ...
    @property
    def retries(self) -> RetryRows: ...
    @property
    def codes(self) -> CodeRows: ...
    @property
    def known_keys(self) -> KnownKeyRows: ...
    @property
    def rules(self) -> RuleRows: ...
    @property
    def tokens(self) -> TokenRows: ...
    @property
    def journal(self) -> JournalRows: ...
    @property
    def receivers(self) -> ReceiverRows: ...
    @property
    def directory(self) -> DirectoryRows: ...
    @property
    def compute(self) -> ComputeRows: ...
    @property
    def networks(self) -> NetworkRows: ...
    @property
    def images(self) -> ImageRows: ...
    @property
    def host_words(self) -> HostWordRows: ...
