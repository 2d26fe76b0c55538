"""Runs measurements: `python -m bench [NAME ...]`, each in a process of its own so that memory and caches are its own.

A measurement is a module of this package with a `main()` that prints what it found, and with what it was compared. It
says in its docstring what is measured; `python -m bench --list` shows the first lines.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def measurements() -> dict[str, str]:
    """name → the first line of its docstring, of each module that can be run."""
    found = {}
    for path in sorted(HERE.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        runs = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
        if runs and not path.stem.startswith("_"):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main(arguments: list[str]) -> int:
    known = measurements()
    if arguments == ["--list"]:
        for name, says in known.items():
            print(f"{name:20} {says}")
        return 0
    unknown = sorted(set(arguments) - set(known))
    if unknown:
        print(f"bench: no measurement {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    for name in arguments or known:
        print(f"--- {name}: {known[name]}", flush=True)
        done = subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=HERE.parent, check=False)
        if done.returncode != 0:
            failed.append(name)
    if failed:
        print(f"bench: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
