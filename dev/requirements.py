"""What pyproject.toml asks for beside the package itself, for a pip that knows no dependency groups yet.

python dev/requirements.py LEVEL         one requirement a line; LEVEL is "run" (none) or "test" (test and lint)
python dev/requirements.py --key LEVEL   a hash of all that decides what is installed
"""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
from pathlib import Path

LEVELS = {"run": (), "test": ("test", "lint")}


def main(arguments: list[str]) -> int:
    key = arguments[:1] == ["--key"]
    level = arguments[-1] if arguments else ""
    if level not in LEVELS:
        print(f"requirements: a level is one of {', '.join(LEVELS)}, got {level!r}", file=sys.stderr)
        return 2
    root = Path(__file__).resolve().parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text())
    wanted = [line for group in LEVELS[level] for line in project["dependency-groups"][group]]
    if key:
        decisive = [project["project"], project["build-system"], wanted, sys.version, str(root)]
        print(hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest())
    else:
        # No line at all for nothing: pip takes an empty one for a wrong requirement.
        print("".join(f"{line}\n" for line in wanted), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
