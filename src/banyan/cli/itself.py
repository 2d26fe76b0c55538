"""banyan status, leave, release, authority rotate: the zone itself."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from banyan.cli.output import Column, instant, number
from banyan.cli.session import OK, Apply, Session, session
from banyan.cli.target import HERE, Target
from banyan.zone.views import LeavingView, PageView, RackView, ReleaseView, StatusView, UplinkView

authority = App(name="authority", help="The zone's own CA, which vouches for its children.")


class Cut(msgspec.Struct, frozen=True):
    """The answer of a dry run that would cut off so many zones below. `applied` is always false."""

    applied: bool
    action: str
    children: int


# The state of an uplink with which all is well.
JOINED = "connected"
RESTORED = "forgets nobody, and lets nobody in by what it knew before, until `banyan release`"

STAKE = (
    "whatever was banned, retired, revoked or prolonged after the backup is not known here: compare with a copy of the "
    "journal, and say it again first. This can not be taken back; nothing is done yet: add --apply"
)

LEAVING: tuple[Column[LeavingView], ...] = (
    Column("KIND", lambda one: one.kind),
    Column("NAME", lambda one: one.name),
    Column("ID", lambda one: one.id),
    Column("COUNT", lambda one: "" if one.count is None else number(one.count), right=True),
    Column("THEN", lambda one: one.then),
)
UPLINKS: tuple[Column[UplinkView], ...] = (
    Column("PARENT", lambda u: u.parent),
    Column("STATE", lambda u: u.state),
    Column("PATH THERE", lambda u: u.path),
    Column("ADDRESSES", lambda u: ",".join(u.addresses)),
    Column("LEASE UNTIL", lambda u: instant(u.lease_until) if u.lease_until else ""),
    Column("SENT", lambda u: number(u.bytes_sent), right=True),
    Column("RECEIVED", lambda u: number(u.bytes_received), right=True),
    Column("REASON", lambda u: u.reason),
)
RACKS: tuple[Column[RackView], ...] = (
    Column("RACK", lambda r: r.name),
    Column("DRIVER", lambda r: r.driver),
    Column("HEALTH", lambda r: r.health),
    Column("HOSTS", lambda r: number(r.hosts), right=True),
    Column("SCANNED", lambda r: instant(r.scanned_at)),
    Column("REASON", lambda r: r.reason),
)


def status(*, target: Target = HERE) -> int:
    """The zone itself: its parents, its racks, its CA, its clock, what is wrong."""
    with session(target) as s:
        return _show(s, s.client.get("/v1/status", StatusView))


@authority.command
def rotate(
    *,
    leaked: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="The old key is in other hands: it vouches for nothing any more, and every child must join again.",
        ),
    ] = False,
    apply: Apply = False,
    target: Target = HERE,
) -> int:
    """Make a new CA, crossed with the old one, so that children go over by themselves. --leaked needs --apply."""
    with session(target) as s:
        if leaked and not apply:
            below = s.client.get("/v1/status", StatusView).children.total
            if s.screen.json:
                s.screen.one(Cut(False, "authority rotate --leaked", below))
            s.screen.note(f"would cut off {below} zones below, which must join again; nothing is done yet: add --apply")
            return OK
        return _show(s, s.client.post("/v1/authority/rotate", {"leaked": leaked}, StatusView))


def release(*, apply: Apply = False, target: Target = HERE) -> int:
    """Let a zone that was restored from a backup forget zones and let zones in again, once you have looked: no other
    copy of it lives, and what was banned, retired or revoked since the backup was said again.

    A dry run until --apply: it says what is at stake, and which zones below were not heard since the restore.
    """
    with session(target) as s:
        found = s.client.post("/v1/release", {"apply": apply}, ReleaseView)
        if s.screen.json:
            s.screen.one(found)
            return OK
        if found.restored_at is None:
            s.screen.note("this zone holds nothing back: it was not restored, or was released before")
            return OK
        s.screen.line(f"restored {instant(found.restored_at)}; {'from now on' if apply else 'held back until then'}:")
        for text in found.held_back:
            s.screen.line(f"  {text}")
        s.screen.line(f"not heard since the restore: {_unheard(found)}")
        s.screen.note("released" if apply else STAKE)
        return OK


def _unheard(found: ReleaseView) -> str:
    """How many children, and which."""
    if not found.unheard:
        return f"none of {found.children:,} zones directly below"
    more = found.unheard - len(found.unheard_names)
    names = ", ".join(found.unheard_names) + (f" and {more:,} more" if more > 0 else "")
    return f"{found.unheard:,} of {found.children:,} zones directly below: {names}"


class Left(msgspec.Struct, frozen=True):
    """`applied` is false for a dry run."""

    applied: bool
    items: tuple[msgspec.Raw, ...]


def leave(*, apply: Apply = False, target: Target = HERE) -> int:
    """Leave the parent. What is forgotten is listed, and what stays: servers that Banyan made, images, networks. A dry
    run until --apply."""
    with session(target) as s:
        page = s.client.post("/v1/leave", {"apply": apply}, PageView)
        if s.screen.json:
            s.screen.one(Left(apply, page.items))
            return OK
        rows = [msgspec.json.decode(item, type=LeavingView) for item in page.items]
        s.screen.table(LEAVING, rows, "this zone has no parent and no rack")
        s.screen.note("left" if apply else "nothing is done yet: add --apply")
        return OK


def _show(s: Session, found: StatusView) -> int:
    if s.screen.json:
        s.screen.one(found)
        return OK
    below = found.children
    s.screen.show(
        [
            ("name", found.name), ("path", found.path), ("code", found.code), ("version", found.version),
            ("well", well(found)),
            ("restored", f"{instant(found.restored_at)}: {RESTORED}" if found.restored_at else ""),
            ("time", f"{instant(found.time)} (clock corrected by {found.time_offset:+.1f} s)"),
            ("zones below", f"{below.total}: {below.alive} alive, {below.suspect} suspect, {below.lost} lost"),
            ("shapes", f"{found.shapes.counted} counted" + (
                f"; {found.shapes.reason}" if found.shapes.reason else "") if found.shapes.counted else ""),
            ("CA", f"{found.ca_fingerprint} until {instant(found.ca_until)}"),
            ("public key", found.public_key), ("journal", f"{found.journal:,} lines"), ("epoch", str(found.epoch)),
        ]
    )  # fmt: skip
    if found.uplinks:
        s.screen.line("")
        s.screen.table(UPLINKS, found.uplinks, "")
    if found.racks:
        s.screen.line("")
        s.screen.table(RACKS, found.racks, "")
    return OK


def well(found: StatusView) -> str:
    """Whether the zone's own work goes on, and which parents it is not whole with: the table below says why."""
    own = "yes" if found.ready else f"no: {found.reason}"
    apart = [
        f"{u.state} at its parent {u.parent or ', '.join(u.addresses)}" for u in found.uplinks if u.state != JOINED
    ]
    return "; ".join((own, *apart))


def register(app: App) -> None:
    app.command(status)
    app.command(leave)
    app.command(release)
    app.command(authority)
