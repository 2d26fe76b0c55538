"""The documents: links lead somewhere, commands exist, each driver answers the contract under the same headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dev.gaps import ROOT, tracked

DOCUMENTS = [path for path in tracked() if path.suffix == ".md"]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
MAKE = re.compile(r"`make ([a-z-]+)")
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    dead = [
        target
        for target in LINK.findall(path.read_text(encoding="utf-8"))
        if not target.startswith(("http://", "https://", "mailto:")) and not (path.parent / target).exists()
    ]
    assert not dead


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_make_targets_that_are_named_exist(path: Path) -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    assert set(MAKE.findall(path.read_text(encoding="utf-8"))) <= targets


def test_the_readme_begins_with_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:15]
    assert [line for line in lines if line.startswith("make ")] == [
        next(line for line in lines if line.startswith("make demo")),
        next(line for line in lines if line.startswith("make test")),
    ]


def test_documents_that_the_source_names_exist() -> None:
    named = {
        (document, name(path))
        for path in tracked()
        if path.suffix == ".py" and name(path).startswith("src/")
        for document in re.findall(r"docs/[a-z0-9_/.-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert not sorted((document, path) for document, path in named if not (ROOT / document).is_file())


def headings(path: Path) -> list[str]:
    return re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_driver_answers_the_contract_under_the_same_headings() -> None:
    drivers = sorted((ROOT / "src" / "banyan" / "drivers").glob("*/__init__.py"))
    assert drivers
    wanted = headings(drivers[-1].parent.parent / "sim" / "README.md")
    assert "Options" in wanted
    for driver in drivers:
        readme = driver.parent / "README.md"
        assert readme.is_file(), f"{name(driver.parent)} has no README.md that answers docs/contracts/driver.md"
        missing = [heading for heading in wanted if heading not in headings(readme)]
        assert not missing, f"{name(readme)} lacks the headings {missing}"


def test_every_change_fragment_is_named_by_its_kind() -> None:
    kinds = ("added", "changed", "fixed", "security", "removed")
    for path in (ROOT / "changes").glob("*.md"):
        if path.name != "README.md":
            assert path.name.split(".")[-2] in kinds, f"{path.name}: changes/README.md says how it is called"
            assert path.read_text(encoding="utf-8").strip()
