"""The lists that each zone keeps for itself: its journal, and what each project uses in its tree."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from banyan.core.errors import BadInput
from banyan.core.ids import code_text
from banyan.core.journal import Line
from banyan.core.lineage import UseRow
from banyan.core.ports import Clock, Store
from banyan.zone import lists, present
from banyan.zone.uses import Uses
from banyan.zone.views import PageView, UseView

JOURNAL_FILTERS = ("kind", "target", "actor", "outcome")
USE_FILTERS = ("project", "name")
# Projects looked at before the loop gets a turn.
TURN = 500
# More digits than any number of ours has, and no more than a database takes.
_DIGITS = 18


async def journal(store: Store, filters: Mapping[str, str], marker: str, limit: int) -> PageView:
    """JournalView objects by number. The marker is the last number seen; a page that is not full has none."""
    if any(key not in JOURNAL_FILTERS for key in filters):
        raise BadInput("bad-filter", f"the journal can be filtered by {', '.join(JOURNAL_FILTERS)}")
    after, limit = _number(marker) if marker else 0, lists.check_limit(limit)
    rows = await store.read(lambda unit: unit.journal.page(after, limit + 1, filters))
    return lists.first(rows, limit, present.line, _line)


async def use(uses: Uses, clock: Clock, filters: Mapping[str, str], marker: str, limit: int) -> PageView:
    """UseView objects by (issuer, project); filters `project` and `name` are shell patterns on whole values.

    The marker is "ISSUER:PROJECT". A page looks at lists.MAX_LOOKED_AT projects at most, whatever is filtered.
    """
    if any(key not in USE_FILTERS for key in filters):
        raise BadInput("bad-filter", f"use can be filtered by {', '.join(USE_FILTERS)}")
    issuer, _, project = marker.partition(":")
    after, limit = (_number(issuer), project) if marker else None, lists.check_limit(limit)
    if not filters:
        return lists.first(uses.page(after, limit + 1), limit, _use, _place)
    found: list[UseRow] = []
    for _ in range(lists.MAX_LOOKED_AT // TURN):
        rows = uses.page(after, TURN)
        found += [row for row in rows if _fits(row, filters)]
        if len(found) > limit or len(rows) < TURN:
            return lists.first(found, limit, _use, _place)
        after = (rows[-1].issuer, rows[-1].project)
        # Tens of thousands of projects take longer than a heartbeat should wait.
        await clock.sleep_until(clock.now())
    page = lists.first(found, limit, _use, _place)
    return PageView(page.items, _place(rows[-1]))


def _fits(row: UseRow, filters: Mapping[str, str]) -> bool:
    return fnmatchcase(row.project, filters.get("project", "*")) and fnmatchcase(row.name, filters.get("name", "*"))


def _place(row: UseRow) -> str:
    return f"{row.issuer}:{row.project}"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise lists.bad_marker()
    return int(text)


def _line(row: Line) -> str:
    return str(row.number)


def _use(row: UseRow) -> UseView:
    return UseView(code_text(row.issuer), row.project, row.name, row.guests, row.vcpu, row.memory_mib, row.disk_gib)
