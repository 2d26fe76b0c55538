"""Lists what is not tested, not offered or stood in for, from the marks in the tree: docs/generated/gaps.md.

Found are: every way in which pytest leaves a test out, and comments that begin with one of the words in MARKS,
in any tracked text file. A gap that nobody marked is a fault; a mark that was mended is deleted with the mending.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Comment word → heading. `gap` is something missing, `stand-in` something simpler than the real part.
MARKS = {"gap": "not done yet", "not-offered": "not offered", "stand-in": "stands in for a real part"}
LEFT_OUT = "left out of the tests"

# A text that begins with "…" speaks of the mark itself, as documents do.
_COMMENT = re.compile(r"(?:#|<!--|//|--)\s*(" + "|".join(MARKS) + r"):\s*(?![\s…])(.+?)\s*(?:-->)?$", re.MULTILINE)
_PYTEST = {"skip", "skipif", "xfail", "importorskip", "skipIf", "skipUnless", "expectedFailure"}
_TEXT = {".py", ".md", ".toml", ".sh", ".yaml", ".yml", ".sql", ".service", ""}
_GENERATED = "docs/generated/"


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    kind: str
    where: str
    what: str


def tracked(root: Path = ROOT) -> Iterator[Path]:
    """The text files that git knows or would add, in order."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    for name in sorted(set(listed.stdout.decode().split("\0"))):
        path = root / name
        if name and path.suffix in _TEXT and path.is_file() and not name.startswith(_GENERATED):
            yield path


def marked(text: str, where: str) -> Iterator[Gap]:
    """The gaps that comments name."""
    for found in _COMMENT.finditer(text):
        yield Gap(MARKS[found[1]], where, found[2])


def left_out(text: str, where: str) -> Iterator[Gap]:
    """The tests that pytest is told to leave out, with the reason that is given."""

    def visit(node: ast.AST, inside: str) -> Iterator[Gap]:
        for child in ast.iter_child_nodes(node):
            name = inside
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{inside}.{child.name}" if inside else child.name
            if isinstance(child, ast.Attribute) and child.attr in _PYTEST and _of_a_test_tool(child):
                yield Gap(LEFT_OUT, f"{where} {name}".strip(), f"{child.attr}: {_reason(node)}")
            yield from visit(child, name)

    yield from visit(ast.parse(text), "")


def _of_a_test_tool(node: ast.Attribute) -> bool:
    dotted = ast.unparse(node)
    return dotted.startswith(("pytest.", "unittest.", "mark."))


def _reason(node: ast.AST) -> str:
    """The reason in a call of skip, xfail and their like; "" for a bare mark."""
    if not isinstance(node, ast.Call):
        return "no reason given"
    given = [keyword.value for keyword in node.keywords if keyword.arg in ("reason", "msg")] or node.args[-1:]
    return " ".join(ast.unparse(value).strip("\"'f") for value in given) or "no reason given"


def collect(root: Path = ROOT) -> list[Gap]:
    own = Path(__file__).resolve()
    gaps: list[Gap] = []
    for path in tracked(root):
        where = path.relative_to(root).as_posix()
        if path == own or where == "tests/unit/dev/test_gaps.py":
            continue
        text = path.read_text(encoding="utf-8")
        gaps.extend(marked(text, where))
        if path.suffix == ".py" and where.startswith("tests/"):
            gaps.extend(left_out(text, where))
    return sorted(gaps)


def render(gaps: list[Gap] | None = None) -> str:
    gaps = collect() if gaps is None else gaps
    counts = Counter(gap.kind for gap in gaps)
    kinds = [*MARKS.values(), LEFT_OUT]
    lines = [
        "# Gaps",
        "",
        "Generated from the marks in the tree by `make docs` (dev/gaps.py says which).",
        "",
        f"{len(gaps)} in all: " + ", ".join(f"{counts[kind]} {kind}" for kind in kinds) + ".",
    ]
    for kind in kinds:
        if counts[kind]:
            lines += ["", f"## {kind.capitalize()}", ""]
            lines += [f"- `{gap.where}`: {gap.what}" for gap in gaps if gap.kind == kind]
    return "\n".join(lines) + "\n"
