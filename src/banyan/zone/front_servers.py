"""The part of zone/front.py that is about servers: ordered, listed, shown, explained and deleted by operators."""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from banyan.core.identity import Caller, Role
from banyan.core.order import Specification
from banyan.core.server import Action, Server, ServerQuery
from banyan.zone import lists
from banyan.zone.servers import shown
from banyan.zone.views import PageView, ServerDetail, ServersCreated, WhyView
from banyan.zone.zone import Zone


class ServersFront(ABC):
    """Every public method authorises first. See zone/surface.py for what each takes and raises."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    @abstractmethod
    def _here(self, caller: Caller, needed: Role) -> None:
        """Raises Refused, NotFound unless the caller may that in this zone itself."""

    # gap: /v1/placed is for those who hold the whole zone; an operator of a subtree is told that there is nothing

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
        self._here(caller, Role.OPERATOR)
        made = await self._zone.tree_servers.create(
            caller, specification, least=least, most=count, project=project, retry_key=retry_key
        )
        return shown.created(made)

    async def servers(self, caller: Caller, project: str, marker: str, limit: int) -> PageView:
        self._here(caller, Role.VIEWER)
        query = ServerQuery(project=project, every_project=not project, after=marker, limit=lists.check_limit(limit))
        page = await self._zone.tree_servers.page(caller, query)
        rows = tuple(msgspec.Raw(msgspec.json.encode(self._shown(server))) for server in page.servers)
        return PageView(rows, page.after, page.absent)

    async def server(self, caller: Caller, id: str) -> ServerDetail:
        self._here(caller, Role.VIEWER)
        return self._shown(await self._zone.tree_servers.show(caller, id))

    async def delete_server(self, caller: Caller, id: str) -> ServerDetail:
        self._here(caller, Role.OPERATOR)
        return self._shown(await self._zone.tree_servers.act(caller, id, Action.DELETE))

    async def why(self, caller: Caller, id: str) -> WhyView:
        self._here(caller, Role.VIEWER)
        return shown.why(await self._zone.tree_servers.why(caller, id))

    def _shown(self, server: Server) -> ServerDetail:
        zone = self._zone
        owner = zone.roster.routes.owner(server.rack)
        path = zone.tree.path if server.rack in zone.racks or owner is None else zone.tree.path_of(owner)
        return shown.detail(server, path)
