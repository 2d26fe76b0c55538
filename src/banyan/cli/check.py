"""banyan check: what would stand in the way, before joining."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from banyan.cli.output import Column, Screen, words
from banyan.cli.serve import HERE, Json, Setup, join_code

if TYPE_CHECKING:
    from banyan.core.ports import Finding

COLUMNS: tuple[Column[Finding], ...] = (
    Column("WELL", lambda f: words(f.ok)),
    Column("WHAT", lambda f: f.what),
    Column("FOUND", lambda f: f.found),
    Column("DO", lambda f: "" if f.ok else f.remedy),
)


def check(
    *,
    join_code_file: Annotated[
        Path | None,
        Parameter(
            name=("--join-code-file", "--code-file"),
            metavar="F",
            help="A file with a join code (- is standard input): its parent is looked at as well.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    listen_api: Annotated[str | None, Parameter(metavar="ADDR", help="As for serve.")] = None,
    listen_link: Annotated[str | None, Parameter(metavar="ADDR", help="As for serve.")] = None,
    json: Json = False,
    setup: Setup = HERE,
) -> int:
    """Look at all that a zone needs, before it joins or later: settings, folder, disk, addresses, parents, clock,
    credentials.

    Nothing is written and nobody is joined. Exit status 1 if something stands in the way.
    """
    from banyan.serve.check import check as look

    screen = Screen(json)
    found = look(setup.settings({"api.listen": listen_api, "link.listen": listen_link}), join_code(join_code_file))
    if json:
        screen.array(found)
    else:
        screen.table(COLUMNS, found, "nothing was looked at")
    return 0 if all(one.ok for one in found) else 1


def register(app: App) -> None:
    app.command(check)
