"""What is imported is declared, what is declared is imported, and each has its reason in decision 0001."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

from dev.gaps import ROOT

DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
MODULES = {"argon2-cffi": "argon2", "openstacksdk": "openstack", "oslo.utils": "oslo_utils"}
# Loaded by name, by a library that is imported: uvicorn's loop and parser, SQLAlchemy's driver.
LOADED_BY_NAME = {"uvloop", "httptools", "psycopg"}
# Come with a declared one, and are part of its interface.
PARTS = {"keystoneauth1": "openstacksdk", "requests": "openstacksdk", "urllib3": "openstacksdk"}


def declared() -> set[str]:
    return {re.split(r"[\[<>=~! ]", line)[0] for line in DECLARED}


def imported() -> dict[str, str]:
    """Top-level module → a file that imports it, without the standard library and ourselves."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top != "banyan":
                    found.setdefault(top, path.relative_to(ROOT).as_posix())
    return found


def test_what_is_imported_is_declared() -> None:
    known = {MODULES.get(name, name) for name in declared()} | {
        module for module, owner in PARTS.items() if owner in declared()
    }
    assert not {module: where for module, where in imported().items() if module not in known}


def test_what_is_declared_is_used() -> None:
    used = set(imported()) | LOADED_BY_NAME
    assert not {name for name in declared() if MODULES.get(name, name) not in used}


def test_each_dependency_has_its_reason() -> None:
    reasons = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text(encoding="utf-8").lower()
    assert not {name for name in declared() if name.lower() not in reasons}
