"""How a request finds its row: literal before open segments, short before long, HEAD as GET."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.api.context import Context
from banyan.api.faults import NoRoute, NotAllowed
from banyan.api.intake import NoBody, NoQuery
from banyan.api.routes import TABLE
from banyan.api.table import Method, Route, Router, match, route
from banyan.core.identity import Role

SEGMENT = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=8)


async def nothing(context: Context, query: NoQuery, body: NoBody) -> None:
    return None


def row(method: Method, path: str) -> Route:
    return route(method, path, nothing, "x", Role.VIEWER, "")


@pytest.mark.parametrize(
    ("template", "path", "params"),
    [
        ("a/{x}/c", "a/b/c", {"x": "b"}),
        ("a/{x}", "a/b/c", None),
        ("a/{x…}", "a/b/c", {"x": "b/c"}),
        ("a/{x…}", "a", None),
        ("a/{x…}/y/z", "a/b/c/y/z", {"x": "b/c"}),
        ("a/{x…}/y/z", "a/y/z/y/z", {"x": "y/z"}),
        ("a/{x…}/y/z", "a/y/z", None),
        ("a/{x…}/{y}", "a/b/c/d", {"x": "b/c", "y": "d"}),
        ("a", "b", None),
    ],
)
def test_match(template: str, path: str, params: dict[str, str] | None) -> None:
    assert match(tuple(template.split("/")), tuple(path.split("/"))) == params


def test_the_most_literal_row_wins() -> None:
    rows = [row("GET", path) for path in ("/a/{x…}", "/a/{x}", "/a/b", "/a/{x…}/act/go")]
    router = Router(rows)
    for path, wanted in (("/a/b", 2), ("/a/c", 1), ("/a/c/d", 0), ("/a/c/act/go", 3), ("/a/act/go", 0)):
        assert router.find("GET", path)[0] is rows[wanted], path


def test_two_rows_for_one_request_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="two rows for GET /a"):
        Router([row("GET", "/a"), row("GET", "/a")])


def test_what_is_allowed_is_gathered_over_all_rows_that_fit() -> None:
    router = Router([row("GET", "/a/{x…}"), row("POST", "/a/{x}"), row("PUT", "/a/b")])
    with pytest.raises(NotAllowed) as caught:
        router.find("DELETE", "/a/b")
    assert caught.value.allow == ("GET", "HEAD", "POST", "PUT")


@given(st.lists(SEGMENT, min_size=1, max_size=6))
def test_every_path_of_names_is_a_zones_own_address(names: list[str]) -> None:
    found, params = Router(TABLE).find("GET", "/v1/zones/" + "/".join(names))
    assert (found.action, params) == ("zone.show", {"path": "/".join(names)})


@given(st.lists(SEGMENT, min_size=1, max_size=6), st.sampled_from(["ban", "disable", "rename"]))
def test_every_path_of_names_takes_every_word(names: list[str], word: str) -> None:
    found, params = Router(TABLE).find("POST", "/v1/zones/" + "/".join(names) + f"/actions/{word}")
    assert (found.action, params) == (f"zone.{word}", {"path": "/".join(names)})


@given(st.text(max_size=40), st.sampled_from(["GET", "POST", "HEAD", "TRACE", ""]))
def test_whatever_is_asked_finds_a_row_or_is_told_so(path: str, method: str) -> None:
    with suppress(NoRoute, NotAllowed):
        Router(TABLE).find(method, path)
