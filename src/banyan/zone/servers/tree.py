"""Servers of this zone and of all below it: the whole of servers/surface.py, by asking whoever has the rack.

An id names a rack, a rack its zone, the zone the child that leads there: nothing here grows with servers. What is this
zone's own is servers/leaf.py's; what is further down is asked hop by hop with the caller, and answered by `answer`
there. Nothing is asked twice: a change that was not answered has an unknown outcome, and says so. `within`: how many
seconds there are for it, where the question came from above.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from banyan.core.errors import BadInput, BanyanError, NotFound, Refused, Unreachable
from banyan.core.host import HostChange
from banyan.core.identity import Caller, Role
from banyan.core.ids import RISING_CHANCE, RackCode, ZoneCode, read_guest_id, rising_id
from banyan.core.order import NamedHost, Order, Policy, Reason, Refusal, Specification, arguments, check_order
from banyan.core.ports import Ids, Store
from banyan.core.principal import Principal
from banyan.core.secret import Secret
from banyan.core.server import (
    MAX_PAGE,
    Action,
    ActionRecord,
    Arguments,
    Change,
    Created,
    Level,
    NoValidHost,
    Server,
    ServerPage,
    ServerQuery,
)
from banyan.core.server_messages import (
    MAX_LOOK,
    MAX_RECORDS,
    ActCall,
    ActionsReply,
    ChangeCall,
    ConsoleReply,
    IdCall,
    LookCall,
    LookReply,
    PlaceReply,
    ServerReply,
    ServersCall,
    ServersReply,
    Unknown,
    WhyReply,
)
from banyan.core.time import Wall, iso
from banyan.placement.choose import hosts_below
from banyan.zone.deadline import Deadline
from banyan.zone.own import Own
from banyan.zone.roster import Roster
from banyan.zone.servers.access import UNCONFIRMED, Who, require_may_act, unconfirmed
from banyan.zone.servers.below import Below, may_have_acted, person_of
from banyan.zone.servers.grouping import Grouping
from banyan.zone.servers.hosts import HostWords
from banyan.zone.servers.leaf import LeafServers, bounded
from banyan.zone.servers.listing import Ask, Source, fitting, merged, some_of
from banyan.zone.servers.placing import Note, Placing
from banyan.zone.servers.retries import Retries
from banyan.zone.streams import Streams
from banyan.zone.tree import Tree
from banyan.zone.views import HostView

T = TypeVar("T")

_ENCODE: Final = msgspec.msgpack.Encoder().encode


class TreeServers:
    """See the module; `servers/surface.py` says what each call takes and raises. `above`: codes of the zones above."""

    def __init__(
        self,
        own: Own,
        store: Store,
        ids: Ids,
        tree: Tree,
        roster: Roster,
        streams: Streams,
        leaf: LeafServers,
        below: Below,
        placing: Placing,
        grouping: Grouping,
        hosts: HostWords,
        above: Callable[[], Sequence[ZoneCode]],
    ) -> None:
        self.placing = placing
        self.grouping = grouping
        self.hosts = hosts
        self._own = own
        self._ids = ids
        self._tree = tree
        self._roster = roster
        self._streams = streams
        self._leaf = leaf
        self._below = below
        self._above = above
        self._retries = Retries(own, store, ids)

    @property
    def replies(self) -> float:
        """How long a member may take at most, seconds."""
        return self._below.replies

    @property
    def routes(self) -> int:
        """Racks below whose way is known: what this zone holds so that servers are found, however many there are."""
        return len(self._roster.routes)

    # --- orders ---------------------------------------------------------------------------------

    async def create(
        self,
        who: Who,
        specification: Specification,
        *,
        least: int = 1,
        most: int = 1,
        policy: Policy = Policy.SPREAD,
        retry_key: str = "",
        asked: Mapping[str, object] | None = None,
        project: str = "",
    ) -> Created:
        """`project`: in whose name an operator orders; a user orders in its own."""
        issuer, of, user = self._for(who, project)

        def order(id: str) -> Order:
            return Order(id, issuer, of, user, specification, least, most, policy)

        async def keyed(id: str, note: Note) -> PlaceReply:
            return await self.placing.place(order(id), who, self._below.replies, note=note)

        made: Created | PlaceReply
        if retry_key:
            check_order(order(retry_key))
            same = arguments(order(retry_key)) if asked is None else asked
            made = await self._retries.create(issuer, of, user, retry_key, same, keyed)
        else:
            id = rising_id(self._own.wall(), self._ids.token(RISING_CHANCE))
            made = await self.placing.place(order(id), who, self._below.replies)
            if made.refusal is None:
                return Created(id, made.made, made.again, made.levels)
        if isinstance(made, Created):
            return made
        refusal = made.refusal or Refusal(0, {})
        raise NoValidHost(refusal.looked, refusal.counts, least, refusal.fits)

    async def answered(self, who: Principal, retry_key: str, asked: Mapping[str, object]) -> Created | None:
        issuer, of, user = self._for(who, "")
        return await self._retries.answered(issuer, of, user, retry_key, asked)

    async def withdraw(self, who: Principal, created: Created, retry_key: str = "") -> None:
        await self.placing.cancel(who, created.order)
        if retry_key:
            issuer, of, user = self._for(who, "")
            await self._retries.withdrawn(issuer, of, user, retry_key, created.order)

    def _for(self, who: Who, project: str) -> tuple[ZoneCode, str, str]:
        """Issuer, project and user of what the caller orders. Raises BadInput("no-project"), Refused("forbidden")."""
        if isinstance(who, Principal):
            found = who.issuer, who.project, who.user
        else:
            self._check_operator(who)
            found = self._own.code, project, who.subject
        if not found[1]:
            raise BadInput("no-project", "servers belong to a project: give one, or a token that is scoped to one")
        return found

    def _check_operator(self, who: Caller) -> None:
        """Raises Refused("forbidden") unless that operator may order anywhere in this zone."""
        if not who.may(Role.OPERATOR, (self._own.code, *self._above())):
            text = f"ordering servers of {self._tree.path} needs the role operator for all of it"
            raise Refused("forbidden", text)

    # --- one server -----------------------------------------------------------------------------

    # gap: a server is found by the id that Banyan gave it, not by its cloud's own (native) id

    async def show(self, who: Who, id: str, within: float | None = None) -> Server:
        child = self._way(who, id)
        if child is None:
            return await self._leaf.show(who, id)
        reply = await self._ask(child, who, id, "look", LookCall((id,), True, person_of(who)), LookReply, within)
        if reply.unknown:
            raise _unknown(reply.unknown[0])
        if not reply.servers:
            raise _not_there(id)
        return reply.servers[0]

    async def act(
        self,
        who: Who,
        id: str,
        action: Action,
        arguments: Arguments | None = None,
        within: float | None = None,
        password: Secret | None = None,
    ) -> Server:
        child = self._way(who, id)
        if child is None:
            return await self._leaf.act(who, id, action, arguments, password)
        require_may_act(who, id)
        if arguments is not None and arguments.hosts:
            arguments = replace(arguments, hosts=self._there(child, arguments.hosts))
        secret = None if password is None else password.reveal()
        call = ActCall(id, action, arguments or Arguments(), person_of(who), secret)
        return (await self._ask(child, who, id, "act", call, ServerReply, within)).server

    async def change(self, who: Who, id: str, change: Change, within: float | None = None) -> Server:
        child = self._way(who, id)
        if child is None:
            return await self._leaf.change(who, id, change)
        require_may_act(who, id)
        call = ChangeCall(id, change, person_of(who))
        return (await self._ask(child, who, id, "change", call, ServerReply, within)).server

    async def actions(self, who: Who, id: str, within: float | None = None) -> tuple[ActionRecord, ...]:
        child = self._way(who, id)
        if child is None:
            return await self._leaf.actions(who, id)
        return (await self._ask(child, who, id, "actions", IdCall(id, 0, person_of(who)), ActionsReply, within)).records

    async def console(self, who: Who, id: str, lines: int | None = None, within: float | None = None) -> str:
        child = self._way(who, id)
        if child is None:
            return await self._leaf.console(who, id, lines)
        call = IdCall(id, lines or 0, person_of(who))
        return (await self._ask(child, who, id, "console", call, ConsoleReply, within)).text

    async def why(self, who: Who, id: str, within: float | None = None) -> tuple[Level, ...]:
        if read_guest_id(id) is not None:
            child = self._way(who, id)
            if child is None:
                return await self._leaf.why(who, id)
            return (await self._ask(child, who, id, "why", IdCall(id, 0, person_of(who)), WhyReply, within)).levels
        return self.placing.ways(who, id) or await self._leaf.why(who, id)

    async def counts(self, who: Who) -> Mapping[str, int]:
        if isinstance(who, Caller):
            raise BadInput("no-project", "use is counted per project; an operator asks for the use of a zone")
        use = self._streams.uses.total((who.issuer, who.project))
        return {"servers": use.guests, "vcpu": use.vcpu, "memory_mib": use.memory_mib, "disk_gib": use.disk_gib}

    async def say_of_host(self, who: Who, zone: str, rack: str, host: str, change: HostChange) -> HostView:
        return await self.hosts.say(who, self._tree.resolve(zone), rack, host, change)

    # --- many -----------------------------------------------------------------------------------

    async def look(self, who: Who, ids: Sequence[str], whole: bool = False, within: float | None = None) -> LookReply:
        """Records of at most MAX_LOOK servers, without user data unless `whole`; and those whose zone can not be asked.
        What is not there, or not for the caller, is left out."""
        own: list[str] = []
        ways: dict[ZoneCode, list[str]] = {}
        for id in dict.fromkeys(ids[:MAX_LOOK]):
            try:
                child = self._way(who, id)
            except NotFound:
                continue
            (own if child is None else ways.setdefault(child, [])).append(id)
        found: list[Server] = []
        unknown: list[Unknown] = []
        for id in own:
            try:
                server = await self._leaf.show(who, id)
            except NotFound:
                continue
            except Unreachable:
                unknown.append(self._as_waiting(id))
                continue
            found.append(server if whole else replace(server, spec=replace(server.spec, user_data="")))
        calls = [(child, LookCall(tuple(some), whole, person_of(who))) for child, some in ways.items()]
        asked = (self._below.ask(child, who, "look", call, LookReply, within) for child, call in calls)
        for (child, call), reply in zip(calls, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(reply, BanyanError):
                unknown += [self._as_unknown(id, child) for id in call.ids]
            elif isinstance(reply, BaseException):
                raise reply
            else:
                asked_for = set(call.ids)
                found += [server for server in reply.servers if server.id in asked_for]
                unknown += [one for one in reply.unknown if one.id in asked_for]
        return LookReply(tuple(found), tuple(unknown))

    async def page(self, who: Who, query: ServerQuery, within: float | None = None) -> ServerPage:
        if not 1 <= query.limit <= MAX_PAGE:
            raise BadInput("bad-limit", f"a page has 1 to {MAX_PAGE} servers, got {query.limit}")
        query = bounded(who, query)
        deadline = Deadline.within(self.replies if within is None else min(within, self.replies))
        sources: list[Source] = []
        absent: list[str] = []
        ways = self._ways(who)
        if self._leaf.racks and ways is None:

            async def own(part: ServerQuery) -> ServerPage:
                return await self._leaf.page(who, part)

            sources.append(Source(self._tree.path, own))
        for child in self._holders(query) if ways is None else ways:
            if self._below.has_session(child):
                sources.append(Source(self._below.path(child), self._pages_of(who, child, deadline)))
            else:
                absent.append(self._below.path(child))
        page = await merged(query, sources, absent, deadline)
        return replace(page, absent=some_of(page.absent, self._tree.path))

    def _pages_of(self, who: Who, child: ZoneCode, deadline: Deadline) -> Ask:
        async def ask(query: ServerQuery) -> ServerPage:
            call = ServersCall(query, person_of(who))
            reply = await self._below.ask(child, who, "servers", call, ServersReply, deadline.left())
            return reply.page

        return ask

    def _ways(self, who: Who) -> tuple[ZoneCode, ...] | None:
        """The child that leads to what an operator of a subtree may see; None if that is everything here. Raises
        NotFound."""
        if not isinstance(who, Caller) or who.under is None or who.under in (self._own.code, *self._above()):
            return None
        node = self._tree.get(who.under)
        if node is None:
            raise NotFound("no-server", "there are no servers here that you may see")
        return (node.via,)

    def _holders(self, query: ServerQuery) -> list[ZoneCode]:
        """Children that may have such servers, by code."""
        living = not query.deleted and query.changed_since is None
        if living and query.project and query.issuer:
            return self.grouping.holders(query.issuer, query.project)
        return sorted(code for code, live in self._roster.live.items() if live.racks or self._tree.carries(code))

    # --- ways -----------------------------------------------------------------------------------

    def _way(self, who: Who, id: str) -> ZoneCode | None:
        """The child through which the server's rack is reached; None if it is this zone's own. Raises NotFound."""
        parts = read_guest_id(id)
        rack = RackCode(0) if parts is None else parts.rack
        ways = self._ways(who)
        if rack in self._leaf.racks and ways is None:
            return None
        owner = self._roster.routes.owner(rack)
        node = None if owner is None else self._tree.get(owner)
        if node is None or (ways is not None and node.via not in ways):
            raise _not_there(id)
        return node.via

    def _there(self, child: ZoneCode, hosts: tuple[NamedHost, ...]) -> tuple[NamedHost, ...]:
        """Those that are below that child, as it names them. Raises NoValidHost if none is: a server changes its host
        within its rack."""
        node = self._tree.get(child)
        found = () if node is None else hosts_below(hosts, node.name)
        if not found:
            raise NoValidHost(1, {Reason.AGGREGATE: 1})
        return found

    async def _ask(
        self,
        child: ZoneCode,
        who: Who,
        id: str,
        verb: str,
        call: msgspec.Struct,
        reply: type[T],
        within: float | None,
    ) -> T:
        try:
            return await self._below.ask(child, who, verb, call, reply, within)
        except Unreachable as error:
            if error.code == UNCONFIRMED:
                raise
            if may_have_acted(error) and verb in ("act", "change"):
                text = f"it is not known whether this was done to server {id}: {error.text}"
                raise Unreachable("server-undecided", text[:500], transient=True) from error
            raise _unknown(self._as_unknown(id, child)) from error

    def _as_unknown(self, id: str, child: ZoneCode) -> Unknown:
        """What is known of a server whose zone can not be asked through that child."""
        parts = read_guest_id(id)
        rack = RackCode(0) if parts is None else parts.rack
        owner = self._roster.routes.owner(rack)
        path = self._below.path(child) if owner is None else self._tree.path_of(owner)
        node = self._tree.get(child)
        since = None if node is None or node.as_of is None else Wall(node.as_of)
        return Unknown(id, path, rack, since)

    def _as_waiting(self, id: str) -> Unknown:
        """One of this zone's own that its order has not begun."""
        parts = read_guest_id(id)
        rack = RackCode(0) if parts is None else parts.rack
        return Unknown(id, self._tree.path, rack, self._own.wall(), unconfirmed=True)

    def answer_page(self, page: ServerPage, query: ServerQuery) -> ServerPage:
        """As much of a page as one answer holds."""
        return fitting(page, query.sort, lambda server: len(_ENCODE(server)), MAX_RECORDS)


def _not_there(id: str) -> NotFound:
    return NotFound("no-server", f"there is no server {id[:255]}")


def _unknown(one: Unknown) -> Unreachable:
    if one.unconfirmed:
        return unconfirmed(one.id)
    heard = "was never heard" if one.since is None else f"was last heard at {iso(one.since)}"
    text = f"server {one.id} is in {one.path}, which can not be asked now and {heard}: its state is unknown"
    return Unreachable("member-unreachable", text, transient=True, retry_after=5.0)
