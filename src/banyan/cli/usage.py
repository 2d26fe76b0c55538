"""banyan usage: the totals of the tree, as JSON or as a picture; banyan use: what each project uses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated

from cyclopts import App, Parameter

from banyan.cli import values
from banyan.cli.output import Column, number
from banyan.cli.picture import picture
from banyan.cli.session import OK, Limit, Session, Under, session
from banyan.cli.target import HERE, Target
from banyan.core.errors import BadInput, Unreachable
from banyan.zone.views import UsageView, UseView

Wait = Callable[[float], object]

USE: tuple[Column[UseView], ...] = (
    Column("PROJECT", lambda u: u.project),
    Column("NAME", lambda u: u.name),
    Column("ISSUER", lambda u: u.issuer),
    Column("SERVERS", lambda u: number(u.servers), right=True),
    Column("VCPU", lambda u: number(u.vcpu), right=True),
    Column("MEMORY MiB", lambda u: number(u.memory_mib), right=True),
    Column("DISK GiB", lambda u: number(u.disk_gib), right=True),
)


def usage(
    *,
    under: Under = "",
    watch: Annotated[
        bool, Parameter(negative="", help="Show it again and again until Ctrl-C.", show_default=False)
    ] = False,
    interval: Annotated[str, Parameter(help="With --watch: how often.")] = "2s",
    target: Target = HERE,
) -> int:
    """What the whole tree has and uses. What is unknown or not offered stands apart, with its age."""
    pause = values.duration(interval, "--interval", 0.2, values.DAY)
    if watch and target.json:
        raise BadInput("bad-option", "--watch is for people: not with --json")
    with session(target) as s:
        if watch:
            # An event that nobody sets: waiting for it ends at once when Ctrl-C comes.
            return follow(s, under, pause, threading.Event().wait, rounds=None)
        found = s.client.get("/v1/usage", UsageView, under=under)
        if s.screen.json:
            s.screen.one(found)
        else:
            s.screen.render(picture(found))
        return OK


def follow(s: Session, under: str, pause: float, wait: Wait, rounds: int | None) -> int:
    """Shows usage every `pause` seconds, `rounds` times or until Ctrl-C. A zone that is away is waited for."""
    from rich.live import Live

    left = rounds
    console = s.screen.console()
    last: UsageView | None = None
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while left is None or left > 0:
            trouble = ""
            try:
                last = s.client.get("/v1/usage", UsageView, under=under)
            except Unreachable as error:
                trouble = error.text
            if s.screen.terminal:
                live.update(picture(last, trouble), refresh=True)
            else:
                console.print(picture(last, trouble))
                console.file.flush()
            left = None if left is None else left - 1
            if left != 0:
                wait(pause)
    return OK


def use(
    *,
    project: Annotated[
        str, Parameter(help="Only projects whose id matches.", metavar="PATTERN", show_default=False)
    ] = "",
    name: Annotated[
        str, Parameter(help="Only projects whose name matches.", metavar="PATTERN", show_default=False)
    ] = "",
    limit: Limit = None,
    target: Target = HERE,
) -> int:
    """What each project uses, in the whole tree."""
    with session(target) as s:
        return s.list("/v1/use", UseView, USE, "no project uses anything", limit, project=project, name=name)


def register(app: App) -> None:
    app.command(usage)
    app.command(use)
