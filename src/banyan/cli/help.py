"""banyan help CODE: the page of an event's kind or of an error's code. Asks no zone, and works without one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from banyan.cli.output import Column, Screen
from banyan.core import errors
from banyan.core.error_pages import error_page
from banyan.core.errors import BanyanError, NotFound
from banyan.core.pages import PAGES

# A name stands here where a line of the journal has one.
NAME, SINCE = "NAME", "TIME"
_CLASS = re.compile(r"^class (\w+)\((\w+)[^)]*\):", re.MULTILINE)
_STATUS = re.compile(r"^class (\w+)\(|^    (exit_status|status)(?:: [^=\n]+)? = (\d+)$", re.MULTILINE)
_RAISED = re.compile(r'\b(\w+)\(\s*"([a-z0-9]+(?:-[a-z0-9]+)*)",')
_OWN = re.compile(r'^class (\w+)\(|super\(\).__init__\(\s*"([a-z0-9-]+)"', re.MULTILINE)


class HelpPage(msgspec.Struct, frozen=True):
    """`what`: event or error. `severity`: of an event. `kind`, `exit`, `http`: of an error, else "" and 0."""

    code: str
    what: str
    severity: str
    kind: str
    exit: int
    http: int
    means: str
    done: str
    held: str
    next: str


COLUMNS: tuple[Column[HelpPage], ...] = (
    Column("CODE", lambda p: p.code),
    Column("WHAT", lambda p: p.what),
    Column("SEVERITY", lambda p: p.severity),
    Column("KIND", lambda p: p.kind),
    Column("EXIT", lambda p: str(p.exit) if p.kind else "", right=True),
    Column("HTTP", lambda p: str(p.http) if p.kind else "", right=True),
)


def help_(
    about: Annotated[
        str, Parameter(help="What stands in brackets behind an error, or the kind of an event.", metavar="CODE")
    ] = "",
    /,
    *,
    json: Annotated[bool, Parameter(negative="", help="Print JSON.", show_default=False)] = False,
) -> int:
    """The page of an error or of an event: what it means, what was done, what is held, what to do next.

    Without a code, the list of them.
    """
    screen = Screen(json)
    pages = found(about) if about else everything()
    if json:
        screen.array(pages)
    elif not about:
        screen.table(COLUMNS, pages, "")
    else:
        for number, page in enumerate(pages):
            if number:
                screen.line("")
            screen.show(
                [
                    (page.what, page.code),
                    ("severity", page.severity),
                    ("kind", f"{page.kind}: exit status {page.exit}, HTTP {page.http}" if page.kind else ""),
                    ("means", page.means), ("done", page.done), ("held", page.held), ("next", page.next),
                ]
            )  # fmt: skip
    return 0


def found(code: str) -> list[HelpPage]:
    """A code may be an event's and an error's, and an error's of several kinds. Raises NotFound("no-page")."""
    pages = [page for page in everything() if page.code == code]
    if not pages:
        near = difflib.get_close_matches(code[:100], sorted({page.code for page in everything()}), 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `banyan help` lists all"
        raise NotFound("no-page", f"no event and no error is called {code[:100]!r}{hint}")
    return pages


# gap: an error has the page of its kind, not one of its code
@cache
def everything() -> list[HelpPage]:
    """By code, events first."""
    pages = []
    for code, page in PAGES.items():
        shown = page.filled(NAME, SINCE)
        event = HelpPage(code, "event", page.severity, "", 0, 0, shown.means, shown.done, shown.held, shown.next)
        pages.append(event)
    for code, kinds in codes().items():
        for name, kind in sorted(kinds.items()):
            told = error_page(kind.base)
            error = HelpPage(
                code, "error", "", name, kind.exit, kind.http, told.means, told.done, told.held, told.next
            )  # fmt: skip
            pages.append(error)
    return sorted(pages, key=lambda page: (page.code, page.what != "event", page.kind))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of error: that of core.errors which it is, and its statuses of exit and of HTTP."""

    base: type[BanyanError]
    exit: int
    http: int


@cache
def codes() -> Mapping[str, Mapping[str, Kind]]:
    """code → name of a kind that is raised with it → that kind. Read from the program's text: to load all of it would
    take a second."""
    texts = list(_sources(files("banyan")))
    known = {
        name: Kind(kind, kind.exit_status, kind.status)
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, BanyanError)
    }
    derived = {pair for text in texts for pair in _CLASS.findall(text)}
    # A kind of a kind may come before it.
    while fresh := {name: known[parent] for name, parent in derived if parent in known and name not in known}:
        known.update(fresh)
    for text in texts:
        inside = ""
        for name, which, number in _STATUS.findall(text):
            inside = name or inside
            if number and inside in known:
                kind = known[inside]
                exit_, http = (int(number), kind.http) if which == "exit_status" else (kind.exit, int(number))
                known[inside] = Kind(kind.base, exit_, http)
    raised: dict[str, dict[str, Kind]] = {}
    for text in texts:
        for name, code in _RAISED.findall(text):
            if name in known:
                raised.setdefault(code, {})[name] = known[name]
        inside = ""
        for name, code in _OWN.findall(text):
            inside = name or inside
            if code and inside in known:
                raised.setdefault(code, {})[inside] = known[inside]
    return raised


def _sources(folder: Traversable) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield entry.read_text(encoding="utf-8")


def register(app: App) -> None:
    app.command(name="help")(help_)
