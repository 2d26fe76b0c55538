"""Gathers the fragments of changes/ into CHANGELOG.md: `python dev/changelog.py VERSION DATE`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("security", "added", "changed", "fixed", "removed")
MARK = "<!-- releases -->\n"


def gather(root: Path, version: str, date: str) -> tuple[str, list[Path]]:
    """(the release's section, the fragments in it). Raises ValueError for a fragment of no known kind."""
    lines = [f"## {version}, {date}", ""]
    used: list[Path] = []
    fragments = sorted(path for path in (root / "changes").glob("*.md") if path.name != "README.md")
    for path in fragments:
        if path.name.split(".")[-2] not in KINDS:
            raise ValueError(f"{path.name}: the kind before .md is one of {', '.join(KINDS)}")
    for kind in KINDS:
        of_kind = [path for path in fragments if path.name.split(".")[-2] == kind]
        if of_kind:
            lines += [f"### {kind.capitalize()}", ""]
            lines += [f"- {' '.join(path.read_text(encoding='utf-8').split())}" for path in of_kind]
            lines.append("")
            used += of_kind
    return "\n".join(lines), used


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or not re.fullmatch(r"\d+\.\d+\.\d+", arguments[0]):
        print("usage: python dev/changelog.py 1.2.3 2026-12-01", file=sys.stderr)
        return 2
    section, used = gather(ROOT, *arguments)
    if not used:
        print("changelog: there are no fragments in changes/", file=sys.stderr)
        return 1
    path = ROOT / "CHANGELOG.md"
    before, mark, after = path.read_text(encoding="utf-8").partition(MARK)
    path.write_text(f"{before}{mark}\n{section}{after}", encoding="utf-8")
    for fragment in used:
        fragment.unlink()
    print(f"changelog: {len(used)} fragments gathered under {arguments[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
