"""banyan zone …: zones below, and a person's words about them.

A word about one named zone acts at once; about several, or about those that a filter chooses, it is a dry run until
--apply. `retire` always needs --apply. An empty choice means nothing, never all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter

from banyan.cli import values
from banyan.cli.client import Query, segment
from banyan.cli.codes import Out, make_code
from banyan.cli.output import Column, instant, number, pairs, share, words
from banyan.cli.session import (
    OK,
    Apply,
    LabelFilter,
    Limit,
    Pattern,
    Session,
    Under,
    each,
    session,
)
from banyan.cli.target import HERE, Target
from banyan.cli.tree import draw
from banyan.core.errors import BadInput, NotFound
from banyan.zone.views import StatusView, ZoneView

app = App(name="zone", help="Zones below: list, show, disable, ban, retire, …")

Health = Literal["alive", "suspect", "lost", "unavailable", "gone"]
State = Literal["joining", "registered", "scanning", "counting", "ready", "retired"]
Admin = Literal["enabled", "disabled", "maintenance", "banned"]
Sort = Literal[
    "path", "used", "hosts", "servers", "as_of", "health", "-path", "-used", "-hosts", "-servers", "-as_of", "-health"
]

HealthFilter = Annotated[Health | None, Parameter(help="Only zones of this health.", show_default=False)]
StateFilter = Annotated[State | None, Parameter(help="Only zones that are enrolled this far.", show_default=False)]
AdminFilter = Annotated[Admin | None, Parameter(help="Only zones with this decision on them.", show_default=False)]
Name = Annotated[str, Parameter(help="A path, its unambiguous last part, or a code.", metavar="NAME")]
NewName = Annotated[str, Parameter(help="1 to 63 lower-case letters, digits and inner hyphens.", metavar="NEW")]
Names = Annotated[str, Parameter(help="Paths, their unambiguous last parts, or codes.", metavar="NAME")]
Reason = Annotated[str, Parameter(help="Why; shown with the zone and kept in the journal.", show_default=False)]

COLUMNS: tuple[Column[ZoneView], ...] = (
    Column("PATH", lambda z: z.path),
    Column("CODE", lambda z: z.code),
    Column("STATE", lambda z: z.state),
    Column("HEALTH", lambda z: z.health),
    Column("ADMIN", lambda z: z.admin),
    Column("HOSTS", lambda z: number(z.hosts), right=True),
    Column("SERVERS", lambda z: number(z.servers), right=True),
    Column("USED", lambda z: share(z.used_share), right=True),
    Column("AS OF", lambda z: instant(z.as_of)),
    Column("REASON", lambda z: z.reason),
)


class Planned(msgspec.Struct, frozen=True):
    """The answer of a dry run: what would be done, to whom. `applied` is always false."""

    applied: bool
    action: str
    zones: tuple[ZoneView, ...]


@app.command(name="list")
def list_(
    *,
    under: Under = "",
    health: HealthFilter = None,
    state: StateFilter = None,
    admin: AdminFilter = None,
    name: Pattern = "",
    label: LabelFilter = (),
    sort: Annotated[Sort, Parameter(help="Order; a leading - turns it round.", allow_leading_hyphen=True)] = "path",
    limit: Limit = None,
    target: Target = HERE,
) -> int:
    """The zones below, with state, health and use. Exit status 6 if some could not be asked."""
    with session(target) as s:
        return s.list(
            "/v1/zones", ZoneView, COLUMNS, "no zone matches", limit,
            under=under, health=health, state=state, admin=admin, name=name, label=label, sort=sort,
        )  # fmt: skip


@app.command
def tree(*, under: Under = "", target: Target = HERE) -> int:
    """The zones below, drawn as a tree."""
    with session(target) as s:
        if s.screen.json:
            return s.list("/v1/zones", ZoneView, COLUMNS, "", None, under=under)
        top = s.client.get("/v1/status", StatusView).path if not under else ""
        zones = list(s.client.pages("/v1/zones", ZoneView, None, {"under": under}))
        for line in draw(top, zones):
            s.screen.render(line) if s.screen.terminal else s.screen.line(line.plain)
        return s.end()


@app.command
def show(name: Name, *, target: Target = HERE) -> int:
    """One zone, with all that is known of it."""
    with session(target) as s:
        zone = s.client.get(f"/v1/zones/{segment(name)}", ZoneView)
        if s.screen.json:
            s.screen.one(zone)
            return OK
        s.screen.show(
            [
                ("path", zone.path), ("code", zone.code), ("state", zone.state), ("health", zone.health),
                ("admin", zone.admin), ("reason", zone.reason), ("as of", instant(zone.as_of)),
                ("version", zone.version), ("mode", zone.mode), ("labels", pairs(zone.labels)),
                ("racks", number(zone.racks)), ("hosts", number(zone.hosts)), ("servers", number(zone.servers)),
                ("used", share(zone.used_share)), ("joined", instant(zone.joined_at) if zone.joined_at else ""),
                ("lease", f"{zone.lease:g} s" if zone.lease is not None else ""),
                ("certificate until", instant(zone.certificate_until) if zone.certificate_until else ""),
                ("maintenance until", instant(zone.maintenance_until) if zone.maintenance_until else ""),
                ("rolled back", words(True) if zone.rolled_back else ""),
                ("quarantined", words(True) if zone.quarantined else ""),
            ]
        )  # fmt: skip
        return OK


@app.command
def disable(
    *names: Names,
    reason: Reason = "",
    under: Under = "",
    health: HealthFilter = None,
    label: LabelFilter = (),
    apply: Apply = False,
    target: Target = HERE,
) -> int:
    """Give zones no new work. One named zone at once; several, or by filter, with --apply."""
    return _say("disable", names, {"reason": reason}, (under, health, label), apply, target)


@app.command
def enable(
    *names: Names,
    under: Under = "",
    health: HealthFilter = None,
    label: LabelFilter = (),
    apply: Apply = False,
    target: Target = HERE,
) -> int:
    """Let zones take work again; an admin also out of quarantine. One named zone at once; several, or by filter, with
    --apply.
    """
    return _say("enable", names, {}, (under, health, label), apply, target)


@app.command
def maintenance(
    *names: Names,
    until: Annotated[
        str, Parameter(help="For how long (1s to 366d), or until when (2026-12-01T06:00:00Z).", metavar="TIME")
    ],
    reason: Reason = "",
    under: Under = "",
    health: HealthFilter = None,
    label: LabelFilter = (),
    apply: Apply = False,
    target: Target = HERE,
) -> int:
    """Expect zones to be away for a while: no alarm. One named zone at once; several, or by filter, with --apply."""
    end = until
    if "T" not in until:
        end = f"{values.duration(until, '--until', 1, values.MAX_MAINTENANCE):.3f}".rstrip("0").rstrip(".")
    return _say("maintenance", names, {"until": end, "reason": reason}, (under, health, label), apply, target)


@app.command
def ban(
    *names: Names,
    reason: Reason = "",
    under: Under = "",
    health: HealthFilter = None,
    label: LabelFilter = (),
    apply: Apply = False,
    target: Target = HERE,
) -> int:
    """Refuse zones' keys and cut their streams. One named zone at once; several, or by filter, with --apply."""
    return _say("ban", names, {"reason": reason}, (under, health, label), apply, target)


