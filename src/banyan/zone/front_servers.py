"""The part of zone/front.py that is about servers: ordered, listed, shown, explained and deleted by operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import structs

from banyan.core.errors import Conflict, NotFound, Unreachable
from banyan.core.host import HostChange
from banyan.core.identity import Caller, Role
from banyan.core.ids import join_path, read_guest_id, under
from banyan.core.order import Reason, Specification
from banyan.core.reading import json_reader
from banyan.core.server import Action, Level, NoValidHost, Server, ServerQuery
from banyan.zone import lists
from banyan.zone.carry import Target
from banyan.zone.servers import shown
from banyan.zone.views import HostView, PageView, ServerDetail, ServersCreated, WhyView
from banyan.zone.zone import Zone

_HOST: Final = json_reader(HostView)
# Hosts, or zones, that a refusal names.
_NAMED: Final = 5


class ServersFront(ABC):
    """Every public method authorises first. See zone/surface.py for what each takes and raises."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    @abstractmethod
    def _here(self, caller: Caller, needed: Role) -> None:
        """Raises Refused, NotFound unless the caller may that in this zone itself."""

    @abstractmethod
    def _part(self, caller: Caller, text: str, needed: Role) -> Target:
        """What `text` names, "" for all that the caller may see. Raises Refused, NotFound unless it may that there."""

    @abstractmethod
    async def page(
        self, caller: Caller, kind: str, path: str, filters: Mapping[str, str], marker: str, limit: int
    ) -> PageView:
        """As Surface.page."""

    def _whole(self, caller: Caller, needed: Role) -> Target | None:
        """The part of the tree that the caller is for; None for all of it. Raises Refused, NotFound."""
        if caller.under in (None, self._zone.own.code) or self._zone.tree.get(caller.under) is None:
            self._here(caller, needed)
            return None
        return self._part(caller, "", needed)

    async def create_servers(
        self,
        caller: Caller,
        specification: Specification,
        *,
        count: int,
        least: int,
        project: str,
        retry_key: str = "",
    ) -> ServersCreated:
        """Of an operator of a part they are placed in that part; what a path in the hints names is below it."""
        part = self._whole(caller, Role.OPERATOR)
        who = caller
        if part is not None:
            specification = self._bound(specification, part)
            who = replace(caller, under=None)
        try:
            made = await self._zone.tree_servers.create(
                who, specification, least=least, most=count, project=project, retry_key=retry_key
            )
        except NoValidHost as error:
            beside = 0 if part is None else error.counts.get(Reason.PATH, 0)
            if not beside:
                raise
            counts = {reason: count for reason, count in error.counts.items() if reason != Reason.PATH}
            raise NoValidHost(error.looked - beside, counts, least, error.fits) from error
        return shown.created(made if part is None else structs.replace(made, levels=_seen(made.levels, part)))

    async def servers(self, caller: Caller, project: str, marker: str, limit: int) -> PageView:
        self._whole(caller, Role.VIEWER)
        query = ServerQuery(project=project, every_project=not project, after=marker, limit=lists.check_limit(limit))
        page = await self._zone.tree_servers.page(caller, query)
        rows = tuple(msgspec.Raw(msgspec.json.encode(self._shown(server))) for server in page.servers)
        return PageView(rows, page.after, page.absent)

    async def server(self, caller: Caller, id: str) -> ServerDetail:
        self._whole(caller, Role.VIEWER)
        return self._shown(await self._zone.tree_servers.show(caller, id))

    async def delete_server(self, caller: Caller, id: str) -> ServerDetail:
        self._whole(caller, Role.OPERATOR)
        return self._shown(await self._zone.tree_servers.act(caller, id, Action.DELETE))

    async def why(self, caller: Caller, id: str) -> WhyView:
        part = self._whole(caller, Role.VIEWER)
        if part is None:
            return shown.why(await self._zone.tree_servers.why(caller, id))
        # An order is its entry's; a server is found below, if it is of that part.
        if read_guest_id(id) is None:
            raise NotFound("no-server", f"there is no server {id[:255]}; a part of the tree knows servers by their ids")
        await self._zone.tree_servers.show(caller, id)
        return shown.why(_seen(await self._zone.tree_servers.why(caller, id), part))

    async def say_of_host(
        self, caller: Caller, name: str, change: HostChange, *, under: str = "", rack: str = "", id: str = ""
    ) -> HostView:
        part = self._part(caller, under, Role.OPERATOR)
        filters = {"name": lists.literal(name)} | ({"rack": lists.literal(rack)} if rack else {})
        found: list[HostView] = []
        absent: dict[str, None] = {}
        marker = ""
        while True:
            page = await self.page(caller, "hosts", part.path, filters, marker, lists.MAX_LIMIT)
            hosts = (_HOST(bytes(item)) for item in page.items)
            found += [host for host in hosts if id in ("", host.id)]
            absent |= dict.fromkeys(page.absent)
            marker = page.marker
            if not marker or len(found) > _NAMED:
                break
        if len(found) > 1:
            named = ", ".join(f"{host.id} of {host.rack} in {host.zone}" for host in found[:_NAMED])
            raise Conflict(
                "ambiguous-host", f"several hosts are called {name[:80]!r}: {named}; say which zone, rack, id"
            )
        if absent:
            places = ", ".join(list(absent)[:_NAMED])
            text = f"{places} can not be asked now and may have a host {name[:80]!r} too; name the zone that is meant"
            raise Unreachable("member-unreachable", text, transient=True)
        if not found:
            raise NotFound("no-host", f"there is no host {name[:80]!r} in {part.path}, as its racks were last seen")
        return await self._zone.tree_servers.say_of_host(caller, found[0].zone, found[0].rack, found[0].id, change)

    def _bound(self, specification: Specification, part: Target) -> Specification:
        """The order for hosts of that part only. Raises Conflict("ambiguous-zone")."""
        hints, own = specification.hints, self._zone.tree.path
        way = join_path(part.path.removeprefix(own).strip("/"), hints.path.strip("/"))
        if any(row.name == way for row in self._zone.rack_rows()):
            raise Conflict("ambiguous-zone", f"{way} is a zone and a rack of {own}; name a zone below it as the path")
        return structs.replace(specification, hints=structs.replace(hints, path=way))

    def _shown(self, server: Server) -> ServerDetail:
        zone = self._zone
        owner = zone.roster.routes.owner(server.rack)
        path = zone.tree.path if server.rack in zone.racks or owner is None else zone.tree.path_of(owner)
        return shown.detail(server, path)


def _seen(levels: Iterable[Level], part: Target) -> tuple[Level, ...]:
    """What the zones of that part said: those above it name others."""
    return tuple(level for level in levels if under(level.path, part.path))
