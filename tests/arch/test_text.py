"""What every text of the project must keep to: length, no traces of one machine, nothing postponed in silence."""

from __future__ import annotations

import re
from pathlib import Path

from dev.gaps import ROOT, tracked

LONGEST = 500

# Pieced together, so that this file does not find itself.
TRACES = re.compile(
    "|".join(
        [
            "/wor" + "k/",
            "/far" + "m/",
            "/tmp/" + r"bash_jobs",
            r"\bpy" + r"pi\.org",
            "python" + r"hosted\.",
            "npm" + r"js\.(?:org|com)",
            "deb" + r"\.debian\.org",
            "/ro" + "ot/",
        ]
    )
)
POSTPONED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|raise NotImplemented" + r"Error\s*(?:\(\))?$")

FILES = list(tracked())


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_each_file_is_of_a_size_to_be_read() -> None:
    sizes = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES if path.suffix == ".py"}
    long = {file: lines for file, lines in sizes.items() if lines > LONGEST}
    assert not long, "look for the second noun in them"


def test_no_text_holds_traces_of_one_machine() -> None:
    found = [
        f"{name(path)}:{number}: {line.strip()[:120]}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if TRACES.search(line)
    ]
    assert not found


def test_nothing_is_postponed_without_a_mark() -> None:
    found = [
        f"{name(path)}:{number}: {line.strip()[:120]}"
        for path in FILES
        if path.suffix == ".py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if POSTPONED.search(line)
    ]
    assert not found, "what is missing is marked `# gap: …`, and stands in docs/generated/gaps.md"


def test_every_folder_of_tests_is_a_package() -> None:
    bare = {
        name(path.parent)
        for path in FILES
        if path.name.startswith("test_") and not (path.parent / "__init__.py").is_file()
    }
    assert not bare, "an __init__.py keeps equal module names apart"
