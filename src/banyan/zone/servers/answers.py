"""What a parent asks about servers, answered: the other end of servers/tree.py and servers/placing.py.

The caller is believed as far as the parent's own issuers go (reconcile/uplinks.py looked at that); the same holds for a
user that is named in a body. An order counts only under the lease and the epoch that it was sent under.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from banyan.core.errors import BadInput, Refused
from banyan.core.identity import Caller
from banyan.core.ids import ZoneCode
from banyan.core.messages import Request
from banyan.core.order import Order
from banyan.core.secret import Secret
from banyan.core.server_messages import (
    VERBS,
    ActCall,
    ActionsReply,
    ChangeCall,
    ConsoleReply,
    GroupCall,
    HostCall,
    HostReply,
    IdCall,
    LookCall,
    Nothing,
    OrderCall,
    Person,
    PlaceCall,
    ServerReply,
    ServersCall,
    ServersReply,
    WhyReply,
    read,
)
from banyan.zone.deadline import to_ask
from banyan.zone.servers.access import Who
from banyan.zone.servers.placing import PART
from banyan.zone.servers.tree import TreeServers

MAX_SHOWN = 100


class Answers:
    """`above`: codes of the zones above. `admit`: raises Refused for an order that comes too late."""

    def __init__(
        self, servers: TreeServers, above: Callable[[], Sequence[ZoneCode]], admit: Callable[[Order], None]
    ) -> None:
        self._servers = servers
        self._above = above
        self._admit = admit

    async def answer(self, request: Request, caller: Caller) -> bytes:
        """The body of the answer. Raises BadInput("bad-verb") and whatever the question does."""
        servers = self._servers
        left = to_ask(request.deadline, servers.replies)
        reply: msgspec.Struct
        match request.verb:
            case "place":
                call = read(request.body, PlaceCall)
                who = self._who(call.person, caller)
                within = request.deadline / 1000 * PART
                reply = await servers.placing.place(call.order, who, within, call.above, self._admit)
            case "confirm":
                within = request.deadline / 1000 * PART
                await servers.placing.confirm(read(request.body, OrderCall).order, within)
                reply = Nothing()
            case "cancel":
                await servers.placing.cancel(caller, read(request.body, OrderCall).order)
                reply = Nothing()
            case "group":
                reply = await servers.grouping.racks(caller, read(request.body, GroupCall), left)
            case "act":
                act = read(request.body, ActCall)
                who = self._who(act.person, caller)
                password = None if act.password is None else Secret(act.password)
                server = await servers.act(who, act.id, act.action, act.arguments, within=left, password=password)
                reply = ServerReply(server)
            case "change":
                change = read(request.body, ChangeCall)
                who = self._who(change.person, caller)
                reply = ServerReply(await servers.change(who, change.id, change.change, within=left))
            case "host":
                host = read(request.body, HostCall)
                who = self._who(host.person, caller)
                view = await servers.hosts.say(who, host.zone, host.rack, host.host, host.change, within=left)
                reply = HostReply(msgspec.json.encode(view))
            case "look":
                look = read(request.body, LookCall)
                whole = look.whole and len(look.ids) == 1
                reply = await servers.look(self._who(look.person, caller), look.ids, whole, within=left)
            case "servers":
                asked = read(request.body, ServersCall)
                page = await servers.page(self._who(asked.person, caller), asked.query, within=left)
                reply = ServersReply(servers.answer_page(page, asked.query))
            case "why":
                one = read(request.body, IdCall)
                reply = WhyReply(await servers.why(self._who(one.person, caller), one.id, within=left))
            case "actions":
                one = read(request.body, IdCall)
                records = await servers.actions(self._who(one.person, caller), one.id, within=left)
                reply = ActionsReply(records[:MAX_SHOWN])
            case "console":
                one = read(request.body, IdCall)
                who = self._who(one.person, caller)
                reply = ConsoleReply(await servers.console(who, one.id, one.lines or None, within=left))
            case _:
                known = ", ".join(("page", "usage", "command", *sorted(VERBS)))
                raise BadInput("bad-verb", f"this version answers {known}; not {request.verb[:40]!r}")
        return msgspec.msgpack.encode(reply)

    def _who(self, person: Person | None, caller: Caller) -> Who:
        """Raises Refused("unknown-issuer"), BadInput("bad-request")."""
        if person is None:
            return caller
        if person.issuer not in self._above() or person.issuer != caller.issuer:
            raise Refused("unknown-issuer", "the parent speaks for a user of a zone that is not above this one")
        try:
            return person.principal(caller.address, caller.request)
        except ValueError as error:
            raise BadInput("bad-request", f"the user in this request can not be read here: {error}") from error
