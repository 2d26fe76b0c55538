"""banyan receiver …: where alarms go, how that is, and a test of it."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from banyan.cli.client import segment
from banyan.cli.output import Column, instant, number
from banyan.cli.session import OK, Limit, session
from banyan.cli.target import HERE, Target
from banyan.zone.receiver_view import ReceiverView

app = App(name="receiver", help="Receivers of alarms: webhooks and syslog, as the settings name them.")

COLUMNS: tuple[Column[ReceiverView], ...] = (
    Column("NAME", lambda r: r.name),
    Column("KIND", lambda r: r.kind),
    Column("WHERE", lambda r: r.where),
    Column("FROM", lambda r: r.severity),
    Column("STATE", lambda r: r.state),
    Column("SINCE", lambda r: instant(r.since) if r.since else ""),
    Column("BACKLOG", lambda r: number(r.backlog), right=True),
    Column("LAST TOLD", lambda r: instant(r.last_sent) if r.last_sent else ""),
    Column("LAST ERROR", lambda r: r.last_error),
)


@app.command(name="list")
def list_(*, limit: Limit = None, target: Target = HERE) -> int:
    """The zone's receivers of alarms.

    STATE is well, failing (SINCE when), dead (failing for so long that it is an event), gone (it answered 410, and is
    sent nothing). BACKLOG: lines of the journal that it was not told yet.
    """
    with session(target) as s:
        return s.list("/v1/receivers", ReceiverView, COLUMNS, "the settings name no receiver: see [[receiver]]", limit)


@app.command(name="test")
def try_(
    name: Annotated[str, Parameter(help="As `receiver list` shows it.", metavar="NAME")], *, target: Target = HERE
) -> int:
    """Send one receiver a test event now, past whatever waits for it. Status 5 if it does not take it."""
    with session(target) as s:
        found = s.client.post(f"/v1/receivers/{segment(name)}/test", {}, ReceiverView)
        if s.screen.json:
            s.screen.one(found)
        else:
            s.screen.table(COLUMNS, [found], "")
            s.screen.note("it was taken")
        return OK
