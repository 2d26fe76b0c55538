"""A person's word about a zone below: disable, enable, maintenance, ban, unban, retire, rename, admit, accept.

Only a zone's home parent has authority over it; for one further down the word is carried to that parent, hop by
hop, and journalled there with the caller. Nothing here acts by itself; reconcile/health.py does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from banyan.core.errors import BadInput, Conflict, NotFound, Refused
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode, check_name
from banyan.core.time import Wall, iso
from banyan.core.zone import ADMINISTRATION, ENROLMENT, Admin, AdminEvent, Child, EnrolEvent, Health
from banyan.zone.live import RETIRED
from banyan.zone.own import Own
from banyan.zone.roster import Roster

MAX_REASON = 500
MAX_MAINTENANCE = 366 * 86_400.0

# command → the least role, and the arguments that it takes
WORDS: Mapping[str, tuple[Role, tuple[str, ...]]] = {
    "zone.disable": (Role.OPERATOR, ("reason",)),
    "zone.enable": (Role.OPERATOR, ()),
    "zone.maintenance": (Role.OPERATOR, ("until", "reason")),
    "zone.rescan": (Role.OPERATOR, ()),
    "zone.admit": (Role.ADMIN, ()),
    "zone.accept": (Role.ADMIN, ()),
    "zone.ban": (Role.ADMIN, ("reason",)),
    "zone.unban": (Role.ADMIN, ()),
    "zone.retire": (Role.ADMIN, ("reason",)),
    "zone.rename": (Role.ADMIN, ("name",)),
}

_EVENTS = {
    "zone.disable": AdminEvent.DISABLE,
    "zone.enable": AdminEvent.ENABLE,
    "zone.maintenance": AdminEvent.MAINTAIN,
    "zone.ban": AdminEvent.BAN,
    "zone.unban": AdminEvent.UNBAN,
}


def check_word(name: str, arguments: Mapping[str, str]) -> Role:
    """The role that the command needs. Raises BadInput("bad-command") for an unknown one or a wrong argument."""
    if name not in WORDS:
        raise BadInput("bad-command", f"commands about a zone are {', '.join(sorted(WORDS))}; got {name[:40]!r}")
    role, known = WORDS[name]
    for key, value in arguments.items():
        if key not in known:
            raise BadInput("bad-command", f"{name} takes {', '.join(known) or 'no arguments'}, not {key[:40]!r}")
        if len(value) > MAX_REASON or not value.isprintable():
            raise BadInput("bad-command", f"{key} of {name} must be at most {MAX_REASON} printable characters")
    return role


class ZoneWords:
    """For direct children. `apply` has been authorised by the caller of it."""

    def __init__(self, own: Own, roster: Roster) -> None:
        self._own = own
        self._roster = roster

    async def apply(self, caller: Caller, name: str, code: ZoneCode, arguments: Mapping[str, str]) -> None:
        """Raises Conflict with what the zone can take instead, BadInput for a wrong argument."""
        child = self._roster.get(code).child
        if name in _EVENTS:
            await self._administer(caller, name, child, arguments)
        elif name == "zone.retire":
            await self._retire(caller, child, arguments.get("reason", ""))
        elif name == "zone.rename":
            await self._rename(caller, child, arguments.get("name", ""))
        elif name == "zone.admit":
            await self._admit(caller, child)
        elif name == "zone.accept":
            await self._accept(caller, child)

    async def _administer(self, caller: Caller, name: str, child: Child, arguments: Mapping[str, str]) -> None:
        event = _EVENTS[name]
        if event is AdminEvent.UNBAN:
            self._own.check_released("unban a zone")
        if event is AdminEvent.ENABLE and child.quarantined:
            self._check_may_let_in(caller, child)
        until = self._until(arguments.get("until", "")) if event is AdminEvent.MAINTAIN else None
        reason = arguments.get("reason", "")

        def new(row: Child) -> Child:
            if event is AdminEvent.ENABLE and row.quarantined:
                # It may have come into quarantine since: a new key took its place.
                self._check_may_let_in(caller, row)
            admin = ADMINISTRATION.after(row.admin, event)
            kept = reason if admin is not Admin.ENABLED else ""
            if admin is not row.admin:
                # Of one that fell silent the verdict says what it was then.
                row = replace(row, health_reason=row.health_reason.removesuffix(f"; it is {row.admin}"))
            row = replace(row, admin=admin, admin_reason=kept, admin_by=caller.subject, maintenance_until=until)
            return replace(row, quarantined=False) if event is AdminEvent.ENABLE else row

        facts = {} if until is None else {"until": iso(until)}
        line = self._own.event(f"child-{_PAST[event]}", child.name, reason or _PAST[event], caller, **facts)
        if event is AdminEvent.ENABLE and child.quarantined:
            line = self._own.event("child-released", child.name, "out of quarantine, enabled", caller)
        told = ("banned", f"this zone was banned: {reason or 'no reason was given'}", -1.0)
        await self._roster.change(
            child.code, f"parent.{event}", new, line, farewell=told if event is AdminEvent.BAN else None
        )

    def _until(self, text: str) -> Wall:
        now = self._own.wall()
        try:
            seconds = float(text)
        except ValueError:
            try:
                moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
            except ValueError as error:
                raise BadInput(
                    "bad-until", f"until must be seconds from now or an instant such as {iso(now + 3600)}, got {text!r}"
                ) from error
            if moment.tzinfo is None:
                raise BadInput("bad-until", f"until needs a time zone, as in {iso(now + 3600)}; got {text!r}") from None
            seconds = moment.timestamp() - now
        if not 0 < seconds <= MAX_MAINTENANCE:
            raise BadInput("bad-until", f"until must lie in the future and within {MAX_MAINTENANCE / 86400:.0f} days")
        return Wall(now + seconds)

    def _check_may_let_in(self, caller: Caller, child: Child) -> None:
        """Who takes a zone out of quarantine admits a stranger: an admin's word, and none of a restored zone's."""
        self._own.check_released("let a zone out of quarantine")
        if caller.role < Role.ADMIN:
            raise Refused(
                "forbidden",
                f"{child.name} is in quarantine, and only an admin lets it out; {caller.subject} is "
                f"{caller.role.name.lower()}",
            )

    async def _retire(self, caller: Caller, child: Child, reason: str) -> None:
        self._own.check_released("retire a zone")
        line = self._own.event("child-retired", child.name, reason or "forgotten by a person's word", caller)

        def new(row: Child) -> Child:
            return replace(row, state=ENROLMENT.after(row.state, EnrolEvent.RETIRED), health=Health.GONE)

        try:
            await self._roster.change(child.code, "parent.retired", new, line, farewell=RETIRED)
        except NotFound:
            # It was here when this word came: somebody's word came first, or this one, said before, was kept.
            return

    async def _rename(self, caller: Caller, child: Child, name: str) -> None:
        check_name(name)
        if name == child.name:
            return
        line = self._own.event("child-renamed", child.name, f"is {name} from now on", caller, name=name)
        told = ("renamed", f"this zone is {name} from now on", 0.0)
        await self._roster.change(
            child.code, "parent.renamed", lambda row: replace(row, name=name), line, farewell=told
        )

    async def _admit(self, caller: Caller, child: Child) -> None:
        if not child.quarantined:
            raise Conflict("not-quarantined", f"{child.name} is not in quarantine; nothing to admit")
        self._check_may_let_in(caller, child)
        line = self._own.event("child-released", child.name, "out of quarantine", caller)
        await self._roster.change(child.code, "parent.quarantine", _let_out, line)

    async def _accept(self, caller: Caller, child: Child) -> None:
        if not child.rolled_back:
            raise Conflict("not-rolled-back", f"{child.name} was not found to be rolled back; nothing to accept")
        line = self._own.event("child-accepted", child.name, "believed again as it is now", caller)
        live = self._roster.get(child.code)
        await self._roster.change(
            child.code, "parent.accepted", lambda row: replace(row, rolled_back=False, mark=b""), line
        )
        self._roster.forget_reports(live)
        await self._roster.cut(child.code, "accepted", "this zone is believed again; it opens a new session", 0.0)


def _let_out(row: Child) -> Child:
    return replace(row, quarantined=False, admin_reason="" if row.admin is Admin.ENABLED else row.admin_reason)


_PAST = {
    AdminEvent.DISABLE: "disabled",
    AdminEvent.ENABLE: "enabled",
    AdminEvent.MAINTAIN: "in-maintenance",
    AdminEvent.BAN: "banned",
    AdminEvent.UNBAN: "unbanned",
}
