"""Server groups: rules that servers name. Who the members are is found among the servers, which say their group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from banyan.core.compute import ServerGroup
from banyan.core.compute_rows import ComputeRows, Tally
from banyan.core.errors import BanyanError, NotFound, Refused, Unreachable
from banyan.core.order import GroupPolicy
from banyan.core.permissions import Target, may, require
from banyan.core.principal import Principal
from banyan.core.quota import UNLIMITED, Quota
from banyan.core.records import Unit
from banyan.core.server import ServerQuery
from banyan.core.time import Mono
from banyan.zone.compute.desk import MAX_LIST, Desk, of_project
from banyan.zone.compute.limits import effective
from banyan.zone.deadline import WHOLE, Deadline
from banyan.zone.servers.below import not_done
from banyan.zone.servers.surface import Servers

# Groups whose members are asked for at the same time.
_TOGETHER: Final = 8
# Pages of members that are read of one group.
_PAGES: Final = 10
# Orders for one group that wait for their turn; groups that are remembered.
MAX_WAITING: Final = 64
MAX_TURNS: Final = 10_000
# After so many seconds whatever an order made that was not answered is shown, or it made nothing.
LATE: Final = 120.0


@dataclass(frozen=True, slots=True)
class Grouped:
    """A group with the ids of its servers; not those in zones that could not be asked."""

    group: ServerGroup
    members: tuple[str, ...] = ()


@dataclass(slots=True)
class _Turn:
    """Who orders for one group. `lost`: (until when they count, how many servers) of orders of unknown fate."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    lost: list[tuple[Mono, int]] = field(default_factory=list)


class ServerGroups:
    def __init__(self, desk: Desk, servers: Servers) -> None:
        self._desk = desk
        self._servers = servers
        # gap: members in zones that can not be asked do not count against their group's quota
        self._turns: dict[str, _Turn] = {}

    async def create(self, who: Principal, name: str, policy: GroupPolicy, per_host: int | None) -> Grouped:
        """Raises Refused("quota-exceeded")."""
        require(who, "compute:create_server_group", Target(project=who.project))
        group = ServerGroup(self._desk.new_uuid(), name, policy, who.project, who.user, per_host, self._desk.now())

        def work(unit: Unit) -> None:
            rows = unit.compute
            most = effective(rows.quotas, self._desk.limits, who.project)[Quota.SERVER_GROUPS]
            if not rows.quotas.tally(Tally.SERVER_GROUPS, who.project, most):
                raise Refused("quota-exceeded", f"Quota exceeded, too many server groups: a project may have {most}.")
            rows.groups.add(group)
            self._desk.note(unit, who, "server-group-created", group.id, f"{name}: {policy}")

        await self._desk.change("server-group.created", work)
        return Grouped(group)

    async def show(self, who: Principal, id: str) -> Grouped:
        """Raises NotFound("no-server-group")."""
        group = await self.find(who, id)
        return Grouped(group, await self._members(who, group))

    async def find(self, who: Principal, id: str) -> ServerGroup:
        """Without its members."""
        group = await self._desk.read(lambda rows: rows.groups.get(id))
        missing = no_group(id)
        if group is None:
            raise missing
        of_project(who, "compute:get_server_group", group.project, missing)
        return group

    async def page(self, who: Principal, *, every_project: bool, offset: int, limit: int) -> Sequence[Grouped]:
        """By id; `offset` of them are passed over. Without the right to see all projects' the wish has no effect."""
        require(who, "compute:list_server_groups", Target(project=who.project))
        all_of_them = every_project and may(who, "compute:list_all_server_groups")

        def work(rows: ComputeRows) -> Sequence[ServerGroup]:
            filters = {} if all_of_them else {"project": who.project}
            found: list[ServerGroup] = []
            after, wanted = "", offset + limit
            while len(found) < wanted:
                page = rows.groups.page(filters, after, min(wanted - len(found), MAX_LIST))
                found += page
                if not page:
                    break
                after = page[-1].id
            return found[offset:]

        groups = await self._desk.read(work)
        found: list[Grouped] = []
        for begin in range(0, len(groups), _TOGETHER):
            some = groups[begin : begin + _TOGETHER]
            members = await asyncio.gather(*(self._members(who, group) for group in some))
            found += [Grouped(group, ids) for group, ids in zip(some, members, strict=True)]
        return found

    async def delete(self, who: Principal, id: str) -> None:
        """Its servers stay where they are."""
        missing = no_group(id)

        def work(unit: Unit) -> None:
            group = unit.compute.groups.get(id)
            if group is None:
                raise missing
            of_project(who, "compute:delete_server_group", group.project, missing)
            unit.compute.groups.delete(id)
            unit.compute.quotas.untally(Tally.SERVER_GROUPS, group.project)
            self._desk.note(unit, who, "server-group-deleted", id, group.name)

        await self._desk.change("server-group.deleted", work)

    @asynccontextmanager
    async def room(self, who: Principal, group: ServerGroup | None, count: int, most: int) -> AsyncIterator[None]:
        """While `count` servers are ordered for the group: no other order for it passes, so that each sees what the one
        before it came to. Of one whose fate is not known its servers count until they would be shown.

        Raises Refused("quota-exceeded") if the group would have more than `most` members, Unreachable("group-busy").
        """
        if group is None or most == UNLIMITED:
            yield
            return
        async with self._turn(group.id) as turn:
            now = self._desk.mono()
            turn.lost = [(until, many) for until, many in turn.lost if until > now]
            there = len(await self._members(who, group)) + sum(many for _, many in turn.lost)
            if there + count > most:
                raise Refused("quota-exceeded", "Quota exceeded, too many servers in group")
            try:
                yield
            except BaseException as error:
                if not isinstance(error, BanyanError) or not not_done(error):
                    turn.lost.append((Mono(self._desk.mono() + LATE), count))
                raise

    @asynccontextmanager
    async def _turn(self, group: str) -> AsyncIterator[_Turn]:
        turn = self._turns.setdefault(group, _Turn())
        if turn.waiting >= MAX_WAITING:
            raise _busy(group)
        turn.waiting += 1
        try:
            try:
                await asyncio.wait_for(turn.lock.acquire(), WHOLE)
            except TimeoutError:
                raise _busy(group) from None
            try:
                yield turn
            finally:
                turn.lock.release()
        finally:
            turn.waiting -= 1
            if not turn.waiting and not turn.lost:
                self._turns.pop(group, None)
            while len(self._turns) > MAX_TURNS:
                idle = next((id for id, one in self._turns.items() if not one.waiting), None)
                if idle is None:
                    break
                del self._turns[idle]

    async def _members(self, who: Principal, group: ServerGroup) -> tuple[str, ...]:
        other = group.project != who.project
        query = ServerQuery(who.issuer, group.project, every_project=other, group=group.id, limit=MAX_LIST)
        found: list[str] = []
        deadline = Deadline.within(WHOLE)
        for _ in range(_PAGES):
            page = await self._servers.page(who, query, deadline.left())
            found += [server.id for server in page.servers]
            if not page.after:
                break
            query = structs.replace(query, after=page.after)
        return tuple(found)


def _busy(group: str) -> Unreachable:
    text = f"other orders for server group {group} are under way, and they come one at a time; try again"
    return Unreachable("group-busy", text, transient=True, retry_after=5.0)


def no_group(id: str) -> NotFound:
    return NotFound("no-server-group", f"Instance group {id[:255]} could not be found.")
