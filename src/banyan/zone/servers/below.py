"""Asks one child zone about servers, over its session: what goes down as bodies, and what comes back as records.

A child that has no session is Unreachable("member-unreachable"); one that was asked and did not answer in time is
Unreachable("no-answer"): whether it did anything is not known. Nothing is asked twice.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from banyan.core.errors import BanyanError, Broken, Unreachable, error_of
from banyan.core.ids import ZoneCode, code_text, coded_text, join_path
from banyan.core.messages import CallerInfo
from banyan.core.principal import Principal
from banyan.core.server_messages import Person, read
from banyan.zone.deadline import check_time
from banyan.zone.patience import READS, while_heard
from banyan.zone.roster import Roster
from banyan.zone.servers.access import UNCONFIRMED, Who, caller_of
from banyan.zone.tree import Tree

T = TypeVar("T")


class Below:
    """`replies`: how long a child may take, seconds, unless less is left."""

    def __init__(self, roster: Roster, tree: Tree, replies: float) -> None:
        self._roster = roster
        self._tree = tree
        self.replies = replies

    def has_session(self, child: ZoneCode) -> bool:
        live = self._roster.live.get(child)
        return live is not None and live.session is not None

    def path(self, child: ZoneCode) -> str:
        """The whole path of a child; its code if it is not there."""
        node = self._tree.get(child)
        return join_path(self._tree.path, coded_text(child) if node is None else node.name)

    def epoch(self, child: ZoneCode) -> int:
        """The one that its lease was granted under; 0 if there is no such child."""
        live = self._roster.live.get(child)
        return 0 if live is None else live.child.epoch

    async def ask(
        self, child: ZoneCode, who: Who, verb: str, call: msgspec.Struct, reply: type[T], within: float | None = None
    ) -> T:
        """Raises what the child answers; Unreachable if it can not be asked or does not answer."""
        live = self._roster.live.get(child)
        session = None if live is None else live.session
        if session is None:
            text = f"{self.path(child)} has no session now and was not asked"
            raise Unreachable("member-unreachable", text, transient=True)
        seconds = check_time(self.replies if within is None else min(within, self.replies), self.path(child))
        question = session.request(verb, msgspec.msgpack.encode(call), self._caller(who), seconds)
        answer = await (
            while_heard(live, self.path(child), question) if live is not None and verb in READS else question
        )
        if answer.error:
            raise error_of(answer.status, answer.error, answer.text)
        try:
            return read(answer.body, reply)
        except (msgspec.MsgspecError, BanyanError) as error:
            text = f"{self.path(child)} answered {verb!r} with what can not be read here: {error}"
            raise Unreachable("bad-answer", text[:500]) from error

    def _caller(self, who: Who) -> CallerInfo:
        """What this zone asks of itself, it vouches for: below, only a zone above is believed."""
        caller = caller_of(who)
        under = "" if caller.under is None else code_text(caller.under)
        issuer = caller.issuer or self._tree.root
        return CallerInfo(caller.subject, int(caller.role), issuer, under, caller.token, caller.address, caller.request)


def person_of(who: Who) -> Person | None:
    return Person.of(who) if isinstance(who, Principal) else None


def may_have_acted(error: BanyanError) -> bool:
    """Whether the child may have done what it was asked in spite of this error."""
    return isinstance(error, Unreachable) and error.code not in NOT_DONE


def not_done(error: BanyanError) -> bool:
    """It is certain that a question that ended so did nothing: only then is what was prepared for it taken back."""
    return not isinstance(error, Broken) and not may_have_acted(error)


# Said by those who did nothing: the session was not there, was full; the order was looked for and is not stored.
NOT_DONE = frozenset(
    {"member-unreachable", "busy", "no-time", "order-lost", "starting", "not-connected", "group-busy", "group-unknown"}
    | {UNCONFIRMED}
)
