"""Every room stands in the import contracts, and the contracts hold."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "banyan"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def rooms() -> set[str]:
    return {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def test_the_import_contracts_hold() -> None:
    # The tree beside this file, also where the installed package is another one (dev/teeth.py).
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    program = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_room_stands_in_the_layers_and_no_other_does() -> None:
    (layers,) = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]
    named = {room.strip() for line in layers for room in line.split("|")}
    assert named == rooms()


def test_every_room_has_a_contract_of_its_own() -> None:
    held = {
        module.split(".")[1]
        for contract in CONTRACTS
        for module in (*contract.get("source_modules", ()), *contract.get("modules", ()))
    }
    assert not rooms() - held, "each room is a source in at least one contract of pyproject.toml"


def test_no_room_is_empty() -> None:
    thin = [room for room in sorted(rooms()) if len(list((SOURCE / room).rglob("*.py"))) < 2]
    assert not thin, "a room that nothing lives in yet is not made"


def test_every_driver_is_independent_of_the_others() -> None:
    (named,) = [contract["modules"] for contract in CONTRACTS if contract["type"] == "independence"]
    found = {f"banyan.drivers.{path.parent.name}" for path in (SOURCE / "drivers").glob("*/__init__.py")}
    assert set(named) == found


BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}
BANNED_ENDINGS = ("Manager", "Helper", "Handler", "Processor", "Utils")


def test_modules_say_what_they_are_and_are_called_by_nouns() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        where = path.relative_to(SOURCE).as_posix()
        if not ast.get_docstring(tree):
            wrong.append(f"{where}: a module's docstring says what it is, and what it must never do")
        if {path.stem, path.parent.name} & BANNED_NAMES:
            wrong.append(f"{where}: not a noun of the house")
        classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        wrong += [f"{where}: class {name}" for name in classes if name.endswith(BANNED_ENDINGS)]
    assert not wrong
