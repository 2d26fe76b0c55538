"""A secret that is handed over as a file, or on standard input: what is wrong is said of what was named."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from banyan.cli.target import read_secret
from banyan.core.errors import BadInput


@pytest.mark.parametrize("given", ["", "\n", "ä"])
def test_nothing_fit_on_standard_input_is_said_of_that(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(given))
    with pytest.raises(BadInput, match=r"^standard input \(-\) must hold a join code"):
        read_secret(Path("-"), "join code", wrapped=True)


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "code").touch()
    with pytest.raises(BadInput, match=r"^the file .*code must hold a join code"):
        read_secret(tmp_path / "code", "join code", wrapped=True)
