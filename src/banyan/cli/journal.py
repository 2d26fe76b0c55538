"""banyan journal: who did what, and why. With --follow, lines as they come, over cuts of the connection."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter

from banyan.cli import values
from banyan.cli.client import Client, FaultBody, Query
from banyan.cli.output import Column, Screen, instant, pairs
from banyan.cli.session import OK, check_limit, session
from banyan.cli.target import HERE, Target
from banyan.core.errors import BadInput, Refused, Unreachable
from banyan.zone.views import JournalView, StatusView, TraceView

LAST = 50
PATH = "/v1/journal"
# A follower dials again after so many seconds, so many times without a line in between.
PAUSE = 1.0
TRIES = 60
_REQUEST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")

COLUMNS: tuple[Column[JournalView], ...] = (
    Column("N", lambda n: str(n.number), right=True),
    Column("AT", lambda n: instant(n.at)),
    Column("KIND", lambda n: n.kind),
    Column("TARGET", lambda n: n.target),
    Column("ACTOR", lambda n: n.actor),
    Column("FROM", lambda n: n.address),
    Column("OUTCOME", lambda n: n.outcome),
    Column("TEXT", lambda n: n.text),
    Column("FACTS", lambda n: pairs(n.facts)),
)


def _of_trace(column: Column[JournalView]) -> Column[TraceView]:
    return Column(column.title, column.show, column.right)


TRACED: tuple[Column[TraceView], ...] = (Column("ZONE", lambda n: n.zone), *map(_of_trace, COLUMNS))


def journal(
    *,
    follow: Annotated[
        bool, Parameter(negative="", help="Go on with lines as they come, until Ctrl-C.", show_default=False)
    ] = False,
    after: Annotated[int | None, Parameter(metavar="N", help="Only lines after this number.")] = None,
    limit: Annotated[
        int | None, Parameter(metavar="N", help=f"The last N lines (default: {LAST}); with --after the next N.")
    ] = None,
    kind: Annotated[str, Parameter(help="Only of this kind.", metavar="KIND", show_default=False)] = "",
    about: Annotated[str, Parameter(help="Only about this thing.", metavar="THING", show_default=False)] = "",
    actor: Annotated[str, Parameter(help="Only of this actor.", metavar="ACTOR", show_default=False)] = "",
    outcome: Annotated[
        Literal["done", "refused", "failed"] | None, Parameter(help="Only with this outcome.", show_default=False)
    ] = None,
    request: Annotated[
        str,
        Parameter(
            help="All that the request with this id left, in the journals of this zone and of those below it; no other "
            "filter goes with it.",
            metavar="ID",
            show_default=False,
        ),
    ] = "",
    target: Target = HERE,
) -> int:
    """The zone's journal: every decision, with who, from where and why; refusals too.

    With --follow and --json each line is one JSON object.
    """
    check_limit(limit)
    if request:
        if follow or after is not None or kind or about or actor or outcome:
            raise BadInput("bad-option", "--request looks into all journals by itself; leave out the other filters")
        return _traced(request, limit, target)
    if after is not None:
        values.number(after, "--after", 0, values.MAX_LINE)
    chosen: Query = {"kind": kind, "target": about, "actor": actor, "outcome": outcome}
    with session(target) as s:
        lines = _lines(s.client, chosen, after, limit)
        if not follow:
            if s.screen.json:
                s.screen.array(lines)
            else:
                s.screen.table(COLUMNS, lines, "no line matches")
            return s.end()
        last = s.client.get("/v1/status", StatusView).journal if after is None else after
        for line in lines:
            last = max(last, line.number)
            show(s.screen, line)
        # An event that nobody sets: waiting for it ends at once when Ctrl-C comes.
        for line in stream(s.client, chosen, last, threading.Event().wait):
            show(s.screen, line)
    return OK


def _traced(request: str, limit: int | None, target: Target) -> int:
    if not _REQUEST.match(request):
        raise BadInput(
            "bad-request-id", f"an answer's request id has letters, digits, `.`, `_` and `-`, got {request[:80]!r}"
        )
    with session(target) as s:
        lines = s.client.pages(f"/v1/requests/{request}", TraceView, limit, {})
        if s.screen.json:
            s.screen.array(lines)
        else:
            s.screen.table(
                TRACED, lines, "no journal has a line of it: it changed nothing, or lies in a zone named as absent"
            )
        return s.end()


def _lines(client: Client, chosen: Query, after: int | None, limit: int | None) -> Iterable[JournalView]:
    """The lines that are there: those after a number, or the last ones."""
    if after is not None:
        return client.pages(PATH, JournalView, limit, {**chosen, "marker": after})
    wanted = limit or LAST
    if any(chosen.values()):
        # Which lines match is known only when they are read: all are, and the last ones kept.
        return deque(client.pages(PATH, JournalView, None, chosen), maxlen=wanted)
    newest = client.get("/v1/status", StatusView).journal
    return client.pages(PATH, JournalView, wanted, {"marker": max(0, newest - wanted)})


def stream(client: Client, chosen: Query, last: int, wait: Callable[[float], object]) -> Iterator[JournalView]:
    """Lines after the number `last` as they come. A zone that is away is dialled again for a minute.

    Raises what the zone says when it ends the stream, Unreachable when it stays away.
    """
    tries = TRIES
    while True:
        try:
            for event in client.events(f"{PATH}/follow", str(last), chosen):
                tries = TRIES
                if event.name == "end":
                    fault = msgspec.json.decode(event.data, type=FaultBody).error
                    raise Refused(fault.code, fault.text)
                line = msgspec.json.decode(event.data, type=JournalView)
                last = line.number
                yield line
        except Unreachable:
            tries -= 1
            if not tries:
                raise
        wait(PAUSE)


def show(screen: Screen, line: JournalView) -> None:
    if screen.json:
        screen.line(msgspec.json.encode(line).decode())
    else:
        who = f"{line.actor} from {line.address}" if line.address else line.actor
        facts = f" ({pairs(line.facts)})" if line.facts else ""
        outcome = "" if line.outcome == "done" else f" [{line.outcome}]"
        screen.line(
            f"{line.number}  {instant(line.at)}  {line.kind}{outcome}  {line.target}: {line.text}{facts}  by {who}"
        )
    screen.out.flush()


def register(app: App) -> None:
    app.command(journal)
