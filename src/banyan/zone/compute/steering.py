"""Where aggregates made here send servers: as availability zones, and by what their metadata has of a flavor.

Aggregates are this zone's, hosts are anywhere below: an order takes the hosts of its aggregates along by name
(core.order.Hints.hosts), each zone on the way goes by its own part, and nothing is kept below. Where a host is, is
looked up in the tree and believed for a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from banyan.core.compute import Aggregate
from banyan.core.errors import BadInput
from banyan.core.order import MAX_HOSTS_LISTED, NamedHost, Reason
from banyan.core.principal import Principal
from banyan.core.server import NoValidHost
from banyan.zone.compute.desk import Desk
from banyan.zone.compute.hosts import DEFAULT_ZONE, Hosts, Zones
from banyan.zone.compute.walked import Walked
from banyan.zone.views import HostView

# An extra spec of a flavor, and the metadata that one of a host's aggregates must have then (as Nova names it).
SCOPE: Final = "aggregate_instance_extra_specs:"


@dataclass(frozen=True, slots=True)
class Known:
    """Aggregates that have hosts, and where those and the hosts that are in such a zone by themselves are."""

    aggregates: Sequence[Aggregate]
    hosts: Mapping[str, Sequence[HostView]]

    def zone_of(self, host: HostView) -> str:
        """The availability zone of an aggregate that it is in, else the one that it says; "" if neither."""
        made = (one.availability_zone for one in self.aggregates if one.availability_zone and host.name in one.hosts)
        return next(made, host.availability_zone)


class Steering:
    def __init__(self, desk: Desk, hosts: Hosts) -> None:
        self._desk = desk
        self._hosts = hosts
        self._known: Walked[Known] = Walked(desk)

    def forget(self) -> None:
        """An aggregate was changed."""
        self._known.forget()

    async def zones(self, who: Principal) -> Zones:
        """The tree's availability zones, and those that aggregates make."""
        zones, known = await self._hosts.zones(who), await self.known(who)
        up = dict(zones.up)
        for one in known.aggregates:
            if one.availability_zone:
                usable = any(_usable(host) for name in one.hosts for host in known.hosts.get(name, ()))
                up[one.availability_zone] = up.get(one.availability_zone, False) or usable
        return replace(zones, up=dict(sorted(up.items())))

    async def bound(self, who: Principal, name: str) -> str:
        """The availability zone to bind a server to. Raises BadInput("bad-zone") for one that no host is in."""
        if not name:
            return ""
        zones = await self.zones(who)
        if name not in zones.up and zones.whole:
            raise BadInput("bad-zone", "The requested availability zone is not available")
        # Hosts that name none are shown in the default one, and can not be asked for by it.
        return "" if name == DEFAULT_ZONE else name

    async def hosts(self, who: Principal, zone: str, extra_specs: Mapping[str, str]) -> tuple[NamedHost, ...]:
        """The only hosts that will do for a server of that availability zone, and of a flavor with these extra specs;
        none where no aggregate says anything about it. Raises NoValidHost if no host is in the right aggregates."""
        wanted = {key.removeprefix(SCOPE): value for key, value in extra_specs.items() if key.startswith(SCOPE)}
        if not zone and not wanted:
            return ()
        known = await self.known(who)
        sets = [
            {name for one in known.aggregates if one.metadata.get(key) == value for name in one.hosts}
            for key, value in wanted.items()
        ]
        if zone and any(one.availability_zone == zone for one in known.aggregates):
            sets.append({name for name, hosts in known.hosts.items() if any(known.zone_of(h) == zone for h in hosts)})
        if not sets:
            return ()
        names = sorted(set.intersection(*sets))
        found = [NamedHost(_below(host.zone), host.name) for name in names for host in known.hosts.get(name, ())]
        if not found:
            raise NoValidHost(0, {Reason.AGGREGATE: 0})
        return tuple(found[:MAX_HOSTS_LISTED])

    async def of_name(
        self, who: Principal, name: str, zone: str, among: tuple[NamedHost, ...]
    ) -> tuple[NamedHost, ...]:
        """The hosts of that name, in that availability zone if it is one, and `among` these if there are any. Raises
        BadInput("no-host") if there is none, NoValidHost if it is elsewhere."""
        views = [host async for host in self._hosts.of_name(who, name)]
        if not views:
            raise BadInput("no-host", f"Compute host {name[:255]} could not be found.")
        known = await self.known(who)
        found = [NamedHost(_below(host.zone), name) for host in views if zone in ("", known.zone_of(host))]
        found = [host for host in found if not among or host in among]
        if not found:
            raise NoValidHost(len(views), {Reason.NOT_NAMED if among else Reason.AVAILABILITY_ZONE: len(views)})
        return tuple(found[:MAX_HOSTS_LISTED])

    async def known(self, who: Principal) -> Known:
        return await self._known.get(lambda: self._look(who))

    async def _look(self, who: Principal) -> Known:
        aggregates = [one for one in await self._desk.read(lambda rows: rows.aggregates.all()) if one.hosts]
        names = {name for one in aggregates for name in one.hosts}
        made = {one.availability_zone for one in aggregates if one.availability_zone}
        hosts: dict[str, list[HostView]] = {}
        if names:
            async for host in self._hosts.each(who):
                if host.name in names or (host.availability_zone or DEFAULT_ZONE) in made:
                    hosts.setdefault(host.name, []).append(host)
        return Known(aggregates, hosts)


def _usable(host: HostView) -> bool:
    return host.up and not host.disabled and host.offered is True


def _below(path: str) -> str:
    """The path of a zone without this one's own name, with which it begins."""
    return path.partition("/")[2]
