"""What makes and keeps servers on a rack, and what places them in the tree, put together. No policy is made here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from banyan.core.ids import RackCode, ZoneCode
from banyan.core.order import Order
from banyan.core.ports import Clock, Driver, Ids, RackSpec, Store
from banyan.zone.members import Members
from banyan.zone.own import Own
from banyan.zone.roster import Roster
from banyan.zone.servers.answers import Answers
from banyan.zone.servers.below import Below
from banyan.zone.servers.grouping import Grouping
from banyan.zone.servers.hosts import HostWords
from banyan.zone.servers.leaf import LeafServers, RackServers
from banyan.zone.servers.orders import Orders
from banyan.zone.servers.places import Places
from banyan.zone.servers.placing import Placing
from banyan.zone.servers.shares import Shares
from banyan.zone.servers.tree import TreeServers
from banyan.zone.servers.watch import Watch
from banyan.zone.servers.work import Work, WorkSettings
from banyan.zone.streams import Streams
from banyan.zone.tree import Tree


class Assembly:
    """Makes the parts of each rack's servers; `leaf` has those of all."""

    def __init__(
        self,
        own: Own,
        store: Store,
        clock: Clock,
        ids: Ids,
        members: Members,
        streams: Streams,
        path: Callable[[], str],
    ) -> None:
        self._own = own
        self._store = store
        self._clock = clock
        self._ids = ids
        self._members = members
        self._streams = streams
        self._path = path
        self.leaf = LeafServers(own, store, path)

    def rack(self, code: RackCode, driver: Driver, spec: RackSpec) -> tuple[RackServers, Watch]:
        """The rack's row exists; nothing is read yet."""
        own, store = self._own, self._store
        places = Places(own, store, self._ids, code, driver, self._members, self._streams, dict(spec.share.ceiling))
        orders = Orders(own, store, self._clock, self._ids, places, self._path)
        work = Work(own, store, self._clock, self._ids, places, WorkSettings())
        orders.queue = work.queue
        servers = self.leaf.racks[code] = RackServers(places, orders, work)
        return servers, Watch(own, store, places)


@dataclass(frozen=True, slots=True)
class TreeKnown:
    """What a zone knows of those around it. `replies`: how long a child may take, seconds; `above`: codes of the zones
    above."""

    roster: Roster
    tree: Tree
    members: Members
    streams: Streams
    replies: float
    above: Callable[[], Sequence[ZoneCode]]


class TreeAssembly:
    """The parts that know the zones around. `admit`: raises Refused for an order that comes too late."""

    def __init__(
        self,
        own: Own,
        store: Store,
        clock: Clock,
        ids: Ids,
        leaf: LeafServers,
        known: TreeKnown,
        admit: Callable[[Order], None],
    ) -> None:
        roster, tree, streams = known.roster, known.tree, known.streams
        below = Below(roster, tree, known.replies)
        self.shares = Shares(own, store, clock, below, leaf)
        grouping = Grouping(store, clock, tree, roster, streams, leaf, below, self.shares)
        placing = Placing(own, clock, ids, known.members, leaf, below, self.shares, grouping)
        hosts = HostWords(own, store, tree, known.members, leaf, below, known.above)
        self.servers = TreeServers(
            own, store, ids, tree, roster, streams, leaf, below, placing, grouping, hosts, known.above
        )
        self.answers = Answers(self.servers, known.above, admit)
