"""backup and restore by command: one file, a passphrase from a file only, the folder as it was."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path

import pytest

from banyan.cli.main import run
from banyan.cli.target import read_passphrase
from banyan.core.errors import BadInput
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.backup import last_backup
from banyan.store.open import open_store
from banyan.zone.own import open_own


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A zone's data folder, with a zone that was started once."""

    async def make() -> Path:
        clock, ids = SystemClock(), SystemIds()
        store = open_store(tmp_path / "zone", ids=ids, clock=clock)
        await open_own(store, clock, ids, "east", {})
        await store.close()
        return tmp_path / "zone"

    return asyncio.run(make())


@pytest.fixture
def passphrase(tmp_path: Path) -> Path:
    file = tmp_path / "passphrase"
    file.write_text("correct horse battery\n")
    return file


def test_there_and_back(folder: Path, passphrase: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, again = tmp_path / "east.backup", tmp_path / "again"
    words = ["--passphrase-file", str(passphrase)]
    assert run(["backup", str(file), "--data", str(folder), *words, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["name"] == "east"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run(["restore", str(file), "--data", str(again), *words]) == 0
    captured = capsys.readouterr()
    assert "east" in captured.out
    assert "banyan release" in captured.err
    assert (again / "banyan.db").is_file()
    assert run(["restore", str(file), "--data", str(again), *words]) == 3
    assert "correct horse" not in captured.out + captured.err + capsys.readouterr().err
    assert last_backup(folder) is not None
    assert last_backup(again) is None


def test_a_wrong_passphrase_and_no_zone(folder: Path, passphrase: Path, tmp_path: Path) -> None:
    file = tmp_path / "east.backup"
    assert run(["backup", str(file), "--data", str(folder), "--passphrase-file", str(passphrase)]) == 0
    passphrase.write_text("another\n")
    assert run(["restore", str(file), "--data", str(tmp_path / "x"), "--passphrase-file", str(passphrase)]) == 3
    assert run(["backup", str(file), "--data", str(tmp_path / "y"), "--passphrase-file", str(passphrase)]) == 4
    assert (
        run(["restore", str(tmp_path / "none"), "--data", str(tmp_path / "z"), "--passphrase-file", str(passphrase)])
        != 0
    )


@pytest.mark.parametrize("content", ["", "\n", "  \n", "one\ntwo\n"])
def test_a_passphrase_is_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "passphrase"
    file.write_text(content)
    with pytest.raises(BadInput):
        read_passphrase(file)


def test_a_passphrase_keeps_its_spaces(passphrase: Path) -> None:
    assert read_passphrase(passphrase).reveal() == b"correct horse battery"


@pytest.mark.parametrize("word", ["backup", "restore"])
def test_a_missing_passphrase_is_said_with_how_to_make_one(
    word: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "b"
    assert run([word, str(file), "--data", str(folder)]) == 2
    assert "--passphrase-file F" in capsys.readouterr().err
    assert not file.exists()


def test_a_check_takes_the_code_file_by_the_name_that_join_has(tmp_path: Path) -> None:
    found = run(["check", "--code-file", str(tmp_path / "none"), "--data", str(tmp_path / "z"), "--json"])
    assert found == run(["check", "--join-code-file", str(tmp_path / "none"), "--data", str(tmp_path / "z"), "--json"])
    assert found == 2
