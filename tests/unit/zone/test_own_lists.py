"""A zone's journal and use, a page at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest

from banyan.core.errors import BadInput
from banyan.core.identity import SYSTEM
from banyan.core.ids import ZoneCode, code_text
from banyan.core.journal import Event
from banyan.core.lineage import UseRow
from banyan.core.records import Unit
from banyan.core.time import Wall
from banyan.simulate.clock import VirtualClock
from banyan.simulate.ids import SeededIds
from banyan.simulate.loop import VirtualLoop
from banyan.store.inline import InlineStore, no_pause
from banyan.zone import lists, own_lists
from banyan.zone.uses import Uses
from banyan.zone.views import JournalView, PageView, UseView

T = TypeVar("T", bound=msgspec.Struct)


def walk(page: Callable[[str], PageView], kind: type[T]) -> tuple[list[T], list[int]]:
    """All rows, and how many came in each page."""
    rows: list[T] = []
    sizes: list[int] = []
    marker = ""
    while True:
        found = page(marker)
        rows += [msgspec.json.decode(item, type=kind) for item in found.items]
        sizes.append(len(found.items))
        marker = found.marker
        if not marker:
            return rows, sizes


def use(uses: Uses, marker: str, limit: int, **filters: str) -> PageView:
    loop = VirtualLoop()
    try:
        return loop.run_task(own_lists.use(uses, VirtualClock(loop, "m"), filters, marker, limit), 100.0)
    finally:
        loop.close()


def test_the_journal_is_told_whole_and_ends_without_an_empty_page() -> None:
    async def run() -> tuple[list[PageView], list[PageView]]:
        store = InlineStore(SeededIds(1, "store"), no_pause)

        def write(unit: Unit) -> None:
            for number in range(4):
                unit.journal.append(Wall(1.0), Event("even" if number % 2 == 0 else "odd", "x", SYSTEM, "t", {}))

        await store.write("test", write)
        everything = [await own_lists.journal(store, {}, marker, 2) for marker in ("", "2", "4")]
        even = [await own_lists.journal(store, {"kind": "even"}, marker, 1) for marker in ("", "1")]
        await store.close()
        return everything, even

    everything, even = asyncio.run(run())
    numbers = [[msgspec.json.decode(item, type=JournalView).number for item in page.items] for page in everything]
    assert (numbers, [page.marker for page in everything]) == ([[1, 2], [3, 4], []], ["2", "", ""])
    assert [page.marker for page in even] == ["1", ""]


def test_the_use_of_projects_is_told_whole() -> None:
    uses = Uses(ZoneCode(7))
    uses.put(0, [UseRow(7, project, project, 1, 2, 3, 4) for project in ("a", "b:c", "d", "e")])
    rows, sizes = walk(lambda marker: use(uses, marker, 2), UseView)
    assert ([row.project for row in rows], sizes) == (["a", "b:c", "d", "e"], [2, 2])


@pytest.mark.parametrize("marker", ["x", "-1", "\u00b2", "\u0664", "9" * 19, "1.5", " 1"])
def test_a_marker_that_is_none_of_ours_is_refused(marker: str) -> None:
    """Also digits that are no decimal number, and more of them than a database takes."""

    async def journal() -> None:
        store = InlineStore(SeededIds(1, "store"), no_pause)
        await own_lists.journal(store, {}, marker, 2)

    for ask in (lambda: asyncio.run(journal()), lambda: use(Uses(ZoneCode(7)), f"{marker}:p", 2)):
        with pytest.raises(BadInput) as refused:
            ask()
        assert refused.value.code == "bad-marker"


def test_a_filter_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(BadInput, match="filtered by project, name"):
        use(Uses(ZoneCode(7)), "", 2, under="x")


def test_the_use_of_one_project_in_all_clouds_and_of_those_that_are_called_alike() -> None:
    uses = Uses(ZoneCode(7))
    for rack in (3, 4):
        uses.put(rack, [UseRow(rack, f"p{n}", "web" if n % 2 else "batch", 1, 2, 3, 4) for n in range(6)])
    rows, sizes = walk(lambda marker: use(uses, marker, 1, project="p3"), UseView)
    assert ([(row.issuer, row.project) for row in rows], sizes) == (
        [(code_text(3), "p3"), (code_text(4), "p3")],
        [1, 1],
    )
    rows, sizes = walk(lambda marker: use(uses, marker, 4, name="w*", project="p?"), UseView)
    assert ([row.project for row in rows], sizes) == (["p1", "p3", "p5"] * 2, [4, 2])
    assert walk(lambda marker: use(uses, marker, 4, project="P3"), UseView) == ([], [0])


def test_a_page_of_use_looks_at_so_many_projects_and_no_more() -> None:
    uses = Uses(ZoneCode(7))
    count = 2 * lists.MAX_LOOKED_AT + 10
    uses.put(3, [UseRow(3, f"p{n:06}", "", 1, 2, 3, 4) for n in range(count)])
    rows, sizes = walk(lambda marker: use(uses, marker, 100, project=f"p{count - 1:06}"), UseView)
    assert ([row.project for row in rows], sizes) == ([f"p{count - 1:06}"], [0, 0, 1])
