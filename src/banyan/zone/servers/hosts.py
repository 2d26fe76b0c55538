"""A person's word about a host, carried to the zone that owns its rack: out of service, down, and back again.

It is one commit there, with a line of the journal, and is in force when that returns: no order gets a place on such a
host, and digests say so; servers that it has stay as they are. What the host's own side says is not changed by it. Safe
to repeat: the same word again changes nothing, and leaves no line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from banyan.core.errors import BadInput, NotFound, Refused, Unreachable
from banyan.core.host import MAX_REASON, Host, HostChange, HostWord
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode, under
from banyan.core.permissions import ADMIN_ROLE
from banyan.core.ports import Store
from banyan.core.rack import Rack
from banyan.core.reading import json_reader
from banyan.core.records import StoreUnknown, Unit
from banyan.core.server_messages import HostCall, HostReply
from banyan.zone import present
from banyan.zone.authorise import Lineage, check
from banyan.zone.firm import firm
from banyan.zone.lists import offered_here
from banyan.zone.members import Members
from banyan.zone.own import Own
from banyan.zone.servers.access import Who, caller_of, is_operator
from banyan.zone.servers.below import Below, may_have_acted, person_of
from banyan.zone.servers.leaf import LeafServers, RackServers
from banyan.zone.servers.places import Effect
from banyan.zone.tree import Tree
from banyan.zone.views import HostView

_VIEW: Final = json_reader(HostView)


class HostWords:
    """`above`: codes of the zones above."""

    def __init__(
        self,
        own: Own,
        store: Store,
        tree: Tree,
        members: Members,
        leaf: LeafServers,
        below: Below,
        above: Callable[[], Sequence[ZoneCode]],
    ) -> None:
        self._own = own
        self._store = store
        self._tree = tree
        self._members = members
        self._leaf = leaf
        self._below = below
        self._above = above

    async def say(
        self, who: Who, zone: ZoneCode, rack: str, host: str, change: HostChange, within: float | None = None
    ) -> HostView:
        """The host as it is shown from now on: durable, and in force. Raises NotFound("no-host"), Refused("forbidden"),
        BadInput("bad-change"); Unreachable if its zone can not be asked, ("host-undecided") if nobody knows whether it
        was."""
        if change.disabled is None and change.forced_down is None:
            raise BadInput(
                "bad-change", f"nothing is said about host {host[:80]}: say disabled, or forced_down, or both"
            )
        if change.reason and not change.disabled:
            raise BadInput("bad-change", "a reason is why a host is disabled, and that is not said here")
        if len(change.reason) > MAX_REASON or not change.reason.isprintable():
            raise BadInput("bad-change", f"a reason is of at most {MAX_REASON} printable characters")
        if zone == self._own.code:
            return await self._here(who, rack, host, change)
        node = self._tree.get(zone)
        if node is None:
            raise no_host(host)
        call, path = HostCall(zone, rack, host, change, person_of(who)), self._tree.path_of(zone)
        try:
            reply = await self._below.ask(node.via, who, "host", call, HostReply, within)
        except Unreachable as error:
            if not may_have_acted(error):
                raise
            raise _undecided(host, error.text) from error
        try:
            view = _VIEW(reply.view)
        except ValueError as error:
            raise _undecided(host, f"{path} answered what can not be read here") from error
        if not under(view.zone, path):
            raise _undecided(host, f"{path} answered about {view.zone[:200]}")
        return view

    async def _here(self, who: Who, rack: str, host: str, change: HostChange) -> HostView:
        self._require(who, host)
        found = next((m.rack.code for m in self._members.racks.values() if m.rack.name == rack), None)
        servers = None if found is None else self._leaf.racks.get(found)
        if found is None or servers is None:
            raise no_host(host)
        try:
            row, seen, word = await firm(self._write(who, servers, host, change))
        except StoreUnknown as error:
            raise _undecided(host, error.text) from error
        return present.host(seen, self._tree.path, row.name, offered_here(seen, row), word)

    async def _write(
        self, who: Who, servers: RackServers, host: str, change: HostChange
    ) -> tuple[Rack, Host, HostWord | None]:
        code, caller, now = servers.places.code, caller_of(who), self._own.wall()

        def work(unit: Unit, effect: Effect) -> tuple[Rack, Host, HostWord | None]:
            rack, seen = servers.places.owned(unit), unit.hosts.get(code, host)
            if seen is None:
                raise no_host(host)
            known = unit.host_words.of(code, (host,)).get(host)
            before = known or HostWord(code, host, False, "", False, "", now)
            after = replace(_changed(before, change), author=caller.subject, said_at=now)
            events = [
                self._own.event(kind, seen.name, text, caller, rack=rack.name) for kind, text in news(before, after)
            ]
            if not events:
                return rack, seen, known
            for event in events:
                self._own.write(unit, event)
            word = after if after.disabled or after.forced_down else None
            if word is None:
                unit.host_words.delete(code, host)
            else:
                unit.host_words.put(word)
            effect.said.append((seen, word))
            return rack, seen, word

        return await servers.places.write("host.said", work)

    def _require(self, who: Who, host: str) -> None:
        """An operator of this zone, or an administrator of the cloud. Raises Refused("forbidden"), NotFound."""
        if isinstance(who, Caller):
            check(who, Role.OPERATOR, Lineage((), (self._own.code, *self._above())), self._tree.path)
        elif not is_operator(who):
            raise Refused("forbidden", f"taking host {host[:80]} out of service needs the role {ADMIN_ROLE}")


def _changed(before: HostWord, change: HostChange) -> HostWord:
    """Who says again that a host is disabled, and not why, does not take back why."""
    after = before
    if change.disabled is not None:
        kept = before.reason if change.disabled and before.disabled else ""
        after = replace(after, disabled=change.disabled, reason=change.reason or kept)
    return after if change.forced_down is None else replace(after, forced_down=change.forced_down)


def news(before: HostWord, after: HostWord) -> list[tuple[str, str]]:
    """What the journal says about that change, as (kind, text)."""
    found: list[tuple[str, str]] = []
    if (before.disabled, before.reason) != (after.disabled, after.reason):
        kind = "host-disabled" if after.disabled else "host-enabled"
        found.append((kind, after.reason or ("takes no new servers" if after.disabled else "takes servers again")))
    if before.forced_down != after.forced_down:
        kind = "host-forced-down" if after.forced_down else "host-no-longer-forced-down"
        found.append((kind, "counts as down" if after.forced_down else "counts as its own side says"))
    return found


def no_host(id: str) -> NotFound:
    return NotFound("no-host", f"there is no host {id[:255]!r} there, as its rack was last seen")


def _undecided(host: str, why: str) -> Unreachable:
    text = f"it is not known whether this was done to host {host[:80]}: {why}; look at it, or say it again"
    return Unreachable("host-undecided", text[:500], transient=True)
