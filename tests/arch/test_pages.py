"""Every event and every error has a page, which says all that an operator needs; `banyan help` shows each."""

from __future__ import annotations

import re

import pytest

from banyan.cli.help import codes, found
from banyan.core.error_pages import ERROR_PAGES
from banyan.core.errors import NotFound
from banyan.core.pages import PAGES
from banyan.core.severity import Severity
from dev.codes import kinds, raised
from dev.events import COMPUTED, written

# Told to a receiver only, never journalled.
NEVER_WRITTEN = {"receiver-test"}


def test_every_kind_that_is_written_has_a_page_and_no_page_is_of_none() -> None:
    found, unknown = written()
    assert not unknown, "say in dev/events.py which kinds these can be"
    assert not set(found) - set(PAGES), "core/pages.py lacks their page, and with it how grave they are"
    assert not set(PAGES) - set(found) - NEVER_WRITTEN, "nothing writes these any more"


def test_what_is_computed_is_still_there() -> None:
    found, _ = written()
    assert {where for where, _ in COMPUTED} <= {where for files in found.values() for where in files}


@pytest.mark.parametrize("kind", sorted(PAGES))
def test_a_page_names_the_thing_and_since_when_and_what_to_do(kind: str) -> None:
    page = PAGES[kind]
    assert isinstance(page.severity, Severity)
    assert "{since}" in page.means, "since when"
    assert "{name}" in page.means + page.next, "what it is about"
    shown = page.filled("east-7", "2026-12-01T00:00:00.000Z")
    for text in (shown.means, shown.done, shown.held, shown.next):
        assert text and not set(text) & {"{", "}"} and len(text) <= 300
    for text in (shown.means, shown.done, shown.held):
        assert text.endswith(".") and text[0] in text[0].upper() + "e"
    assert "2026-12-01" in shown.means and "east-7" in shown.means + shown.next
    assert re.search(r"`banyan [a-z]", shown.next), "the next command"


def test_what_is_wrong_says_what_is_held_and_what_was_done() -> None:
    grave = [kind for kind, page in PAGES.items() if page.severity.at_least(Severity.ERROR)]
    assert len(grave) >= 10
    assert not [kind for kind in grave if len(PAGES[kind].done) < 15], "what was done"


def test_what_a_name_looks_like_changes_no_page() -> None:
    shown = PAGES["child-lost"].filled("{since}{name}", "now")
    assert "{since}{name}" in shown.means


def test_every_error_that_is_raised_has_a_page() -> None:
    known = kinds()
    expected = {(code, kind) for code, by_kind in raised().items() for kind in by_kind}
    shown = {(code, kind) for code, by_kind in codes().items() for kind in by_kind}
    assert shown == expected
    for code, by_kind in codes().items():
        for name, kind in by_kind.items():
            assert issubclass(known[name], kind.base)
            assert (kind.exit, kind.http) == (known[name].exit_status, known[name].status), name
            assert found(code)
    assert all(text for page in ERROR_PAGES.values() for text in (page.means, page.done, page.held, page.next))


def test_what_is_no_code_is_answered_with_what_is_near() -> None:
    with pytest.raises(NotFound, match="child-lost"):
        found("child-losst")
