"""The first administrator's password is drawn once, and is its owner's alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from banyan.core.errors import Unreachable
from banyan.serve.first_admin import NAME, first_password
from banyan.simulate.ids import SeededIds


def test_it_is_drawn_once_into_a_file_of_the_owner(tmp_path: Path) -> None:
    drawn = first_password(tmp_path, SeededIds(1, "x"))
    path = tmp_path / NAME
    assert path.read_bytes().strip() == drawn.reveal() and len(drawn.reveal()) == 24
    assert path.stat().st_mode & 0o777 == 0o600
    assert first_password(tmp_path, SeededIds(2, "y")) == drawn


def test_a_file_that_can_not_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"")
    with pytest.raises(Unreachable) as refused:
        first_password(tmp_path, SeededIds(1, "x"))
    assert refused.value.code == "cannot-write" and NAME in refused.value.text
