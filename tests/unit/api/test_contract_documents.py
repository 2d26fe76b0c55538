"""docs/contracts/lists.md says what the API takes and the zone understands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from banyan.api.context import SMALL_BODY, Limits
from banyan.api.paging import DEFAULT_LIMIT, MAX_LIMIT
from banyan.api.routes import TABLE
from banyan.api.table import Route
from banyan.zone import lists

CONTRACTS = Path(__file__).resolve().parents[3] / "docs" / "contracts"
LISTS = [row for row in TABLE if row.method == "GET" and row.paged]


def written() -> dict[str, set[str]]:
    text = (CONTRACTS / "lists.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z/{}-]+)` \| (.+) \|$", text, re.MULTILINE)
    # What stands in parentheses are values, not filters.
    return {name: set(re.findall(r"`([a-z_]+)`", re.sub(r"\([^)]*\)", "", filters))) for name, filters in rows}


@pytest.mark.parametrize("row", LISTS, ids=lambda row: row.name)
def test_each_list_takes_the_filters_that_are_written(row: Route) -> None:
    taken = set(row.query.__struct_fields__) - {"marker", "limit"}
    assert written()[row.path.removeprefix("/v1/")] == taken


def test_no_list_is_written_that_is_not_there() -> None:
    assert set(written()) == {row.path.removeprefix("/v1/") for row in LISTS}


@pytest.mark.parametrize("kind", sorted(lists.FILTERS))
def test_the_zone_understands_each_filter(kind: str) -> None:
    # What names a request stands in the path of its list.
    name, in_path = ("requests/{request}", {"request"}) if kind == "trace" else (kind, set())
    assert (written()[name] - {"under"}) | in_path == set(lists.FILTERS[kind])


def test_limits_agree() -> None:
    assert lists.MAX_LIMIT == MAX_LIMIT
    text = (CONTRACTS / "lists.md").read_text(encoding="utf-8")
    assert f"1 to {MAX_LIMIT:,}, default {DEFAULT_LIMIT}" in text
    limits = Limits()
    api = (CONTRACTS / "api.md").read_text(encoding="utf-8")
    for promise in (
        f"at most {SMALL_BODY // 1024} KiB",
        f"path and query {limits.address // 1024} KiB",
        f"header lines {limits.headers // 1024} KiB and {limits.header_lines} of them",
        f"{limits.concurrency} requests are in work at a time and {limits.followers} journals followed",
        f"have {limits.head_wait:g} s each",
        f"cut after {limits.write_stall:g} s",
        f"answer {limits.deadline:g} s",
    ):
        assert promise in " ".join(api.split()), promise
