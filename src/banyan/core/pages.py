"""What an operator is told of each kind of event: how grave it is, what it means, what was done, what is held, and what
to do next. The one home of these texts: `banyan help CODE`, notices to receivers and docs/generated/events.md show
them.

zone_pages.py and work_pages.py have a page each for what a zone does, asked_pages.py the kinds that only say what was
asked for. A kind that the program writes and that has no page is a failing test (tests/arch/test_pages.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from banyan.core.asked_pages import ASKED, SERVER_ACTIONS
from banyan.core.page import ABOUT, DURABLE, NOTHING, SERVER, Page
from banyan.core.severity import Severity
from banyan.core.work_pages import WORK_PAGES
from banyan.core.zone_pages import ZONE_PAGES


def _asked(what: str, next: str) -> Page:
    return Page(Severity.INFO, what, DURABLE, NOTHING, next)


PAGES: Final[Mapping[str, Page]] = {
    **{kind: _asked(what, ABOUT) for kind, what in ASKED.items()},
    **{kind: _asked(what, SERVER) for kind, what in SERVER_ACTIONS.items()},
    **ZONE_PAGES,
    **WORK_PAGES,
}

# For a line of a program that is newer than this one, or older: it is told rather than lost.
UNKNOWN: Final = Page(
    Severity.WARNING,
    "Something happened to {name} at {since} that this program has no page for; the line says what.",
    "The line says what was done.",
    "Not known.",
    ABOUT,
)


def page(kind: str) -> Page:
    return PAGES.get(kind, UNKNOWN)
