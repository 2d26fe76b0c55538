"""What an operator is told of each kind of error; the error's own text names the thing and what was expected of it.

`banyan help CODE` shows these (cli/help.py). The kinds themselves: errors.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from banyan.core.errors import (
    BadInput,
    BanyanError,
    Broken,
    Conflict,
    NotFound,
    Refused,
    Unauthenticated,
    Unreachable,
)


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """As core.page.Page, of an error."""

    means: str
    done: str
    held: str
    next: str


ERROR_PAGES: Final[Mapping[type[BanyanError], ErrorPage]] = {
    BadInput: ErrorPage(
        "What was asked for is wrong as it stands: its text names what, and what was expected there.",
        "Nothing: it was refused before anything changed.",
        "Nothing.",
        "Correct what the text names, and say it again; the same words have the same answer.",
    ),
    Refused: ErrorPage(
        "It was understood, and a rule does not allow it: for this caller, or for anybody.",
        "Nothing was changed. The refusal is in the journal, with who asked and from where.",
        "Nothing, unless the text says so.",
        "`banyan journal --outcome refused`; then change the rule, or ask as somebody who may.",
    ),
    Conflict: ErrorPage(
        "It was understood, and the present state does not allow it.",
        "Nothing was changed.",
        "Nothing, unless the text says so.",
        "Look at the thing that the text names; once it is as it must be, say it again.",
    ),
    NotFound: ErrorPage(
        "There is no such thing, or none that this caller may see: the two are not told apart on purpose.",
        "Nothing.",
        "Nothing.",
        "Look at the list of such things, and at which zone was asked: `banyan status`.",
    ),
    Unreachable: ErrorPage(
        "The other side can not be reached, or is not ready: a zone, its store, a cloud, a receiver.",
        "What changes nothing was given up. What may have changed something may have happened: the text says so.",
        "Banyan's own work goes on, and is tried again by itself with growing pauses.",
        "`banyan status`, then the side that the text names; a request with a retry key may be said again safely.",
    ),
    Unauthenticated: ErrorPage(
        "No valid credential came with the request: none, one that is over or revoked, or one of another zone.",
        "Nothing. The refusal is in the journal.",
        "Nothing.",
        "`banyan token list` on the zone's own machine says what became of a token; `banyan token create` makes one.",
    ),
    BanyanError: ErrorPage(
        "Something went wrong, as its text says.",
        "What was being done was ended.",
        "Nothing, unless the text says so.",
        "`banyan status`",
    ),
    Broken: ErrorPage(
        "Banyan's own state, or this program, is not as it must be.",
        "What was being done was ended, and nothing of it was kept unless the text says so.",
        "Whatever depends on what the text names.",
        "`banyan check` on the zone's machine, then its log; a backup is restored with `banyan restore`.",
    ),
}


def error_page(kind: type[BanyanError]) -> ErrorPage:
    """Of the kind, or of the nearest that it is a kind of."""
    return next(ERROR_PAGES[one] for one in kind.__mro__ if one in ERROR_PAGES)
