"""Generated documents are fresh."""

from __future__ import annotations

import pytest

from dev.codes import malformed
from dev.docs import GENERATED, ROOT


@pytest.mark.parametrize("document", sorted(GENERATED))
def test_a_generated_document_is_fresh(document: str) -> None:
    written = ROOT / document
    assert written.is_file(), "make docs"
    assert written.read_text(encoding="utf-8") == GENERATED[document](), f"{document} is stale: make docs"


def test_no_document_is_generated_by_nobody() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "generated").iterdir()}
    assert found == set(GENERATED)


def test_error_codes_are_kebab_case() -> None:
    assert not malformed()
