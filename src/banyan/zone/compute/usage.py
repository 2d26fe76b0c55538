"""What a project's servers hold now, and what they held over a time: counted where the servers are.

Deleted servers are found for as long as their rows stay (core.server.DELETED_LIFE); what ended before is not in a sum.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from msgspec import structs

from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.quota import NO_USE, Use
from banyan.core.server import MAX_PAGE, Server, ServerQuery, Task, VmState
from banyan.core.time import Wall
from banyan.zone.compute.life import held_by
from banyan.zone.deadline import WHOLE, Deadline
from banyan.zone.servers.surface import Servers

# Servers that one sum looks at: a bound on what a question can cost.
MAX_COUNTED = 200_000


@dataclass(slots=True)
class ServerTime:
    """One server within the window: `hours` of it. `ended` is None if it is there still."""

    server: Server
    hours: float
    ended: Wall | None


@dataclass(slots=True)
class ProjectTime:
    """`absent`: zones that could not be asked, whose servers are not in it."""

    project: str
    servers: list[ServerTime] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)


class Usage:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def held(self, who: Principal) -> Use | None:
        """What the servers of the caller's project hold, one by one; None if some zones could not be asked.

        A server that is being deleted is gone for this: a delete wins over everything. One whose resize is neither
        confirmed nor reverted holds the larger of both flavors: what it gave up it may have again at any time.
        """
        total, count = NO_USE, 0
        query = ServerQuery(who.issuer, who.project, limit=MAX_PAGE)
        while True:
            page = await self._servers.page(who, query)
            if page.absent:
                return None
            for server in page.servers:
                if server.task is not Task.DELETING and server.state is not VmState.DELETED:
                    total += _held_by(server)
            count += len(page.servers)
            if not page.after:
                return total
            if count >= MAX_COUNTED:
                return None
            query = structs.replace(query, after=page.after)

    async def shown(self, who: Principal) -> Use | None:
        """The same for showing: cheap, and as old as the last reports."""
        counts = await self._servers.counts(who)
        return Use(counts.get("servers", 0), counts.get("vcpu", 0), counts.get("memory_mib", 0))

    async def of_project(self, who: Principal, project: str, start: Wall, end: Wall) -> ProjectTime:
        require(who, "compute:get_usage", Target(project=project))
        found = ProjectTime(project)
        query = ServerQuery(who.issuer, project, every_project=project != who.project, limit=MAX_PAGE)
        await self._sum(who, query, {project: found}, start, end)
        return found

    async def of_all(self, who: Principal, start: Wall, end: Wall) -> list[ProjectTime]:
        """By project."""
        require(who, "compute:list_usage")
        found: dict[str, ProjectTime] = {}
        await self._sum(who, ServerQuery(who.issuer, every_project=True, limit=MAX_PAGE), found, start, end)
        return [found[project] for project in sorted(found)]

    async def _sum(
        self, who: Principal, query: ServerQuery, found: dict[str, ProjectTime], start: Wall, end: Wall
    ) -> None:
        gone = structs.replace(query, deleted=True)
        async for server, absent in self._all(who, (query, gone)):
            begun = max(server.launched or server.created, start)
            ended = server.terminated or server.deleted_at
            until = min(ended if ended is not None else end, end)
            one = found.setdefault(server.project, ProjectTime(server.project))
            one.absent.update(absent)
            if until > begun or (ended is None and server.created <= end):
                one.servers.append(ServerTime(server, max(0.0, until - begun) / 3600.0, ended))

    async def _all(
        self, who: Principal, queries: tuple[ServerQuery, ...]
    ) -> AsyncIterator[tuple[Server, tuple[str, ...]]]:
        count, deadline = 0, Deadline.within(WHOLE)
        for query in queries:
            while True:
                page = await self._servers.page(who, query, deadline.left())
                for server in page.servers:
                    yield server, page.absent
                count += len(page.servers)
                if not page.after or count >= MAX_COUNTED:
                    break
                query = structs.replace(query, after=page.after)


def _held_by(server: Server) -> Use:
    now = held_by(server.spec.flavor)
    if server.resize is None:
        return now
    return now + (held_by(server.resize.spec.flavor) - now).above_zero()
