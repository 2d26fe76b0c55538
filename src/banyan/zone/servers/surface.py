"""What surfaces may ask of a zone about servers. The whole tree answers; where a server lies is nobody's business.

`who` is a Principal (a user, in one scope) or an operator's Caller. Every call authorises here, in the zone, never in
the surface. A server that is not there, or not for the caller, is NotFound("no-server") that names it; one in a zone
that can not be asked is Unreachable("member-unreachable"), and the outcome of a change is then not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from banyan.core.host import HostChange
from banyan.core.identity import Caller
from banyan.core.order import Policy, Specification
from banyan.core.principal import Principal
from banyan.core.secret import Secret
from banyan.core.server import (
    Action,
    ActionRecord,
    Arguments,
    Change,
    Created,
    Level,
    Server,
    ServerPage,
    ServerQuery,
)
from banyan.zone.views import HostView

Who = Principal | Caller


class Servers(Protocol):
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
    ) -> Created:
        """Between `least` and `most` servers in the project of `who`, claimed and durable when this returns; they are
        built after it. Raises NoValidHost with the counts per reason, BadInput("bad-order"), Refused("quota-exceeded").

        The same `retry_key` of the same user within 24 hours gives the same servers. `asked`: by what, each by its
        name, a request under that key is known to be the same; the specification's own fields if None. Raises
        BadInput("bad-retry-key"), Conflict("other-order") that names what differs,
        Refused("too-many-retry-keys").
        """

    async def answered(self, who: Principal, retry_key: str, asked: Mapping[str, object]) -> Created | None:
        """What `create` answered under that key, None if it did not. Raises what it does about keys."""

    async def withdraw(self, who: Principal, created: Created, retry_key: str = "") -> None:
        """None of the servers of an order of the caller's own stays: stored when this returns, and said again to zones
        that can not be asked now until they acknowledge it. The key is free again. Safe to repeat."""

    async def show(self, who: Who, id: str) -> Server:
        """With its user data. A deleted one is shown to nobody but operators."""

    async def page(self, who: Who, query: ServerQuery, within: float | None = None) -> ServerPage:
        """One page, merged over the tree. A principal sees its own project's, whatever the query says, unless
        `every_project` and the policy allows that. It takes at most `within` seconds, and ends with what came by then;
        who did not answer is in `absent`."""

    async def act(
        self,
        who: Who,
        id: str,
        action: Action,
        arguments: Arguments | None = None,
        *,
        password: Secret | None = None,
    ) -> Server:
        """The server as it is once the action is accepted (durable); what it needs of the rack is done after that.
        `password`: of the guest's administrator, with SET_PASSWORD, REBUILD, RESCUE; kept sealed until that has ended.
        The same action under the same request id again changes nothing. Raises Conflict("bad-state"), ("locked"),
        ("busy"), NoValidHost (RESIZE, UNSHELVE, MIGRATE), Refused("not-offered") by a rack that cannot do it."""

    async def change(self, who: Who, id: str, change: Change) -> Server:
        """Raises Conflict("changed") if `if_revision` is not the server's, BadInput("bad-tags"), ("bad-metadata")."""

    async def actions(self, who: Who, id: str) -> tuple[ActionRecord, ...]:
        """The newest first; at most 1,000. Also of a server deleted in the last 7 days."""

    async def console(self, who: Who, id: str, lines: int | None = None) -> str:
        """The last `lines` of its console; None is all that there is. Raises Conflict("bad-state") before it runs."""

    async def why(self, who: Who, id: str) -> tuple[Level, ...]:
        """Of a server's id, an order's id or a request id: what each zone left out and chose, the topmost first."""

    async def counts(self, who: Who) -> Mapping[str, int]:
        """Use of the project of `who` in the whole tree: servers, vcpu, memory_mib, disk_gib."""

    async def say_of_host(self, who: Who, zone: str, rack: str, host: str, change: HostChange) -> HostView:
        """A person's word about a host, by its id, of a zone (its whole path) and a rack, by name: durable and in force
        when this returns. Raises NotFound("no-host"), Refused("forbidden"), BadInput("bad-change"),
        Unreachable("host-undecided")."""
