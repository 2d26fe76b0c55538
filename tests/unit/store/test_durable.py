"""Files that are whole or not there, private, and never put over another."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from banyan.store.durable import make_file, make_folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_made_down_to_the_last_and_private(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / part) for part in ("a", "a/b", "a/b/c")] == [0o700] * 3
    make_folder(tmp_path / "a" / "b" / "c")


def test_an_open_folder_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    make_folder(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o700


def test_a_file_is_new_and_private(tmp_path: Path) -> None:
    make_file(tmp_path / "f", b"content")
    assert (tmp_path / "f").read_bytes() == b"content"
    assert mode(tmp_path / "f") == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_an_old_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        make_file(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_what_a_crash_left_half_made_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".f.new").write_bytes(b"half")
    make_file(tmp_path / "f", b"whole")
    assert (tmp_path / "f").read_bytes() == b"whole"
