"""The tree's hosts as the compute service shows them: hypervisors, services, availability zones. Views, nothing kept.

A host's id is its own where the bottom gave it one, else made of its rack and name. Ids that were shown are remembered,
so that who lists and then asks for one costs a look at one page; an id that was never shown is looked for in all.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from banyan.core.errors import NotFound
from banyan.core.host import HostChange
from banyan.core.identity import Caller
from banyan.core.permissions import may, require
from banyan.core.principal import Principal
from banyan.core.server import Server
from banyan.zone.compute.desk import MAX_LIST, Desk
from banyan.zone.compute.walked import Walked
from banyan.zone.lists import literal
from banyan.zone.servers.surface import Servers
from banyan.zone.views import HostView, PageView, UsageView

MAX_SHOWN: Final = 100_000
DEFAULT_ZONE: Final = "nova"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


class Inventory(Protocol):
    """The part of zone.surface.Surface that is needed here."""

    async def page(
        self, caller: Caller, kind: str, path: str, filters: Mapping[str, str], marker: str, limit: int
    ) -> PageView: ...

    async def usage(self, caller: Caller, path: str) -> UsageView: ...


@dataclass(frozen=True, slots=True)
class HostPage:
    """`after` "" is the end. `absent`: zones that could not be asked."""

    hosts: tuple[HostView, ...]
    after: str = ""
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Where:
    """A host that was shown: the zone, rack and name by which it is found again."""

    zone: str
    rack: str
    name: str


@dataclass(frozen=True, slots=True)
class Zones:
    """Availability zones by name, whether one of their hosts may be used, as far as they could be asked."""

    up: Mapping[str, bool]
    whole: bool


class Hosts:
    def __init__(self, desk: Desk, inventory: Inventory, servers: Servers) -> None:
        self._desk = desk
        self._inventory = inventory
        self._servers = servers
        self._shown: dict[str, Where] = {}
        self._zones: Walked[Zones] = Walked(desk)

    async def page(self, who: Principal, *, name: str = "", after: str = "", limit: int = MAX_LIST) -> HostPage:
        """In the order of (zone, rack, name). `name`: found anywhere in the host's."""
        require(who, "compute:list_hypervisors")
        return await self._page(who, {"name": f"*{literal(name)}*"} if name else {}, after, limit)

    async def show(self, who: Principal, id: str) -> HostView:
        """By its uuid, or its number as text. Raises NotFound("no-host")."""
        require(who, "compute:get_hypervisor")
        where = self._shown.get(id)
        if where is not None:
            filters = {"rack": literal(where.rack), "name": literal(where.name)}
            async for host in self._all(who, filters):
                if id in (uuid_of(host), str(number_of(host))):
                    return host
            self._shown.pop(id, None)
        if _UUID.match(id) or (id.isascii() and id.isdigit() and len(id) <= 10):
            async for host in self._all(who, {}):
                if id in (uuid_of(host), str(number_of(host))):
                    return host
        raise no_host(id)

    async def say(self, who: Principal, host: HostView, change: HostChange) -> HostView:
        """What an administrator says about it, in force when this returns. Raises what Servers.say_of_host does."""
        require(who, "compute:update_service")
        said = await self._servers.say_of_host(who, host.zone, host.rack, host.id, change)
        self._zones.forget()
        return said

    async def named(self, who: Principal, name: str) -> HostView | None:
        """The first host of exactly that name. The caller was authorised for what it asks this for."""
        async for host in self._all(who, {"name": literal(name)}):
            return host
        return None

    async def of_server(self, who: Principal, server: Server) -> HostView | None:
        """Where a server lies; None if its host was not found, or its zone could not be asked."""
        async for host in self._all(who, {"name": literal(server.host_name)} if server.host_name else {}):
            if host.id == server.host:
                return host
        return None

    async def all(self, who: Principal, most: int = MAX_SHOWN) -> Sequence[HostView]:
        require(who, "compute:list_hypervisors")
        found: list[HostView] = []
        async for host in self._all(who, {}):
            found.append(host)
            if len(found) >= most:
                break
        return found

    async def totals(self, who: Principal) -> UsageView:
        require(who, "compute:list_hypervisors")
        return await self._inventory.usage(who.caller(), "")

    async def zones(self, who: Principal) -> Zones:
        """Remembered for a while: every create asks whether its zone is one of them."""
        require(who, "compute:list_availability_zones")
        return await self._zones.get(lambda: self._look(who))

    # gap: availability zones are found by a walk over all hosts, at most a twentieth of the time: no report names them

    async def _look(self, who: Principal) -> Zones:
        up: dict[str, bool] = {}
        whole, after = True, ""
        while True:
            page = await self._page(who, {}, after, MAX_LIST)
            for host in page.hosts:
                zone = host.availability_zone or DEFAULT_ZONE
                up[zone] = up.get(zone, False) or (host.up and not host.disabled and host.offered is True)
            whole = whole and not page.absent
            after = page.after
            if not after:
                break
        return Zones(dict(sorted(up.items())), whole)

    def of_name(self, who: Principal, name: str) -> AsyncIterator[HostView]:
        """All of exactly that name. The caller was authorised for what it asks this for."""
        return self._all(who, {"name": literal(name)})

    def each(self, who: Principal) -> AsyncIterator[HostView]:
        """All of them. The caller was authorised for what it asks this for."""
        return self._all(who, {})

    def may_see(self, who: Principal) -> bool:
        return may(who, "compute:server_hosts")

    async def _all(self, who: Principal, filters: Mapping[str, str]) -> AsyncIterator[HostView]:
        after = ""
        while True:
            page = await self._page(who, filters, after, MAX_LIST)
            for host in page.hosts:
                yield host
            after = page.after
            if not after:
                return

    async def _page(self, who: Principal, filters: Mapping[str, str], after: str, limit: int) -> HostPage:
        view = await self._inventory.page(who.caller(), "hosts", "", filters, after, max(1, min(limit, MAX_LIST)))
        hosts = tuple(msgspec.json.decode(item, type=HostView) for item in view.items)
        for host in hosts:
            where = Where(host.zone, host.rack, host.name)
            self._shown[uuid_of(host)] = self._shown[str(number_of(host))] = where
        while len(self._shown) > 2 * MAX_SHOWN:
            del self._shown[next(iter(self._shown))]
        return HostPage(hosts, view.marker, view.absent)


def uuid_of(host: HostView) -> str:
    """The host's own id if that is a UUID; else one made of its rack and id (version 8, RFC 9562)."""
    if _UUID.match(host.id):
        return host.id
    digits = hashlib.sha256(f"{host.rack}\0{host.id}".encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def number_of(host: HostView) -> int:
    """For clients of before 2.53: 31 bits of the same, never 0."""
    return int(hashlib.sha256(uuid_of(host).encode()).hexdigest()[:8], 16) % 0x7FFFFFFF + 1


def no_host(id: str) -> NotFound:
    return NotFound("no-host", f"Compute host {id[:255]} could not be found.")
