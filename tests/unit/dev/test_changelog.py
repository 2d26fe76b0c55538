"""Fragments become a release's section, security first."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.changelog import gather


def test_fragments_are_gathered_by_kind(tmp_path: Path) -> None:
    changes = tmp_path / "changes"
    changes.mkdir()
    (changes / "README.md").write_text("how")
    (changes / "b.added.md").write_text("A new\nthing.\n")
    (changes / "a.security.md").write_text("A hole is closed.\n")
    section, used = gather(tmp_path, "1.2.0", "2026-12-01")
    assert section.splitlines() == [
        "## 1.2.0, 2026-12-01",
        "",
        "### Security",
        "",
        "- A hole is closed.",
        "",
        "### Added",
        "",
        "- A new thing.",
    ]
    assert [path.name for path in used] == ["a.security.md", "b.added.md"]


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "a.news.md").write_text("x")
    with pytest.raises(ValueError, match=r"a\.news\.md: the kind"):
        gather(tmp_path, "1.2.0", "2026-12-01")
