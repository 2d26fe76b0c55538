"""What makes and keeps servers on one rack, put together. No policy is made here."""

from __future__ import annotations

from collections.abc import Callable

from banyan.core.ids import RackCode
from banyan.core.ports import Clock, Driver, Ids, RackSpec, Store
from banyan.zone.members import Members
from banyan.zone.own import Own
from banyan.zone.servers.leaf import LeafServers, RackServers
from banyan.zone.servers.orders import Orders
from banyan.zone.servers.places import Places
from banyan.zone.servers.secrets import Passwords
from banyan.zone.servers.watch import Watch
from banyan.zone.servers.work import Work, WorkSettings
from banyan.zone.streams import Streams


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
        self._passwords = Passwords()
        self.leaf = LeafServers(own, store, self._passwords, path)

    def rack(self, code: RackCode, driver: Driver, spec: RackSpec) -> tuple[RackServers, Watch]:
        """The rack's row exists; nothing is read yet."""
        own, store = self._own, self._store
        places = Places(own, store, self._ids, code, driver, self._members, self._streams, dict(spec.share.ceiling))
        orders = Orders(own, store, self._clock, self._ids, places, self._path)
        work = Work(own, store, self._clock, self._ids, places, self._passwords, WorkSettings())
        orders.queue = work.queue
        servers = self.leaf.racks[code] = RackServers(places, orders, work)
        return servers, Watch(own, store, places)
