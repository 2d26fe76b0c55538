"""Setting up: quick when nothing changed, and clear about what a machine lacks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dev.gaps import ROOT


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files that setting up reads, and an empty folder for stubs of programs."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("dev/venv.sh", "dev/requirements.py", "pyproject.toml"):
        shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def stub(tree: Path, name: str, script: str) -> None:
    program = tree / "bin" / name
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)


def run(tree: Path, level: str = "run", **environment: str) -> subprocess.CompletedProcess[str]:
    # Only the stubs, and the few programs that the script itself calls.
    for tool in ("bash", "dirname", "cat", "rm", "flock", "env"):
        found = shutil.which(tool)
        if found and not (tree / "bin" / tool).exists():
            (tree / "bin" / tool).symlink_to(found)
    return subprocess.run(
        ["bash", str(tree / "dev" / "venv.sh"), level],
        env={"PATH": str(tree / "bin"), **environment},
        check=False,
        capture_output=True,
        text=True,
    )


def test_a_machine_without_python_is_told_what_to_install(tree: Path) -> None:
    done = run(tree)
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "apt install python3 python3-venv" in done.stderr


def test_an_old_python_is_passed_over(tree: Path) -> None:
    stub(tree, "python3", 'if [ "$1" = -V ]; then echo "Python 3.9.2"; else exit 1; fi')
    done = run(tree)
    assert done.returncode != 0
    assert "found Python 3.9.2" in done.stderr


@pytest.mark.parametrize(
    ("script", "said"),
    [(None, "is not a program on this machine"), ('echo "Python 3.9.2"; exit 1', "must be Python 3.11 or newer")],
)
def test_a_chosen_python_must_do(tree: Path, script: str | None, said: str) -> None:
    if script:
        stub(tree, "mine", script)
    done = run(tree, PYTHON="mine")
    assert done.returncode != 0
    assert said in done.stderr


def test_a_python_without_venv_is_told_which_package_it_lacks(tree: Path) -> None:
    stub(tree, "python3", 'case "$2" in *ensurepip*) exit 1;; *) [ "$1" = -V ] && echo "Python 3.11.2"; exit 0;; esac')
    done = run(tree)
    assert done.returncode != 0
    assert "apt install python3-venv" in done.stderr
    assert not (tree / ".venv").exists()


def test_nothing_is_installed_when_nothing_changed(tree: Path) -> None:
    (tree / ".venv" / "bin").mkdir(parents=True)
    calls = tree / "calls"
    stub(tree, "real", f'echo "$@" >>{calls}; exec {sys.executable} "$@"')
    (tree / ".venv" / "bin" / "python").symlink_to(tree / "bin" / "real")
    key = subprocess.run(
        [sys.executable, str(tree / "dev" / "requirements.py"), "--key", "test"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (tree / ".venv" / "stamp-test").write_text(key.strip())
    assert run(tree, "test").returncode == 0
    assert "pip" not in calls.read_text()


def requirements(tree: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(tree / "dev" / "requirements.py"), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def test_the_key_follows_what_is_to_be_installed_and_nothing_else(tree: Path) -> None:
    project = tree / "pyproject.toml"
    before = requirements(tree, "--key", "test")
    project.write_text(project.read_text().replace("line-length = 120", "line-length = 119"))
    assert requirements(tree, "--key", "test") == before
    project.write_text(project.read_text().replace('"pytest>=8.3"', '"pytest>=8.4"'))
    assert requirements(tree, "--key", "test") != before
    assert requirements(tree, "--key", "run") != before


def test_the_groups_become_lines(tree: Path) -> None:
    lines = requirements(tree, "test").splitlines()
    assert "pytest>=8.3" in lines
    assert any(line.startswith("ruff") for line in lines)
    assert requirements(tree, "run") == ""
