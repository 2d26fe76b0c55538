"""Regenerates docs/generated: `python dev/docs.py`, or `--check` to only say which files are stale (exit 1).

GENERATED is the one list of generated documents; tests/arch/test_generated.py holds each fresh.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from dev import codes, events, gaps, matrix, openstack_tables, settings, states, surfaces  # noqa: E402 - the root must be importable first

GENERATED: dict[str, Callable[[], str]] = {
    "docs/generated/states.md": states.render,
    "docs/generated/settings.md": settings.render,
    "docs/generated/cli.md": surfaces.cli,
    "docs/generated/api.md": surfaces.api,
    "docs/generated/openstack.md": openstack_tables.render,
    "docs/generated/errors.md": codes.render,
    "docs/generated/events.md": events.render,
    "docs/generated/actions.md": matrix.render,
    "docs/generated/gaps.md": gaps.render,
}


def stale() -> list[str]:
    """The documents whose file differs from what their source says now."""
    return [
        name
        for name, render in GENERATED.items()
        if not (ROOT / name).is_file() or (ROOT / name).read_text(encoding="utf-8") != render()
    ]


def main(arguments: list[str]) -> int:
    old = stale()
    if "--check" in arguments:
        for name in old:
            print(f"{name} is stale: run `make docs`", file=sys.stderr)
        return 1 if old else 0
    for name in old:
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(GENERATED[name](), encoding="utf-8")
        print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