@app.command
def unban(*names: Names, apply: Apply = False, target: Target = HERE) -> int:
    """Hear banned zones' keys again; they come back disabled. Several with --apply."""
    return _say("unban", names, {}, ("", None, ()), apply, target)


@app.command
def retire(*names: Names, reason: Reason = "", apply: Apply = False, target: Target = HERE) -> int:
    """Forget zones for good; their codes are never given again. Always a dry run until --apply."""
    return _say("retire", names, {"reason": reason}, ("", None, ()), apply, target, always_dry=True)


@app.command
def rename(name: Name, new_name: NewName, /, *, target: Target = HERE) -> int:
    """Give a zone another name. Its code and all ids stay."""
    return _say("rename", (name,), {"name": new_name}, ("", None, ()), False, target)


@app.command
def replace(
    name: Name,
    *,
    expires: Annotated[str, Parameter(help="How long the code is good for: 1s to 30d.", metavar="TIME")] = "24h",
    out: Out = None,
    target: Target = HERE,
) -> int:
    """Make a join code for a new machine that takes the place of a zone that was lost: same name, same code."""
    body = {"expires": values.duration(expires, "--expires", 1, values.MAX_REPLACE_LIFE)}
    return make_code(f"/v1/zones/{segment(name)}/actions/replace", body, f"one zone, as {name}", out, target)


@app.command
def admit(*names: Names, apply: Apply = False, target: Target = HERE) -> int:
    """Take zones out of quarantine, and leave those that are disabled so. Several with --apply."""
    return _say("admit", names, {}, ("", None, ()), apply, target)


@app.command
def accept(*names: Names, apply: Apply = False, target: Target = HERE) -> int:
    """Believe rolled-back zones again (restored or cloned ones). Several with --apply."""
    return _say("accept", names, {}, ("", None, ()), apply, target)


@app.command
def rescan(*names: Names, target: Target = HERE) -> int:
    """Read zones' racks again now."""
    # Reading harms nobody: several at once need no --apply.
    return _say("rescan", names, {}, ("", None, ()), True, target)


def _say(
    action: str,
    names: tuple[str, ...],
    body: Mapping[str, object],
    chosen: tuple[str, str | None, tuple[str, ...]],
    apply: bool,
    target: Target,
    always_dry: bool = False,
) -> int:
    """Says `action` to the named zones, or to those that the filter (under, health, labels) chooses."""
    by_filter = any(chosen)
    if bool(names) == by_filter:
        raise BadInput("bad-option", f"zone {action} takes names, or a filter such as --health lost, and not both")
    with session(target) as s:
        dry = not apply and (always_dry or by_filter or len(names) > 1)
        if by_filter:
            under, health, label = chosen
            query: Query = {"under": under, "health": health, "label": label}
            names = tuple(z.path for z in s.client.pages("/v1/zones", ZoneView, None, query))
            if not names:
                s.end()
                raise NotFound("no-match", "no zone matches; nothing is done")
        if dry:
            return _plan(s, action, names) or s.end()
        done, status = each(
            s, names, lambda name: s.client.post(f"/v1/zones/{segment(name)}/actions/{action}", body, ZoneView)
        )
        if s.screen.json:
            if len(names) == 1 and not by_filter:
                if done:
                    s.screen.one(done[0])
            else:
                s.screen.array(done)
        elif done:
            s.screen.table(COLUMNS, done, "")
        return status or s.end()


def _plan(s: Session, action: str, names: tuple[str, ...]) -> int:
    zones, status = each(s, names, lambda name: s.client.get(f"/v1/zones/{segment(name)}", ZoneView))
    if s.screen.json:
        s.screen.one(Planned(False, action, tuple(zones)))
    elif zones:
        s.screen.table(COLUMNS, zones, "")
        s.screen.note(f"would {action} {len(zones)}; nothing is done yet: add --apply")
    return status
